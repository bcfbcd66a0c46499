/* Live top: a child samples and writes a line of JSON per interval; each becomes an event. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "http/child.h"
#include "http/inside.h"
#include "http/place.h"
#include "http/routes.h"

#define STREAM_SECONDS 600
#define WAIT_MS        200
#define LINE_MAX_      (4u << 20)
#define COMMENT_MS     10000

struct top_stream {
    struct server *server;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct request client; /* only to see whether it has gone */
    struct buf waiting;    /* events, under the lock */
    bool ended, stop;      /* under the lock */
    unsigned quiet_ms;
    struct child_result result; /* once ended */
    char argv_text[4][32];
    const char *argv[24];
};

static void take_line(void *context, const char *line)
{
    struct top_stream *t = context;
    if (line[0] != '{')
        return;
    pthread_mutex_lock(&t->lock);
    /* A client that does not keep up gets the latest, not all. */
    buf_reset(&t->waiting);
    buf_addf(&t->waiting, "event: top\ndata: {\"node\":\"%s\",%s\n\n", t->server->node, line + 1);
    pthread_cond_signal(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

static enum child_poll poll_stop(void *context)
{
    struct top_stream *t = context;
    pthread_mutex_lock(&t->lock);
    bool stop = t->stop || atomic_load(&t->server->stopping);
    pthread_mutex_unlock(&t->lock);
    return stop ? CHILD_KILL : CHILD_GO_ON;
}

static void *run(void *context)
{
    struct top_stream *t = context;
    struct child_job job = {
        .argv = t->argv,
        .confine = t->server->confine,
        .out_fd = -1,
        .limits = {.time = (STREAM_SECONDS + 30) * SCRY_NSEC_PER_SEC,
                   .memory = 2ul << 30,
                   .output = LINE_MAX_,
                   .cpu_seconds = 2 * STREAM_SECONDS},
        .poll = poll_stop,
        .line = take_line,
        .context = t,
    };
    child_run(&job, &t->result);
    pthread_mutex_lock(&t->lock);
    t->ended = true;
    pthread_cond_signal(&t->changed);
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

/* With the lock held: until there is something to send. False: the client has gone. */
static bool wait_for_event(struct top_stream *t)
{
    while (!t->waiting.len && !t->ended) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += WAIT_MS * 1000000L;
        if (until.tv_nsec >= 1000000000L) {
            until.tv_sec++;
            until.tv_nsec -= 1000000000L;
        }
        pthread_cond_timedwait(&t->changed, &t->lock, &until);
        t->quiet_ms += WAIT_MS;
        if (request_gone(&t->client) || atomic_load(&t->server->stopping))
            return false;
        if (t->quiet_ms >= COMMENT_MS && !t->waiting.len)
            buf_add_str(&t->waiting, ": still there\n\n");
    }
    return true;
}

static bool top_next(void *context, struct buf *to)
{
    struct top_stream *t = context;
    pthread_mutex_lock(&t->lock);
    bool more = wait_for_event(t);
    if (more && t->waiting.len) {
        buf_add(to, t->waiting.data, t->waiting.len);
        buf_reset(&t->waiting);
        t->quiet_ms = 0;
    } else if (more) {
        const char *why = t->result.end == CHILD_OK ? "the process ended" : t->result.message;
        buf_add_str(to, "event: end\ndata: {\"reason\":\"");
        for (const char *c = why; *c; c++)
            buf_add_char(to, *c == '"' || *c == '\\' || (unsigned char)*c < ' ' ? '\'' : *c);
        buf_add_str(to, "\"}\n\n");
        more = !t->stop;
        t->stop = true;
    }
    pthread_mutex_unlock(&t->lock);
    return more;
}

static void top_free(void *context)
{
    struct top_stream *t = context;
    pthread_mutex_lock(&t->lock);
    t->stop = true;
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->thread, NULL);
    child_result_done(&t->result);
    buf_done(&t->waiting);
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->changed);
    free(t);
}

struct top_options {
    double rate, interval;
    int64_t limit;
    bool native, idle, gil, subprocesses;
};

static bool read_options(const struct request *rq, struct reply *re, struct top_options *o)
{
    *o = (struct top_options){.rate = 100, .interval = 1, .limit = 100};
    return param_number(rq, re, "rate", 1, 1000, &o->rate) &&
           param_number(rq, re, "interval", 0.25, 10, &o->interval) &&
           param_whole(rq, re, "limit", 1, 500, &o->limit) &&
           param_flag(rq, re, "native", &o->native) && param_flag(rq, re, "idle", &o->idle) &&
           param_flag(rq, re, "gil", &o->gil) &&
           param_flag(rq, re, "subprocesses", &o->subprocesses);
}

static void make_argv(struct top_stream *t, const struct top_options *o, pid_t pid)
{
    size_t n = 0;
    snprintf(t->argv_text[0], sizeof(t->argv_text[0]), "%d", pid);
    snprintf(t->argv_text[1], sizeof(t->argv_text[1]), "%g", o->rate);
    snprintf(t->argv_text[2], sizeof(t->argv_text[2]), "%g", o->interval);
    snprintf(t->argv_text[3], sizeof(t->argv_text[3]), "%lld", (long long)o->limit);
    const char *fixed[] = {"top",
                           "-p",
                           t->argv_text[0],
                           "-r",
                           t->argv_text[1],
                           "--delay",
                           t->argv_text[2],
                           "--limit",
                           t->argv_text[3],
                           "--stream",
                           "-d",
                           "600"};
    for (; n < ARRAY_LEN(fixed); n++)
        t->argv[n] = fixed[n];
    if (o->native)
        t->argv[n++] = "--native";
    if (o->idle)
        t->argv[n++] = "--idle";
    if (o->gil)
        t->argv[n++] = "--gil";
    if (o->subprocesses)
        t->argv[n++] = "--subprocesses";
}

/* An error comes as one, not as the end of a stream that never began. */
static bool first_event(struct top_stream *t)
{
    pthread_mutex_lock(&t->lock);
    bool more = wait_for_event(t);
    bool failed = more && !t->waiting.len && t->ended && t->result.end != CHILD_OK;
    pthread_mutex_unlock(&t->lock);
    return more && !failed;
}

void top_get(struct server *s, struct request *rq, struct reply *re)
{
    struct top_options o;
    pid_t pid;
    if (!read_options(rq, re, &o) || !place_read(s, rq, re, &pid) ||
        !place_allowed(s, re, &pid, NULL))
        return;
    struct top_stream *t = calloc(1, sizeof(*t));
    if (!t) {
        reply_error(re, 503, "unavailable", NULL, "", "out of memory");
        return;
    }
    t->server = s;
    t->client.fd = rq->fd;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->changed, NULL);
    buf_init(&t->waiting);
    child_result_init(&t->result);
    make_argv(t, &o, pid);
    if (pthread_create(&t->thread, NULL, run, t) != 0) {
        reply_error(re, 503, "unavailable", NULL, "", "a thread cannot be started");
        free(t);
        return;
    }
    if (!first_event(t)) {
        inside_refuse(re, &t->result);
        top_free(t);
        return;
    }
    re->type = "text/event-stream";
    re->stream = (struct reply_stream){.next = top_next, .free = top_free, .context = t};
}
