/* A recording as its users see it: the tables of what is distinct over all its files, and their
 * samples in one order of time. */
#include "engine/recording_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/stack_table.h"
#include "util/table.h"
#include "util/utf8.h"

/* Items that never move, so that pointers to them hold while more are added. */
#define CHUNK_ITEMS 256
struct chunks {
    char **chunks;
    size_t chunk_count, chunk_cap;
    size_t count; /* of items */
    size_t size;  /* of an item */
};

static void *chunks_get(const struct chunks *c, size_t i)
{
    return c->chunks[i / CHUNK_ITEMS] + i % CHUNK_ITEMS * c->size;
}

static bool chunks_grow(struct chunks *c)
{
    if (c->chunk_count == c->chunk_cap) {
        size_t cap = c->chunk_cap ? c->chunk_cap * 2 : 16;
        char **grown = realloc(c->chunks, cap * sizeof(*grown));
        if (!grown)
            return false;
        c->chunks = grown;
        c->chunk_cap = cap;
    }
    c->chunks[c->chunk_count] = calloc(CHUNK_ITEMS, c->size);
    if (!c->chunks[c->chunk_count])
        return false;
    c->chunk_count++;
    return true;
}

/* The number of a copy of `item`, or UINT32_MAX. */
static uint32_t chunks_add(struct chunks *c, const void *item, size_t max)
{
    if (c->count >= max || (c->count == c->chunk_count * CHUNK_ITEMS && !chunks_grow(c)))
        return UINT32_MAX;
    memcpy(chunks_get(c, c->count), item, c->size);
    return (uint32_t)c->count++;
}

static void chunks_done(struct chunks *c)
{
    for (size_t i = 0; i < c->chunk_count; i++)
        free(c->chunks[i]);
    free(c->chunks);
}

/* A source and the sample of it that waits for its turn. */
struct input {
    struct source source;
    scry_nsec offset; /* of its start against the recording's */
    bool waiting, over;
    struct rec_sample sample;
};

struct recording {
    struct input *inputs;
    size_t input_count;
    struct rec_info info;
    struct rec_summary summary;

    struct interner strings;
    size_t text; /* bytes in strings, as the files have them */
    struct interner frame_keys;
    struct stack_table stacks;
    struct chunks frames, threads, processes;
};

/* ---- tables ---- */

uint32_t recording_add_string(struct recording *r, const void *s, size_t len)
{
    SCOPED_BUF clean;
    buf_init(&clean);
    size_t clean_len = len;
    if (!utf8_valid(s, len)) {
        utf8_clean(&clean, s, len);
        if (clean.failed)
            return UINT32_MAX;
        s = clean.data;
        clean_len = clean.len;
    }
    bool is_new;
    uint32_t n = interner_add(&r->strings, s, clean_len, &is_new);
    if (n == INTERN_FAILED || n >= WIRE_MAX_STRINGS)
        return UINT32_MAX;
    if (is_new)
        r->text += len;
    return r->text > WIRE_MAX_TEXT ? UINT32_MAX : n;
}

static const char *string(const struct recording *r, uint32_t n)
{
    return interner_get(&r->strings, n, NULL);
}

uint32_t recording_add_frame(struct recording *r, const struct frame_numbers *frame)
{
    bool is_new;
    uint32_t n = interner_add(&r->frame_keys, frame, sizeof(*frame), &is_new);
    if (n == INTERN_FAILED || !is_new)
        return n < r->frames.count ? n : UINT32_MAX;
    struct rec_frame item = {
        .name = string(r, frame->name),
        .file = string(r, frame->file),
        .short_file = string(r, frame->short_file),
        .line = frame->line,
        .first_line = frame->first_line,
        .module = string(r, frame->module),
    };
    return chunks_add(&r->frames, &item, WIRE_MAX_FRAMES);
}

uint32_t recording_add_stack(struct recording *r, uint32_t parent, uint32_t frame)
{
    bool is_new;
    return stack_table_add(&r->stacks, parent, frame, WIRE_MAX_STACKS, &is_new);
}

