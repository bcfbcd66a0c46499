/* Closing a window: its stacks are walked and their time added to the functions and lines on them.
 * And renewal: forgetting stacks and threads that are no more, so that memory does not grow with
 * time. */
#include <stdlib.h>
#include <string.h>

#include "engine/recording.h"
#include "engine/tally_private.h"
#include "util/error.h"

#define BATCH 256 /* stacks walked before the sampler gets its turn */

/* ---- adding ---- */

static struct tally_entry *entry_of(struct tally_counts *c, uint32_t item, uint32_t thread)
{
    uint64_t key = (uint64_t)item << 32 | thread, at;
    if (table_get(&c->index, key, &at))
        return &c->entries[at];
    if (!tally_grow(&c->entries, c->count, &c->cap, sizeof(*c->entries)) ||
        !table_put(&c->index, key, c->count))
        return NULL;
    struct tally_entry *e = &c->entries[c->count++];
    *e = (struct tally_entry){.item = item, .thread = thread};
    return e;
}

/* Memory that runs out costs counts, not the program. */
static void add(struct tally *t, enum tally_by by, uint32_t item, const struct tally_pending *p,
                bool innermost)
{
    struct tally_counts *c = &t->counts[by];
    if (!tally_grow(&c->walk, item, &c->walk_cap, sizeof(*c->walk)))
        return;
    bool met = c->walk[item] == t->walks;
    c->walk[item] = t->walks;
    struct tally_entry *e = met ? NULL : entry_of(c, item, p->thread);
    if (!e)
        return;
    scry_nsec own = innermost ? p->weight : 0;
    e->overall.own += own;
    e->lately.own += own;
    e->overall.total += p->weight;
    e->lately.total += p->weight;
}

static void walk(struct tally *t, const struct tally_pending *p)
{
    t->walks++;
    for (uint32_t stack = p->stack; stack != REC_EMPTY_STACK;
         stack = t->stacks.nodes[stack].parent) {
        uint32_t frame = t->stacks.nodes[stack].frame;
        bool innermost = stack == p->stack;
        add(t, TALLY_LINES, frame, p, innermost);
        add(t, TALLY_FUNCTIONS, t->frames[frame].function, p, innermost);
    }
}

static void add_span(struct tally_span *to, const struct tally_span *from)
{
    to->looked += from->looked;
    to->counted += from->counted;
    to->gil += from->gil;
    to->active += from->active;
    to->active_looked += from->active_looked;
    to->looks += from->looks;
    to->samples += from->samples;
    to->torn += from->torn;
}

/* ---- the window ---- */

void tally_window_reset(struct tally_window *w)
{
    table_reset(&w->index);
    w->count = 0;
    w->span = (struct tally_span){0};
}

static void forget_lately(struct tally *t)
{
    for (size_t by = 0; by < ARRAY_LEN(t->counts); by++)
        for (size_t i = 0; i < t->counts[by].count; i++)
            t->counts[by].entries[i].lately = (struct tally_times){0};
}

static void close_window(struct tally *t)
{
    struct tally_window window = t->closing;
    t->closing = t->window;
    t->window = window;
    tally_window_reset(&t->window);
    t->lately = t->closing.span;
    add_span(&t->overall, &t->closing.span);
    for (size_t i = 0; i < t->thread_count; i++) {
        struct tally_thread_slot *slot = &t->threads[i];
        slot->thread.active_lately = slot->active;
        slot->thread.gil_lately = slot->gil;
        slot->active = slot->gil = 0;
    }
}

void tally_cut(struct tally *t)
{
    pthread_mutex_lock(&t->lock);
    close_window(t);
    t->folding = true;
    pthread_mutex_unlock(&t->lock);
    forget_lately(t);
    for (size_t i = 0; i < t->closing.count;) {
        pthread_mutex_lock(&t->lock);
        for (size_t n = 0; n < BATCH && i < t->closing.count; n++)
            walk(t, &t->closing.items[i++]);
        pthread_mutex_unlock(&t->lock);
    }
    pthread_mutex_lock(&t->lock);
    t->folding = false;
    pthread_mutex_unlock(&t->lock);
}

