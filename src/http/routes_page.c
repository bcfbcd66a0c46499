/* The page, and how a browser shows that it may see it. */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "http/assets.h"
#include "http/routes.h"

#define SESSION_SECONDS (30 * 24 * 3600)

static const struct asset *find(const char *path)
{
    for (const struct asset *a = assets; a->path; a++)
        if (strcmp(a->path, path) == 0)
            return a;
    return NULL;
}

/* For the rare client that does not take gzip. */
static void unpack(struct reply *re, const struct asset *a)
{
    z_stream z = {0};
    if (!buf_reserve(&re->body, a->plain_len) || inflateInit2(&z, 15 + 16) != Z_OK) {
        reply_error(re, 503, "unavailable", NULL, "", "out of memory");
        return;
    }
    z.next_in = (unsigned char *)asset_data + a->offset;
    z.avail_in = (unsigned)a->len;
    z.next_out = (unsigned char *)re->body.data;
    z.avail_out = (unsigned)a->plain_len;
    inflate(&z, Z_FINISH);
    re->body.len = z.total_out;
    re->body.data[re->body.len] = '\0';
    inflateEnd(&z);
}

static void send_asset(const struct request *rq, struct reply *re, const struct asset *a)
{
    reply_header(re, "ETag", "%s", a->etag);
    reply_header(re, "Cache-Control", "%s",
                 a->immutable ? "public, max-age=31536000, immutable" : "no-cache");
    reply_header(re, "Vary", "Accept-Encoding");
    if (rq->if_none_match && strstr(rq->if_none_match, a->etag)) {
        re->status = 304;
        return;
    }
    re->type = a->type;
    if (a->gzipped && !rq->accepts_gzip) {
        unpack(re, a);
        return;
    }
    if (a->gzipped)
        reply_header(re, "Content-Encoding", "gzip");
    re->fixed = asset_data + a->offset;
    re->fixed_len = a->len;
}

static void set_cookie(struct server *s, struct reply *re)
{
    reply_header(re, "Set-Cookie",
                 "scry_session=%s; Path=/; Max-Age=%d; HttpOnly; SameSite=Strict%s",
                 s->guard.session, SESSION_SECONDS, s->tls ? "; Secure" : "");
}

/* A link with the token in it is good for one visit: the cookie takes over, and the address bar and
 * the history have the page without it. */
static void enter_by_link(struct server *s, struct reply *re, const char *token)
{
    if (!guard_token_is(&s->guard, token)) {
        reply_error(re, 401, "unauthorized", "token", "", "the token is wrong");
        return;
    }
    re->status = 303;
    reply_header(re, "Location", "./");
    set_cookie(s, re);
}

void page_get(struct server *s, struct request *rq, struct reply *re)
{
    SCOPED_BUF path;
    buf_init(&path);
    const char *token = rq->query.segment_count ? NULL : query_get(&rq->query, "token");
    if (token && s->guard.token[0]) {
        enter_by_link(s, re, token);
        return;
    }
    for (size_t i = 0; i < rq->query.segment_count; i++)
        buf_addf(&path, "%s%s", i ? "/" : "", rq->query.segments[i]);
    const struct asset *a = find(path.len ? path.data : "index.html");
    if (a)
        send_asset(rq, re, a);
    else
        reply_error(re, 404, "not_found", NULL, "", "there is nothing at this address");
}

void openapi_get(struct server *s, struct request *rq, struct reply *re)
{
    (void)s;
    send_asset(rq, re, find("api/v1/openapi.json"));
}

void session_post(struct server *s, struct request *rq, struct reply *re)
{
    static const char *const names[] = {"token", NULL};
    const char *token = "";
    json_t *body = request_json(rq, re);
    if (!body)
        return;
    if (member_known(body, re, names) && member_text(body, re, "token", GUARD_TOKEN_MAX, &token)) {
        if (s->guard.token[0] && !guard_token_is(&s->guard, token)) {
            reply_error(re, 401, "unauthorized", "token", "", "the token is wrong");
        } else {
            re->status = 204;
            if (s->guard.token[0])
                set_cookie(s, re);
        }
    }
    json_decref(body);
}

void session_delete(struct server *s, struct request *rq, struct reply *re)
{
    (void)s, (void)rq;
    re->status = 204;
    reply_header(re, "Set-Cookie", "scry_session=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict");
}
