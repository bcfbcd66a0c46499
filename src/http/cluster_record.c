/* Recording on other nodes: each is asked to record its own processes, followed until it is done,
 * and its recording is fetched and kept here like one of our own. A node that is cut off meanwhile
 * costs its own targets and no others. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "http/cluster_private.h"

#define START_SECONDS 5.0
#define ASK_SECONDS   3.0
#define FETCH_SECONDS 60.0
#define STEP_MS       400
#define LOST_MS       10000 /* a node that is silent for so long is lost */
#define QUEUE_SECONDS 300   /* that a recording may wait on its node */
#define DATA_MAX      (512u << 20)

struct errand { /* what one node is asked to do */
    struct node_ref node;
    size_t *targets; /* numbers in the job */
    size_t count;
    char id[STORE_ID_MAX]; /* of its recording there; "" = not begun */
    int64_t heard;         /* monotonic ms: when it last answered */
    bool ended;            /* there */
    bool over;             /* nothing is left to do */
};

struct errands {
    struct server *server;
    struct jobs *jobs;
    struct job *job;
    struct errand *items;
    size_t count;
};

static bool over(void *context)
{
    struct errands *all = context;
    return atomic_load(&all->server->cluster->stopping);
}

/* ---- who does what ---- */

static struct errand *errand_for(struct errands *all, const char *node)
{
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->items[i].node.id, node) == 0)
            return &all->items[i];
    struct errand *e = &all->items[all->count];
    struct reply scratch;
    struct request nobody = {.fd = -1};
    reply_init(&scratch);
    bool found = cluster_locate(all->server, &nobody, &scratch, node, NULL, &e->node);
    reply_done(&scratch);
    e->targets = found ? calloc(all->job->target_count, sizeof(size_t)) : NULL;
    if (!e->targets)
        return NULL;
    e->heard = cluster_now();
    all->count++;
    return e;
}

static void fail(struct errands *all, size_t target, const char *code, const char *message)
{
    struct job_target *t = &all->job->targets[target];
    jobs_lock(all->jobs);
    if (t->state == JOB_QUEUED || t->state == JOB_RECORDING) {
        t->state = all->job->cancel ? JOB_CANCELLED : JOB_FAILED;
        job_error_set(&t->error, code, message, "");
        job_target_ended(all->jobs, all->job);
    }
    jobs_unlock(all->jobs);
}

static void fail_all(struct errands *all, struct errand *e, const char *code, const char *message)
{
    for (size_t i = 0; i < e->count; i++)
        fail(all, e->targets[i], code, message);
    e->over = true;
}

static bool share_out(struct errands *all)
{
    all->items = calloc(all->job->target_count, sizeof(*all->items));
    if (!all->items)
        return false;
    for (size_t i = 0; i < all->job->target_count; i++) {
        const struct job_target *t = &all->job->targets[i];
        if (!t->remote)
            continue;
        struct errand *e = errand_for(all, t->node);
        if (e)
            e->targets[e->count++] = i;
        else
            fail(all, i, "no_node", "the node is not known any more");
    }
    return true;
}

/* ---- asking all at once ---- */

/* A call to each errand that `wanted` picks; `fill` writes the question, `read` takes the answer. */
static void ask_all(struct errands *all, bool (*wanted)(const struct errand *e),
                    void (*fill)(struct errands *all, struct errand *e, struct call *call),
                    void (*read)(struct errands *all, struct errand *e, struct call *call))
{
    struct call *calls = calloc(all->count + 1, sizeof(*calls));
    size_t count = 0;
    for (size_t i = 0; calls && i < all->count; i++) {
        struct errand *e = &all->items[i];
        if (e->over || !wanted(e))
            continue;
        call_init(&calls[count]);
        fill(all, e, &calls[count]);
        calls[count++].context = e;
    }
    if (count)
        client_all(all->server->cluster->client, calls, count, over, all);
    for (size_t i = 0; i < count; i++) {
        read(all, calls[i].context, &calls[i]);
        free((char *)calls[i].body);
        call_done(&calls[i]);
    }
    free(calls);
}

static const char *answer_text(const json_t *o, const char *outer, const char *name)
{
    return json_string_value(json_object_get(json_object_get(o, outer), name));
}

/* ---- begin ---- */

static bool not_begun(const struct errand *e)
{
    return !e->id[0];
}

