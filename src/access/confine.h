/* Which processes this program may look into at all, when whoever started it said so: SCRY_CONFINE in its environment,
 * "users=0,1000 pidns=4026531836", either part alone or both. scry serve gives its jobs the policy it was started with
 * that way, so that it also holds for the descendants of an allowed process. */
#ifndef SCRY_ACCESS_CONFINE_H
#define SCRY_ACCESS_CONFINE_H

#include "util/error.h"
#include "util/types.h"

#define CONFINE_VARIABLE "SCRY_CONFINE"

/* 0 or -SCRY_E_PERMISSION; `proc_fd` is its folder in /proc. What cannot be understood allows nothing. */
int confine_check(int proc_fd, pid_t pid, struct error *err);

#endif
