/* Recordings: asking for them, following them, the history, and what is made of them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "format/format.h"
#include "http/cluster.h"
#include "http/inside.h"
#include "http/recordings.h"
#include "http/routes.h"

#define PID_MAX_   4194304
#define EVENT_MS   500
#define COMMENT_MS 10000
#define STEP_MS    250

/* ---- asking for one ---- */

static bool read_options(struct server *s, const struct request *rq, const json_t *body,
                         struct reply *re, struct job_options *o)
{
    int mode = JOB_WALL;
    bool gil = false;
    const char *name = "";
    *o = (struct job_options){.duration = 5, .rate = 100, .merge = true};
    o->origin = rq->forwarded ? "peer" : rq->from_page ? "page" : "api";
    if (!member_number(body, re, "duration", 0.1, s->options.max_duration, &o->duration) ||
        !member_number(body, re, "rate", 1, 1000, &o->rate) ||
        !member_choice(body, re, "mode", job_modes, &mode) || !member_flag(body, re, "gil", &gil) ||
        !member_flag(body, re, "idle", &o->idle) || !member_flag(body, re, "native", &o->native) ||
        !member_flag(body, re, "subprocesses", &o->subprocesses) ||
        !member_flag(body, re, "merge", &o->merge) ||
        !member_flag(body, re, "attached", &o->attached) ||
        !member_text(body, re, "name", JOB_NAME_MAX, &name))
        return false;
    if (gil && json_object_get(body, "mode") && mode != JOB_GIL) {
        reply_error(re, 400, "bad_parameter", "gil", "", "gil and mode contradict each other");
        return false;
    }
    if (o->idle && mode == JOB_CPU) {
        reply_error(re, 400, "bad_parameter", "idle", "",
                    "idle and mode cpu contradict each other: a thread that waits uses no CPU");
        return false;
    }
    o->mode = gil ? JOB_GIL : (enum job_mode)mode;
    snprintf(o->name, sizeof(o->name), "%s", name);
    return true;
}

/* Fills in what can be known at once; a target that cannot be recorded is entered as failed. */
void recordings_target(struct server *s, const struct node_ref *node, pid_t pid,
                       struct job_target *t)
{
    struct process_brief brief;
    struct error err = {0};
    *t = (struct job_target){.pid = pid, .remote = !node->self};
    snprintf(t->node, sizeof(t->node), "%s", node->id);
    snprintf(t->node_name, sizeof(t->node_name), "%s", node->name);
    if (t->remote)
        return;
    int r = processes_find(s->processes, pid, node->ip[0] ? node->ip : NULL, &brief, &err);
    if (r < 0) {
        char word[32];
        job_error_word(error_symbol(r), word);
        t->state = JOB_FAILED;
        job_error_set(&t->error, word, error_text(&err), error_hint_text(&err));
        return;
    }
    t->pid = brief.pid;
    t->start_time = brief.start_time;
    snprintf(t->command, sizeof(t->command), "%s", brief.command);
    snprintf(t->python, sizeof(t->python), "%s", brief.python);
}

static bool read_target(struct server *s, const struct request *rq, const json_t *o,
                        struct reply *re, struct job_target *t)
{
    static const char *const names[] = {"node", "pid", NULL};
    const char *name = "self";
    double pid = 0;
    struct node_ref node;
    if (!json_is_object(o)) {
        reply_error(re, 400, "bad_parameter", "targets", "", "each of targets must be an object");
        return false;
    }
    if (!member_known(o, re, names) || !member_text(o, re, "node", 200, &name) ||
        !member_number(o, re, "pid", 1, PID_MAX_, &pid))
        return false;
    if (pid == 0 || pid != (double)(pid_t)pid) {
        reply_error(re, 400, "bad_parameter", "pid", "", "each of targets must have a pid");
        return false;
    }
    if (!cluster_locate(s, rq, re, name, "node", &node))
        return false;
    recordings_target(s, &node, (pid_t)pid, t);
    return true;
}