uint32_t recording_add_process(struct recording *r, const struct process_numbers *process)
{
    struct rec_process item = {
        .pid = process->pid,
        .parent = process->parent,
        .command = string(r, process->command),
        .python = string(r, process->python),
        .host = process->host,
    };
    return chunks_add(&r->processes, &item, WIRE_MAX_PROCESSES);
}

uint32_t recording_add_thread(struct recording *r, const struct thread_numbers *thread)
{
    struct rec_thread item = {
        .process = thread->process,
        .tid = thread->tid,
        .thread_id = thread->thread_id,
        .name = string(r, thread->name),
    };
    return chunks_add(&r->threads, &item, WIRE_MAX_THREADS);
}

void recording_name_thread(struct recording *r, uint32_t thread, uint32_t name)
{
    struct rec_thread *item = chunks_get(&r->threads, thread);
    item->name = string(r, name);
}

/* ---- opening ---- */

static int recording_new(size_t inputs, struct recording **ret, struct error *err)
{
    struct recording *r = calloc(1, sizeof(*r));
    if (r)
        r->inputs = calloc(inputs, sizeof(*r->inputs));
    if (!r || !r->inputs || !stack_table_init(&r->stacks)) {
        recording_close(r);
        error_set(err, -SCRY_E_NO_MEMORY, "out of memory");
        return -SCRY_E_NO_MEMORY;
    }
    r->frames.size = sizeof(struct rec_frame);
    r->threads.size = sizeof(struct rec_thread);
    r->processes.size = sizeof(struct rec_process);
    *ret = r;
    return 0;
}

static int add_input(struct recording *r, FILE *file, bool close_file, const char *name,
                     struct error *err)
{
    int result = source_open(&r->inputs[r->input_count].source, r, file, close_file, name, err);
    if (result == 0)
        r->input_count++;
    return result;
}

static int add_path(struct recording *r, const char *path, struct error *err)
{
    FILE *file = fopen(path, "rbe");
    if (file)
        return add_input(r, file, true, path, err);
    error_set(err, -SCRY_E_IO, "cannot read '%s': %s", path, strerror(errno));
    error_hint(err, "give a recording made with: scry record -f scry");
    return -SCRY_E_IO;
}

/* The files' clocks agree on wall time, as far as their hosts do. A file that does not know when it
 * began is taken to begin with the rest. */
static void align(struct recording *r)
{
    r->info = r->inputs[0].source.info;
    uint64_t start = 0;
    for (size_t i = 0; i < r->input_count; i++) {
        const struct rec_info *info = &r->inputs[i].source.info;
        if (info->start_unix_ns && (!start || info->start_unix_ns < start))
            start = info->start_unix_ns;
        r->info.options |= info->options;
        if (info->rate != r->inputs[0].source.info.rate) {
            r->info.options |= REC_OPT_VARIED;
            r->info.rate = 0;
        }
    }
    if (r->input_count > 1)
        r->info.options |= REC_OPT_SUBPROCESSES; /* several processes, to be kept apart */
    r->info.start_unix_ns = start;
    for (size_t i = 0; i < r->input_count; i++) {
        uint64_t own = r->inputs[i].source.info.start_unix_ns;
        r->inputs[i].offset = own ? own - start : 0;
    }
}

int recording_open(const char *const *paths, size_t count, struct recording **ret,
                   struct error *err)
{
    if (!count)
        return error_set(err, -SCRY_E_USAGE, "no recording was given");
    struct recording *r;
    int result = recording_new(count, &r, err);
    if (result < 0)
        return result;
    for (size_t i = 0; i < count && result == 0; i++)
        result = add_path(r, paths[i], err);
    if (result < 0) {
        recording_close(r);
        return result;
    }
    align(r);
    *ret = r;
    return 0;
}

