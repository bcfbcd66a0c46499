/* The daemon: connections in, replies out. Each connection has a thread of its own, so a handler may
 * wait; what it must not do is wait for ever, or for somebody who has gone. */
#include "http/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "http/audit.h"
#include "http/cluster.h"
#include "http/routes.h"
#include "http/sandbox.h"
#include "http/state.h"
#include "http/turnstile.h"

#define BODY_MAX         (512u << 10)
#define BODY_IGNORED_MAX (4u << 20) /* of a body that is too large, before the line is cut */
#define HEADER_MEMORY    (32u << 10)
#define THREAD_STACK     (1u << 20)
#define IDLE_SECONDS     60 /* without a byte, also while an answer is being sent */
#define REQUEST_SECONDS  10 /* from the connection, or the last answer, to a whole request */
#define STREAM_CHUNK     (64u << 10)
#define STREAMS_MAX      256
#define GZIP_MIN         1024
#define GZIP_MAX         (16u << 20)
#define TIDY_SECONDS     600

/* ---- connections ---- */

struct connection {
    struct server *server;
    int fd;
    atomic_bool handling; /* the request is whole, the answer is on its way */
    atomic_llong since;   /* monotonic ms: when that last changed */
    struct connection *next, *before;
};

struct daemon_state {
    struct MHD_Daemon *mhd;
    int listen_fd;
    pthread_mutex_t lock;
    struct connection *first;
    pthread_t keeper;
    bool keeping;
};

struct exchange {
    struct server *server;
    char *target;
    struct request rq;
    struct reply re;
    const struct route *route;
    struct buf body;
    bool begun, answered;
    size_t ignored;
    int64_t started; /* monotonic ms */
    char who[64];
};

/* Lives longer than its exchange: the library lets go of the response last. */
struct sending {
    struct server *server;
    struct reply_stream stream;
    struct buf chunk;
    size_t at;
};

static int64_t monotonic_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void set_phase(struct connection *c, bool handling)
{
    atomic_store(&c->handling, handling);
    atomic_store(&c->since, monotonic_ms());
}

static void connection_notify(void *cls, struct MHD_Connection *mhd, void **context,
                              enum MHD_ConnectionNotificationCode what)
{
    struct server *s = cls;
    struct daemon_state *d = s->daemon;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        struct connection *c = calloc(1, sizeof(*c));
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
        if (!c)
            return;
        c->server = s;
        c->fd = info ? info->connect_fd : -1;
        set_phase(c, false);
        pthread_mutex_lock(&d->lock);
        c->next = d->first;
        if (d->first)
            d->first->before = c;
        d->first = c;
        pthread_mutex_unlock(&d->lock);
        atomic_fetch_add(&s->connections, 1);
        *context = c;
        return;
    }
    struct connection *c = *context;
    if (!c)
        return;
    pthread_mutex_lock(&d->lock);
    if (c->before)
        c->before->next = c->next;
    else
        d->first = c->next;
    if (c->next)
        c->next->before = c->before;
    pthread_mutex_unlock(&d->lock);
    atomic_fetch_sub(&s->connections, 1);
    free(c);
    *context = NULL;
}

