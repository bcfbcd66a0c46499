#include "http/ray.h"

#include <stdlib.h>
#include <string.h>

#include "http/cluster_private.h"
#include "http/routes.h"
#include "util/json.h"

#define ANSWER_MAX    (32u << 20)
#define ASK_SECONDS   5.0
#define LIST_SECONDS  2.5
#define RAY_NODES_MAX 4096
#define TASKS_LIMIT   1000

static bool over(void *context)
{
    struct cluster *c = context;
    return atomic_load(&c->stopping);
}

/* The list in the state API's envelope; NULL after `error` was filled in. The caller decrefs
 * *ret_root. */
static const json_t *ask(struct cluster *c, const char *path, double timeout, json_t **ret_root,
                         char error[static 256], bool *ret_late)
{
    struct call call;
    const char *base = c->server->options.ray;
    size_t len = strlen(base);
    while (len && base[len - 1] == '/')
        len--;
    call_init(&call);
    bool bare = !strstr(base, "://");
    snprintf(call.url, sizeof(call.url), "%s%.*s%s", bare ? "http://" : "", (int)len, base, path);
    call.foreign = true;
    call.timeout = timeout;
    call.max = ANSWER_MAX;
    client_all(c->client, &call, 1, over, c);
    *ret_late = call.late;
    *ret_root = call.status == 200 ? json_loadb(call.answer.data, call.answer.len, 0, NULL) : NULL;
    if (call.status == 0)
        snprintf(error, 256, "the Ray dashboard cannot be asked: %.180s", call.error);
    else if (call.status != 200)
        snprintf(error, 256, "the Ray dashboard answers with status %ld", call.status);
    call_done(&call);
    const json_t *list =
        json_object_get(json_object_get(json_object_get(*ret_root, "data"), "result"), "result");
    if (*ret_root && !json_is_array(list))
        snprintf(error, 256, "the answer of the Ray dashboard makes no sense");
    return json_is_array(list) ? list : NULL;
}

static const char *text_of(const json_t *o, const char *name)
{
    const char *text = json_string_value(json_object_get(o, name));
    return text ? text : "";
}

/* ---- nodes ---- */

static void take_nodes(struct cluster *c, const json_t *list)
{
    size_t i, count = json_array_size(list);
    const json_t *row;
    struct ip_list *own = calloc(1, sizeof(*own));
    if (own)
        processes_addresses(c->server->processes, own);
    count = count < RAY_NODES_MAX ? count : RAY_NODES_MAX;
    struct ray_node *nodes = calloc(count + 1, sizeof(*nodes));
    pthread_mutex_lock(&c->lock);
    if (nodes)
        cluster_forget(c, SOURCE_RAY);
    json_array_foreach(list, i, row)
    {
        if (!nodes || !own || i >= count)
            break;
        snprintf(nodes[i].id, sizeof(nodes[i].id), "%.67s", text_of(row, "node_id"));
        snprintf(nodes[i].ip, sizeof(nodes[i].ip), "%.63s", text_of(row, "node_ip"));
        nodes[i].alive = strcmp(text_of(row, "state"), "ALIVE") == 0;
        bool here = ip_list_has(own, nodes[i].ip) || strncmp(nodes[i].ip, "127.", 4) == 0;
        if (nodes[i].alive && nodes[i].ip[0] && !here &&
            !cluster_covers(c, nodes[i].ip, SOURCE_RAY))
            cluster_add(c, nodes[i].ip, SOURCE_RAY);
    }
    if (nodes) {
        free(c->ray_nodes);
        c->ray_nodes = nodes;
        c->ray_count = count;
    }
    c->ray_error[0] = '\0';
    pthread_mutex_unlock(&c->lock);
    free(own);
}

void ray_discover(struct cluster *c)
{
    char error[256] = "";
    bool late;
    json_t *root;
    const json_t *list = ask(c, "/api/v0/nodes?limit=10000", LIST_SECONDS, &root, error, &late);
    if (list) {
        take_nodes(c, list);
    } else {
        pthread_mutex_lock(&c->lock);
        memcpy(c->ray_error, error, sizeof(error));
        pthread_mutex_unlock(&c->lock);
    }
    json_decref(root);
}

/* ---- tasks ---- */

static const json_t *find_attempt(const json_t *list, int64_t attempt)
{
    size_t i;
    const json_t *row;
    json_array_foreach(list, i, row)
    {
        if (json_integer_value(json_object_get(row, "attempt_number")) == attempt)
            return row;
    }
    return NULL;
}

