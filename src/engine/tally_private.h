/* Private to tally*.c.
 *
 * A sample costs one addition: the time of each (thread, stack) gathers in the open window. Only
 * when the window is closed are its stacks walked, each once however often it was seen.
 *
 * Who may touch what: everything under `lock`, but `counts` also by the asking thread while
 * `folding` is set, which keeps tally_renew() away. */
#ifndef SCRY_ENGINE_TALLY_PRIVATE_H
#define SCRY_ENGINE_TALLY_PRIVATE_H

#include <pthread.h>

#include "engine/stack_table.h"
#include "engine/tally.h"
#include "util/table.h"

#define TALLY_ENDED 0 /* the thread and the process that stand for those that ended */

/* A line, or with `line` the first of its def a function. */
struct tally_place {
    uint32_t name, file, short_file, module; /* strings */
    int32_t line;
};

struct tally_entry {
    uint32_t item, thread;
    struct tally_times overall, lately;
};

/* The counts of all lines, or of all functions. */
struct tally_counts {
    struct table index; /* item << 32 | thread -> entry */
    struct tally_entry *entries;
    size_t count, cap;
    uint64_t *walk; /* item -> the walk that met it last: recursion counts once */
    size_t walk_cap;
};

struct tally_frame { /* what a frame number stands for */
    struct tally_place place;
    uint32_t function;
};

struct tally_pending {
    uint32_t thread, stack;
    scry_nsec weight;
};

struct tally_window {
    struct table index; /* thread << 32 | stack -> pending */
    struct tally_pending *items;
    size_t count, cap;
    struct tally_span span;
};

struct tally_thread_slot {
    struct tally_thread thread;
    uint64_t thread_id;
    uint32_t frame;        /* innermost; TALLY_NONE */
    uint64_t seen;         /* the whole look that had it last */
    scry_nsec active, gil; /* in the open window */
};

struct tally {
    struct sample_sink sink;
    pthread_mutex_t lock;
    bool gil_only, idle;
    bool folding;

    struct interner strings, frame_keys, function_keys;
    struct tally_frame *frames;
    size_t frame_cap;
    struct stack_table stacks;

    struct table thread_index; /* hash of what identifies it -> slot */
    struct tally_thread_slot *threads;
    size_t thread_count, thread_cap, threads_kept;
    struct tally_process *processes;
    size_t process_count, process_cap, processes_kept;

    scry_nsec look_weight;
    bool look_whole;
    uint64_t wholes;

    struct tally_window window;  /* open */
    struct tally_window closing; /* being folded */
    uint64_t walks;
    struct tally_counts counts[2]; /* by enum tally_by */
    struct tally_span overall, lately;
};

bool tally_grow(void *items, size_t count, size_t *cap, size_t size);
void tally_window_reset(struct tally_window *w);
bool tally_alive(const struct tally *t, const struct tally_thread_slot *slot);
uint64_t tally_thread_key(const struct tally_thread_slot *slot);

#endif
