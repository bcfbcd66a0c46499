#include "format/tracks.h"

#include <stdlib.h>
#include <string.h>

/* 0 means the same thread: where the OS thread id is known, it decides. */
static int compare_tracks(const void *a, const void *b)
{
    const struct track *x = a, *y = b;
    if (x->process != y->process)
        return x->process < y->process ? -1 : 1;
    if (x->tid != y->tid)
        return x->tid < y->tid ? -1 : 1;
    if (x->tid)
        return 0;
    return x->thread_id < y->thread_id ? -1 : x->thread_id > y->thread_id;
}

/* One track per thread number, before equal ones are joined. */
static int read_spans(struct tracks *t, struct recording *r)
{
    struct rec_sample s;
    int more;
    while ((more = recording_next(r, &s)) > 0) {
        if (s.thread >= t->thread_count) {
            size_t count = recording_thread_count(r);
            struct track *grown = reallocarray(t->items, count, sizeof(*grown));
            if (!grown || s.thread >= count)
                return grown ? -SCRY_E_BAD_FILE : -SCRY_E_NO_MEMORY;
            memset(grown + t->thread_count, 0, (count - t->thread_count) * sizeof(*grown));
            t->items = grown;
            t->thread_count = count;
        }
        struct track *track = &t->items[s.thread];
        scry_nsec start = s.time > s.weight ? s.time - s.weight : 0;
        if (!track->samples++ || start < track->first)
            track->first = start;
        if (s.time > track->last)
            track->last = s.time;
    }
    return more;
}

static void describe(struct tracks *t, const struct recording *r)
{
    for (size_t i = 0; i < t->thread_count; i++) {
        const struct rec_thread *thread = recording_thread(r, (uint32_t)i);
        t->items[i].process = thread->process;
        t->items[i].tid = thread->tid;
        t->items[i].thread_id = thread->thread_id;
        t->items[i].name = thread->name;
    }
}

/* Sorted, each thread once, nothing counted yet; threads without a sample are left out. */
static size_t distinct(struct track *items, size_t count)
{
    size_t kept = 0;
    qsort(items, count, sizeof(*items), compare_tracks);
    for (size_t i = 0; i < count; i++) {
        if (!items[i].samples || (kept && compare_tracks(&items[kept - 1], &items[i]) == 0))
            continue;
        items[kept] = items[i];
        items[kept].name = "";
        kept++;
    }
    for (size_t i = 0; i < kept; i++)
        items[i].samples = 0;
    return kept;
}

static void add_to(struct track *to, const struct track *from)
{
    if (!to->samples || from->first < to->first)
        to->first = from->first;
    if (!to->samples || from->last > to->last)
        to->last = from->last;
    if (from->name[0])
        to->name = from->name;
    to->samples += from->samples;
}

/* `t->items` is by thread number and becomes sorted and joined. */
static int join(struct tracks *t)
{
    size_t n = t->thread_count;
    struct track *joined = calloc(n + 1, sizeof(*joined));
    t->of_thread = calloc(n + 1, sizeof(*t->of_thread));
    if (!joined || !t->of_thread) {
        free(joined);
        return -SCRY_E_NO_MEMORY;
    }
    if (n)
        memcpy(joined, t->items, n * sizeof(*joined));
    t->count = distinct(joined, n);
    for (size_t i = 0; i < n; i++) {
        t->of_thread[i] = NO_TRACK;
        if (!t->items[i].samples)
            continue;
        struct track *to = bsearch(&t->items[i], joined, t->count, sizeof(*joined), compare_tracks);
        t->of_thread[i] = (uint32_t)(to - joined);
        add_to(to, &t->items[i]);
    }
    free(t->items);
    t->items = joined;
    return 0;
}

int tracks_read(struct tracks *t, struct recording *r, struct error *err)
{
    *t = (struct tracks){0};
    int result = recording_rewind(r);
    if (result >= 0)
        result = read_spans(t, r);
    if (result >= 0) {
        describe(t, r);
        result = join(t);
    }
    if (result >= 0)
        result = recording_rewind(r);
    if (result < 0) {
        tracks_done(t);
        return error_set(err, result, "the recording could not be read: %s",
                         error_sentence(result));
    }
    return 0;
}

uint32_t tracks_find(const struct tracks *t, uint32_t thread)
{
    return thread < t->thread_count ? t->of_thread[thread] : NO_TRACK;
}

void tracks_done(struct tracks *t)
{
    if (!t)
        return;
    free(t->items);
    free(t->of_thread);
    *t = (struct tracks){0};
}
