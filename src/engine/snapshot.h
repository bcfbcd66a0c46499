/* One look at one process: every thread with its stack, whether it runs, what it waits for. This is
 * what `dump` prints and what libscry hands out. */
#ifndef SCRY_ENGINE_SNAPSHOT_H
#define SCRY_ENGINE_SNAPSHOT_H

#include "cpython/python.h"
#include "engine/native.h"

/* What the caller remembers about a thread from look to look; all zero when the thread is first
 * seen. */
struct thread_memo {
    uint64_t stack_version;  /* of python->stack_version */
    uint64_t merged_version; /* of merged->version; 0 = the stack is Python's alone */
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
    bool torn;                         /* read while it ran and not proved */
    const struct merged_stack *merged; /* with native frames; NULL = not asked for */
    char wait[96];                     /* for an idle thread: what it waits for; "" = unknown */
};

/* The frames to show, innermost first: the merged ones if there are any, else the Python frames. */
static inline bool thread_is_merged(const struct thread_state *t)
{
    return t->merged && (t->merged->state == NATIVE_MERGED || t->merged->state == NATIVE_CUT);
}

static inline size_t thread_frame_count(const struct thread_state *t)
{
    return thread_is_merged(t) ? t->merged->count : t->python->frame_count;
}

static inline struct merged_frame thread_frame(const struct thread_state *t, size_t i)
{
    if (thread_is_merged(t))
        return t->merged->frames[i];
    return (struct merged_frame){.python = (uint32_t)i};
}

struct snapshot {
    struct thread_state *threads; /* interpreter order: newest first */
    size_t count, cap;
};

#endif