static bool read_targets(struct server *s, const struct request *rq, const json_t *body,
                         struct reply *re, struct job_target *targets, size_t *ret_count)
{
    const json_t *list = json_object_get(body, "targets"), *item;
    size_t i, count = json_array_size(list);
    if (!json_is_array(list) || count == 0 || count > JOB_TARGETS_MAX) {
        reply_error(re, 400, "bad_parameter", "targets", "", "targets must be a list of 1 to %d",
                    JOB_TARGETS_MAX);
        return false;
    }
    *ret_count = 0;
    json_array_foreach(list, i, item)
    {
        struct job_target *t = &targets[*ret_count];
        if (!read_target(s, rq, item, re, t))
            return false;
        bool twice = false;
        for (size_t k = 0; k < *ret_count; k++)
            twice |= targets[k].pid == t->pid && strcmp(targets[k].node, t->node) == 0;
        *ret_count += !twice;
    }
    if (*ret_count == 1 && targets[0].state == JOB_FAILED) {
        const struct job_error *e = &targets[0].error;
        reply_error(re, job_error_status(e->code), e->code, "pid", e->hint, "%s", e->message);
        return false;
    }
    return true;
}

static void reply_jobs(struct server *s, struct reply *re, struct job **jobs, size_t count)
{
    FILE *out = reply_json(re, 202);
    if (!out)
        return;
    fputs("{\"recordings\":[", out);
    jobs_lock(s->jobs);
    for (size_t i = 0; i < count; i++) {
        if (i)
            fputc(',', out);
        job_json(jobs[i], out);
    }
    jobs_unlock(s->jobs);
    fputs("]}", out);
    reply_json_end(re, out);
    reply_header(re, "Location", "recordings/%s", jobs[0]->id);
}

/* One job for all targets, or one each. */
static void add_jobs(struct server *s, struct reply *re, const struct job_options *o,
                     struct job_target *targets, size_t count)
{
    size_t wanted = o->merge ? 1 : count, made = 0;
    struct job **jobs = calloc(wanted, sizeof(struct job *));
    for (; jobs && made < wanted; made++) {
        size_t each = o->merge ? count : 1;
        struct job_target *copy = malloc(each * sizeof(*copy));
        if (!copy)
            break;
        memcpy(copy, targets + made, each * sizeof(*copy));
        jobs[made] = jobs_add(s->jobs, o, copy, each, re);
        if (!jobs[made])
            break;
    }
    if (made == wanted)
        reply_jobs(s, re, jobs, made);
    else if (!reply_failed(re))
        reply_error(re, 503, "unavailable", NULL, "", "out of memory");
    for (size_t i = 0; i < made; i++) {
        if (made < wanted)
            jobs_cancel(s->jobs, jobs[i]);
        job_release(s->jobs, jobs[i]);
    }
    free(jobs);
}

void recordings_post(struct server *s, struct request *rq, struct reply *re)
{
    static const char *const names[] = {"targets", "name",     "duration",     "rate",
                                        "mode",    "gil",      "idle",         "native",
                                        "merge",   "attached", "subprocesses", NULL};
    struct job_options o;
    size_t count = 0;
    json_t *body = request_json(rq, re);
    struct job_target *targets = calloc(JOB_TARGETS_MAX, sizeof(*targets));
    if (body && targets && member_known(body, re, names) && read_options(s, rq, body, re, &o) &&
        read_targets(s, rq, body, re, targets, &count))
        add_jobs(s, re, &o, targets, count);
    else if (!targets && !reply_failed(re))
        reply_error(re, 503, "unavailable", NULL, "", "out of memory");
    free(targets);
    json_decref(body);
}

/* ---- one recording ---- */

static bool check_id(struct reply *re, const char *id, const char *parameter)
{
    if (store_id_valid(id))
        return true;
    reply_error(re, 400, "bad_parameter", parameter, "", "this is no id of a recording");
    return false;
}

/* Its document, whether it runs or has ended; false after `re` was filled in. */
bool recordings_doc(struct server *s, struct reply *re, const char *id, const char *parameter,
                    struct buf *doc)
{
    struct error err = {0};
    if (!check_id(re, id, parameter))
        return false;
    struct job *job = jobs_find(s->jobs, id);
    if (job) {
        char *text = NULL;
        size_t len = 0;
        FILE *out = open_memstream(&text, &len);
        jobs_lock(s->jobs);
        if (out)
            job_json(job, out);
        jobs_unlock(s->jobs);
        if (out)
            fclose(out);
        buf_add(doc, text ? text : "", len);
        free(text);
        job_release(s->jobs, job);
        return true;
    }
    int r = store_get(s->store, id, doc, &err);
    if (r == 0)
        return true;
    if (r == -SCRY_E_NO_PROCESS)
        reply_error(re, 404, "not_found", parameter, "", "there is no recording '%s'", id);
    else
        reply_error(re, 503, "unavailable", NULL, error_hint_text(&err), "%s", error_text(&err));
    return false;
}

