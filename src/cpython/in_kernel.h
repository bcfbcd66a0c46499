/* Stacks that are read inside the kernel (access/kernel_walk.h): what to follow there, and what came of it. */
#ifndef SCRY_CPYTHON_IN_KERNEL_H
#define SCRY_CPYTHON_IN_KERNEL_H

#include "access/kernel_walk.h"
#include "cpython/python.h"

/* UNSUPPORTED before 3.11, where frames are objects and threads do not bear the kernel's ids, and for free-threaded
 * builds, where the bytecode of a frame is its thread's own. */
int in_kernel_plan(struct python *py, struct kernel_plan *ret_plan, struct error *err);

/* What is kept about a thread from sample to sample. */
struct in_kernel;
struct in_kernel *in_kernel_new(void);
void in_kernel_free(struct in_kernel *k);

/* Fill in the thread's frames, and tell the walk which code objects are known from now on (NULL = nobody). 0, or
 *   TORN     it was caught in the middle of linking a frame, or not all could be read
 *   CORRUPT  a function that ran then is gone, and nobody knows what it was: its frame is left out
 *   NO_MEMORY */
int in_kernel_take(struct in_kernel *k, struct python *py, struct kernel_walk *walk,
                   const struct kernel_sample *sample, const struct kernel_node *nodes,
                   struct py_thread *thread);

#endif
