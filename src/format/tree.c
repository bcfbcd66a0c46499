#include "format/tree.h"

#include <stdlib.h>
#include <string.h>

#include "format/path.h"

#define NO_NODE UINT32_MAX

struct reading {
    struct tree *tree;
    struct recording *recording;
    const struct format_options *options;
    bool folded;
    struct tracks tracks;
    uint32_t *roots;        /* track -> node its stacks hang from; NO_NODE = not made yet */
    uint32_t *frame_labels; /* frame -> label + 1; 0 = not made yet */
    size_t frame_cap;
    struct path path; /* stacks on the way down from a known one */
    uint32_t root;    /* being made */
    struct buf text;
};

static uint64_t pair(uint32_t high, uint32_t low)
{
    return (uint64_t)high << 32 | low;
}

/* The number of the label whose text is in `in->text`; the first `name` bytes are its name. */
static uint32_t add_label(struct reading *in, enum origin origin, uint32_t hue, size_t name)
{
    struct tree *t = in->tree;
    if (in->folded)
        for (char *s = in->text.data; (s = strchr(s, ';'));)
            *s = ':';
    bool new;
    uint32_t label = interner_add(&t->texts, in->text.data, in->text.len, &new);
    if (in->text.failed || label == INTERN_FAILED)
        return INTERN_FAILED;
    if (label >= t->label_cap) {
        size_t cap = t->label_cap ? t->label_cap * 2 : 256;
        struct tree_label *grown = reallocarray(t->labels, cap, sizeof(*grown));
        if (!grown)
            return INTERN_FAILED;
        t->labels = grown;
        t->label_cap = cap;
    }
    if (new)
        t->labels[label] =
            (struct tree_label){.origin = origin, .hue = hue, .name = (uint32_t)name};
    return label;
}

static uint32_t hue_of(const char *name, const char *file)
{
    return (uint32_t)hash_bytes(name, strlen(name), hash_bytes(file, strlen(file), 0));
}

static uint32_t frame_label(struct reading *in, uint32_t frame)
{
    if (frame >= in->frame_cap) {
        size_t cap = recording_frame_count(in->recording);
        uint32_t *grown = reallocarray(in->frame_labels, cap, sizeof(*grown));
        if (!grown)
            return INTERN_FAILED;
        memset(grown + in->frame_cap, 0, (cap - in->frame_cap) * sizeof(*grown));
        in->frame_labels = grown;
        in->frame_cap = cap;
    }
    if (in->frame_labels[frame])
        return in->frame_labels[frame] - 1;
    const struct rec_frame *f = recording_frame(in->recording, frame);
    buf_reset(&in->text);
    size_t name = words_frame(&in->text, f, in->options);
    uint32_t label = add_label(in, words_origin(f), hue_of(f->name, f->short_file), name);
    if (label != INTERN_FAILED)
        in->frame_labels[frame] = label + 1;
    return label;
}

static uint32_t new_node(struct tree *t, uint32_t parent, uint32_t label)
{
    if (t->count == t->cap) {
        size_t cap = t->cap ? t->cap * 2 : 1024;
        struct tree_node *grown = reallocarray(t->nodes, cap, sizeof(*grown));
        if (!grown || cap > UINT32_MAX)
            return NO_NODE;
        t->nodes = grown;
        t->cap = cap;
    }
    uint32_t depth = t->count ? t->nodes[parent].depth + 1 : 0;
    t->nodes[t->count] = (struct tree_node){.parent = parent, .label = label, .depth = depth};
    return (uint32_t)t->count++;
}

static uint32_t child(struct tree *t, uint32_t parent, uint32_t label)
{
    uint64_t node;
    if (parent == NO_NODE || label == INTERN_FAILED)
        return NO_NODE;
    if (table_get(&t->children, pair(parent, label), &node))
        return (uint32_t)node;
    node = new_node(t, parent, label);
    if (node != NO_NODE && !table_put(&t->children, pair(parent, label), node))
        return NO_NODE;
    return (uint32_t)node;
}

static int add_root(void *context, const char *text)
{
    struct reading *in = context;
    buf_reset(&in->text);
    buf_add_str(&in->text, text);
    uint32_t label = add_label(in, ORIGIN_ROOT, hue_of(text, ""), in->text.len);
    in->root = child(in->tree, in->root, label);
    return in->root == NO_NODE ? -SCRY_E_NO_MEMORY : 0;
}

static uint32_t make_root(struct reading *in, const struct track *track)
{
    in->root = TREE_ROOT;
    return words_roots(in->recording, track, in->options, add_root, in) < 0 ? NO_NODE : in->root;
}

static uint32_t root_of(struct reading *in, uint32_t thread)
{
    if (!in->roots)
        return TREE_ROOT;
    uint32_t track = tracks_find(&in->tracks, thread);
    if (in->roots[track] == NO_NODE)
        in->roots[track] = make_root(in, &in->tracks.items[track]);
    return in->roots[track];
}

