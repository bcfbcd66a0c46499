/* A process being looked into: its memory, its Python, its kernel threads, in one handle. */
#ifndef SCRY_ENGINE_TARGET_H
#define SCRY_ENGINE_TARGET_H

#include "access/process.h"
#include "access/task.h"
#include "engine/choice.h"
#include "engine/snapshot.h"

enum blocking {
    BLOCKING_AUTO,   /* stop a thread only where its stack cannot be proved otherwise */
    BLOCKING_ALWAYS, /* stop all threads at one moment, and read them then */
    BLOCKING_NEVER,  /* never stop; what is unsure is marked torn */
};

#define STOP_STEP    (4 * 1000ULL) /* nanoseconds per step of the histogram */
#define STOP_BUCKETS 128

/* How the stacks were come by. */
struct target_stats {
    uint64_t reads;        /* stacks read: by peeking or from a stopped thread */
    uint64_t reused;       /* threads that had not run: no read */
    uint64_t peeked;       /* stacks read from a thread that may run, and proved */
    uint64_t moved;        /* peeks that found the stack changing */
    uint64_t missed;       /* peeks that had guessed wrong where to read */
    uint64_t memory_calls; /* system calls that read memory, those of opening it included */
    uint64_t stops;        /* threads stopped */
    scry_nsec stop_time;   /* for how long at most, from the request on, all together */
    scry_nsec held;        /* for how long they were seen to stand, and the stop's own cost */
    uint32_t
        stop_times[STOP_BUCKETS]; /* a histogram of it; the last bucket is all that is longer */
};

struct target {
    struct process *process;
    struct mem *mem;
    struct python *python;
    struct target_stats stats;
    /* private to target.c */
    struct target_private *private;
};

/* Add up, and the median of the stops' times. */
void target_stats_add(struct target_stats *to, const struct target_stats *from);
scry_nsec target_stats_median_stop(const struct target_stats *stats);

/* Open the process and find Python in it. Python that has not started yet is waited for up to
 * `patience` (0: fail with NOT_READY at once). */
int target_open(pid_t pid, scry_nsec patience, struct target **ret_target, struct error *err);
void target_close(struct target *t);

struct look {
    enum blocking blocking;
    bool gil_only;               /* only the thread that holds the GIL */
    const struct choice *choice; /* of threads; may be NULL */
    bool exceptions;             /* only threads that raise or handle an exception */
    bool collectors;      /* find out who collects garbage: python->in_gc holds for this look */
    bool skip_idle;       /* leave out threads that are not active (py-spy's default for record) */
    scry_nsec stop_limit; /* how long a thread may take to come to a stop; 0 = a tick's worth */
    bool wait_reasons;    /* fill in thread_state.wait */
    bool native; /* merge native frames in: thread_state.merged. A thread that runs is stopped */
    bool native_all; /* with the interpreter's own functions; the same at every look */
    scry_nsec now;   /* by CLOCK_MONOTONIC, for whoever has just read it; 0 = not known */
    int ahead; /* so many looks by one system call, where only one thread is to be read: target_advance() */
    /* May be NULL. Called for each thread that is reported, right after its frames were read and
     * before it is let go: the moment to read variables. Unless `blocking` is NEVER, a thread that
     * runs is stopped meanwhile. A thread that woke up while it was read is visited again: the last
     * visit counts. */
    void (*visit)(struct target *t, const struct py_thread *thread, void *context);
    void *visit_context;
};

/* Look once. The snapshot belongs to the target and holds until the next look. GONE when the
 * process ended. */
int target_look(struct target *t, const struct look *look, const struct snapshot **ret_snapshot);

/* On to the next of the looks that the last one took ahead; false = there is none. *ret_when: when it was taken, about. */
bool target_advance(struct target *t, scry_nsec *ret_when);
/* What it shows, as target_look() does. */
int target_look_ahead(struct target *t, const struct look *look,
                      const struct snapshot **ret_snapshot);

/* A path as py-spy shows it: without the folders that are no package (up to the last one without
 * __init__.py), asked through the target's own root. Returns a part of `path`; answers are kept. */
const char *target_short_path(struct target *t, const char *path);

#endif
