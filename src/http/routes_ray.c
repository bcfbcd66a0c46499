/* The addresses of the Ray dashboard, answered as it answers them, errors apart: a sentence and the
 * status that fits. A recording that is asked for here belongs to who asks: when the client goes, it
 * is ended. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "http/cluster.h"
#include "http/inside.h"
#include "http/ray.h"
#include "http/recordings.h"
#include "http/routes.h"

#define PID_MAX_ 4194304
#define STEP_MS  200

/* Who is meant: a process on a node. */
struct place {
    struct node_ref node;
    pid_t pid;
    char warning[600]; /* "" = none */
};

static bool read_worker(struct server *s, struct request *rq, struct reply *re, struct place *p)
{
    int64_t pid = 0;
    const char *node_id = NULL, *ip = NULL;
    if (!param_required(rq, re, "pid") || !param_whole(rq, re, "pid", 1, PID_MAX_, &pid) ||
        !param_text(rq, re, "node_id", 200, &node_id) || !param_text(rq, re, "ip", 200, &ip))
        return false;
    const char *name = node_id ? node_id : ip;
    *p = (struct place){.pid = (pid_t)pid};
    return cluster_locate(s, rq, re, name ? name : "self", node_id ? "node_id" : "ip", &p->node);
}

/* ---- stack trace ---- */

static bool read_dump(const struct request *rq, struct reply *re, struct dump_options *o)
{
    *o = (struct dump_options){0};
    return param_flag(rq, re, "native", &o->native) &&
           param_flag(rq, re, "subprocesses", &o->subprocesses);
}

static void send_traceback(struct server *s, struct request *rq, struct reply *re,
                           const struct place *p, const struct dump_options *o)
{
    struct process_brief brief;
    struct error err = {0};
    int r = processes_find(s->processes, p->pid, p->node.ip[0] ? p->node.ip : NULL, &brief, &err);
    if (r < 0) {
        char word[32];
        job_error_word(error_symbol(r), word);
        reply_error(re, job_error_status(word), word, "pid", error_hint_text(&err),
                    "Failed to execute: %s", error_text(&err));
        return;
    }
    if (p->warning[0]) {
        buf_addf(&re->body, "Warning: %s\n", p->warning);
        reply_header(re, "X-Ray-Profiling-Warning", "%s", p->warning);
    }
    if (inside_dump(s, rq, re, brief.pid, o, &re->body))
        re->type = "text/plain; charset=utf-8";
}

void worker_traceback_get(struct server *s, struct request *rq, struct reply *re)
{
    struct place p;
    struct dump_options o;
    if (!read_worker(s, rq, re, &p) || !read_dump(rq, re, &o))
        return;
    if (p.node.self)
        send_traceback(s, rq, re, &p, &o);
    else
        cluster_forward(s, &p.node, rq, re);
}

/* ---- profile ---- */

struct profile_options {
    struct job_options job;
    const struct format *format;
    bool threads;
};

static bool read_profile(struct server *s, struct request *rq, struct reply *re,
                         struct profile_options *o)
{
    int64_t duration = 5;
    bool gil = false;
    *o = (struct profile_options){.job = {.rate = 100, .merge = true, .attached = true}};
    o->job.origin = "ray";
    if (!param_whole(rq, re, "duration", 1, s->options.max_duration, &duration) ||
        !recordings_format(rq, re, &o->format) || !param_flag(rq, re, "native", &o->job.native) ||
        !param_flag(rq, re, "idle", &o->job.idle) ||
        !param_flag(rq, re, "subprocesses", &o->job.subprocesses) ||
        !param_number(rq, re, "rate", 1, 1000, &o->job.rate) || !param_flag(rq, re, "gil", &gil) ||
        !param_flag(rq, re, "threads", &o->threads))
        return false;
    o->job.duration = (double)duration;
    o->job.mode = gil ? JOB_GIL : JOB_WALL;
    return true;
}

/* True when the job has ended while somebody still waited. */
static bool wait_for(struct server *s, const struct request *rq, struct job *job)
{
    bool over = false, left = false;
    unsigned seen = 0;
    while (!over && !left) {
        seen = job_wait(s->jobs, job, seen, STEP_MS);
        jobs_lock(s->jobs);
        over = job_ended(job);
        jobs_unlock(s->jobs);
        left = request_gone(rq) || atomic_load(&s->stopping);
    }
    return over;
}

