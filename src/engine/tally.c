/* The side of the sampler: numbers for what it names, and samples into the open window. */
#include "engine/tally.h"

#include <stdlib.h>
#include <string.h>

#include "engine/recording.h"
#include "engine/tally_private.h"
#include "util/error.h"
#include "util/utf8.h"

#define MAX_FRAMES      (1u << 20)
#define MAX_TEXT        2048       /* bytes of one name or path */
#define RENEW_STACKS    (1u << 19) /* some 12 MB */
#define RENEW_THREADS   (1u << 13)
#define RENEW_PROCESSES (1u << 11)

static struct tally *tally_of(struct sample_sink *sink)
{
    return (struct tally *)((char *)sink - offsetof(struct tally, sink));
}

/* `items` is the address of a pointer to the first of `count`. */
bool tally_grow(void *items, size_t count, size_t *cap, size_t size)
{
    if (count < *cap)
        return true;
    size_t wanted = *cap ? *cap * 2 : 64;
    while (wanted <= count)
        wanted *= 2;
    void *old;
    memcpy(&old, items, sizeof(old));
    char *grown = realloc(old, wanted * size);
    if (!grown)
        return false;
    memset(grown + *cap * size, 0, (wanted - *cap) * size);
    memcpy(items, &grown, sizeof(grown));
    *cap = wanted;
    return true;
}

static void copy_text(char *to, size_t cap, const char *from)
{
    size_t len = from ? utf8_prefix(from, strlen(from), cap - 1) : 0;
    if (len)
        memcpy(to, from, len);
    to[len] = '\0';
}

static uint32_t text(struct tally *t, const char *s)
{
    s = s ? s : "";
    return interner_add(&t->strings, s, utf8_prefix(s, strlen(s), MAX_TEXT), NULL);
}

/* ---- names ---- */

static uint32_t add_process(struct tally *t, const struct rec_process *process)
{
    for (size_t i = 1; i < t->process_count; i++) {
        struct tally_process *known = &t->processes[i];
        if (known->pid == process->pid && strcmp(known->python, process->python) == 0 &&
            strncmp(known->command, process->command, sizeof(known->command) - 4) == 0)
            return (uint32_t)i;
    }
    if (!tally_grow(&t->processes, t->process_count, &t->process_cap, sizeof(*t->processes)))
        return UINT32_MAX;
    struct tally_process *p = &t->processes[t->process_count];
    *p = (struct tally_process){.pid = process->pid, .parent = process->parent, .alive = true};
    copy_text(p->command, sizeof(p->command), process->command);
    copy_text(p->python, sizeof(p->python), process->python);
    return (uint32_t)t->process_count++;
}

static uint32_t sink_process(struct sample_sink *sink, const struct rec_process *process)
{
    struct tally *t = tally_of(sink);
    pthread_mutex_lock(&t->lock);
    uint32_t n = add_process(t, process);
    pthread_mutex_unlock(&t->lock);
    return n;
}

uint64_t tally_thread_key(const struct tally_thread_slot *slot)
{
    uint64_t key[3] = {slot->thread.process, (uint64_t)slot->thread.tid, slot->thread_id};
    return hash_bytes(key, sizeof(key), 0);
}

static uint32_t add_thread(struct tally *t, const struct rec_thread *thread)
{
    struct tally_thread_slot slot = {
        .thread = {.tid = thread->tid, .process = thread->process},
        .thread_id = thread->thread_id,
        .frame = TALLY_NONE,
        .seen = t->wholes,
    };
    uint64_t key = tally_thread_key(&slot), known;
    copy_text(slot.thread.name, sizeof(slot.thread.name), thread->name);
    if (table_get(&t->thread_index, key, &known)) {
        memcpy(t->threads[known].thread.name, slot.thread.name, sizeof(slot.thread.name));
        return (uint32_t)known;
    }
    if (thread->process >= t->process_count ||
        !tally_grow(&t->threads, t->thread_count, &t->thread_cap, sizeof(*t->threads)) ||
        !table_put(&t->thread_index, key, t->thread_count))
        return UINT32_MAX;
    t->threads[t->thread_count] = slot;
    return (uint32_t)t->thread_count++;
}

static uint32_t sink_thread(struct sample_sink *sink, const struct rec_thread *thread)
{
    struct tally *t = tally_of(sink);
    pthread_mutex_lock(&t->lock);
    uint32_t n = add_thread(t, thread);
    pthread_mutex_unlock(&t->lock);
    return n;
}

