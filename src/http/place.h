/* The process that a path such as processes/NODE/PID names. */
#ifndef SCRY_HTTP_PLACE_H
#define SCRY_HTTP_PLACE_H

#include "http/state.h"

/* False after `re` was filled in, or when another node was asked and `re` is its answer. */
bool place_read(struct server *s, struct request *rq, struct reply *re, pid_t *ret_pid);
/* Whether it may be looked into, by the server's own rules and the kernel's. With `ip`, *pid may be
 * translated. */
bool place_allowed(struct server *s, struct reply *re, pid_t *pid, const char *ip);

#endif
