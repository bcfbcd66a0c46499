#include "cpython/entries.h"

#include <stdlib.h>

#include "cpython/walk.h"

#define BATCH 64

void py_entries_done(struct py_entries *entries)
{
    free(entries->items);
    *entries = (struct py_entries){0};
}

static struct py_entry *add(struct py_entries *e)
{
    if (e->count == e->cap) {
        size_t cap = e->cap ? e->cap * 2 : 64;
        struct py_entry *grown = realloc(e->items, cap * sizeof(*grown));
        if (!grown)
            return NULL;
        e->items = grown;
        e->cap = cap;
    }
    struct py_entry *entry = &e->items[e->count++];
    *entry = (struct py_entry){0};
    return entry;
}

/* Frames up to the one by which the evaluator was entered belong together. */
static int group(const struct py_thread *t, struct py_entries *e)
{
    bool open = false;
    for (size_t i = 0; i < t->frame_count; i++) {
        if (!open && !add(e))
            return -SCRY_E_NO_MEMORY;
        e->items[e->count - 1].frame_count++;
        open = !t->frames[i].is_entry;
    }
    return 0;
}

/* From 3.12 on: the caller of the frame by which the evaluator was entered is a frame of its own,
 * a local variable of the evaluator. */
static void find_shims(struct python *py, const struct py_thread *t, struct py_entries *e)
{
    struct mem_range ranges[BATCH];
    size_t frame = 0;
    for (size_t done = 0; done < e->count;) {
        int n = 0;
        for (size_t i = done; i < e->count && n < BATCH; i++, n++) {
            frame += e->items[i].frame_count;
            ranges[n] =
                (struct mem_range){t->frames[frame - 1].addr + (scry_addr)py->layout.if_previous,
                                   &e->items[i].at, sizeof(e->items[i].at)};
        }
        if (mem_readv(py->view.mem, ranges, n) < n)
            return;
        done += (size_t)n;
    }
}

/* 3.11: a chain of C frames, each naming the innermost Python frame of its evaluator. The one that
 * belongs to no call, at the end, names none of the groups' first frames. */
static void find_cframes(struct python *py, const struct py_thread *t, struct py_entries *e)
{
    scry_addr at;
    size_t entry = 0, frame = 0;
    if (mem_read_u64(py->view.mem, t->tstate + (scry_addr)py->layout.ts_cframe, &at) < 0)
        return;
    for (int steps = 0; at && entry < e->count && steps < MAX_FRAMES; steps++) {
        uint64_t words[2]; /* current frame, previous C frame */
        if (mem_read(py->view.mem, at + (scry_addr)py->layout.cframe_current_frame, words,
                     sizeof(words)) < 0)
            return;
        if (words[0] == t->frames[frame].addr) {
            e->items[entry].at = at;
            frame += e->items[entry++].frame_count;
        }
        at = words[1];
    }
}

int python_entries(struct python *py, const struct py_thread *thread, struct py_entries *entries)
{
    const struct layout *l = &py->layout;
    entries->count = 0;
    int r = group(thread, entries);
    if (r < 0 || !entries->count || l->if_size == LAYOUT_NONE)
        return r;
    if (l->if_is_entry != LAYOUT_NONE)
        find_cframes(py, thread, entries);
    else
        find_shims(py, thread, entries);
    return 0;
}
