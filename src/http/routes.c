#include "http/routes.h"

#include <string.h>

#define VIEW " threads lines processes nodes full_filenames part "

static const struct route routes[] = {
    {"GET", "", " token ", ROUTE_PUBLIC, page_get},
    {"GET", "api/v1/info", NULL, 0, info_get},
    {"GET", "api/v1/openapi.json", NULL, ROUTE_PUBLIC, openapi_get},
    {"POST", "api/v1/session", NULL, ROUTE_PUBLIC, session_post},
    {"DELETE", "api/v1/session", NULL, ROUTE_PUBLIC, session_delete},
    {"GET", "api/v1/nodes", " timeout ", 0, nodes_get},
    {"GET", "api/v1/nodes/{}", NULL, 0, node_get},
    {"GET", "api/v1/processes", " node q sort limit offset timeout ", 0, processes_get},
    {"GET", "api/v1/processes/{}/{}", NULL, 0, process_get},
    {"GET", "api/v1/processes/{}/{}/threads", " native subprocesses locals ", 0, threads_get},
    {"GET", "api/v1/processes/{}/{}/traceback", " native subprocesses locals ", 0, traceback_get},
    {"GET", "api/v1/processes/{}/{}/top", " rate native idle gil subprocesses interval limit ", 0,
     top_get},
    {"GET", "api/v1/tasks", " state q ", 0, tasks_get},
    {"POST", "api/v1/recordings", NULL, 0, recordings_post},
    {"GET", "api/v1/recordings", " q state node pid limit before ", 0, recordings_get},
    {"GET", "api/v1/recordings/{}", NULL, 0, recording_get},
    {"PATCH", "api/v1/recordings/{}", NULL, 0, recording_patch},
    {"DELETE", "api/v1/recordings/{}", NULL, 0, recording_delete},
    {"POST", "api/v1/recordings/{}/cancel", NULL, 0, recording_cancel},
    {"GET", "api/v1/recordings/{}/events", NULL, 0, recording_events},
    {"GET", "api/v1/recordings/{}/result", VIEW "format download ", 0, recording_result},
    {"GET", "api/v1/recordings/{}/tree", VIEW, 0, recording_tree},
    {"GET", "api/v1/diff", " before after format by widths threads download ", 0, diff_get},
    {"GET", "worker/traceback", " pid node_id ip native subprocesses ", ROUTE_PLAIN,
     worker_traceback_get},
    {"GET", "worker/cpu_profile",
     " pid node_id ip duration format native idle subprocesses rate gil threads ", ROUTE_PLAIN,
     worker_cpu_profile_get},
    {"GET", "task/traceback", " task_id attempt_number node_id native subprocesses ", ROUTE_PLAIN,
     task_traceback_get},
    {"GET", "task/cpu_profile",
     " task_id attempt_number node_id duration format native idle subprocesses rate gil threads ",
     ROUTE_PLAIN, task_cpu_profile_get},
    {"GET", "api/profiling_enabled", NULL, ROUTE_PUBLIC, profiling_enabled_get},
    {"GET", "healthz", NULL, ROUTE_PUBLIC | ROUTE_PLAIN | ROUTE_QUIET, health_get},
    {"GET", "readyz", NULL, ROUTE_PUBLIC | ROUTE_PLAIN | ROUTE_QUIET, ready_get},
    {"GET", "metrics", NULL, ROUTE_PLAIN | ROUTE_QUIET, metrics_get},
};

/* What is no address of the API may be a file of the page. */
static const struct route page = {"GET", "", NULL, ROUTE_PUBLIC, page_get};

static bool matches(const struct route *route, struct request *rq)
{
    const char *at = route->pattern;
    rq->word_count = 0;
    for (size_t i = 0; i < rq->query.segment_count; i++) {
        const char *segment = rq->query.segments[i];
        size_t len = strcspn(at, "/");
        if (len == 0)
            return false;
        if (len == 2 && memcmp(at, "{}", 2) == 0) {
            if (rq->word_count == ARRAY_LEN(rq->words))
                return false;
            rq->words[rq->word_count++] = segment;
        } else if (strlen(segment) != len || memcmp(segment, at, len) != 0) {
            return false;
        }
        at += len + (at[len] == '/');
    }
    return *at == '\0';
}

static bool same_method(const char *wanted, const char *method)
{
    return strcmp(wanted, method) == 0 ||
           (strcmp(wanted, "GET") == 0 && strcmp(method, "HEAD") == 0);
}

static void wrong_method(struct request *rq, struct reply *re)
{
    SCOPED_BUF allowed;
    buf_init(&allowed);
    for (size_t i = 0; i < ARRAY_LEN(routes); i++)
        if (matches(&routes[i], rq))
            buf_addf(&allowed, "%s%s", allowed.len ? ", " : "", routes[i].method);
    reply_error(re, 405, "method", NULL, "", "this address takes %s, not %.20s",
                allowed.len ? allowed.data : "GET", rq->method);
    reply_header(re, "Allow", "%s", allowed.len ? allowed.data : "GET");
}

const struct route *route_find(struct request *rq, struct reply *re)
{
    bool exists = false;
    bool folder = rq->query.folder && rq->query.segment_count;
    for (size_t i = 0; i < ARRAY_LEN(routes) && !folder; i++) {
        if (!matches(&routes[i], rq))
            continue;
        exists = true;
        if (same_method(routes[i].method, rq->method))
            return &routes[i];
    }
    const char *first = rq->query.segment_count ? rq->query.segments[0] : "";
    bool api =
        strcmp(first, "api") == 0 || strcmp(first, "worker") == 0 || strcmp(first, "task") == 0;
    if (!exists && !api && !folder && same_method("GET", rq->method))
        return &page;
    if (exists || !api)
        wrong_method(rq, re);
    else
        reply_error(re, 404, "not_found", NULL, "the API is described at /api/v1/openapi.json",
                    "there is nothing at this address");
    return NULL;
}

bool route_check_params(const struct route *route, const struct request *rq, struct reply *re)
{
    for (size_t i = 0; i < rq->query.param_count; i++) {
        const struct query_param *p = &rq->query.params[i];
        char name[64];
        /* The files of a page may be asked for with anything behind them. */
        if (route == &page)
            return true;
        bool fits = snprintf(name, sizeof(name), " %s ", p->name) < (int)sizeof(name);
        if (!fits || strchr(p->name, ' ') || !*p->name || !route->params ||
            !strstr(route->params, name)) {
            reply_error(re, 400, "bad_parameter", p->name, "", "there is no parameter '%.60s' here",
                        p->name);
            return false;
        }
        if (!*p->value) {
            reply_error(re, 400, "bad_parameter", p->name, "", "the parameter %s is empty",
                        p->name);
            return false;
        }
    }
    return true;
}