static struct connection *connection_of(struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

/* The timeout of the library begins anew with every byte: a client that sends one now and then
 * could keep a connection for ever. */
static void drop_slow(struct daemon_state *d)
{
    int64_t now = monotonic_ms();
    pthread_mutex_lock(&d->lock);
    for (struct connection *c = d->first; c; c = c->next)
        if (!atomic_load(&c->handling) && c->fd >= 0 &&
            now - atomic_load(&c->since) > REQUEST_SECONDS * 1000)
            shutdown(c->fd, SHUT_RDWR);
    pthread_mutex_unlock(&d->lock);
}

static void *keep(void *context)
{
    struct server *s = context;
    for (unsigned n = 1; !atomic_load(&s->stopping); n++) {
        struct timespec pause = {.tv_nsec = 250000000};
        nanosleep(&pause, NULL);
        if (n % 4 == 0)
            drop_slow(s->daemon);
        if (n % (TIDY_SECONDS * 4) == 4)
            store_tidy(s->store);
    }
    return NULL;
}

/* ---- answering ---- */

static void add(struct MHD_Response *response, const char *name, const char *value)
{
    MHD_add_response_header(response, name, value);
}

static const char page_policy[] =
    "default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; "
    "connect-src 'self'; worker-src 'self' blob:; frame-src 'self' blob:; object-src 'none'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'self'";
static const char document_policy[] =
    "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; img-src data:";

static void add_headers(struct MHD_Response *response, const struct reply *re)
{
    bool cached = false;
    for (size_t i = 0; i < re->header_count; i++) {
        add(response, re->headers[i].name, re->headers[i].value);
        cached |= strcasecmp(re->headers[i].name, "Cache-Control") == 0;
    }
    if (re->type)
        add(response, "Content-Type", re->type);
    if (!cached)
        add(response, "Cache-Control", "no-store");
    add(response, "Content-Security-Policy", re->sandboxed ? document_policy : page_policy);
    add(response, "X-Content-Type-Options", "nosniff");
    add(response, "Referrer-Policy", "no-referrer");
    add(response, "Cross-Origin-Resource-Policy", "same-origin");
    if (!re->sandboxed)
        add(response, "Cross-Origin-Opener-Policy", "same-origin");
    if (re->close)
        add(response, "Connection", "close");
}

static bool is_text(const char *type)
{
    return type && (strncmp(type, "text/", 5) == 0 || strstr(type, "json") || strstr(type, "svg"));
}

static bool gzip(struct buf *body)
{
    z_stream z = {0};
    struct buf packed;
    buf_init(&packed);
    if (deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return false;
    size_t room = deflateBound(&z, body->len);
    bool ok = buf_reserve(&packed, room);
    if (ok) {
        z.next_in = (unsigned char *)body->data;
        z.avail_in = (unsigned)body->len;
        z.next_out = (unsigned char *)packed.data;
        z.avail_out = (unsigned)room;
        ok = deflate(&z, Z_FINISH) == Z_STREAM_END;
        packed.len = z.total_out;
    }
    deflateEnd(&z);
    if (ok) {
        buf_done(body);
        *body = packed;
    } else {
        buf_done(&packed);
    }
    return ok;
}

/* ---- streams ---- */

static ssize_t stream_read(void *cls, uint64_t position, char *to, size_t max)
{
    struct sending *s = cls;
    (void)position;
    if (s->at == s->chunk.len) {
        buf_reset(&s->chunk);
        s->at = 0;
        if (atomic_load(&s->server->stopping) || !s->stream.next(s->stream.context, &s->chunk))
            return MHD_CONTENT_READER_END_OF_STREAM;
    }
    size_t n = s->chunk.len - s->at;
    n = n < max ? n : max;
    memcpy(to, s->chunk.data + s->at, n);
    s->at += n;
    return (ssize_t)n;
}

static void stream_free(void *cls)
{
    struct sending *s = cls;
    if (s->stream.free)
        s->stream.free(s->stream.context);
    buf_done(&s->chunk);
    atomic_fetch_sub(&s->server->streams, 1);
    free(s);
}

static struct MHD_Response *make_stream(struct exchange *e)
{
    struct reply *re = &e->re;
    struct sending *s = calloc(1, sizeof(*s));
    if (!s || atomic_load(&e->server->streams) >= STREAMS_MAX) {
        free(s);
        reply_error(re, 429, "busy", NULL, "close one", "too many event streams are open");
        reply_header(re, "Retry-After", "10");
        return NULL;
    }
    atomic_fetch_add(&e->server->streams, 1);
    *s = (struct sending){.server = e->server, .stream = re->stream};
    buf_init(&s->chunk);
    re->stream = (struct reply_stream){0};
    struct MHD_Response *response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, STREAM_CHUNK, stream_read, s, stream_free);
    if (!response)
        stream_free(s);
    return response;
}

static struct MHD_Response *make_file(struct reply *re)
{
    struct stat st;
    struct MHD_Response *response = NULL;
    if (fstat(re->fd, &st) == 0)
        response = MHD_create_response_from_fd64((uint64_t)st.st_size, re->fd);
    if (response)
        re->fd = -1;
    return response;
}

static struct MHD_Response *make_response(struct exchange *e)
{
    struct reply *re = &e->re;
    struct MHD_Response *response = NULL;
    if (re->stream.next)
        response = make_stream(e);
    if (!response && re->fd >= 0)
        response = make_file(re);
    if (response)
        return response;
    if (re->fixed)
        return MHD_create_response_from_buffer(re->fixed_len, (void *)re->fixed,
                                               MHD_RESPMEM_PERSISTENT);
    if (e->rq.accepts_gzip && is_text(re->type) && re->body.len >= GZIP_MIN &&
        re->body.len <= GZIP_MAX && gzip(&re->body)) {
        reply_header(re, "Content-Encoding", "gzip");
        reply_header(re, "Vary", "Accept-Encoding");
    }
    size_t len = re->body.len;
    char *data = len ? buf_detach(&re->body) : NULL;
    return MHD_create_response_from_buffer(data ? len : 0, data ? data : (void *)"",
                                           data ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
}

static enum MHD_Result answer(struct exchange *e, struct MHD_Connection *mhd)
{
    struct MHD_Response *response = make_response(e);
    if (!response)
        return MHD_NO;
    add_headers(response, &e->re);
    enum MHD_Result r = MHD_queue_response(mhd, e->re.status, response);
    MHD_destroy_response(response);
    e->answered = true;
    unsigned hundred = e->re.status / 100;
    atomic_fetch_add(&e->server->requests[0], 1);
    if (hundred >= 1 && hundred <= 5)
        atomic_fetch_add(&e->server->requests[hundred], 1);
    if (!e->route || !(e->route->flags & ROUTE_QUIET))
        audit_line(e->server->audit, e->who, &e->rq, &e->re, monotonic_ms() - e->started);
    return r;
}

/* ---- requests ---- */

static const char *header(struct MHD_Connection *mhd, const char *name)
{
    return MHD_lookup_connection_value(mhd, MHD_HEADER_KIND, name);
}

static void refuse_query(struct reply *re, enum query_fault fault, const char *where)
{
    const char *name = *where ? where : NULL;
    const char *what = name ? name : "the address";
    switch (fault) {
    case QUERY_FINE:
        break;
    case QUERY_LONG:
        reply_error(re, 414, "too_long", name, "", "the address is too long");
        break;
    case QUERY_PATH:
        reply_error(re, 400, "bad_request", NULL, "", "this is no address of this server");
        break;
    case QUERY_ESCAPE:
        reply_error(re, 400, "bad_parameter", name, "",
                    "in %s a %% is not followed by two hexadecimal digits", what);
        break;
    case QUERY_NUL:
        reply_error(re, 400, "bad_parameter", name, "", "%s holds a zero byte", what);
        break;
    case QUERY_NOT_UTF8:
        reply_error(re, 400, "bad_parameter", name, "", "%s is not UTF-8", what);
        break;
    case QUERY_TWICE:
        reply_error(re, 400, "bad_parameter", name, "", "the parameter %s is given twice", what);
        break;
    case QUERY_MEMORY:
        reply_error(re, 503, "unavailable", NULL, "", "out of memory");
        break;
    }
}

static bool changes(const char *method)
{
    return strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0;
}

static enum MHD_Result count_lengths(void *context, enum MHD_ValueKind kind, const char *name,
                                     const char *value)
{
    unsigned *count = context;
    (void)kind, (void)value;
    *count += strcasecmp(name, "Content-Length") == 0 || strcasecmp(name, "Transfer-Encoding") == 0;
    return MHD_YES;
}

static bool check_body(struct exchange *e, struct MHD_Connection *mhd)
{
    unsigned lengths = 0;
    MHD_get_connection_values(mhd, MHD_HEADER_KIND, count_lengths, &lengths);
    if (lengths > 1) { /* whoever stands between may have read another length than we do */
        reply_error(&e->re, 400, "bad_request", NULL, "", "the length of the body is given twice");
        e->re.close = true;
        return false;
    }
    const char *length = header(mhd, "Content-Length");
    const char *type = header(mhd, "Content-Type");
    bool has_body = header(mhd, "Transfer-Encoding") || (length && strcmp(length, "0") != 0);
    if (length && strtoull(length, NULL, 10) > BODY_IGNORED_MAX) {
        reply_error(&e->re, 413, "too_large", NULL, "", "the body is larger than %u bytes",
                    BODY_MAX);
        e->re.close = true;
        return false;
    }
    if (changes(e->rq.method) && has_body && (!type || strncasecmp(type, "application/json", 16))) {
        reply_error(&e->re, 415, "media_type", NULL, "", "the body must be application/json");
        e->re.close = true;
        return false;
    }
    return true;
}

static void read_headers(struct exchange *e, struct MHD_Connection *mhd)
{
    struct request *rq = &e->rq;
    const char *encodings = header(mhd, "Accept-Encoding");
    const char *agent = header(mhd, "User-Agent");
    rq->accept = header(mhd, "Accept");
    rq->if_none_match = header(mhd, "If-None-Match");
    rq->accepts_gzip = encodings && strcasestr(encodings, "gzip");
    rq->forwarded = header(mhd, "X-Scry-Forwarded") != NULL;
    rq->from_page = agent && strncmp(agent, "Mozilla", 7) == 0;
    struct connection *c = connection_of(mhd);
    rq->fd = c ? c->fd : -1;
}

static bool admit(struct exchange *e, struct MHD_Connection *mhd)
{
    struct server *s = e->server;
    struct guard_headers h = {
        .host = header(mhd, "Host"),
        .origin = header(mhd, "Origin"),
        .authorization = header(mhd, "Authorization"),
        .cookie = header(mhd, "Cookie"),
        .fetch_site = header(mhd, "Sec-Fetch-Site"),
        .changes = changes(e->rq.method),
    };
    if (!guard_check_origin(&s->guard, &h, &e->re))
        return false;
    return e->route->flags & ROUTE_PUBLIC || guard_check_token(&s->guard, &h, &e->re);
}

/* All that can be judged before the body is there. */
static bool begin(struct exchange *e, struct MHD_Connection *mhd, const char *method)
{
    char where[64];
    struct server *s = e->server;
    e->rq.method = method;
    read_headers(e, mhd);
    enum query_fault fault = query_parse(&e->rq.query, e->target, where, sizeof(where));
    const char *first = e->rq.query.segment_count ? e->rq.query.segments[0] : "";
    e->re.plain_errors = strcmp(first, "worker") == 0 || strcmp(first, "task") == 0;
    if (fault) {
        refuse_query(&e->re, fault, where);
        return false;
    }
    if (atomic_load(&s->connections) > s->options.connections) {
        reply_error(&e->re, 503, "unavailable", NULL, "try again in a moment",
                    "too many connections are open");
        reply_header(&e->re, "Retry-After", "2");
        e->re.close = true;
        return false;
    }
    e->route = route_find(&e->rq, &e->re);
    if (!e->route)
        return false;
    e->re.plain_errors = e->route->flags & ROUTE_PLAIN;
    return admit(e, mhd) && route_check_params(e->route, &e->rq, &e->re) && check_body(e, mhd);
}

static void name_client(struct exchange *e, struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = info ? info->client_addr : NULL;
    if (!address)
        return;
    if (address->sa_family == AF_INET)
        inet_ntop(AF_INET, &((const struct sockaddr_in *)address)->sin_addr, e->who,
                  sizeof(e->who));
    else if (address->sa_family == AF_INET6)
        inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)address)->sin6_addr, e->who,
                  sizeof(e->who));
}