static const json_t *ask_task(struct cluster *c, const char *id, int64_t attempt, json_t **ret_root,
                              char error[static 256], bool *ret_late)
{
    char path[300];
    snprintf(path, sizeof(path),
             "/api/v0/tasks?detail=1&limit=100&filter_keys=task_id&filter_predicates=%%3D"
             "&filter_values=%s",
             id);
    const json_t *list = ask(c, path, ASK_SECONDS, ret_root, error, ret_late);
    return find_attempt(list, attempt);
}

static bool refuse_state(struct reply *re, const char *id, int64_t attempt, const char *state)
{
    reply_error(re, 404, "no_task", "task_id", "only a task that runs can be looked into",
                "attempt %lld of task %s does not run: its state is %.60s", (long long)attempt, id,
                *state ? state : "unknown");
    return false;
}

static bool take_task(struct server *s, const struct request *rq, struct reply *re,
                      const json_t *row, const char *node_id, struct ray_task *t)
{
    const char *state = text_of(row, "state"), *node = text_of(row, "node_id");
    t->pid = (pid_t)json_integer_value(json_object_get(row, "worker_pid"));
    snprintf(t->name, sizeof(t->name), "%.199s", text_of(row, "name"));
    snprintf(t->worker_id, sizeof(t->worker_id), "%.67s", text_of(row, "worker_id"));
    if (strncmp(state, "RUNNING", 7) != 0 || t->pid <= 0)
        return refuse_state(re, t->id, t->attempt, state);
    if (node_id && *node && strcasecmp(node, node_id) != 0) {
        reply_error(re, 404, "no_task", "node_id", "leave node_id out, or give that one",
                    "task %s does not run on node %.80s but on %.80s", t->id, node_id, node);
        return false;
    }
    return cluster_locate(s, rq, re, node, "node_id", &t->node);
}

bool ray_find_task(struct server *s, const struct request *rq, struct reply *re, const char *id,
                   int64_t attempt, const char *node_id, struct ray_task *ret)
{
    char error[256] = "";
    bool late = false;
    json_t *root = NULL;
    *ret = (struct ray_task){.attempt = attempt};
    snprintf(ret->id, sizeof(ret->id), "%.64s", id);
    if (!s->options.ray) {
        reply_error(re, 404, "no_task", "task_id",
                    "start the server with --ray URL, or ask for the process: /worker/...",
                    "this server knows no Ray cluster, so it cannot find task %.64s", id);
        return false;
    }
    const json_t *row = ask_task(s->cluster, id, attempt, &root, error, &late);
    bool found = false;
    if (row)
        found = take_task(s, rq, re, row, node_id, ret);
    else if (error[0])
        reply_error(re, late ? 504 : 502, late ? "peer_timeout" : "peer", NULL, "", "%s", error);
    else
        reply_error(re, 404, "no_task", "task_id", "Ray reports a task a second or two late",
                    "Ray knows no attempt %lld of task %.64s", (long long)attempt, id);
    json_decref(root);
    return found;
}

/* The others that run in the same process now. */
static void add_neighbours(struct cluster *c, const struct ray_task *task, struct buf *to)
{
    char path[300], error[256] = "";
    bool late;
    json_t *root;
    size_t i, count = 0;
    const json_t *row;
    SCOPED_BUF ids;
    buf_init(&ids);
    snprintf(path, sizeof(path),
             "/api/v0/tasks?detail=1&limit=100&filter_keys=worker_id&filter_predicates=%%3D"
             "&filter_values=%s&filter_keys=state&filter_predicates=%%3D&filter_values=RUNNING",
             task->worker_id);
    const json_t *list = ask(c, path, ASK_SECONDS, &root, error, &late);
    json_array_foreach(list, i, row)
    {
        buf_addf(&ids, "%s%.64s", count++ ? ", " : "", text_of(row, "task_id"));
    }
    if (count > 1)
        buf_addf(to,
                 "%sits worker process runs %zu tasks at the same time, and what is shown may "
                 "be of any of them: %.400s",
                 to->len ? "; " : "", count, ids.data);
    json_decref(root);
}

void ray_warn(struct server *s, const struct ray_task *task, char *to, size_t cap)
{
    char error[256] = "";
    bool late;
    json_t *root = NULL;
    SCOPED_BUF text;
    buf_init(&text);
    const json_t *row = ask_task(s->cluster, task->id, task->attempt, &root, error, &late);
    const char *state = text_of(row, "state");
    if (row && strncmp(state, "RUNNING", 7) != 0)
        buf_addf(&text, "the task ended while it was looked at: its state is %.40s now", state);
    json_decref(root);
    if (task->worker_id[0])
        add_neighbours(s->cluster, task, &text);
    snprintf(to, cap, "%s", text.data);
}