int recording_open_stream(FILE *in, struct recording **ret, struct error *err)
{
    if (fseeko(in, 0, SEEK_SET) != 0)
        return error_set(err, -SCRY_E_IO, "cannot go back to the start of the recording: %s",
                         strerror(errno));
    struct recording *r;
    int result = recording_new(1, &r, err);
    if (result < 0)
        return result;
    result = add_input(r, in, false, "the recording", err);
    if (result < 0) {
        recording_close(r);
        return result;
    }
    align(r);
    *ret = r;
    return 0;
}

void recording_close(struct recording *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->input_count; i++)
        source_close(&r->inputs[i].source);
    free(r->inputs);
    interner_done(&r->strings);
    interner_done(&r->frame_keys);
    stack_table_done(&r->stacks);
    chunks_done(&r->frames);
    chunks_done(&r->threads);
    chunks_done(&r->processes);
    free(r);
}

/* ---- samples ---- */

static void add_summary(struct rec_summary *sum, const struct rec_summary *s, scry_nsec offset)
{
    if (sum->duration < s->duration + offset)
        sum->duration = s->duration + offset;
    sum->complete &= s->complete;
    sum->damaged |= s->damaged;
    sum->samples += s->samples;
    sum->torn += s->torn;
    sum->missed += s->missed;
    sum->late += s->late;
    sum->errors += s->errors;
    sum->own_cpu += s->own_cpu;
    sum->unmerged += s->unmerged;
}

static void summarise(struct recording *r)
{
    r->summary = (struct rec_summary){.complete = true};
    for (size_t i = 0; i < r->input_count; i++)
        add_summary(&r->summary, &r->inputs[i].source.summary, r->inputs[i].offset);
}

static int fill(struct input *in)
{
    if (in->waiting || in->over)
        return 0;
    int result = source_next(&in->source, &in->sample);
    if (result < 0)
        return result;
    in->waiting = result == 1;
    in->over = result == 0;
    in->sample.time += in->offset;
    return 0;
}

int recording_next(struct recording *r, struct rec_sample *ret)
{
    struct input *first = NULL;
    for (size_t i = 0; i < r->input_count; i++) {
        struct input *in = &r->inputs[i];
        int result = fill(in);
        if (result < 0)
            return result;
        if (in->waiting && (!first || in->sample.time < first->sample.time))
            first = in;
    }
    if (!first) {
        summarise(r);
        return 0;
    }
    *ret = first->sample;
    first->waiting = false;
    return 1;
}

int recording_rewind(struct recording *r)
{
    for (size_t i = 0; i < r->input_count; i++) {
        int result = source_rewind(&r->inputs[i].source);
        if (result < 0)
            return result;
        r->inputs[i].waiting = r->inputs[i].over = false;
    }
    return 0;
}

/* ---- what it holds ---- */

const struct rec_info *recording_info(const struct recording *r)
{
    return &r->info;
}

const struct rec_summary *recording_summary(const struct recording *r)
{
    return &r->summary;
}

const struct rec_summary *recording_file_summary(const struct recording *r, size_t file)
{
    return &r->inputs[file].source.summary;
}

const struct rec_frame *recording_frame(const struct recording *r, uint32_t frame)
{
    return chunks_get(&r->frames, frame);
}

const struct rec_process *recording_process(const struct recording *r, uint32_t process)
{
    return chunks_get(&r->processes, process);
}

const struct rec_thread *recording_thread(const struct recording *r, uint32_t thread)
{
    return chunks_get(&r->threads, thread);
}

void recording_stack(const struct recording *r, uint32_t stack, uint32_t *ret_parent,
                     uint32_t *ret_frame)
{
    *ret_parent = r->stacks.nodes[stack].parent;
    *ret_frame = r->stacks.nodes[stack].frame;
}

size_t recording_stack_count(const struct recording *r)
{
    return r->stacks.count;
}

size_t recording_frame_count(const struct recording *r)
{
    return r->frames.count;
}

size_t recording_thread_count(const struct recording *r)
{
    return r->threads.count;
}

size_t recording_process_count(const struct recording *r)
{
    return r->processes.count;
}