static void ask_to_begin(struct errands *all, struct errand *e, struct call *call)
{
    const struct job_options *o = &all->job->options;
    struct buf body;
    buf_init(&body);
    buf_addf(&body,
             "{\"duration\":%g,\"rate\":%g,\"mode\":\"%s\",\"idle\":%s,\"native\":%s,"
             "\"subprocesses\":%s,\"merge\":true,\"attached\":true,\"targets\":[",
             o->duration, o->rate, job_modes[o->mode], o->idle ? "true" : "false",
             o->native ? "true" : "false", o->subprocesses ? "true" : "false");
    for (size_t i = 0; i < e->count; i++)
        buf_addf(&body, "%s{\"pid\":%d}", i ? "," : "", all->job->targets[e->targets[i]].pid);
    buf_add_str(&body, "]}");
    snprintf(call->url, sizeof(call->url), "%s/api/v1/recordings", e->node.url);
    call->timeout = START_SECONDS;
    call->body = buf_detach(&body);
}

static void refuse(struct errands *all, struct errand *e, const struct call *call,
                   const json_t *root)
{
    const char *code = answer_text(root, "error", "code");
    const char *message = answer_text(root, "error", "message");
    if (call->status == 0)
        fail_all(all, e, call->late ? "peer_timeout" : "peer", call->error);
    else
        fail_all(all, e, code ? code : "peer", message ? message : "the node refused");
}

static void read_begun(struct errands *all, struct errand *e, struct call *call)
{
    json_t *root = json_loadb(call->answer.data, call->answer.len, 0, NULL);
    const json_t *first = json_array_get(json_object_get(root, "recordings"), 0);
    const char *id = json_string_value(json_object_get(first, "id"));
    if (call->status == 202 && id && store_id_valid(id)) {
        snprintf(e->id, sizeof(e->id), "%s", id);
        e->heard = cluster_now();
    } else {
        refuse(all, e, call, root);
    }
    json_decref(root);
}

/* ---- follow ---- */

static bool begun(const struct errand *e)
{
    return e->id[0] && !e->ended;
}

static void ask_how(struct errands *all, struct errand *e, struct call *call)
{
    (void)all;
    snprintf(call->url, sizeof(call->url), "%s/api/v1/recordings/%s", e->node.url, e->id);
    call->timeout = ASK_SECONDS;
    call->max = 8u << 20;
}

static enum job_state state_of(const json_t *o)
{
    const char *word = json_string_value(json_object_get(o, "state"));
    for (int i = 0; word && job_states[i]; i++)
        if (strcmp(word, job_states[i]) == 0)
            return (enum job_state)i;
    return JOB_FAILED;
}

static void copy_text(char *to, size_t cap, const json_t *o, const char *name)
{
    const char *text = json_string_value(json_object_get(o, name));
    if (text)
        snprintf(to, cap, "%.*s", (int)cap - 1, text);
}

/* The data is still there, not here: what has ended there goes on being recorded here. */
static void take_target(struct job_target *t, const json_t *there, double elapsed)
{
    copy_text(t->command, sizeof(t->command), there, "command");
    copy_text(t->python, sizeof(t->python), there, "python");
    t->samples = (uint64_t)json_integer_value(json_object_get(there, "samples"));
    t->elapsed = elapsed;
    if (t->state == JOB_QUEUED && state_of(there) != JOB_QUEUED)
        t->state = JOB_RECORDING;
    const json_t *error = json_object_get(there, "error");
    if (json_is_object(error)) {
        copy_text(t->error.code, sizeof(t->error.code), error, "code");
        copy_text(t->error.message, sizeof(t->error.message), error, "message");
        copy_text(t->error.hint, sizeof(t->error.hint), error, "hint");
    }
}

static const json_t *target_of(const json_t *root, pid_t pid)
{
    size_t i;
    const json_t *t;
    json_array_foreach(json_object_get(root, "targets"), i, t)
    {
        if ((pid_t)json_integer_value(json_object_get(t, "pid")) == pid)
            return t;
    }
    return NULL;
}

static void take_progress(struct errands *all, struct errand *e, const json_t *root)
{
    enum job_state state = state_of(root);
    double elapsed = json_number_value(json_object_get(root, "elapsed"));
    jobs_lock(all->jobs);
    for (size_t i = 0; i < e->count; i++) {
        struct job_target *t = &all->job->targets[e->targets[i]];
        const json_t *there = target_of(root, t->pid);
        if (there)
            take_target(t, there, elapsed);
    }
    if (state != JOB_QUEUED)
        job_begins(all->jobs, all->job);
    job_changed(all->jobs, all->job);
    jobs_unlock(all->jobs);
    e->ended = state != JOB_QUEUED && state != JOB_RECORDING;
}

