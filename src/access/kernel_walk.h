/* Looking at the threads of a process from inside the kernel (BPF): a timer of each CPU runs a small program in the middle of whatever runs there, and
 * if that is a thread of the process it follows a chain of nodes in its memory. Nothing is stopped for longer than that takes, some
 * microseconds, and nothing can change while it is read; whoever collects the samples has to be awake only now and then.
 *
 * Threads are seen when they run, from their first instruction on; and, with a wait_period, when they get a CPU after they have waited
 * for one, with the stack they waited with, for as many whole periods as that was. The timers are the CPUs' and not the threads', since those would have to be set anew
 * whenever a thread is put on a CPU; and a thread that runs for less than a period would never be seen. When scry ends, however it does, the kernel takes
 * timers and program away. */
#ifndef SCRY_ACCESS_KERNEL_WALK_H
#define SCRY_ACCESS_KERNEL_WALK_H

#include "access/kernel_walk_wire.h"
#include "access/process.h"

#define KERNEL_WALK_FASTEST 20000 /* nanoseconds: a shorter period is not to be had */

struct kernel_walk;

/* What is not about the chain (namespace, process) is filled in here. UNSUPPORTED when the kernel or this build of scry
 * cannot do it, PERMISSION when scry may not. Sampling begins at once. */
int kernel_walk_open(const struct process *process, const struct kernel_plan *plan,
                     scry_nsec period, struct kernel_walk **ret_walk, struct error *err);
void kernel_walk_close(struct kernel_walk *w);
/* Whether those that wait for a CPU are seen as well: if the plan asks for it and the kernel can tell (Linux 6.16). */
bool kernel_walk_sees_waiting(const struct kernel_walk *w);

/* Hand over what has come in since; `take` returns 0, or something else to end it. Returns that, or 0. The nodes are valid only meanwhile. */
int kernel_walk_drain(struct kernel_walk *w,
                      int (*take)(const struct kernel_sample *sample,
                                  const struct kernel_node *nodes, void *context),
                      void *context);
/* What runs in a node is known: for anything else than these whoever waits is woken at once. */
void kernel_walk_know(struct kernel_walk *w, scry_addr what, uint64_t mark);
/* A descriptor that can be waited for with poll(). */
int kernel_walk_fd(const struct kernel_walk *w);
/* How much of the room for samples the last ones took, from 0 to 1: near 1 there will have been more. */
double kernel_walk_fullness(const struct kernel_walk *w);
/* Samples that were lost because nobody took them in time. */
uint64_t kernel_walk_lost(const struct kernel_walk *w);
/* How often it was asked about waiting threads that Python does not know, so far. */
uint64_t kernel_walk_idle(const struct kernel_walk *w);
/* Now and then another period, somewhat off the one it was opened with: so that it never marches in step with what the program does. */
void kernel_walk_jitter(struct kernel_walk *w, scry_nsec now, uint64_t *seed);

#endif