/* Returns MHD_YES while more is to come. */
static enum MHD_Result take_body(struct exchange *e, const char *data, size_t *size)
{
    if (e->body.len + *size > BODY_MAX)
        e->ignored += *size;
    else
        buf_add(&e->body, data, *size);
    *size = 0;
    return e->ignored > BODY_IGNORED_MAX ? MHD_NO : MHD_YES;
}

static enum MHD_Result handle(void *cls, struct MHD_Connection *mhd, const char *url,
                              const char *method, const char *version, const char *data,
                              size_t *data_size, void **context)
{
    struct exchange *e = *context;
    struct connection *c = connection_of(mhd);
    (void)cls, (void)url, (void)version;
    if (!e || !e->target)
        return MHD_NO;
    if (!e->begun) {
        e->begun = true;
        name_client(e, mhd);
        if (begin(e, mhd, method))
            return MHD_YES;
        e->re.close |= changes(method); /* a body that nobody reads may follow */
        if (c)
            set_phase(c, true);
        return answer(e, mhd);
    }
    if (e->answered)
        return MHD_YES;
    if (*data_size)
        return take_body(e, data, data_size);
    if (c)
        set_phase(c, true);
    if (e->ignored) {
        reply_error(&e->re, 413, "too_large", NULL, "", "the body is larger than %u bytes",
                    BODY_MAX);
        e->re.close = true;
        return answer(e, mhd);
    }
    e->rq.body = e->body.len ? e->body.data : NULL;
    e->rq.body_len = e->body.len;
    e->route->handle(e->server, &e->rq, &e->re);
    return answer(e, mhd);
}