static void read_how(struct errands *all, struct errand *e, struct call *call)
{
    json_t *root = json_loadb(call->answer.data, call->answer.len, 0, NULL);
    if (call->status == 200 && root) {
        e->heard = cluster_now();
        take_progress(all, e, root);
    } else if (call->status == 404) {
        fail_all(all, e, "peer", "the node was started anew and has lost the recording");
    } else if (cluster_now() - e->heard > LOST_MS) {
        char why[300];
        snprintf(why, sizeof(why), "the node was lost while it recorded: %.200s",
                 call->error[0] ? call->error : "no answer");
        fail_all(all, e, "peer", why);
    }
    json_decref(root);
}

/* ---- fetch ---- */

static bool ended(const struct errand *e)
{
    return e->ended;
}

/* All targets of a node come as one file; it lies with the first of them. */
static void ask_for_data(struct errands *all, struct errand *e, struct call *call)
{
    char *path = store_path(all->server->store, all->job->id, e->targets[0]);
    snprintf(call->url, sizeof(call->url), "%s/api/v1/recordings/%s/result?format=scry",
             e->node.url, e->id);
    call->timeout = FETCH_SECONDS;
    call->max = DATA_MAX;
    call->fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : 0;
    free(path);
}

static void drop_data(struct errands *all, const struct errand *e)
{
    char *path = store_path(all->server->store, all->job->id, e->targets[0]);
    if (path)
        unlink(path);
    free(path);
}

static void read_data(struct errands *all, struct errand *e, struct call *call)
{
    if (call->fd > 0) {
        fsync(call->fd);
        close(call->fd);
    }
    if (call->status != 200) {
        drop_data(all, e);
        for (size_t i = 0; i < e->count; i++) {
            const struct job_error *known = &all->job->targets[e->targets[i]].error;
            fail(all, e->targets[i], known->code[0] ? known->code : "peer",
                 known->code[0] ? known->message : "its recording could not be fetched");
        }
        e->over = true;
        return;
    }
    jobs_lock(all->jobs);
    for (size_t i = 0; i < e->count; i++) {
        struct job_target *t = &all->job->targets[e->targets[i]];
        t->state = all->job->cancel ? JOB_CANCELLED : t->error.code[0] ? JOB_FAILED : JOB_DONE;
        job_target_ended(all->jobs, all->job);
    }
    jobs_unlock(all->jobs);
}

/* ---- tidy up there ---- */

static bool has_copy(const struct errand *e)
{
    return e->id[0];
}

static void ask_to_remove(struct errands *all, struct errand *e, struct call *call)
{
    (void)all;
    snprintf(call->url, sizeof(call->url), "%s/api/v1/recordings/%s", e->node.url, e->id);
    call->method = "DELETE";
    call->timeout = ASK_SECONDS;
}

static void ask_to_cancel(struct errands *all, struct errand *e, struct call *call)
{
    (void)all;
    snprintf(call->url, sizeof(call->url), "%s/api/v1/recordings/%s/cancel", e->node.url, e->id);
    call->method = "POST";
    call->timeout = ASK_SECONDS;
}

static void ignore(struct errands *all, struct errand *e, struct call *call)
{
    (void)all, (void)e, (void)call;
}

static bool any(const struct errands *all, bool (*which)(const struct errand *e))
{
    for (size_t i = 0; i < all->count; i++)
        if (!all->items[i].over && which(&all->items[i]))
            return true;
    return false;
}

static void follow(struct errands *all)
{
    bool told = false;
    int64_t last = cluster_now() + (int64_t)((all->job->options.duration + QUEUE_SECONDS) * 1000);
    while (any(all, begun) && !over(all)) {
        struct timespec pause = {.tv_nsec = STEP_MS * 1000000L};
        nanosleep(&pause, NULL);
        bool cancelled = jobs_is_cancelled(all->jobs, all->job) || cluster_now() > last;
        if (cancelled && !told) {
            jobs_lock(all->jobs);
            all->job->cancel = true;
            jobs_unlock(all->jobs);
            ask_all(all, begun, ask_to_cancel, ignore);
            told = true;
        }
        ask_all(all, begun, ask_how, read_how);
    }
}

void cluster_record(void *context, struct jobs *jobs, struct job *job)
{
    struct errands all = {.server = context, .jobs = jobs, .job = job};
    if (share_out(&all)) {
        ask_all(&all, not_begun, ask_to_begin, read_begun);
        follow(&all);
        ask_all(&all, ended, ask_for_data, read_data);
        for (size_t i = 0; i < all.count; i++)
            if (!all.items[i].over && !all.items[i].ended)
                fail_all(&all, &all.items[i], "unavailable", "the server is shutting down");
        ask_all(&all, has_copy, ask_to_remove, ignore);
    } else {
        for (size_t i = 0; i < job->target_count; i++)
            if (job->targets[i].remote)
                fail(&all, i, "no_memory", "out of memory");
    }
    for (size_t i = 0; i < all.count; i++)
        free(all.items[i].targets);
    free(all.items);
}