/* The last who waited is gone: end it at once, not after the grace that event streams have. */
static void abandon(struct server *s, struct job *job)
{
    jobs_lock(s->jobs);
    bool last = job->watchers == 0;
    jobs_unlock(s->jobs);
    if (last)
        jobs_cancel(s->jobs, job);
}

static void add_warnings(struct server *s, struct job *job, const struct place *p, struct buf *to)
{
    buf_add_str(to, p->warning);
    jobs_lock(s->jobs);
    for (size_t i = 0; i < job->warning_count; i++)
        buf_addf(to, "%s%s", to->len ? "; " : "", job->warnings[i]);
    jobs_unlock(s->jobs);
}

/* Ray sends speedscope as text, too. */
static const char *ray_type(const char *format, bool task)
{
    if (strcmp(format, "flamegraph") == 0)
        return task ? "text/html; charset=utf-8" : "image/svg+xml";
    if (strcmp(format, "raw") == 0 || strcmp(format, "speedscope") == 0)
        return "text/plain";
    return inside_type(format);
}

static void add_escaped(struct buf *to, const char *text)
{
    for (; *text; text++) {
        if (*text == '<')
            buf_add_str(to, "&lt;");
        else if (*text == '&')
            buf_add_str(to, "&amp;");
        else
            buf_add_char(to, *text);
    }
}

/* A task's flame graph is a page: the picture, with the warning above it. */
static void begin_page(struct buf *to, const char *warning)
{
    if (*warning) {
        buf_add_str(to, "<p style=\"color: #E37400\">&#9888; ");
        add_escaped(to, warning);
        buf_add_str(to, "</p>");
    }
    buf_add_str(to, "<style>svg { width: 100%; height: 100%; }</style>\n");
}

static void add_file(struct buf *to, int fd)
{
    char data[8192];
    ssize_t n;
    while ((n = read(fd, data, sizeof(data))) > 0)
        buf_add(to, data, (size_t)n);
    close(fd);
}

static void send_profile(struct server *s, struct request *rq, struct reply *re,
                         const struct profile_options *o, struct job *job, const struct place *p,
                         bool task)
{
    SCOPED_BUF warning;
    buf_init(&warning);
    struct view_options view = {.format = o->format->name, .threads = o->threads};
    jobs_lock(s->jobs);
    struct job_error error = job->error;
    enum job_state state = job->state;
    jobs_unlock(s->jobs);
    if (state != JOB_DONE) {
        if (!error.code[0])
            job_error_set(&error, "cancelled", "the recording was cancelled", "");
        reply_error(re, job_error_status(error.code), error.code, NULL, error.hint,
                    "Failed to execute: %s", error.message);
        return;
    }
    char **paths = recordings_paths(s, re, job->id, NULL, -1);
    int fd = paths ? inside_convert(s, rq, re, &view, paths) : -1;
    recordings_paths_free(paths);
    if (fd < 0)
        return;
    bool flamegraph = strcmp(o->format->name, "flamegraph") == 0;
    add_warnings(s, job, p, &warning);
    re->type = ray_type(o->format->name, task);
    re->sandboxed = flamegraph || strcmp(o->format->name, "html") == 0;
    if (task && flamegraph) {
        begin_page(&re->body, warning.data);
        add_file(&re->body, fd);
    } else {
        re->fd = fd;
    }
    reply_header(re, "X-Scry-Recording", "%s", job->id);
    if (warning.len)
        reply_header(re, "X-Ray-Profiling-Warning", "%s", warning.data);
}

