/* Rows to show: entries of the same function or line put together, as far as they are not to be
 * kept apart. */
#include <stdlib.h>

#include "engine/tally_private.h"
#include "util/error.h"

static const char *string(const struct tally *t, uint32_t number)
{
    const char *s = interner_get(&t->strings, number, NULL);
    return s ? s : "";
}

static const struct tally_place *place_of(const struct tally *t, enum tally_by by, uint32_t item)
{
    if (by == TALLY_LINES)
        return &t->frames[item].place;
    return (const struct tally_place *)(const void *)interner_get(&t->function_keys, item, NULL);
}

static void describe(const struct tally *t, enum tally_by by, uint32_t item, struct tally_row *row)
{
    const struct tally_place *place = place_of(t, by, item);
    row->name = string(t, place->name);
    row->file = string(t, place->file);
    row->short_file = string(t, place->short_file);
    row->module = string(t, place->module);
    row->line = place->line;
}

static void add_times(struct tally_times *to, const struct tally_times *from)
{
    to->own += from->own;
    to->total += from->total;
}

static int gather_rows(const struct tally *t, enum tally_by by, unsigned split,
                       struct tally_picture *p)
{
    const struct tally_counts *c = &t->counts[by];
    struct table index;
    int r = 0;
    table_init(&index);
    p->rows = calloc(c->count + 1, sizeof(*p->rows));
    if (!p->rows)
        return -SCRY_E_NO_MEMORY;
    for (size_t i = 0; i < c->count && r == 0; i++) {
        const struct tally_entry *e = &c->entries[i];
        uint32_t process = t->threads[e->thread].thread.process;
        /* Apart by thread is apart by process. */
        uint32_t apart = split & TALLY_THREADS     ? e->thread
                         : split & TALLY_PROCESSES ? process
                                                   : TALLY_NONE;
        uint64_t key = (uint64_t)e->item << 32 | apart, at;
        if (!table_get(&index, key, &at)) {
            at = p->row_count++;
            r = table_put(&index, key, at) ? 0 : -SCRY_E_NO_MEMORY;
            describe(t, by, e->item, &p->rows[at]);
            p->rows[at].thread = split & TALLY_THREADS ? e->thread : TALLY_NONE;
            p->rows[at].process = split ? process : TALLY_NONE;
        }
        add_times(&p->rows[at].overall, &e->overall);
        add_times(&p->rows[at].lately, &e->lately);
    }
    table_done(&index);
    return r;
}

static int copy_processes(const struct tally *t, struct tally_picture *p)
{
    p->processes = calloc(t->process_count, sizeof(*p->processes));
    if (!p->processes)
        return -SCRY_E_NO_MEMORY;
    p->process_count = t->process_count;
    for (size_t i = 0; i < t->process_count; i++) {
        p->processes[i] = t->processes[i];
        p->processes[i].alive = false;
    }
    return 0;
}

static int copy_threads(const struct tally *t, struct tally_picture *p)
{
    p->threads = calloc(t->thread_count, sizeof(*p->threads));
    if (!p->threads)
        return -SCRY_E_NO_MEMORY;
    p->thread_count = t->thread_count;
    for (size_t i = 0; i < t->thread_count; i++) {
        const struct tally_thread_slot *slot = &t->threads[i];
        struct tally_thread *copy = &p->threads[i];
        *copy = slot->thread;
        copy->alive = tally_alive(t, slot);
        copy->where_name = copy->where_file = "";
        if (slot->frame != TALLY_NONE) {
            const struct tally_place *place = &t->frames[slot->frame].place;
            copy->where_name = string(t, place->name);
            copy->where_file = string(t, place->short_file);
            copy->where_line = place->line;
        }
        if (!copy->alive)
            continue;
        p->living_threads++;
        p->active_threads += copy->active;
        p->living_processes += !p->processes[copy->process].alive;
        p->processes[copy->process].alive = true;
    }
    return 0;
}

int tally_picture(struct tally *t, enum tally_by by, unsigned split,
                  struct tally_picture *ret_picture)
{
    struct tally_picture p = {0};
    pthread_mutex_lock(&t->lock);
    p.overall = t->overall;
    p.lately = t->lately;
    int r = copy_processes(t, &p);
    if (r == 0)
        r = copy_threads(t, &p);
    if (r == 0)
        r = gather_rows(t, by, split, &p);
    pthread_mutex_unlock(&t->lock);
    if (r < 0)
        tally_picture_done(&p);
    else
        *ret_picture = p;
    return r;
}

void tally_picture_done(struct tally_picture *p)
{
    free(p->rows);
    free(p->threads);
    free(p->processes);
    *p = (struct tally_picture){0};
}
