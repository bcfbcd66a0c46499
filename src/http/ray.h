/* What a Ray cluster says about itself, through the REST API of its dashboard. */
#ifndef SCRY_HTTP_RAY_H
#define SCRY_HTTP_RAY_H

#include "http/cluster.h"

struct ray_task {
    char id[68];
    int64_t attempt;
    char name[200], worker_id[68];
    pid_t pid; /* as Ray knows it: in the worker's own pid namespace */
    struct node_ref node;
};

/* Where an attempt of a task runs. False after `re` was filled in: 404 for a task that is unknown or
 * does not run, 502 and 504 for a dashboard that does not answer. */
bool ray_find_task(struct server *s, const struct request *rq, struct reply *re, const char *id,
                   int64_t attempt, const char *node_id, struct ray_task *ret);
/* After the profile: has it ended meanwhile, do others run in its process? "" = neither. */
void ray_warn(struct server *s, const struct ray_task *task, char *to, size_t cap);

#endif