/* ---- the list of tasks ---- */

static void put(struct json *j, const char *key, const char *text)
{
    json_key(j, key);
    json_string(j, text && *text ? text : NULL);
}

static void put_pid(struct json *j, int64_t pid)
{
    json_key(j, "pid");
    if (pid > 0)
        json_int(j, pid);
    else
        json_null(j);
}

struct wanted {
    const char *state, *q;
};

static bool holds(const char *text, const char *q)
{
    return !q || strcasestr(text, q) != NULL;
}

static void put_ray_task(struct server *s, struct json *j, const json_t *row)
{
    struct node_ref node = {0};
    struct reply scratch;
    struct request nobody = {.fd = -1};
    reply_init(&scratch);
    bool known = cluster_locate(s, &nobody, &scratch, text_of(row, "node_id"), NULL, &node);
    reply_done(&scratch);
    json_begin_object(j);
    put(j, "id", text_of(row, "task_id"));
    json_key(j, "attempt");
    json_int(j, json_integer_value(json_object_get(row, "attempt_number")));
    json_key(j, "name");
    json_string(j, text_of(row, "name"));
    json_key(j, "state");
    json_string(j, text_of(row, "state"));
    put(j, "node", known ? node.id : text_of(row, "node_id"));
    put(j, "node_name", known ? node.name : NULL);
    put_pid(j, json_integer_value(json_object_get(row, "worker_pid")));
    put(j, "job", text_of(row, "job_id"));
    put(j, "actor", text_of(row, "actor_id"));
    put(j, "source", "ray");
    json_end_object(j);
}

static void put_ray_tasks(struct server *s, struct json *j, const struct wanted *w,
                          char error[static 256])
{
    char path[200];
    json_t *root;
    bool late;
    size_t i;
    const json_t *row;
    snprintf(path, sizeof(path), "/api/v0/tasks?detail=1&limit=%d", TASKS_LIMIT);
    const json_t *list = ask(s->cluster, path, ASK_SECONDS, &root, error, &late);
    json_array_foreach(list, i, row)
    {
        bool matches = holds(text_of(row, "name"), w->q) || holds(text_of(row, "task_id"), w->q) ||
                       holds(text_of(row, "job_id"), w->q);
        if (matches && (!w->state || strcasecmp(text_of(row, "state"), w->state) == 0))
            put_ray_task(s, j, row);
    }
    json_decref(root);
}

/* Without a dashboard the titles of the processes say what runs. */
static void put_titles(struct server *s, struct request *rq, struct json *j, const struct wanted *w)
{
    struct reply list;
    struct process_query query = {.limit = 100000, .timeout = 1.5, .q = "ray::"};
    size_t i;
    const json_t *row;
    reply_init(&list);
    cluster_processes(s, rq, &list, &query);
    json_t *root = json_loadb(list.body.data, list.body.len, 0, NULL);
    json_array_foreach(json_object_get(root, "processes"), i, row)
    {
        const char *name = json_string_value(json_object_get(row, "group"));
        if (!name || !holds(name, w->q) || (w->state && strcasecmp(w->state, "RUNNING") != 0))
            continue;
        json_begin_object(j);
        put(j, "id", NULL);
        json_key(j, "attempt");
        json_int(j, 0);
        put(j, "name", name);
        put(j, "state", "RUNNING");
        put(j, "node", text_of(row, "node"));
        put(j, "node_name", text_of(row, "node_name"));
        put_pid(j, json_integer_value(json_object_get(row, "pid")));
        put(j, "job", NULL);
        put(j, "actor", NULL);
        put(j, "source", "title");
        json_end_object(j);
    }
    json_decref(root);
    reply_done(&list);
}

void tasks_get(struct server *s, struct request *rq, struct reply *re)
{
    struct wanted w = {0};
    char error[256] = "";
    if (!param_text(rq, re, "state", 40, &w.state) || !param_text(rq, re, "q", 200, &w.q))
        return;
    FILE *out = reply_json(re, 200);
    if (!out)
        return;
    struct json writer, *j = &writer;
    json_init(j, out, 0);
    json_begin_object(j);
    json_key(j, "tasks");
    json_begin_array(j);
    if (s->options.ray)
        put_ray_tasks(s, j, &w, error);
    else
        put_titles(s, rq, j, &w);
    json_end_array(j);
    json_key(j, "warnings");
    json_begin_array(j);
    if (error[0])
        json_string(j, error);
    json_end_array(j);
    json_end_object(j);
    reply_json_end(re, out);
}
