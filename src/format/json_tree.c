/* The call tree in columns: node i has the frame nodes.frame[i] and hangs from nodes.parent[i].
 * Texts are written once and named by number, so that a viewer gets megabytes where a tree of
 * objects would be tens of them. Memory grows with the distinct stacks, not with time. */
#include "format/writers.h"

#include <stdlib.h>
#include <string.h>

#include "format/path.h"
#include "format/tracks.h"
#include "format/words.h"
#include "util/json.h"
#include "util/table.h"

#define NONE UINT32_MAX

enum kind { KIND_NODE, KIND_PROCESS, KIND_THREAD, KIND_PYTHON, KIND_NATIVE };
static const char *const kinds[] = {"node", "process", "thread", "python", "native"};

struct frame {
    uint32_t name, file;
    int32_t line, first;
    uint32_t kind;
};

struct node {
    uint32_t parent, frame;
    uint64_t self, total; /* samples, or nanoseconds of CPU time */
};

struct columns {
    struct recording *recording;
    const struct format_options *options;
    struct tracks tracks;
    struct interner names, files, frames; /* frames: struct frame, as bytes */
    struct node *nodes;
    size_t count, cap;
    struct table children; /* (parent + 1, frame) -> node */
    struct table places;   /* (root node + 1, stack) -> node */
    uint32_t *numbers;     /* frame of the recording -> frame here + 1 */
    size_t number_count;
    uint32_t *roots; /* track -> node; NONE = not made yet */
    struct path path;
    struct buf text;
    uint32_t root;     /* being made ... */
    size_t roots_left; /* ... and what is still to come of it */
    bool cpu;
};

static uint64_t pair(uint32_t high, uint32_t low)
{
    return (uint64_t)high << 32 | low;
}

static uint32_t add_frame(struct columns *c, const struct frame *frame)
{
    return frame->name == INTERN_FAILED || frame->file == INTERN_FAILED
               ? INTERN_FAILED
               : interner_add(&c->frames, frame, sizeof(*frame), NULL);
}

static uint32_t intern_clean(struct columns *c, struct interner *in, const char *text)
{
    buf_reset(&c->text);
    words_clean(&c->text, text);
    return c->text.failed ? INTERN_FAILED : interner_add(in, c->text.data, c->text.len, NULL);
}

static uint32_t frame_number(struct columns *c, uint32_t number)
{
    if (number >= c->number_count) {
        size_t count = recording_frame_count(c->recording);
        uint32_t *grown = reallocarray(c->numbers, count, sizeof(*grown));
        if (!grown)
            return INTERN_FAILED;
        memset(grown + c->number_count, 0, (count - c->number_count) * sizeof(*grown));
        c->numbers = grown;
        c->number_count = count;
    }
    if (c->numbers[number])
        return c->numbers[number] - 1;
    const struct rec_frame *f = recording_frame(c->recording, number);
    struct frame frame = {
        .name = intern_clean(c, &c->names, f->name[0] ? f->name : "<unknown>"),
        .file = intern_clean(c, &c->files, c->options->full_filenames ? f->file : f->short_file),
        .line = words_line(f, c->options->lines),
        .first = f->first_line > 0 ? f->first_line : 0,
        .kind = f->module[0] ? KIND_NATIVE : KIND_PYTHON,
    };
    uint32_t made = add_frame(c, &frame);
    if (made != INTERN_FAILED)
        c->numbers[number] = made + 1;
    return made;
}

/* `parent` NONE is above the roots. */
static uint32_t child(struct columns *c, uint32_t parent, uint32_t frame)
{
    uint64_t node;
    if (frame == INTERN_FAILED)
        return NONE;
    if (table_get(&c->children, pair(parent + 1, frame), &node))
        return (uint32_t)node;
    if (c->count == c->cap) {
        size_t cap = c->cap ? 2 * c->cap : 1024;
        struct node *grown = reallocarray(c->nodes, cap, sizeof(*grown));
        if (!grown || cap >= NONE)
            return NONE;
        c->nodes = grown;
        c->cap = cap;
    }
    if (!table_put(&c->children, pair(parent + 1, frame), c->count))
        return NONE;
    c->nodes[c->count] = (struct node){.parent = parent, .frame = frame};
    return (uint32_t)c->count++;
}