static uint32_t add_frame(struct tally *t, const struct rec_frame *frame)
{
    static const struct rec_frame others = {
        .name = "(others)", .file = "", .short_file = "", .module = ""};
    if (t->frame_keys.count >= MAX_FRAMES - 1)
        frame = &others;
    struct {
        struct tally_place place;
        int32_t first_line;
    } key = {
        .place = {.name = text(t, frame->name),
                  .file = text(t, frame->file),
                  .short_file = text(t, frame->short_file),
                  .module = text(t, frame->module),
                  .line = frame->line},
        .first_line = frame->first_line,
    };
    struct tally_place function = key.place;
    function.line = frame->first_line;
    if (function.name == INTERN_FAILED || function.file == INTERN_FAILED ||
        function.short_file == INTERN_FAILED || function.module == INTERN_FAILED)
        return UINT32_MAX;
    uint32_t f = interner_add(&t->function_keys, &function, sizeof(function), NULL);
    if (f == INTERN_FAILED ||
        !tally_grow(&t->frames, t->frame_keys.count, &t->frame_cap, sizeof(*t->frames)))
        return UINT32_MAX;
    uint32_t n = interner_add(&t->frame_keys, &key, sizeof(key), NULL);
    if (n != INTERN_FAILED)
        t->frames[n] = (struct tally_frame){.place = key.place, .function = f};
    return n;
}

static uint32_t sink_frame(struct sample_sink *sink, const struct rec_frame *frame)
{
    struct tally *t = tally_of(sink);
    pthread_mutex_lock(&t->lock);
    uint32_t n = add_frame(t, frame);
    pthread_mutex_unlock(&t->lock);
    return n;
}

static uint32_t sink_stack(struct sample_sink *sink, uint32_t parent, uint32_t frame)
{
    struct tally *t = tally_of(sink);
    bool is_new;
    uint32_t n = UINT32_MAX;
    pthread_mutex_lock(&t->lock);
    if (parent < t->stacks.count && frame < t->frame_keys.count)
        n = stack_table_add(&t->stacks, parent, frame, UINT32_MAX - 1, &is_new);
    pthread_mutex_unlock(&t->lock);
    return n;
}

/* ---- samples ---- */

static void sink_look(struct sample_sink *sink, scry_nsec weight, bool whole)
{
    struct tally *t = tally_of(sink);
    pthread_mutex_lock(&t->lock);
    struct tally_span *span = &t->window.span;
    t->look_weight = weight;
    t->look_whole = whole;
    t->wholes += whole;
    span->looks++;
    span->looked += weight;
    if (whole || !t->gil_only)
        span->active_looked += weight;
    pthread_mutex_unlock(&t->lock);
}

static bool counts(const struct tally *t, uint32_t flags)
{
    return t->gil_only ? flags & REC_GIL : t->idle || (flags & REC_ACTIVE);
}

static int gather(struct tally *t, const struct rec_sample *sample)
{
    struct tally_window *w = &t->window;
    uint64_t key = (uint64_t)sample->thread << 32 | sample->stack, at;
    w->span.samples++;
    w->span.counted += sample->weight;
    if (sample->stack == REC_EMPTY_STACK)
        return 0;
    if (!table_get(&w->index, key, &at)) {
        at = w->count;
        if (!tally_grow(&w->items, w->count, &w->cap, sizeof(*w->items)) ||
            !table_put(&w->index, key, at))
            return -SCRY_E_NO_MEMORY;
        w->items[w->count++] =
            (struct tally_pending){.thread = sample->thread, .stack = sample->stack};
    }
    w->items[at].weight += sample->weight;
    return 0;
}

static void note_state(struct tally *t, const struct rec_sample *sample)
{
    struct tally_thread_slot *slot = &t->threads[sample->thread];
    struct tally_span *span = &t->window.span;
    slot->seen = t->wholes;
    slot->thread.active = sample->flags & REC_ACTIVE;
    slot->thread.gil = sample->flags & REC_GIL;
    slot->frame =
        sample->stack == REC_EMPTY_STACK ? TALLY_NONE : t->stacks.nodes[sample->stack].frame;
    if (slot->thread.active) {
        slot->thread.wait[0] = '\0';
        slot->active += sample->weight;
        if (t->look_whole || !t->gil_only)
            span->active += sample->weight;
    }
    if (slot->thread.gil) {
        slot->gil += sample->weight;
        span->gil += sample->weight;
    }
    span->torn += (sample->flags & REC_TORN) != 0;
}

