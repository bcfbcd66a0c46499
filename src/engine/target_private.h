/* Private to target.c, known_threads.c, kernel_look.c, look.c and short_path.c. */
#ifndef SCRY_ENGINE_TARGET_PRIVATE_H
#define SCRY_ENGINE_TARGET_PRIVATE_H

#include "access/freeze.h"
#include "access/task.h"
#include "cpython/in_kernel.h"
#include "cpython/peek.h"
#include "engine/native_private.h"
#include "engine/short_path.h"
#include "engine/target.h"
#include "util/table.h"

/* The moved_share a new thread starts with: no trust before some peeks have been good. */
#define LOOK_MOVED_AT_FIRST 0.5

/* What is kept about a thread from look to look. */
struct known_thread {
    struct py_thread python; /* its last stack */
    struct peek *peek;
    pid_t ns_tid;
    pid_t tid; /* 0 = unknown */
    struct task_watch watch;
    bool watched;
    scry_nsec run_before; /* its time on a CPU before the process was first looked at */

    enum task_activity activity; /* as last seen */
    scry_nsec activity_at;
    scry_addr root;        /* its outermost frame: stays the same as long as it runs Python */
    bool has_stack;        /* python.frames hold for as long as it does not run */
    bool torn;             /* but they were not proved */
    double moved_share;    /* of its peeks, lately: how often the stack changed under the reading */
    double peeks;          /* so many, as far as they tell something */
    double late_share;     /* of its peeks, lately: how often it was right only too late ... */
    double late_known;     /* ... of so many; 0 = none yet */
    scry_nsec still_at;    /* its run time when it was last seen to stand still ... */
    scry_nsec still_since; /* ... and when that was */
    bool trusted;          /* peeks are taken: its moved_share and its late_share are small */
    bool learns_nothing;   /* from peeks: on a crowded machine, when it is not seen to run */
    unsigned probe_gap;    /* looks between such peeks; 0 = it may have changed */
    unsigned probe_in;     /* looks until it is peeked at again although it is stopped each time */

    bool wanted; /* in this look */
    bool ran;    /* or may have, since the look before */

    bool named; /* by `threading` */
    bool asked; /* for its names */
    char name[256];
    uint32_t name_version;
    struct thread_memo memo;
    struct native_thread *native; /* NULL unless native frames are asked for */

    /* Seen from inside the kernel (kernel_look.c): */
    struct in_kernel *in_kernel;         /* NULL = never */
    scry_nsec kernel_stands, kernel_ran; /* what the next sample stands for */
    scry_nsec kernel_ran_at;             /* what is counted already ... */
    bool kernel_seen;                    /* ... if there was a sample before */
    unsigned kernel_put_off;             /* samples, one after the other, of a stack that moved */
};

struct target_private {
    struct py_threads met;       /* scratch: as just read from the interpreter */
    struct known_thread **known; /* in the interpreter's order: newest first */
    size_t known_count;
    struct threads_mark mark;
    struct task_list tasks;
    int32_t tid_offset;
    bool unstarted; /* a thread was left out because it had not started yet */
    bool must_meet;
    scry_nsec met_at;
    scry_nsec named_at;
    scry_nsec names_read_at;

    struct freeze freeze;        /* with BLOCKING_ALWAYS, while the process is looked at */
    struct mem_ahead *ahead_mem; /* the target's memory, for a thread that stands still */
    struct snapshot snapshot;
    struct mem_range *ranges; /* scratch: one vectored read for many threads */
    size_t range_cap;
    struct known_thread **readers;
    size_t reader_cap;
    scry_nsec
        stop_credit; /* how long threads may still be stopped before samples are marked instead */
    int64_t learn_credit; /* nanoseconds that peeks may still take which are made only to learn */
    scry_nsec last_look;
    scry_nsec looked_before;       /* so long before that */
    scry_nsec usual_read;          /* how long a reading takes, lately */
    scry_nsec read_at, read_until; /* the last one */
    bool slow;                     /* it took far longer than usual */
    struct known_thread *ahead;    /* whose next looks were taken by it; NULL = nobody's */
    int ahead_count, ahead_at;     /* how many there are, and which was looked at last */

    struct short_paths short_paths;
    struct native *native;        /* NULL unless native frames are asked for */
    struct kernel_target *kernel; /* NULL unless it is looked at from inside the kernel ... */
    struct kernel_target *kernel_opening; /* ... or is to be soon */
};

scry_nsec clock_now(void);

/* known_threads.c: keep the list of threads and their names up to date. */
int known_threads_meet(struct target *t, scry_nsec now);
void known_threads_name(struct target *t, scry_nsec now);
void known_threads_done(struct target_private *p);
void known_thread_free(struct known_thread *k);

/* look.c: list the threads if need be, with their names; forget codes that nobody speaks of any more. Add one thread to the snapshot. */
int look_meet(struct target *t, scry_nsec now);
int look_report(struct target *t, const struct look *look, struct known_thread *k);

/* kernel_look.c */
void kernel_look_mark_codes(const struct kernel_target *k);
/* A thread has ended; something may still come from it. */
void kernel_look_keep(struct kernel_target *k, struct known_thread *thread);

#endif