/* ---- roots ---- */

static int count_root(void *context, const char *text)
{
    struct columns *c = context;
    (void)text;
    c->roots_left++;
    return 0;
}

/* They come in this order: host, processes, thread. */
static int add_root(void *context, const char *text)
{
    struct columns *c = context;
    bool first = c->root == NONE, last = --c->roots_left == 0;
    struct frame frame = {
        .name = interner_add(&c->names, text, strlen(text), NULL),
        .file = interner_add(&c->files, "", 0, NULL),
        .kind = first && c->options->hosts    ? KIND_NODE
                : last && c->options->threads ? KIND_THREAD
                                              : KIND_PROCESS,
    };
    if (frame.kind == KIND_NODE && strncmp(text, "host ", 5) == 0)
        frame.name = interner_add(&c->names, text + 5, strlen(text) - 5, NULL);
    c->root = child(c, c->root, add_frame(c, &frame));
    return c->root == NONE ? -SCRY_E_NO_MEMORY : 0;
}

static bool root_of(struct columns *c, uint32_t thread, uint32_t *ret)
{
    *ret = NONE;
    if (!c->roots)
        return true;
    uint32_t track = tracks_find(&c->tracks, thread);
    if (c->roots[track] == NONE) {
        c->root = NONE;
        c->roots_left = 0;
        words_roots(c->recording, &c->tracks.items[track], c->options, count_root, c);
        if (words_roots(c->recording, &c->tracks.items[track], c->options, add_root, c) < 0)
            return false;
        c->roots[track] = c->root;
    }
    *ret = c->roots[track];
    return true;
}

static int prepare_roots(struct columns *c, struct error *err)
{
    if (!c->options->threads && !c->options->processes && !c->options->hosts)
        return 0;
    int r = tracks_read(&c->tracks, c->recording, err);
    if (r < 0)
        return r;
    c->roots = malloc((c->tracks.count + 1) * sizeof(*c->roots));
    if (!c->roots)
        return -SCRY_E_NO_MEMORY;
    memset(c->roots, 0xff, (c->tracks.count + 1) * sizeof(*c->roots));
    return 0;
}

/* ---- samples ---- */

/* Up to the first stack whose node is known, then down again. */
static uint32_t place(struct columns *c, uint32_t root, uint32_t stack)
{
    uint64_t node = root;
    uint32_t parent, frame;
    c->path.count = 0;
    while (stack != REC_EMPTY_STACK && !table_get(&c->places, pair(root + 1, stack), &node)) {
        if (!path_push(&c->path, stack))
            return NONE;
        recording_stack(c->recording, stack, &parent, &frame);
        stack = parent;
    }
    while (c->path.count) {
        stack = c->path.items[--c->path.count];
        recording_stack(c->recording, stack, &parent, &frame);
        node = child(c, (uint32_t)node, frame_number(c, frame));
        if (node == NONE || !table_put(&c->places, pair(root + 1, stack), node))
            return NONE;
    }
    return (uint32_t)node;
}

static int read_samples(struct columns *c)
{
    struct rec_sample s;
    int more;
    while ((more = recording_next(c->recording, &s)) > 0) {
        uint32_t root, node;
        if (s.stack == REC_EMPTY_STACK ||
            (c->roots && tracks_find(&c->tracks, s.thread) == NO_TRACK))
            continue;
        if (!root_of(c, s.thread, &root) || (node = place(c, root, s.stack)) == NONE)
            return -SCRY_E_NO_MEMORY;
        c->nodes[node].self += c->cpu ? s.weight : 1;
    }
    return more;
}