static void profile(struct server *s, struct request *rq, struct reply *re,
                    const struct profile_options *o, struct place *p, const struct ray_task *task)
{
    struct job_target target;
    recordings_target(s, &p->node, p->pid, &target);
    if (target.state == JOB_FAILED) {
        const struct job_error *e = &target.error;
        reply_error(re, job_error_status(e->code), e->code, "pid", e->hint, "Failed to execute: %s",
                    e->message);
        return;
    }
    struct job *job = jobs_add_or_join(s->jobs, &o->job, &target, re);
    if (!job)
        return;
    job_watch(s->jobs, job);
    bool over = wait_for(s, rq, job);
    job_unwatch(s->jobs, job);
    if (!over) {
        abandon(s, job);
        reply_error(re, 503, "unavailable", NULL, "", "the client has gone");
    } else {
        if (task)
            ray_warn(s, task, p->warning, sizeof(p->warning));
        send_profile(s, rq, re, o, job, p, task != NULL);
    }
    job_release(s->jobs, job);
}

void worker_cpu_profile_get(struct server *s, struct request *rq, struct reply *re)
{
    struct profile_options o;
    struct place p;
    if (!read_worker(s, rq, re, &p) || !read_profile(s, rq, re, &o))
        return;
    if (p.node.self)
        profile(s, rq, re, &o, &p, NULL);
    else
        cluster_forward(s, &p.node, rq, re);
}

/* ---- tasks ---- */

static bool read_task(struct server *s, struct request *rq, struct reply *re, struct place *p,
                      struct ray_task *task)
{
    int64_t attempt = 0;
    const char *id = NULL, *node_id = NULL;
    if (!param_required(rq, re, "task_id") || !param_required(rq, re, "attempt_number") ||
        !param_text(rq, re, "task_id", 64, &id) ||
        !param_whole(rq, re, "attempt_number", 0, 1000000, &attempt) ||
        !param_text(rq, re, "node_id", 200, &node_id))
        return false;
    if (id[strspn(id, "0123456789abcdefABCDEF")]) {
        reply_error(re, 400, "bad_parameter", "task_id", "",
                    "task_id must be hexadecimal digits, not '%.60s'", id);
        return false;
    }
    if (!ray_find_task(s, rq, re, id, attempt, node_id, task))
        return false;
    *p = (struct place){.pid = task->pid, .node = task->node};
    return true;
}

/* Another node knows nothing of the task: it is asked for the process. */
static void forward_task(struct server *s, struct request *rq, struct reply *re,
                         const struct place *p, const struct ray_task *task, const char *what)
{
    SCOPED_BUF target;
    buf_init(&target);
    buf_addf(&target, "/worker/%s?pid=%d&ip=%s", what, p->pid, p->node.ip);
    static const char *const names[] = {"duration",     "format", "native", "idle",
                                        "subprocesses", "rate",   "gil",    "threads"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *value = query_get(&rq->query, names[i]);
        if (!value)
            continue;
        buf_addf(&target, "&%s=", names[i]);
        query_escape(&target, value);
    }
    struct request other = *rq;
    char warning[600] = "";
    other.target = target.data;
    cluster_forward(s, &p->node, &other, re);
    if (reply_failed(re))
        return;
    ray_warn(s, task, warning, sizeof(warning));
    if (warning[0])
        reply_header(re, "X-Ray-Profiling-Warning", "%s", warning);
    const char *format = query_get(&rq->query, "format");
    if (strcmp(what, "cpu_profile") == 0 && (!format || strcmp(format, "flamegraph") == 0)) {
        struct buf picture = re->body;
        buf_init(&re->body);
        begin_page(&re->body, warning);
        buf_add(&re->body, picture.data, picture.len);
        buf_done(&picture);
        re->type = "text/html; charset=utf-8";
    }
}

void task_traceback_get(struct server *s, struct request *rq, struct reply *re)
{
    struct place p;
    struct ray_task task;
    struct dump_options o;
    if (!read_dump(rq, re, &o) || !read_task(s, rq, re, &p, &task))
        return;
    ray_warn(s, &task, p.warning, sizeof(p.warning));
    if (p.node.self)
        send_traceback(s, rq, re, &p, &o);
    else
        forward_task(s, rq, re, &p, &task, "traceback");
}

void task_cpu_profile_get(struct server *s, struct request *rq, struct reply *re)
{
    struct profile_options o;
    struct place p;
    struct ray_task task;
    if (!read_profile(s, rq, re, &o) || !read_task(s, rq, re, &p, &task))
        return;
    if (p.node.self)
        profile(s, rq, re, &o, &p, &task);
    else
        forward_task(s, rq, re, &p, &task, "cpu_profile");
}