void recording_get(struct server *s, struct request *rq, struct reply *re)
{
    struct job *job = jobs_find(s->jobs, rq->words[0]);
    if (job)
        job_touch(s->jobs, job);
    job_release(s->jobs, job);
    if (recordings_doc(s, re, rq->words[0], "id", &re->body))
        re->type = "application/json";
}

void recording_delete(struct server *s, struct request *rq, struct reply *re)
{
    struct error err = {0};
    SCOPED_BUF doc;
    buf_init(&doc);
    const char *id = rq->words[0];
    if (!recordings_doc(s, re, id, "id", &doc))
        return;
    struct job *job = jobs_find(s->jobs, id);
    if (job) {
        jobs_cancel(s->jobs, job);
        for (unsigned seen = 0, n = 0; n < 40; n++) {
            seen = job_wait(s->jobs, job, seen, STEP_MS);
            jobs_lock(s->jobs);
            bool over = job_ended(job);
            jobs_unlock(s->jobs);
            if (over)
                break;
        }
        job_release(s->jobs, job);
    }
    if (store_remove(s->store, id, &err) < 0)
        reply_error(re, 503, "unavailable", NULL, error_hint_text(&err), "%s", error_text(&err));
    else
        re->status = 204;
}

void recording_cancel(struct server *s, struct request *rq, struct reply *re)
{
    const char *id = rq->words[0];
    struct job *job = check_id(re, id, "id") ? jobs_find(s->jobs, id) : NULL;
    if (job) {
        jobs_lock(s->jobs);
        bool over = job_ended(job);
        jobs_unlock(s->jobs);
        if (!over)
            jobs_cancel(s->jobs, job);
        job_release(s->jobs, job);
        if (!over) {
            recording_get(s, rq, re);
            re->status = 202;
            return;
        }
    }
    SCOPED_BUF doc;
    buf_init(&doc);
    if (!reply_failed(re) && recordings_doc(s, re, id, "id", &doc))
        reply_error(re, 409, "conflict", NULL, "", "the recording has ended already");
}

/* ---- naming and keeping ---- */

static void patch(struct server *s, struct reply *re, json_t *doc, const char *id, const char *name,
                  bool pinned)
{
    struct error err = {0};
    if (recordings_change(s, doc, id, name, pinned, &err) < 0) {
        reply_error(re, 503, "unavailable", NULL, error_hint_text(&err), "%s", error_text(&err));
        return;
    }
    if (recordings_doc(s, re, id, "id", &re->body))
        re->type = "application/json";
}

void recording_patch(struct server *s, struct request *rq, struct reply *re)
{
    static const char *const names[] = {"name", "pinned", NULL};
    SCOPED_BUF text;
    buf_init(&text);
    const char *id = rq->words[0];
    json_t *body = request_json(rq, re), *doc = NULL;
    if (!body || !member_known(body, re, names) || !recordings_doc(s, re, id, "id", &text))
        goto out;
    doc = json_loads(text.data, 0, NULL);
    const char *name = json_string_value(json_object_get(doc, "name"));
    bool pinned = json_is_true(json_object_get(doc, "pinned"));
    name = name ? name : "";
    if (member_text(body, re, "name", JOB_NAME_MAX, &name) &&
        member_flag(body, re, "pinned", &pinned))
        patch(s, re, doc, id, name, pinned);
out:
    json_decref(doc);
    json_decref(body);
}

/* ---- the history ---- */

struct listing {
    struct server *server;
    FILE *out;
    size_t count;
    char last[STORE_ID_MAX];
    char ids[1001][STORE_ID_MAX];
};

static void collect(void *context, const char *id, const char *doc)
{
    struct listing *l = context;
    (void)doc;
    snprintf(l->ids[l->count++], STORE_ID_MAX, "%s", id);
}