void tally_reset(struct tally *t)
{
    pthread_mutex_lock(&t->lock);
    tally_window_reset(&t->window);
    t->overall = t->lately = (struct tally_span){0};
    for (size_t by = 0; by < ARRAY_LEN(t->counts); by++) {
        table_reset(&t->counts[by].index);
        t->counts[by].count = 0;
    }
    for (size_t i = 0; i < t->thread_count; i++) {
        struct tally_thread_slot *slot = &t->threads[i];
        slot->active = slot->gil = slot->thread.active_lately = slot->thread.gil_lately = 0;
    }
    pthread_mutex_unlock(&t->lock);
}

/* ---- renewal ---- */

bool tally_alive(const struct tally *t, const struct tally_thread_slot *slot)
{
    /* The whole look under way may not have come to it yet. */
    return slot != &t->threads[TALLY_ENDED] && slot->seen + 1 >= t->wholes;
}

/* Processes with a living thread move up; the others become TALLY_ENDED. */
static void renumber_processes(struct tally *t, uint32_t *to)
{
    memset(to, 0, t->process_count * sizeof(*to));
    for (size_t i = 0; i < t->thread_count; i++)
        if (tally_alive(t, &t->threads[i]))
            to[t->threads[i].thread.process] = 1;
    uint32_t kept = TALLY_ENDED + 1;
    to[TALLY_ENDED] = TALLY_ENDED;
    for (size_t i = TALLY_ENDED + 1; i < t->process_count; i++) {
        if (!to[i])
            continue;
        t->processes[kept] = t->processes[i];
        to[i] = kept++;
    }
    t->process_count = t->processes_kept = kept;
}

static void renumber_threads(struct tally *t, const uint32_t *processes, uint32_t *to)
{
    uint32_t kept = TALLY_ENDED + 1;
    to[TALLY_ENDED] = TALLY_ENDED;
    table_reset(&t->thread_index);
    for (size_t i = TALLY_ENDED + 1; i < t->thread_count; i++) {
        to[i] = TALLY_ENDED;
        if (!tally_alive(t, &t->threads[i]))
            continue;
        struct tally_thread_slot *slot = &t->threads[kept];
        *slot = t->threads[i];
        slot->thread.process = processes[slot->thread.process];
        table_put(&t->thread_index, tally_thread_key(slot), kept);
        to[i] = kept++;
    }
    t->thread_count = t->threads_kept = kept;
}

/* Entries of threads that became one become one. */
static void renumber_entries(struct tally_counts *c, const uint32_t *threads)
{
    size_t count = c->count;
    table_reset(&c->index);
    c->count = 0;
    for (size_t i = 0; i < count; i++) {
        struct tally_entry old = c->entries[i];
        struct tally_entry *e = entry_of(c, old.item, threads[old.thread]);
        if (!e)
            continue;
        e->overall.own += old.overall.own;
        e->overall.total += old.overall.total;
        e->lately.own += old.lately.own;
        e->lately.total += old.lately.total;
    }
}

void tally_renew(struct tally *t)
{
    pthread_mutex_lock(&t->lock);
    uint32_t *processes = calloc(t->process_count, sizeof(*processes));
    uint32_t *threads = calloc(t->thread_count, sizeof(*threads));
    struct stack_table stacks;
    if (processes && threads && stack_table_init(&stacks)) {
        /* The open window speaks of stacks and threads by their old numbers. */
        for (size_t i = 0; i < t->window.count; i++)
            walk(t, &t->window.items[i]);
        table_reset(&t->window.index);
        t->window.count = 0;
        stack_table_done(&t->stacks);
        t->stacks = stacks;
        renumber_processes(t, processes);
        renumber_threads(t, processes, threads);
        for (size_t by = 0; by < ARRAY_LEN(t->counts); by++)
            renumber_entries(&t->counts[by], threads);
    }
    free(processes);
    free(threads);
    pthread_mutex_unlock(&t->lock);
}