static void *exchange_new(void *cls, const char *target, struct MHD_Connection *mhd)
{
    struct exchange *e = calloc(1, sizeof(*e));
    (void)mhd;
    if (!e)
        return NULL;
    e->server = cls;
    e->started = monotonic_ms();
    e->target = strdup(target);
    e->rq.target = e->target;
    e->rq.fd = -1;
    reply_init(&e->re);
    buf_init(&e->body);
    return e;
}

static void exchange_end(void *cls, struct MHD_Connection *mhd, void **context,
                         enum MHD_RequestTerminationCode why)
{
    struct exchange *e = *context;
    struct connection *c = connection_of(mhd);
    (void)cls, (void)why;
    if (c)
        set_phase(c, false);
    if (!e)
        return;
    query_done(&e->rq.query);
    reply_done(&e->re);
    buf_done(&e->body);
    free(e->target);
    free(e);
    *context = NULL;
}

/* ---- listening ---- */

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return (ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24) == 127;
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

static int bind_to(const struct addrinfo *found, struct error *err, const char *host, uint16_t port)
{
    int on = 1;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
        if (bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, 512) == 0)
            return fd;
    }
    error_set(err, -SCRY_E_IO, "cannot listen on %s port %u: %s", host, port, strerror(errno));
    error_hint(err, "%s",
               errno == EADDRINUSE ? "another program does; choose another port with --port"
                                   : "choose another address with --listen");
    if (fd >= 0)
        close(fd);
    return -SCRY_E_IO;
}

