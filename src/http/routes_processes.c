/* Nodes, processes, threads. */
#include <string.h>
#include <stdlib.h>

#include "http/cluster.h"
#include "http/inside.h"
#include "http/place.h"
#include "http/routes.h"
#include "util/json.h"

#define PID_MAX_ 4194304

void nodes_get(struct server *s, struct request *rq, struct reply *re)
{
    double timeout = 1.5;
    if (param_number(rq, re, "timeout", 0.1, 10, &timeout))
        cluster_nodes(s, re, timeout);
}

void node_get(struct server *s, struct request *rq, struct reply *re)
{
    struct node_ref node;
    if (cluster_locate(s, rq, re, rq->words[0], NULL, &node))
        cluster_node(s, &node, re);
}

static bool read_order(const struct request *rq, struct reply *re, struct process_query *q)
{
    const char *value = query_get(&rq->query, "sort");
    if (!value)
        return true;
    q->descending = *value == '-';
    for (int i = 0; process_orders[i]; i++)
        if (strcmp(value + q->descending, process_orders[i]) == 0) {
            q->sort = i;
            return true;
        }
    reply_error(re, 400, "bad_parameter", "sort", "",
                "sort must be one of pid, cpu, rss, threads, title, node, started, with - before "
                "it to turn it round, not '%.60s'",
                value);
    return false;
}

void processes_get(struct server *s, struct request *rq, struct reply *re)
{
    struct process_query q = {.sort = 0, .timeout = 1.5};
    int64_t limit = 100000, offset = 0;
    if (!read_order(rq, re, &q) || !param_text(rq, re, "q", 200, &q.q) ||
        !param_text(rq, re, "node", 200, &q.node) ||
        !param_whole(rq, re, "limit", 1, 100000, &limit) ||
        !param_whole(rq, re, "offset", 0, 100000000, &offset) ||
        !param_number(rq, re, "timeout", 0.1, 10, &q.timeout))
        return;
    q.limit = (size_t)limit;
    q.offset = (size_t)offset;
    cluster_processes(s, rq, re, &q);
}

bool place_read(struct server *s, struct request *rq, struct reply *re, pid_t *ret_pid)
{
    struct node_ref node;
    int64_t pid;
    if (!parse_whole(rq->words[1], 1, PID_MAX_, &pid)) {
        reply_error(re, 400, "bad_parameter", "pid", "",
                    "a process id is a whole number from 1 to %d", PID_MAX_);
        return false;
    }
    if (!cluster_locate(s, rq, re, rq->words[0], "node", &node))
        return false;
    if (!node.self) {
        cluster_forward(s, &node, rq, re);
        return false;
    }
    *ret_pid = (pid_t)pid;
    return true;
}

void process_get(struct server *s, struct request *rq, struct reply *re)
{
    pid_t pid;
    if (!place_read(s, rq, re, &pid))
        return;
    if (!processes_one(s->processes, pid, &re->body)) {
        struct process_brief brief;
        struct error err = {0};
        int r = processes_find(s->processes, pid, NULL, &brief, &err);
        char word[32];
        job_error_word(r < 0 ? error_symbol(r) : "NOT_PYTHON", word);
        reply_error(re, 404, word, "pid", error_hint_text(&err), "%s",
                    r < 0 ? error_text(&err) : "Python in the process is not ready yet");
        return;
    }
    re->type = "application/json";
}

bool place_allowed(struct server *s, struct reply *re, pid_t *pid, const char *ip)
{
    struct process_brief brief;
    struct error err = {0};
    int r = processes_find(s->processes, *pid, ip, &brief, &err);
    if (r == 0) {
        *pid = brief.pid;
        return true;
    }
    char word[32];
    job_error_word(error_symbol(r), word);
    reply_error(re, job_error_status(word), word, "pid", error_hint_text(&err), "%s",
                error_text(&err));
    return false;
}

static bool read_dump(struct server *s, struct request *rq, struct reply *re, pid_t *ret_pid,
                      struct dump_options *o)
{
    return param_flag(rq, re, "native", &o->native) &&
           param_flag(rq, re, "subprocesses", &o->subprocesses) &&
           param_flag(rq, re, "locals", &o->locals) && place_read(s, rq, re, ret_pid) &&
           place_allowed(s, re, ret_pid, NULL);
}

void threads_get(struct server *s, struct request *rq, struct reply *re)
{
    struct dump_options o = {.json = true};
    pid_t pid;
    char time[REPLY_TIME_MAX];
    SCOPED_BUF threads;
    buf_init(&threads);
    if (!read_dump(s, rq, re, &pid, &o))
        return;
    reply_time(reply_now(), time);
    if (!inside_dump(s, rq, re, pid, &o, &threads))
        return;
    FILE *out = reply_json(re, 200);
    if (!out)
        return;
    struct json j;
    json_init(&j, out, 0);
    json_begin_object(&j);
    json_key(&j, "node");
    json_string(&j, s->node);
    json_key(&j, "node_name");
    json_string(&j, s->name);
    json_key(&j, "pid");
    json_int(&j, pid);
    json_key(&j, "taken");
    json_string(&j, time);
    /* What the child wrote is JSON already. */
    fprintf(out, ",\"threads\":%s}", threads.data);
    reply_json_end(re, out);
}

void traceback_get(struct server *s, struct request *rq, struct reply *re)
{
    struct dump_options o = {0};
    pid_t pid;
    if (!read_dump(s, rq, re, &pid, &o))
        return;
    if (inside_dump(s, rq, re, pid, &o, &re->body))
        re->type = "text/plain; charset=utf-8";
}
