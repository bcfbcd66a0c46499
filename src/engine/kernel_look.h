/* Looking at a process from inside the kernel (access/kernel_walk.h), in place of target_look(): what its threads did is collected now and
 * then. */
#ifndef SCRY_ENGINE_KERNEL_LOOK_H
#define SCRY_ENGINE_KERNEL_LOOK_H

#include "engine/target.h"

/* One look at one thread. */
struct kernel_seen {
    const struct snapshot *snapshot; /* of this thread alone; valid only meanwhile */
    scry_nsec when;                  /* by CLOCK_MONOTONIC; never before the one before */
    scry_nsec period;                /* the time it stands for, as samples do */
    scry_nsec ran;                   /* what the thread has run since it was last seen */
};

/* Begin: what runs on each CPU is looked at once in a `period`; and with `waiting`, what waits for one, if the kernel can tell. UNSUPPORTED,
 * PERMISSION. */
int target_kernel_begin(struct target *t, scry_nsec period, bool waiting, struct error *err);
/* The same in the background, for that takes some tens of milliseconds: the process is looked at from outside until it is ready. False if
 * it cannot be had. */
bool target_kernel_prepare(struct target *t, scry_nsec period, bool waiting);
bool target_kernel_prepares(const struct target *t);
/* True: it runs from this moment on. Else it is not ready, or has failed and is no longer prepared. */
bool target_kernel_ready(struct target *t);
bool target_kernel_sees_waiting(const struct target *t);
bool target_kernel_runs(const struct target *t);
void target_kernel_end(struct target *t);

/* What was seen since. Threads are chosen as by target_look(), as far as `look` speaks of which ones. `take` returns 0 or an error. When the process
 * cannot be asked any more, that is told after all is handed over. */
int target_kernel_collect(struct target *t, const struct look *look,
                          int (*take)(const struct kernel_seen *seen, void *context),
                          void *context);

/* Looks that were lost because nobody collected them in time, since it was last asked. */
uint64_t target_kernel_lost(struct target *t);
/* This process has to be looked at from outside after all: functions come and go too fast to be asked for their names, or its stacks
 * cannot be read. */
bool target_kernel_fails(const struct target *t);
/* The share of its threads' own time that following their stacks takes, about, and of a CPU that its other threads lose: stacks may be so deep, and
 * those so many, that looking from outside is kinder. */
double target_kernel_price(const struct target *t);
/* How often to collect, per second. */
double target_kernel_pace(const struct target *t);
/* To be waited for with poll(): something has been seen that may be gone soon, and should be collected at once. */
int target_kernel_fd(const struct target *t);

#endif