static void name_address(struct server *s, int fd)
{
    struct sockaddr_storage address;
    socklen_t len = sizeof(address);
    char host[256] = "", port[16] = "";
    getsockname(fd, (struct sockaddr *)&address, &len);
    getnameinfo((struct sockaddr *)&address, len, host, sizeof(host), port, sizeof(port),
                NI_NUMERICHOST | NI_NUMERICSERV);
    s->port = (uint16_t)atoi(port);
    bool six = strchr(host, ':') != NULL;
    bool any = strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
    snprintf(s->address, sizeof(s->address), "%s%s%s:%s", six ? "[" : "", host, six ? "]" : "",
             port);
    snprintf(s->url, sizeof(s->url), "%s://%s%s%s:%s/", s->tls ? "https" : "http",
             six && !any ? "[" : "", any ? s->name : host, six && !any ? "]" : "", port);
}

static int listen_on(struct server *s, struct error *err)
{
    const char *host = s->options.host[0] ? s->options.host : "127.0.0.1";
    char port[16];
    struct addrinfo *found = NULL,
                    hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    snprintf(port, sizeof(port), "%u", s->options.port);
    int rc = getaddrinfo(host, port, &hints, &found);
    if (rc != 0)
        return error_set(err, -SCRY_E_USAGE, "cannot listen on '%s': %s", host, gai_strerror(rc));
    bool loopback = is_loopback(found->ai_addr);
    int r = 0;
    if (!loopback && !s->options.token_file) {
        error_set(err, -SCRY_E_USAGE,
                  "whoever reaches %s could look into the programs of this host: a token is needed",
                  host);
        error_hint(err, "add --token-file FILE; it is made if it is missing");
        r = -SCRY_E_USAGE;
    }
    if (r == 0)
        r = bind_to(found, err, host, s->options.port);
    freeaddrinfo(found);
    if (r < 0)
        return r;
    s->daemon->listen_fd = r;
    guard_init(&s->guard, loopback, s->options.hosts, s->options.host_count);
    name_address(s, r);
    return 0;
}

/* ---- starting and ending ---- */

