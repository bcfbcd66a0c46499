#include "http/client.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "http/request.h"

#define POOL_MAX        8 /* sets of open connections that are kept */
#define CONNECTIONS_MAX 1200
#define STEP_MS         100
#define CONNECT_SECONDS 1.0 /* a node is near, or it is not there */
#define STREAM_IDLE_MS  30000

struct client {
    const char *ca;
    struct curl_slist *node_headers, *foreign_headers;
    pthread_mutex_t lock;
    CURLM *pool[POOL_MAX];
    size_t pool_count;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void init_curl(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

int client_new(const char *token, const char *ca, const char *node, struct client **ret)
{
    pthread_once(&once, init_curl);
    struct client *c = calloc(1, sizeof(*c));
    if (!c)
        return -SCRY_E_NO_MEMORY;
    char line[512];
    c->ca = ca;
    pthread_mutex_init(&c->lock, NULL);
    c->foreign_headers = curl_slist_append(NULL, "Content-Type: application/json");
    c->node_headers = curl_slist_append(NULL, "Content-Type: application/json");
    snprintf(line, sizeof(line), "X-Scry-Forwarded: %s", node);
    c->node_headers = curl_slist_append(c->node_headers, line);
    if (token[0]) {
        snprintf(line, sizeof(line), "Authorization: Bearer %s", token);
        c->node_headers = curl_slist_append(c->node_headers, line);
    }
    *ret = c;
    return 0;
}

void client_free(struct client *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->pool_count; i++)
        curl_multi_cleanup(c->pool[i]);
    curl_slist_free_all(c->node_headers);
    curl_slist_free_all(c->foreign_headers);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

void call_init(struct call *call)
{
    *call = (struct call){.timeout = 2, .max = 1u << 20};
    buf_init(&call->answer);
}

void call_done(struct call *call)
{
    buf_done(&call->answer);
}

/* A handle keeps the connections that were opened through it, for the next who uses it. */
static CURLM *take_multi(struct client *c)
{
    CURLM *multi = NULL;
    pthread_mutex_lock(&c->lock);
    if (c->pool_count)
        multi = c->pool[--c->pool_count];
    pthread_mutex_unlock(&c->lock);
    if (!multi && (multi = curl_multi_init()))
        curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)CONNECTIONS_MAX);
    return multi;
}

static void give_multi(struct client *c, CURLM *multi)
{
    pthread_mutex_lock(&c->lock);
    bool kept = c->pool_count < POOL_MAX;
    if (kept)
        c->pool[c->pool_count++] = multi;
    pthread_mutex_unlock(&c->lock);
    if (!kept)
        curl_multi_cleanup(multi);
}

/* ---- one call ---- */

static size_t take_body(char *data, size_t size, size_t count, void *context)
{
    struct call *call = context;
    size_t len = size * count;
    if (call->answer.len + len > call->max)
        return 0;
    if (call->fd > 0)
        return write(call->fd, data, len) == (ssize_t)len ? len : 0;
    buf_add(&call->answer, data, len);
    return call->answer.failed ? 0 : len;
}

static void keep(const char *line, size_t len, const char *name, char *to, size_t cap)
{
    size_t n = strlen(name);
    if (len <= n || line[n] != ':' || strncasecmp(line, name, n) != 0)
        return;
    line += n + 1;
    len -= n + 1;
    while (len && (*line == ' ' || *line == '\t'))
        line++, len--;
    while (len && (unsigned char)line[len - 1] <= ' ')
        len--;
    snprintf(to, cap, "%.*s", (int)len, line);
}

static size_t take_header(char *data, size_t size, size_t count, void *context)
{
    struct call *call = context;
    size_t len = size * count;
    keep(data, len, "Content-Type", call->type, sizeof(call->type));
    keep(data, len, "X-Scry-Recording", call->recording, sizeof(call->recording));
    keep(data, len, "X-Ray-Profiling-Warning", call->warning, sizeof(call->warning));
    keep(data, len, "Retry-After", call->retry_after, sizeof(call->retry_after));
    keep(data, len, "Content-Disposition", call->disposition, sizeof(call->disposition));
    return len;
}

static void set_common(struct client *c, CURL *easy, const char *url, bool foreign)
{
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)(CONNECT_SECONDS * 1000));
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, foreign ? c->foreign_headers : c->node_headers);
    if (c->ca)
        curl_easy_setopt(easy, CURLOPT_CAINFO, c->ca);
}

static CURL *make_easy(struct client *c, struct call *call)
{
    CURL *easy = curl_easy_init();
    if (!easy)
        return NULL;
    set_common(c, easy, call->url, call->foreign);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, call);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)(call->timeout * 1000));
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, call);
    if (call->body)
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, call->body);
    if (call->method)
        curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, call->method);
    return easy;
}

static void judge(struct call *call, CURL *easy, CURLcode code)
{
    curl_easy_getinfo(easy, CURLINFO_TOTAL_TIME, &call->seconds);
    if (code == CURLE_OK) {
        curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &call->status);
        return;
    }
    call->status = 0;
    call->late = code == CURLE_OPERATION_TIMEDOUT;
    snprintf(call->error, sizeof(call->error), "%s",
             call->late                  ? "it did not answer in time"
             : code == CURLE_WRITE_ERROR ? "its answer is too large"
                                         : curl_easy_strerror(code));
}

