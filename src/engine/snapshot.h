/* One look at one process: every thread with its stack, whether it runs, what it waits for. This is
 * what `dump` prints and what libscry hands out. */
#ifndef SCRY_ENGINE_SNAPSHOT_H
#define SCRY_ENGINE_SNAPSHOT_H

#include "cpython/python.h"

/* What the caller remembers about a thread from look to look; all zero when the thread is first
 * seen. */
struct thread_memo {
    uint64_t stack_version; /* of python->stack_version */
    uint32_t
        *stacks; /* numbers of the stack's beginnings, outermost first; freed with the thread */
    size_t stack_count, stack_cap;
    uint32_t stack;
    uint32_t thread;
    uint32_t name_version;
    bool known;
    bool counted;          /* in the statistics */
    uint32_t writer;       /* the numbers are of the caller's so-many-th writer */
    scry_nsec run_counted; /* of run_time: what samples stand for already */
};

struct thread_state {
    const struct py_thread *python; /* tstate, pthread id, frames */
    pid_t tid;                      /* OS thread id as scry sees it; 0 = unknown */
    pid_t ns_tid;                   /* as the target sees it; 0 = unknown */
    const char *name;      /* from `threading`, else the OS name where it was set; "" = none */
    uint32_t name_version; /* changes when the name does */
    struct thread_memo *memo;
    /* Time on a CPU since the thread began, and how much of it lies before scry first looked at the
     * process. While a thread stays on its CPU the figure moves only at timer ticks. 0 = the kernel
     * does not say. */
    scry_nsec run_time, run_before;
    bool active; /* on a CPU or ready to run; not merely holding the GIL */
    bool owns_gil;
    bool torn;     /* read while it ran and not proved */
    char wait[96]; /* for an idle thread: what it waits for; "" = unknown */
};

struct snapshot {
    struct thread_state *threads; /* interpreter order: newest first */
    size_t count, cap;
};

#endif