static int read_file(const char *path, struct buf *to, struct error *err)
{
    char data[4096];
    ssize_t n = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && (n = read(fd, data, sizeof(data))) > 0 && to->len < (1u << 20))
        buf_add(to, data, (size_t)n);
    if (fd >= 0)
        close(fd);
    return n == 0 ? 0
                  : error_set(err, -SCRY_E_USAGE, "cannot read '%s': %s", path, strerror(errno));
}

static void log_nothing(void *cls, const char *format, va_list args)
{
    (void)cls, (void)format, (void)args;
}

static int start_daemon(struct server *s, struct error *err)
{
    SCOPED_BUF cert;
    SCOPED_BUF key;
    buf_init(&cert);
    buf_init(&key);
    unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION |
                     MHD_USE_POLL | MHD_USE_ITC | MHD_USE_ERROR_LOG;
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_END, 0, NULL}, {MHD_OPTION_END, 0, NULL}, {MHD_OPTION_END, 0, NULL}};
    if (s->tls) {
        int r = read_file(s->options.cert, &cert, err);
        if (r == 0)
            r = read_file(s->options.key, &key, err);
        if (r < 0)
            return r;
        flags |= MHD_USE_TLS;
        tls[0] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_CERT, 0, cert.data};
        tls[1] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_KEY, 0, key.data};
    }
    s->daemon->mhd = MHD_start_daemon(
        flags, 0, NULL, NULL, handle, s, MHD_OPTION_EXTERNAL_LOGGER, log_nothing, NULL,
        MHD_OPTION_LISTEN_SOCKET, s->daemon->listen_fd, MHD_OPTION_CONNECTION_LIMIT,
        s->options.connections + 64, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_SECONDS,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADER_MEMORY, MHD_OPTION_THREAD_STACK_SIZE,
        (size_t)THREAD_STACK, MHD_OPTION_URI_LOG_CALLBACK, exchange_new, s,
        MHD_OPTION_NOTIFY_COMPLETED, exchange_end, s, MHD_OPTION_NOTIFY_CONNECTION,
        connection_notify, s, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_ARRAY, tls,
        MHD_OPTION_END);
    if (!s->daemon->mhd) {
        error_set(err, -SCRY_E_IO, "the HTTP server cannot be started%s",
                  s->tls ? ": the certificate and key do not fit, or TLS is missing" : "");
        return -SCRY_E_IO;
    }
    s->daemon->listen_fd = -1; /* the daemon's now */
    return 0;
}

static char *data_folder(const struct serve_options *o)
{
    char *path = NULL;
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    if (o->data_dir[0])
        return strdup(o->data_dir);
    if (data && data[0] == '/')
        return asprintf(&path, "%s/scry", data) < 0 ? NULL : path;
    return asprintf(&path, "%s/.local/share/scry", home && *home ? home : "/tmp") < 0 ? NULL : path;
}

/* The id stays with the data folder. */
static int read_node_id(struct server *s, struct error *err)
{
    char *path;
    unsigned char bytes[8];
    if (asprintf(&path, "%s/node-id", store_folder(s->store)) < 0)
        return -SCRY_E_NO_MEMORY;
    FILE *file = fopen(path, "re");
    bool known = file && fscanf(file, "%16[0-9a-f]", s->node) == 1 && strlen(s->node) == 16;
    if (file)
        fclose(file);
    int r = 0;
    if (!known && getrandom(bytes, sizeof(bytes), 0) == (ssize_t)sizeof(bytes)) {
        for (size_t i = 0; i < sizeof(bytes); i++)
            snprintf(s->node + 2 * i, 3, "%02x", bytes[i]);
        file = fopen(path, "we");
        if (!file || fprintf(file, "%s\n", s->node) < 0)
            r = error_set(err, -SCRY_E_OUTPUT, "cannot write '%s': %s", path, strerror(errno));
        if (file && fclose(file) != 0 && r == 0)
            r = error_set(err, -SCRY_E_OUTPUT, "cannot write '%s': %s", path, strerror(errno));
    }
    free(path);
    return r;
}

static int open_store(struct server *s, struct error *err)
{
    struct store_limits limits = {.bytes = s->options.store_bytes, .days = s->options.store_days};
    char *folder = data_folder(&s->options);
    int r = folder ? store_open(folder, &limits, &s->store, err) : -SCRY_E_NO_MEMORY;
    free(folder);
    if (r == 0)
        r = read_node_id(s, err);
    return r;
}