void recordings_get(struct server *s, struct request *rq, struct reply *re)
{
    struct store_filter f = {0};
    struct error err = {0};
    int64_t limit = 100, pid = 0;
    int state = -1;
    if (!param_text(rq, re, "q", 200, &f.q) || !param_choice(rq, re, "state", job_states, &state) ||
        !param_text(rq, re, "node", 200, &f.node) ||
        !param_whole(rq, re, "pid", 1, PID_MAX_, &pid) ||
        !param_whole(rq, re, "limit", 1, 1000, &limit) ||
        !param_text(rq, re, "before", STORE_ID_MAX - 1, &f.before) ||
        (f.before && !check_id(re, f.before, "before")))
        return;
    f.state = state >= 0 ? job_states[state] : NULL;
    f.pid = pid;
    f.limit = (size_t)limit + 1;
    struct listing *l = calloc(1, sizeof(*l));
    size_t total = 0;
    if (!l || store_list(s->store, &f, collect, l, &total, &err) < 0) {
        reply_error(re, 503, "unavailable", NULL, error_hint_text(&err), "%s",
                    l ? error_text(&err) : "out of memory");
        free(l);
        return;
    }
    SCOPED_BUF body;
    buf_init(&body);
    size_t shown = l->count > (size_t)limit ? (size_t)limit : l->count;
    buf_add_str(&body, "{\"recordings\":[");
    for (size_t i = 0, n = 0; i < shown; i++) {
        /* One that was removed between the two questions is left out. */
        size_t before = body.len;
        struct reply scratch;
        reply_init(&scratch);
        if (n)
            buf_add_char(&body, ',');
        if (recordings_doc(s, &scratch, l->ids[i], NULL, &body))
            n++;
        else
            buf_truncate(&body, before);
        reply_done(&scratch);
    }
    buf_addf(&body, "],\"total\":%zu,\"next\":", total);
    if (l->count > shown && shown)
        buf_addf(&body, "\"%s\"}\n", l->ids[shown - 1]);
    else
        buf_add_str(&body, "null}\n");
    free(l);
    buf_add(&re->body, body.data, body.len);
    re->type = "application/json";
}

/* ---- events ---- */

struct events {
    struct server *server;
    struct job *job;       /* NULL: it had ended before */
    struct buf doc;        /* then this is it */
    struct request client; /* only to see whether it has gone */
    unsigned seen;
    int64_t last;
    bool first, over;
};

static int64_t monotonic_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void add_event(struct buf *to, const char *name, const char *data)
{
    buf_addf(to, "event: %s\ndata: %s\n\n", name, data);
}

static bool send_job(struct events *e, struct buf *to)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    if (!out)
        return false;
    jobs_lock(e->server->jobs);
    job_json(e->job, out);
    e->seen = e->job->version;
    e->over = job_ended(e->job);
    jobs_unlock(e->server->jobs);
    fclose(out);
    if (text)
        add_event(to, e->over ? "end" : "progress", text);
    free(text);
    e->last = monotonic_ms();
    return true;
}

/* Not more often than twice a second, and at least a sign of life every ten seconds. */
static bool events_next(void *context, struct buf *to)
{
    struct events *e = context;
    if (e->over)
        return false;
    if (!e->job) {
        add_event(to, "end", e->doc.data);
        e->over = true;
        return true;
    }
    if (e->first) {
        e->first = false;
        return send_job(e, to);
    }
    for (;;) {
        unsigned version = job_wait(e->server->jobs, e->job, e->seen, STEP_MS);
        int64_t now = monotonic_ms();
        if (atomic_load(&e->server->stopping) || request_gone(&e->client))
            return false;
        jobs_lock(e->server->jobs);
        bool over = job_ended(e->job);
        jobs_unlock(e->server->jobs);
        if (over || (version != e->seen && now - e->last >= EVENT_MS))
            return send_job(e, to);
        if (now - e->last >= COMMENT_MS) {
            buf_add_str(to, ": still there\n\n");
            e->last = now;
            return true;
        }
        if (version != e->seen) {
            struct timespec pause = {.tv_nsec = 50 * 1000000};
            nanosleep(&pause, NULL);
        }
    }
}

static void events_free(void *context)
{
    struct events *e = context;
    if (e->job) {
        job_unwatch(e->server->jobs, e->job);
        job_release(e->server->jobs, e->job);
    }
    buf_done(&e->doc);
    free(e);
}

void recording_events(struct server *s, struct request *rq, struct reply *re)
{
    struct events *e = calloc(1, sizeof(*e));
    if (!e) {
        reply_error(re, 503, "unavailable", NULL, "", "out of memory");
        return;
    }
    *e = (struct events){.server = s, .client = {.fd = rq->fd}, .first = true};
    buf_init(&e->doc);
    const char *id = rq->words[0];
    if (!check_id(re, id, "id")) {
        events_free(e);
        return;
    }
    e->job = jobs_find(s->jobs, id);
    if (e->job) {
        job_watch(s->jobs, e->job);
    } else if (!recordings_doc(s, re, id, "id", &e->doc)) {
        events_free(e);
        return;
    }
    re->type = "text/event-stream";
    re->stream = (struct reply_stream){.next = events_next, .free = events_free, .context = e};
}