static int sink_sample(struct sample_sink *sink, const struct rec_sample *sample)
{
    struct tally *t = tally_of(sink);
    int r = 0;
    pthread_mutex_lock(&t->lock);
    if (sample->thread == UINT32_MAX || sample->stack == UINT32_MAX)
        r = -SCRY_E_NO_MEMORY;
    else if (sample->thread >= t->thread_count || sample->stack >= t->stacks.count)
        r = -SCRY_E_INTERNAL;
    if (r == 0) {
        note_state(t, sample);
        if (counts(t, sample->flags))
            r = gather(t, sample);
    }
    pthread_mutex_unlock(&t->lock);
    return r;
}

static void sink_waiting(struct sample_sink *sink, uint32_t thread, const char *why)
{
    struct tally *t = tally_of(sink);
    pthread_mutex_lock(&t->lock);
    if (thread < t->thread_count)
        copy_text(t->threads[thread].thread.wait, sizeof(t->threads[thread].thread.wait), why);
    pthread_mutex_unlock(&t->lock);
}

static int sink_flush(struct sample_sink *sink)
{
    (void)sink;
    return 0;
}

void tally_choose(struct tally *t, bool gil_only, bool idle)
{
    pthread_mutex_lock(&t->lock);
    t->gil_only = gil_only;
    t->idle = idle;
    pthread_mutex_unlock(&t->lock);
}

bool tally_wants_renewal(struct tally *t)
{
    pthread_mutex_lock(&t->lock);
    bool wants = !t->folding && (t->stacks.count > RENEW_STACKS ||
                                 t->thread_count > 2 * t->threads_kept + RENEW_THREADS ||
                                 t->process_count > 2 * t->processes_kept + RENEW_PROCESSES);
    pthread_mutex_unlock(&t->lock);
    return wants;
}

/* ---- life ---- */

static const struct sink_ops tally_ops = {
    .process = sink_process,
    .thread = sink_thread,
    .frame = sink_frame,
    .stack = sink_stack,
    .sample = sink_sample,
    .flush = sink_flush,
    .look = sink_look,
    .waiting = sink_waiting,
};

int tally_new(struct tally **ret_tally)
{
    struct tally *t = calloc(1, sizeof(*t));
    if (!t)
        return -SCRY_E_NO_MEMORY;
    t->sink.ops = &tally_ops;
    pthread_mutex_init(&t->lock, NULL);
    if (!stack_table_init(&t->stacks) ||
        !tally_grow(&t->processes, 0, &t->process_cap, sizeof(*t->processes)) ||
        !tally_grow(&t->threads, 0, &t->thread_cap, sizeof(*t->threads))) {
        tally_free(t);
        return -SCRY_E_NO_MEMORY;
    }
    t->process_count = t->thread_count = TALLY_ENDED + 1;
    t->threads[TALLY_ENDED] = (struct tally_thread_slot){.frame = TALLY_NONE};
    copy_text(t->threads[TALLY_ENDED].thread.name, TALLY_NAME, "(ended)");
    copy_text(t->processes[TALLY_ENDED].command, TALLY_NAME, "(ended)");
    *ret_tally = t;
    return 0;
}

void tally_free(struct tally *t)
{
    if (!t)
        return;
    interner_done(&t->strings);
    interner_done(&t->frame_keys);
    interner_done(&t->function_keys);
    free(t->frames);
    stack_table_done(&t->stacks);
    table_done(&t->thread_index);
    free(t->threads);
    free(t->processes);
    struct tally_window *windows[] = {&t->window, &t->closing};
    for (size_t i = 0; i < ARRAY_LEN(windows); i++) {
        table_done(&windows[i]->index);
        free(windows[i]->items);
    }
    for (size_t i = 0; i < ARRAY_LEN(t->counts); i++) {
        table_done(&t->counts[i].index);
        free(t->counts[i].entries);
        free(t->counts[i].walk);
    }
    pthread_mutex_destroy(&t->lock);
    free(t);
}

struct sample_sink *tally_sink(struct tally *t)
{
    return &t->sink;
}
