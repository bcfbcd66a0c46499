/* The sampler: looks at one process or a tree of them at a steady rate and writes what it sees. */
#ifndef SCRY_ENGINE_SAMPLER_H
#define SCRY_ENGINE_SAMPLER_H

#include "engine/choice.h"
#include "engine/recording.h"
#include "engine/sink.h"
#include "engine/target.h"

/* Where stacks are read. */
enum reader {
    READER_MEMORY, /* from outside, at moments that scry chooses */
    READER_KERNEL, /* inside the kernel, by the threads' own time (engine/kernel_look.h) */
    READER_AUTO,   /* that if it can be had and the other options allow it */
};

struct sampler_options {
    enum reader reader;
    double rate; /* per second, > 0; with `overhead` not used */
    double
        overhead; /* instead of a rate what it may cost: 0.01 is 1 % (engine/budget.h); 0 = as the rate says */
    scry_nsec duration; /* 0 = until told to stop */
    enum blocking blocking;
    bool gil_only;     /* -g */
    bool cpu;          /* weigh samples with the CPU time threads consumed; not with `idle` */
    bool idle;         /* -i: keep threads that are not active */
    bool subprocesses; /* -s */
    struct choice choice;
    bool gc;            /* a frame on top of the stack of a thread that collects garbage */
    bool exceptions;    /* only threads that raise or handle an exception */
    bool any;           /* of several processes those that can be sampled; else each of them */
    bool native;        /* -n */
    bool native_all;    /* with the interpreter's own functions */
    scry_nsec patience; /* how long to wait for Python to start in the first process */
};

enum sampler_end {
    SAMPLER_DURATION, /* the time was up */
    SAMPLER_STOPPED,  /* asked to stop */
    SAMPLER_EXITED,   /* the process ended */
};

struct sampler_stats {
    scry_nsec elapsed;
    scry_nsec last_look; /* when, since the start */
    uint64_t ticks, samples, torn, late, missed, errors;
    uint64_t native_cut, native_unmatched, native_missing; /* samples, by enum native_state */
    uint32_t processes, threads;
    uint32_t in_kernel; /* processes that were read there to the end */
    scry_nsec own_cpu;
    double rate;    /* looks per second, now */
    scry_nsec held; /* with `overhead`: for how long the threads of the process held most stood */
    struct target_stats looks; /* at the end */
};

struct sampler;
/* `sink` may be NULL until sampler_switch() gives it one, before sampler_run(). */
int sampler_new_many(const pid_t *pids, size_t count, const struct sampler_options *options,
                     struct sample_sink *sink, struct sampler **ret_sampler, struct error *err);
int sampler_new(pid_t pid, const struct sampler_options *options, struct sample_sink *sink,
                struct sampler **ret_sampler, struct error *err);
/* Wait before it runs: for so long, and while it is paused. False if there is nothing to run for any more: it was told
 * to stop, or the processes have ended. */
bool sampler_await(struct sampler *s, scry_nsec delay);
/* Run to the end. `tick` (may be NULL) is called about ten times a second and between looks never
 * holds up a stopped thread; returning true asks to stop. A signal handler may call sampler_stop().
 */
int sampler_run(struct sampler *s, bool (*tick)(const struct sampler_stats *, void *),
                void *context, enum sampler_end *ret_end, struct error *err);
void sampler_stop(struct sampler *s); /* async-signal-safe */
/* Only within `tick`: from now on what is seen goes to another sink, or to the same if that has
 * forgotten all numbers, in which time begins anew. Returns when, since the start: at the last look,
 * so that no time lies between the two. */
scry_nsec sampler_switch(struct sampler *s, struct sample_sink *sink);
/* From any thread: another choice of threads, and a rest in which nothing is looked at and nothing
 * counts as missed. */
void sampler_choose(struct sampler *s, bool gil_only, bool idle);
void sampler_pause(struct sampler *s, bool paused);
bool sampler_rests(struct sampler *s); /* paused, and the look that was under way is over */
const struct sampler_stats *sampler_stats(const struct sampler *s);
void sampler_free(struct sampler *s);

#endif