/* Up to the first stack whose node is known, then down again. */
static uint32_t place(struct reading *in, uint32_t root, uint32_t stack)
{
    struct path *path = &in->path;
    uint64_t node = root;
    uint32_t parent, frame;
    path->count = 0;
    while (stack != REC_EMPTY_STACK && !table_get(&in->tree->places, pair(root, stack), &node)) {
        if (!path_push(path, stack))
            return NO_NODE;
        recording_stack(in->recording, stack, &parent, &frame);
        stack = parent;
    }
    while (path->count && node != NO_NODE) {
        stack = path->items[--path->count];
        recording_stack(in->recording, stack, &parent, &frame);
        node = child(in->tree, (uint32_t)node, frame_label(in, frame));
        if (node != NO_NODE && !table_put(&in->tree->places, pair(root, stack), node))
            return NO_NODE;
    }
    return (uint32_t)node;
}

static uint32_t torn_above(struct reading *in, uint32_t node)
{
    buf_reset(&in->text);
    buf_add_str(&in->text, "[torn]");
    uint32_t label = add_label(in, ORIGIN_ROOT, 0, in->text.len);
    return label == INTERN_FAILED ? NO_NODE : child(in->tree, node, label);
}

static int read_samples(struct reading *in)
{
    struct rec_sample s;
    int more;
    while ((more = recording_next(in->recording, &s)) > 0) {
        if (s.stack == REC_EMPTY_STACK)
            continue;
        if (in->roots && tracks_find(&in->tracks, s.thread) == NO_TRACK)
            continue;
        uint32_t root = root_of(in, s.thread);
        uint32_t node = root == NO_NODE ? NO_NODE : place(in, root, s.stack);
        if (node != NO_NODE && in->options->mark_torn && s.flags & REC_TORN)
            node = torn_above(in, node);
        if (node == NO_NODE)
            return -SCRY_E_NO_MEMORY;
        in->tree->nodes[node].self++;
        in->tree->nodes[node].time += s.weight;
    }
    return more;
}

/* Thread names are known for certain only after all samples: two passes where they matter. */
static int prepare_roots(struct reading *in, struct error *err)
{
    if (!in->options->threads && !in->options->processes && !in->options->hosts)
        return 0;
    int r = tracks_read(&in->tracks, in->recording, err);
    if (r < 0)
        return r;
    in->roots = malloc((in->tracks.count + 1) * sizeof(*in->roots));
    if (!in->roots)
        return error_set(err, -SCRY_E_NO_MEMORY, "out of memory");
    memset(in->roots, 0xff, (in->tracks.count + 1) * sizeof(*in->roots));
    return 0;
}

int tree_init(struct tree *t, struct error *err)
{
    *t = (struct tree){0};
    struct reading in = {.tree = t};
    buf_init(&in.text);
    bool made = new_node(t, TREE_ROOT, add_label(&in, ORIGIN_ROOT, 0, 0)) != NO_NODE;
    buf_done(&in.text);
    return made ? 0 : error_set(err, -SCRY_E_NO_MEMORY, "out of memory");
}

int tree_add(struct tree *t, struct recording *r, const struct format_options *options, bool folded,
             struct error *err)
{
    struct reading in = {.tree = t, .recording = r, .options = options, .folded = folded};
    buf_init(&in.text);
    table_reset(&t->places); /* numbers of stacks are the recording's own */
    int result = prepare_roots(&in, err);
    if (result < 0)
        goto out;
    result = recording_rewind(r);
    if (result >= 0)
        result = read_samples(&in);
    if (result < 0)
        error_set(err, result, "the recording could not be read: %s", error_sentence(result));
out:
    tracks_done(&in.tracks);
    free(in.roots);
    free(in.frame_labels);
    path_done(&in.path);
    buf_done(&in.text);
    return result < 0 ? result : 0;
}

void tree_add_up(struct tree *t)
{
    for (size_t i = t->count; i-- > 0;) {
        struct tree_node *node = &t->nodes[i];
        node->total += node->self;
        if (i != TREE_ROOT) {
            t->nodes[node->parent].total += node->total;
            t->nodes[node->parent].time += node->time;
        }
    }
}

/* Where the samples differ in weight, counting them would say nothing. */
static void weigh(struct tree *t)
{
    for (size_t i = 0; i < t->count; i++)
        t->nodes[i].self = t->nodes[i].time / 1000;
}

int tree_read(struct tree *t, struct recording *r, const struct format_options *options,
              bool folded, struct error *err)
{
    int result = tree_init(t, err);
    if (result >= 0)
        result = tree_add(t, r, options, folded, err);
    if (result < 0) {
        tree_done(t);
        return result;
    }
    if (words_measure(r) != MEASURE_SAMPLES)
        weigh(t);
    tree_add_up(t);
    return 0;
}

void tree_done(struct tree *t)
{
    if (!t)
        return;
    free(t->nodes);
    free(t->labels);
    interner_done(&t->texts);
    table_done(&t->children);
    table_done(&t->places);
    *t = (struct tree){0};
}

const char *tree_text(const struct tree *t, uint32_t node)
{
    return interner_get(&t->texts, t->nodes[node].label, NULL);
}