static uint64_t add_up(struct columns *c)
{
    uint64_t all = 0;
    for (size_t i = c->count; i-- > 0;) {
        struct node *node = &c->nodes[i];
        node->total += node->self;
        if (node->parent == NONE)
            all += node->total;
        else
            c->nodes[node->parent].total += node->total;
    }
    return all;
}

/* ---- writing ---- */

static void put_texts(struct json *j, const char *key, const struct interner *texts)
{
    json_key(j, key);
    json_begin_array(j);
    for (uint32_t i = 0; i < texts->count; i++)
        json_string(j, interner_get(texts, i, NULL));
    json_end_array(j);
}

static struct frame frame_at(const struct columns *c, uint32_t i)
{
    struct frame frame;
    memcpy(&frame, interner_get(&c->frames, i, NULL), sizeof(frame));
    return frame;
}

static void put_frames(struct json *j, const struct columns *c)
{
    static const char *const names[] = {"name", "file", "line", "first"};
    json_key(j, "frames");
    json_begin_object(j);
    for (size_t column = 0; column < ARRAY_LEN(names); column++) {
        json_key(j, names[column]);
        json_begin_array(j);
        for (uint32_t i = 0; i < c->frames.count; i++) {
            struct frame f = frame_at(c, i);
            int64_t cells[] = {f.name, f.file, f.line, f.first};
            json_int(j, cells[column]);
        }
        json_end_array(j);
    }
    json_key(j, "kind");
    json_begin_array(j);
    for (uint32_t i = 0; i < c->frames.count; i++)
        json_string(j, kinds[frame_at(c, i).kind]);
    json_end_array(j);
    json_end_object(j);
}

static int64_t cell(const struct node *n, size_t column)
{
    switch (column) {
    case 0:
        return n->parent == NONE ? -1 : (int64_t)n->parent;
    case 1:
        return n->frame;
    case 2:
        return (int64_t)n->self;
    default:
        return (int64_t)n->total;
    }
}

static void put_nodes(struct json *j, const struct columns *c)
{
    static const char *const names[] = {"parent", "frame", "self", "total"};
    json_key(j, "nodes");
    json_begin_object(j);
    for (size_t column = 0; column < ARRAY_LEN(names); column++) {
        json_key(j, names[column]);
        json_begin_array(j);
        for (size_t i = 0; i < c->count; i++)
            json_int(j, cell(&c->nodes[i], column));
        json_end_array(j);
    }
    json_end_object(j);
}

static void put_all(struct columns *c, FILE *out)
{
    struct json writer, *j = &writer;
    uint64_t total = add_up(c);
    json_init(j, out, 0);
    json_begin_object(j);
    json_key(j, "unit");
    json_string(j, c->cpu ? "nanoseconds" : "samples");
    json_key(j, "total");
    json_uint(j, total);
    json_key(j, "seconds");
    json_double(j, (double)recording_summary(c->recording)->duration / 1e9);
    put_texts(j, "names", &c->names);
    put_texts(j, "files", &c->files);
    put_frames(j, c);
    put_nodes(j, c);
    json_end_object(j);
    fputc('\n', out);
}

static void columns_done(struct columns *c)
{
    tracks_done(&c->tracks);
    interner_done(&c->names);
    interner_done(&c->files);
    interner_done(&c->frames);
    table_done(&c->children);
    table_done(&c->places);
    free(c->nodes);
    free(c->numbers);
    free(c->roots);
    path_done(&c->path);
    buf_done(&c->text);
}

int json_write(struct recording *recording, const struct format_options *options, FILE *out,
               struct error *err)
{
    struct columns c = {.recording = recording, .options = options};
    c.cpu = words_measure(recording) != MEASURE_SAMPLES;
    buf_init(&c.text);
    int r = prepare_roots(&c, err);
    if (r == 0)
        r = recording_rewind(recording);
    if (r == 0)
        r = read_samples(&c);
    if (r < 0) {
        error_set(err, r, "the recording could not be read: %s", error_sentence(r));
    } else {
        put_all(&c, out);
        r = writers_check(out, err);
    }
    columns_done(&c);
    return r < 0 ? r : 0;
}