/* ---- results ---- */

/* "train-20261116-030405.svg" */
static void name_file(struct reply *re, const char *id, const char *extension)
{
    reply_header(re, "Content-Disposition", "attachment; filename=\"scry-%s.%s\"", id, extension);
}

static bool read_view(const struct request *rq, struct reply *re, struct view_options *v,
                      int64_t *ret_part)
{
    v->processes_said = query_get(&rq->query, "processes") != NULL;
    return param_flag(rq, re, "threads", &v->threads) &&
           param_flag(rq, re, "processes", &v->processes) &&
           param_flag(rq, re, "nodes", &v->nodes) &&
           param_flag(rq, re, "full_filenames", &v->full_filenames) &&
           param_choice(rq, re, "lines", view_lines, &v->lines) &&
           param_whole(rq, re, "part", 0, JOB_TARGETS_MAX - 1, ret_part);
}

bool recordings_format(const struct request *rq, struct reply *re, const struct format **ret)
{
    const char *names[32];
    size_t n = 0;
    int index = 0;
    for (; formats[n].name && n + 1 < ARRAY_LEN(names); n++)
        names[n] = formats[n].name;
    names[n] = NULL;
    if (!param_choice(rq, re, "format", names, &index))
        return false;
    *ret = &formats[index];
    return true;
}

static int convert(struct server *s, struct request *rq, struct reply *re,
                   struct view_options *view, int64_t part)
{
    char **paths = recordings_paths(s, re, rq->words[0], "id", part);
    int fd = paths ? inside_convert(s, rq, re, view, paths) : -1;
    recordings_paths_free(paths);
    return fd;
}

void recording_result(struct server *s, struct request *rq, struct reply *re)
{
    struct view_options view = {0};
    const struct format *format;
    int64_t part = -1;
    bool download = false;
    if (!read_view(rq, re, &view, &part) || !recordings_format(rq, re, &format) ||
        !param_flag(rq, re, "download", &download))
        return;
    view.format = format->name;
    int fd = convert(s, rq, re, &view, part);
    if (fd < 0)
        return;
    re->fd = fd;
    re->type = inside_type(format->name);
    re->sandboxed = strcmp(format->name, "flamegraph") == 0 || strcmp(format->name, "html") == 0;
    if (download || format->binary)
        name_file(re, rq->words[0], format->extension);
}

void recording_tree(struct server *s, struct request *rq, struct reply *re)
{
    struct view_options view = {.format = "json"};
    int64_t part = -1;
    if (!read_view(rq, re, &view, &part))
        return;
    int fd = convert(s, rq, re, &view, part);
    if (fd < 0)
        return;
    re->fd = fd;
    re->type = "application/json";
}

void diff_get(struct server *s, struct request *rq, struct reply *re)
{
    static const char *const formats_of_diff[] = {"flamegraph", "text", "json", NULL};
    static const char *const bys[] = {"share", "time", NULL};
    static const char *const widths[] = {"before", "after", NULL};
    int format = 0, by = 0, width = 1;
    bool threads = false, download = false;
    if (!param_required(rq, re, "before") || !param_required(rq, re, "after") ||
        !param_choice(rq, re, "format", formats_of_diff, &format) ||
        !param_choice(rq, re, "by", bys, &by) || !param_choice(rq, re, "widths", widths, &width) ||
        !param_flag(rq, re, "threads", &threads) || !param_flag(rq, re, "download", &download))
        return;
    const char *before_id = query_get(&rq->query, "before");
    const char *after_id = query_get(&rq->query, "after");
    if (!check_id(re, before_id, "before") || !check_id(re, after_id, "after"))
        return;
    char **before = recordings_paths(s, re, before_id, "before", -1);
    char **after = before ? recordings_paths(s, re, after_id, "after", -1) : NULL;
    struct diff_view view = {.format = formats_of_diff[format],
                             .by = bys[by],
                             .widths = widths[width],
                             .threads = threads};
    int fd = after ? inside_diff(s, rq, re, &view, before, after) : -1;
    if (fd >= 0) {
        static const char *const extensions[] = {"svg", "txt", "json"};
        re->fd = fd;
        re->type = inside_type(view.format);
        re->sandboxed = format == 0;
        if (download)
            name_file(re, after_id, extensions[format]);
    }
    recordings_paths_free(before);
    recordings_paths_free(after);
}