static int make_parts(struct server *s, struct error *err)
{
    int r = open_store(s, err);
    if (r == 0)
        r = audit_open(s->options.audit, store_folder(s->store), &s->audit, err);
    if (r == 0)
        r = turnstile_new(8, 256, &s->children);
    if (r == 0)
        r = cluster_new(s, &s->cluster, err);
    struct jobs_config config = {
        .store = s->store,
        .node_name = s->name,
        .running = s->options.running,
        .queue = s->options.queue,
        .file_bytes = 512u << 20,
        .memory = 2ul << 30,
        .confine = s->confine,
        .remote = cluster_record,
        .remote_context = s,
    };
    if (r == 0)
        r = jobs_new(&config, &s->jobs, err);
    if (r == 0) {
        jobs_mend(s->jobs);
        r = processes_new(s->node, s->name, &s->options.policy, &s->processes);
        if (r == 0)
            processes_set_jobs(s->processes, s->jobs);
    }
    return r;
}

static int start_keeper(struct server *s, struct error *err)
{
    if (pthread_create(&s->daemon->keeper, NULL, keep, s) != 0)
        return error_set(err, -SCRY_E_NO_MEMORY, "a thread cannot be started");
    s->daemon->keeping = true;
    return 0;
}

static void name_node(struct server *s)
{
    if (s->options.node_name[0])
        snprintf(s->name, sizeof(s->name), "%.120s", s->options.node_name);
    else if (gethostname(s->name, sizeof(s->name) - 1) != 0 || !s->name[0])
        snprintf(s->name, sizeof(s->name), "localhost");
}

static int check_tls(struct server *s, struct error *err)
{
    s->tls = s->options.cert || s->options.key;
    if (s->tls && (!s->options.cert || !s->options.key)) {
        error_set(err, -SCRY_E_USAGE, "--cert and --key belong together");
        error_hint(err, "give both");
        return -SCRY_E_USAGE;
    }
    return 0;
}

int server_new(const struct serve_options *options, struct server **ret, struct error *err)
{
    struct server *s = calloc(1, sizeof(*s));
    struct daemon_state *d = calloc(1, sizeof(*d));
    if (!s || !d) {
        free(s);
        free(d);
        return error_set(err, -SCRY_E_NO_MEMORY, "out of memory");
    }
    s->daemon = d;
    s->options = *options;
    s->started = reply_now();
    d->listen_fd = -1;
    pthread_mutex_init(&d->lock, NULL);
    signal(SIGPIPE, SIG_IGN);
#ifdef M_ARENA_MAX
    /* A heap for each thread would keep, each by itself, what a burst of requests once needed. */
    mallopt(M_ARENA_MAX, 2);
#endif
    name_node(s);
    policy_confinement(&s->options.policy, s->confine);
    int r = check_tls(s, err);
    if (r == 0 && options->token_file)
        r = guard_read_token(&s->guard, options->token_file, err);
    if (r == 0)
        r = listen_on(s, err);
    /* Before the first thread: threads have what the one that started them had. */
    if (r == 0 && options->sandbox)
        r = sandbox_enter(err);
    if (r == 0)
        r = make_parts(s, err);
    if (r == 0)
        r = start_keeper(s, err);
    if (r == 0)
        r = start_daemon(s, err);
    if (r == 0)
        r = cluster_start(s->cluster, err);
    if (r < 0) {
        server_free(s);
        return r;
    }
    *ret = s;
    return 0;
}

const char *server_url(const struct server *s)
{
    return s->url;
}

const char *server_token_file(const struct server *s)
{
    return s->options.token_file ? s->options.token_file : "";
}

void server_free(struct server *s)
{
    if (!s)
        return;
    atomic_store(&s->stopping, true);
    struct daemon_state *d = s->daemon;
    if (d->keeping)
        pthread_join(d->keeper, NULL);
    if (d->mhd)
        MHD_stop_daemon(d->mhd);
    if (d->listen_fd >= 0)
        close(d->listen_fd);
    cluster_stop(s->cluster);
    jobs_free(s->jobs);
    cluster_free(s->cluster);
    processes_free(s->processes);
    turnstile_free(s->children);
    audit_close(s->audit);
    store_close(s->store);
    pthread_mutex_destroy(&d->lock);
    free(d);
    free(s);
}
