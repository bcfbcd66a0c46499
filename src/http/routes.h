/* Which handler answers what. */
#ifndef SCRY_HTTP_ROUTES_H
#define SCRY_HTTP_ROUTES_H

#include "http/state.h"

enum route_flags {
    ROUTE_PUBLIC = 1, /* no token is asked for */
    ROUTE_PLAIN = 2,  /* errors are text, like those of the Ray dashboard */
    ROUTE_QUIET = 4,  /* no line in the audit log: probes come every few seconds */
};

struct route {
    const char *method;  /* GET stands for HEAD as well */
    const char *pattern; /* segments joined by slashes; {} stands for any one */
    const char *params;  /* names it takes, each between blanks: " pid idle "; NULL = none */
    unsigned flags;
    void (*handle)(struct server *s, struct request *rq, struct reply *re);
};

/* The route of a request, its words filled in; NULL after `re` was filled in with 404 or 405. */
const struct route *route_find(struct request *rq, struct reply *re);
/* Parameters it does not take, and empty ones, are refused. */
bool route_check_params(const struct route *route, const struct request *rq, struct reply *re);

/* ---- handlers, by file ---- */
/* routes_page.c */
void page_get(struct server *s, struct request *rq, struct reply *re);
void session_post(struct server *s, struct request *rq, struct reply *re);
void session_delete(struct server *s, struct request *rq, struct reply *re);
void openapi_get(struct server *s, struct request *rq, struct reply *re);
/* routes_info.c */
void info_get(struct server *s, struct request *rq, struct reply *re);
void health_get(struct server *s, struct request *rq, struct reply *re);
void ready_get(struct server *s, struct request *rq, struct reply *re);
void metrics_get(struct server *s, struct request *rq, struct reply *re);
void profiling_enabled_get(struct server *s, struct request *rq, struct reply *re);
/* routes_processes.c */
void nodes_get(struct server *s, struct request *rq, struct reply *re);
void node_get(struct server *s, struct request *rq, struct reply *re);
void processes_get(struct server *s, struct request *rq, struct reply *re);
void process_get(struct server *s, struct request *rq, struct reply *re);
void threads_get(struct server *s, struct request *rq, struct reply *re);
void traceback_get(struct server *s, struct request *rq, struct reply *re);
void top_get(struct server *s, struct request *rq, struct reply *re);
/* routes_recordings.c */
void recordings_post(struct server *s, struct request *rq, struct reply *re);
void recordings_get(struct server *s, struct request *rq, struct reply *re);
void recording_get(struct server *s, struct request *rq, struct reply *re);
void recording_patch(struct server *s, struct request *rq, struct reply *re);
void recording_delete(struct server *s, struct request *rq, struct reply *re);
void recording_cancel(struct server *s, struct request *rq, struct reply *re);
void recording_events(struct server *s, struct request *rq, struct reply *re);
void recording_result(struct server *s, struct request *rq, struct reply *re);
void recording_tree(struct server *s, struct request *rq, struct reply *re);
void diff_get(struct server *s, struct request *rq, struct reply *re);
/* routes_ray.c */
void worker_traceback_get(struct server *s, struct request *rq, struct reply *re);
void worker_cpu_profile_get(struct server *s, struct request *rq, struct reply *re);
void task_traceback_get(struct server *s, struct request *rq, struct reply *re);
void task_cpu_profile_get(struct server *s, struct request *rq, struct reply *re);
void tasks_get(struct server *s, struct request *rq, struct reply *re);

#endif
