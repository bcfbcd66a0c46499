/* The recording stream itself: what was read, often several files merged, written again as one. */
#include "format/writers.h"

#include <stdlib.h>

struct numbers { /* the recording's -> the writer's */
    uint32_t *items;
    size_t count, cap;
};

struct copy {
    struct recording *from;
    struct rec_writer *to;
    struct numbers processes, threads, frames, stacks;
    const char **names; /* of the threads, as written last; as long as threads.cap */
};

static int append(struct numbers *numbers, uint32_t number)
{
    if (number == UINT32_MAX)
        return -SCRY_E_NO_MEMORY;
    if (numbers->count == numbers->cap) {
        size_t cap = numbers->cap ? numbers->cap * 2 : 64;
        uint32_t *items = realloc(numbers->items, cap * sizeof(*items));
        if (!items)
            return -SCRY_E_NO_MEMORY;
        numbers->items = items;
        numbers->cap = cap;
    }
    numbers->items[numbers->count++] = number;
    return 0;
}

/* Also writes a thread's new name. */
static uint32_t put_thread(struct copy *c, uint32_t number)
{
    struct rec_thread thread = *recording_thread(c->from, number);
    thread.process = c->processes.items[thread.process];
    c->names[number] = thread.name;
    return rec_writer_thread(c->to, &thread);
}

static int add_thread(struct copy *c)
{
    size_t number = c->threads.count;
    if (number == c->threads.cap) {
        size_t cap = c->threads.cap ? c->threads.cap * 2 : 64; /* as append() will have it */
        const char **names = realloc(c->names, cap * sizeof(*names));
        if (!names)
            return -SCRY_E_NO_MEMORY;
        c->names = names;
    }
    return append(&c->threads, put_thread(c, (uint32_t)number));
}

static int add_stack(struct copy *c)
{
    uint32_t parent, frame;
    recording_stack(c->from, (uint32_t)c->stacks.count, &parent, &frame);
    return append(&c->stacks,
                  rec_writer_stack(c->to, c->stacks.items[parent], c->frames.items[frame]));
}

/* Write what the recording has come to know since. */
static int catch_up(struct copy *c)
{
    int r = 0;
    while (r == 0 && c->processes.count < recording_process_count(c->from))
        r = append(&c->processes,
                   rec_writer_add_process(
                       c->to, recording_process(c->from, (uint32_t)c->processes.count)));
    while (r == 0 && c->threads.count < recording_thread_count(c->from))
        r = add_thread(c);
    while (r == 0 && c->frames.count < recording_frame_count(c->from))
        r = append(&c->frames,
                   rec_writer_frame(c->to, recording_frame(c->from, (uint32_t)c->frames.count)));
    while (r == 0 && c->stacks.count < recording_stack_count(c->from))
        r = add_stack(c);
    return r;
}

static int rename_thread(struct copy *c, uint32_t thread)
{
    if (c->names[thread] == recording_thread(c->from, thread)->name)
        return 0;
    return put_thread(c, thread) == UINT32_MAX ? -SCRY_E_NO_MEMORY : 0;
}

static int put_sample(struct copy *c, const struct rec_sample *sample)
{
    int r = catch_up(c);
    if (r == 0)
        r = rename_thread(c, sample->thread);
    if (r < 0)
        return r;
    struct rec_sample s = *sample;
    s.thread = c->threads.items[s.thread];
    s.stack = c->stacks.items[s.stack];
    return rec_writer_sample(c->to, &s);
}

static int copy_all(struct copy *c)
{
    struct rec_sample sample;
    int r = append(&c->stacks, REC_EMPTY_STACK);
    while (r == 0) {
        int more = recording_next(c->from, &sample);
        if (more <= 0) {
            r = more;
            break;
        }
        r = put_sample(c, &sample);
    }
    if (r == 0)
        r = catch_up(c);
    for (uint32_t i = 0; r == 0 && i < c->threads.count; i++)
        r = rename_thread(c, i);
    if (r < 0)
        return r;
    /* What has no end is not given one: it would claim to be whole. */
    const struct rec_summary *summary = recording_summary(c->from);
    return summary->complete ? rec_writer_finish(c->to, summary) : rec_writer_flush(c->to);
}

int scry_write(struct recording *recording, const struct format_options *options, FILE *out,
               struct error *err)
{
    (void)options; /* about views of a recording; this is the whole of it */
    struct copy c = {.from = recording};
    int r = recording_rewind(recording);
    if (r == 0)
        r = rec_writer_new(out, recording_info(recording), &c.to);
    if (r == 0)
        r = copy_all(&c);
    rec_writer_free(c.to);
    free(c.processes.items);
    free(c.threads.items);
    free(c.frames.items);
    free(c.stacks.items);
    free(c.names);
    return r < 0 ? error_set(err, r, "%s", error_sentence(r)) : writers_check(out, err);
}