static void collect(CURLM *multi, size_t *left)
{
    int more;
    for (CURLMsg *m; (m = curl_multi_info_read(multi, &more));) {
        struct call *call = NULL;
        CURL *easy = m->easy_handle;
        if (m->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&call);
        judge(call, easy, m->data.result);
        call->ended = true;
        curl_multi_remove_handle(multi, easy);
        curl_easy_cleanup(easy);
        (*left)--;
    }
}

void client_all(struct client *c, struct call *calls, size_t count,
                bool (*cancelled)(void *context), void *context)
{
    CURLM *multi = take_multi(c);
    CURL **all = calloc(count + 1, sizeof(CURL *));
    size_t left = 0;
    int running = 1;
    for (size_t i = 0; i < count; i++) {
        snprintf(calls[i].error, sizeof(calls[i].error), "it could not be asked");
        all[i] = multi && all ? make_easy(c, &calls[i]) : NULL;
        if (all[i] && curl_multi_add_handle(multi, all[i]) == CURLM_OK)
            left++;
    }
    while (left && multi) {
        curl_multi_perform(multi, &running);
        collect(multi, &left);
        if (left && cancelled && cancelled(context))
            break;
        if (left)
            curl_multi_poll(multi, NULL, 0, STEP_MS, NULL);
    }
    /* Those that were cancelled are still in there. */
    if (left) {
        for (size_t i = 0; i < count; i++)
            if (all[i] && !calls[i].ended) {
                curl_multi_remove_handle(multi, all[i]);
                curl_easy_cleanup(all[i]);
            }
        curl_multi_cleanup(multi);
    } else if (multi) {
        give_multi(c, multi);
    }
    free(all);
}

/* ---- a stream ---- */

struct stream {
    CURLM *multi;
    CURL *easy;
    struct buf waiting;
    struct call head;
    struct request client; /* only to see whether it has gone */
    bool over;
};

static size_t take_stream(char *data, size_t size, size_t count, void *context)
{
    struct stream *s = context;
    buf_add(&s->waiting, data, size * count);
    return s->waiting.failed || s->waiting.len > (16u << 20) ? 0 : size * count;
}

/* Until there is something, or the end. */
static bool pump(struct stream *s)
{
    int running, more;
    for (unsigned idle = 0; !s->waiting.len && !s->over && idle < STREAM_IDLE_MS; idle += STEP_MS) {
        curl_multi_perform(s->multi, &running);
        for (CURLMsg *m; (m = curl_multi_info_read(s->multi, &more));)
            if (m->msg == CURLMSG_DONE) {
                judge(&s->head, s->easy, m->data.result);
                s->over = true;
            }
        if (request_gone(&s->client))
            return false;
        if (!s->waiting.len && !s->over)
            curl_multi_poll(s->multi, NULL, 0, STEP_MS, NULL);
    }
    return s->waiting.len > 0;
}

static bool stream_next(void *context, struct buf *to)
{
    struct stream *s = context;
    if (!pump(s))
        return false;
    buf_add(to, s->waiting.data, s->waiting.len);
    buf_reset(&s->waiting);
    return true;
}

static void stream_free(void *context)
{
    struct stream *s = context;
    if (s->multi && s->easy)
        curl_multi_remove_handle(s->multi, s->easy);
    if (s->easy)
        curl_easy_cleanup(s->easy);
    if (s->multi)
        curl_multi_cleanup(s->multi);
    buf_done(&s->waiting);
    call_done(&s->head);
    free(s);
}

void client_stream(struct client *c, const char *url, int client_fd, struct reply *re)
{
    struct stream *s = calloc(1, sizeof(*s));
    if (!s) {
        reply_error(re, 503, "unavailable", NULL, "", "out of memory");
        return;
    }
    buf_init(&s->waiting);
    call_init(&s->head);
    s->client.fd = client_fd;
    s->multi = curl_multi_init();
    s->easy = curl_easy_init();
    if (s->multi && s->easy) {
        set_common(c, s->easy, url, false);
        curl_easy_setopt(s->easy, CURLOPT_WRITEFUNCTION, take_stream);
        curl_easy_setopt(s->easy, CURLOPT_WRITEDATA, s);
        curl_easy_setopt(s->easy, CURLOPT_HEADERFUNCTION, take_header);
        curl_easy_setopt(s->easy, CURLOPT_HEADERDATA, &s->head);
        curl_multi_add_handle(s->multi, s->easy);
    }
    bool begun = s->multi && s->easy && pump(s);
    long status = 0;
    if (s->easy)
        curl_easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, &status);
    if (begun && status == 200) {
        re->type = "text/event-stream";
        re->stream = (struct reply_stream){.next = stream_next, .free = stream_free, .context = s};
        return;
    }
    if (begun && status >= 400 && status < 600) {
        re->status = (unsigned)status;
        re->type = "application/json";
        buf_add(&re->body, s->waiting.data, s->waiting.len);
    } else {
        reply_error(re, 502, "peer", NULL, "", "the other node does not answer: %s",
                    s->head.error[0] ? s->head.error : "nothing came");
    }
    stream_free(s);
}
