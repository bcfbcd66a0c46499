/* Which kernel thread runs a Python thread. CPython 3.11+ says so itself; before that only the
 * pthread id is kept, and the C library keeps the kernel's id somewhere inside the structure that
 * id points to. Where exactly depends on the library, so it is learned: the place that holds a
 * live thread id, another one in each, in the most threads. (After a fork in 2.7 some are dead.) */
#ifndef SCRY_CPYTHON_THREAD_IDS_H
#define SCRY_CPYTHON_THREAD_IDS_H

#include "access/task.h"
#include "cpython/python.h"

#define THREAD_ID_UNKNOWN (-1)

/* The offset of the kernel's id inside struct pthread, or THREAD_ID_UNKNOWN. */
int32_t thread_ids_learn(struct mem *mem, const struct py_threads *threads,
                         const struct task_list *tasks);
/* Fill in ns_tid where it is 0. */
void thread_ids_fill(struct mem *mem, int32_t offset, struct py_threads *threads);

#endif
