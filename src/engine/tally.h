/* What a sampler sees, counted as it comes: how long each function and each line ran (own) and how
 * long it was on a stack (total), overall and lately; what each thread does. This is what `top`
 * shows.
 *
 * A sampler feeds it from its thread, through tally_sink(); one other thread asks. Memory is bounded
 * by the program's distinct code, not by time: see tally_renew(). */
#ifndef SCRY_ENGINE_TALLY_H
#define SCRY_ENGINE_TALLY_H

#include "engine/sink.h"

struct tally;

int tally_new(struct tally **ret_tally);
void tally_free(struct tally *t);
struct sample_sink *tally_sink(struct tally *t);

/* Which samples count. As the sampler's choice: a whole look brings others as well. */
void tally_choose(struct tally *t, bool gil_only, bool idle);

/* Within the sampler's `tick`: when this says so, renew, and tell the sampler that all numbers are
 * forgotten (sampler_switch to the same sink). The counts stay, but for those of threads that have
 * ended, which are put together. */
bool tally_wants_renewal(struct tally *t);
void tally_renew(struct tally *t);

/* ---- by the thread that asks ---- */

/* The present window ends and the next begins: "lately" is the window that ended last. */
void tally_cut(struct tally *t);
/* Start from nothing; threads stay known. */
void tally_reset(struct tally *t);

#define TALLY_NAME 64
#define TALLY_NONE UINT32_MAX

enum tally_by { TALLY_FUNCTIONS, TALLY_LINES };
enum tally_split { /* rows apart for each */
                   TALLY_THREADS = 1,
                   TALLY_PROCESSES = 2,
};

struct tally_times {
    scry_nsec own, total;
};

struct tally_row {
    /* Strings live as long as the tally. */
    const char *name, *file, *short_file, *module;
    int32_t line; /* of a function its first; 0 = none */
    struct tally_times overall, lately;
    uint32_t thread, process; /* index into the picture's; TALLY_NONE when not split by it */
};

struct tally_thread {
    int64_t tid; /* 0 = unknown, or threads that have ended, taken together */
    uint32_t process;
    char name[TALLY_NAME];
    char wait[96]; /* "" = it runs, or that is not known */
    bool alive, active, gil;
    /* Where it was seen last: the innermost frame; "" = no Python. */
    const char *where_name, *where_file;
    int32_t where_line;
    scry_nsec active_lately, gil_lately;
};

struct tally_process {
    int32_t pid, parent; /* pid 0: processes that have ended, taken together */
    bool alive;
    char command[128];
    char python[32];
};

struct tally_span {
    scry_nsec looked;  /* the time that all looks stand for */
    scry_nsec counted; /* that of all samples that count: more than `looked` when threads run side
                          by side */
    scry_nsec gil;     /* of samples whose thread held the GIL */
    scry_nsec active;  /* of samples whose thread ran ... */
    scry_nsec active_looked; /* ... of this: looks that had all threads that run */
    uint64_t looks, samples, torn;
};

struct tally_picture {
    struct tally_row *rows; /* in no order */
    size_t row_count;
    struct tally_thread *threads; /* those that ended as well */
    size_t thread_count;
    struct tally_process *processes;
    size_t process_count;
    struct tally_span overall, lately;
    uint32_t living_threads, active_threads, living_processes;
};

/* A copy of all counts up to the last cut; threads are as they were seen last. */
int tally_picture(struct tally *t, enum tally_by by, unsigned split,
                  struct tally_picture *ret_picture);
void tally_picture_done(struct tally_picture *p); /* harmless on zeroed memory */

#endif
