#include "format/diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

static int read_side(struct diff *d, struct diff_side *side, struct recording *r,
                     const struct format_options *view, struct error *err)
{
    int result = tree_add(&d->tree, r, view, false, err);
    if (result < 0)
        return result;
    side->duration = recording_summary(r)->duration;
    side->rate = recording_info(r)->rate;
    side->nodes = calloc(d->tree.count, sizeof(*side->nodes));
    if (!side->nodes)
        return error_set(err, -SCRY_E_NO_MEMORY, "out of memory");
    /* What ends in a node becomes the side's; the tree is left clean for the next recording. */
    for (size_t i = 0; i < d->tree.count; i++) {
        struct tree_node *node = &d->tree.nodes[i];
        side->nodes[i].own_samples = node->self;
        side->nodes[i].own_time = node->time;
        side->samples += node->self;
        node->self = 0;
        node->time = 0;
    }
    return 0;
}

/* The first recording does not know the nodes that the second one brought. */
static int extend(struct diff_side *side, size_t had, size_t count)
{
    struct diff_figures *grown = reallocarray(side->nodes, count, sizeof(*grown));
    if (!grown)
        return -SCRY_E_NO_MEMORY;
    memset(grown + had, 0, (count - had) * sizeof(*grown));
    side->nodes = grown;
    return 0;
}

static void add_up(const struct tree *t, struct diff_figures *nodes)
{
    for (size_t i = t->count; i-- > 0;) {
        nodes[i].total_samples += nodes[i].own_samples;
        nodes[i].total_time += nodes[i].own_time;
        if (i == TREE_ROOT)
            continue;
        nodes[t->nodes[i].parent].total_samples += nodes[i].total_samples;
        nodes[t->nodes[i].parent].total_time += nodes[i].total_time;
    }
}

/* If one of them has to be weighed, both have. */
static enum measure measure_of(struct recording *const recordings[2])
{
    enum measure before = words_measure(recordings[DIFF_BEFORE]);
    enum measure after = words_measure(recordings[DIFF_AFTER]);
    return before > after ? before : after;
}

int diff_read(struct diff *d, struct recording *const recordings[2],
              const struct diff_options *options, struct error *err)
{
    *d = (struct diff){.by = options->by, .measure = measure_of(recordings)};
    struct format_options view = options->view;
    view.any_run = true;
    view.processes = false;
    int r = tree_init(&d->tree, err);
    if (r >= 0)
        r = read_side(d, &d->sides[DIFF_BEFORE], recordings[DIFF_BEFORE], &view, err);
    size_t had = d->tree.count;
    if (r >= 0)
        r = read_side(d, &d->sides[DIFF_AFTER], recordings[DIFF_AFTER], &view, err);
    if (r >= 0 && extend(&d->sides[DIFF_BEFORE], had, d->tree.count) < 0)
        r = error_set(err, -SCRY_E_NO_MEMORY, "out of memory");
    if (r < 0) {
        diff_done(d);
        return r;
    }
    for (size_t i = 0; i < ARRAY_LEN(d->sides); i++)
        add_up(&d->tree, d->sides[i].nodes);
    return 0;
}

void diff_done(struct diff *d)
{
    for (size_t i = 0; i < ARRAY_LEN(d->sides); i++)
        free(d->sides[i].nodes);
    tree_done(&d->tree);
    *d = (struct diff){0};
}

/* ---- figures ---- */

const char *diff_whole(const struct diff *d)
{
    if (d->by == DIFF_BY_TIME)
        return "the wall clock";
    return d->measure == MEASURE_CPU    ? "CPU time"
           : d->measure == MEASURE_WALL ? "running time"
                                        : "samples";
}

static double portion(const struct diff *d, enum diff_moment moment, uint64_t samples,
                      scry_nsec time)
{
    const struct diff_side *side = &d->sides[moment];
    double part = (double)samples, whole = (double)side->samples;
    if (d->by == DIFF_BY_TIME || d->measure != MEASURE_SAMPLES)
        part = (double)time;
    if (d->by == DIFF_BY_TIME)
        whole = (double)side->duration;
    else if (d->measure != MEASURE_SAMPLES)
        whole = (double)side->nodes[TREE_ROOT].total_time;
    return whole > 0 ? part / whole : 0;
}

/* Two shares of samples, each sample being in or not: the two-proportion z-test, with the share of
 * both together as what would be expected if nothing had changed. */
static double sigmas_of_share(const struct diff *d, const struct diff_change *c)
{
    double n = (double)d->sides[DIFF_BEFORE].samples, m = (double)d->sides[DIFF_AFTER].samples;
    if (n <= 0 || m <= 0)
        return 0;
    double both = (c->before * n + c->after * m) / (n + m);
    double deviation = sqrt(both * (1 - both) * (1 / n + 1 / m));
    return deviation > 0 ? (c->after - c->before) / deviation : 0;
}

/* How many samples meet a function in a second varies like a count: by its square root. */
static double sigmas_of_time(const struct diff_change *c)
{
    double before = c->before_samples ? c->before * c->before / (double)c->before_samples : 0;
    double after = c->after_samples ? c->after * c->after / (double)c->after_samples : 0;
    double deviation = sqrt(before + after);
    return deviation > 0 ? (c->after - c->before) / deviation : 0;
}

static void judge(const struct diff *d, struct diff_change *c)
{
    c->sigmas = d->by == DIFF_BY_TIME ? sigmas_of_time(c) : sigmas_of_share(d, c);
}

struct diff_change diff_own(const struct diff *d, const struct diff_figures *before,
                            const struct diff_figures *after)
{
    struct diff_change c = {
        .before = portion(d, DIFF_BEFORE, before->own_samples, before->own_time),
        .after = portion(d, DIFF_AFTER, after->own_samples, after->own_time),
        .before_samples = before->own_samples,
        .after_samples = after->own_samples,
    };
    judge(d, &c);
    return c;
}

struct diff_change diff_total(const struct diff *d, const struct diff_figures *before,
                              const struct diff_figures *after)
{
    struct diff_change c = {
        .before = portion(d, DIFF_BEFORE, before->total_samples, before->total_time),
        .after = portion(d, DIFF_AFTER, after->total_samples, after->total_time),
        .before_samples = before->total_samples,
        .after_samples = after->total_samples,
    };
    judge(d, &c);
    return c;
}

bool diff_is_noise(const struct diff_change *change)
{
    return fabs(change->sigmas) < DIFF_SIGMAS;
}

/* ---- functions ---- */

struct walk {
    const struct diff *d;
    uint32_t *child, *sibling; /* node -> node; 0 = none, as the root is nobody's child */
    uint32_t *open;            /* label -> how many frames of it lie on the way to here */
    struct diff_figures *of[2];
};

static int walk_init(struct walk *w, const struct diff *d)
{
    const struct tree *t = &d->tree;
    size_t labels = t->texts.count;
    w->d = d;
    w->child = calloc(t->count, sizeof(*w->child));
    w->sibling = calloc(t->count, sizeof(*w->sibling));
    w->open = calloc(labels, sizeof(*w->open));
    for (size_t i = 0; i < ARRAY_LEN(w->of); i++)
        w->of[i] = calloc(labels, sizeof(*w->of[i]));
    if (!w->child || !w->sibling || !w->open || !w->of[0] || !w->of[1])
        return -SCRY_E_NO_MEMORY;
    for (uint32_t i = (uint32_t)t->count; i-- > 1;) {
        w->sibling[i] = w->child[t->nodes[i].parent];
        w->child[t->nodes[i].parent] = i;
    }
    return 0;
}

static void walk_done(struct walk *w)
{
    free(w->child);
    free(w->sibling);
    free(w->open);
    for (size_t i = 0; i < ARRAY_LEN(w->of); i++)
        free(w->of[i]);
}

static void enter(struct walk *w, uint32_t node)
{
    uint32_t label = w->d->tree.nodes[node].label;
    bool outermost = w->open[label]++ == 0;
    for (size_t i = 0; i < ARRAY_LEN(w->of); i++) {
        const struct diff_figures *from = &w->d->sides[i].nodes[node];
        struct diff_figures *to = &w->of[i][label];
        to->own_samples += from->own_samples;
        to->own_time += from->own_time;
        to->total_samples += outermost ? from->total_samples : 0;
        to->total_time += outermost ? from->total_time : 0;
    }
}

/* Down to the first child, else up to the nearest node that has a next one. The depth is the
 * target's: no recursion here. */
static void walk_all(struct walk *w)
{
    const struct tree_node *nodes = w->d->tree.nodes;
    for (uint32_t node = w->child[TREE_ROOT]; node != TREE_ROOT;) {
        enter(w, node);
        uint32_t next = w->child[node];
        while (!next && node != TREE_ROOT) {
            w->open[nodes[node].label]--;
            next = w->sibling[node];
            node = nodes[node].parent;
        }
        node = next;
    }
}

static double greatness(const struct diff_change *c)
{
    return fabs(c->after - c->before);
}

static int by_change(const void *pa, const void *pb, void *diff)
{
    const struct diff_function *a = pa, *b = pb;
    const struct diff *d = diff;
    if (greatness(&a->own) != greatness(&b->own))
        return greatness(&a->own) > greatness(&b->own) ? -1 : 1;
    if (greatness(&a->total) != greatness(&b->total))
        return greatness(&a->total) > greatness(&b->total) ? -1 : 1;
    return strcmp(interner_get(&d->tree.texts, a->label, NULL),
                  interner_get(&d->tree.texts, b->label, NULL));
}

int diff_functions(const struct diff *d, struct diff_function **ret_functions, size_t *ret_count,
                   struct error *err)
{
    struct walk w = {0};
    size_t labels = d->tree.texts.count, count = 0;
    struct diff_function *functions = calloc(labels, sizeof(*functions));
    if (walk_init(&w, d) < 0 || !functions) {
        walk_done(&w);
        free(functions);
        return error_set(err, -SCRY_E_NO_MEMORY, "out of memory");
    }
    walk_all(&w);
    for (uint32_t i = 0; i < labels; i++) {
        if (d->tree.labels[i].origin == ORIGIN_ROOT)
            continue;
        functions[count++] = (struct diff_function){
            .label = i,
            .own = diff_own(d, &w.of[DIFF_BEFORE][i], &w.of[DIFF_AFTER][i]),
            .total = diff_total(d, &w.of[DIFF_BEFORE][i], &w.of[DIFF_AFTER][i]),
        };
    }
    walk_done(&w);
    qsort_r(functions, count, sizeof(*functions), by_change, (void *)d);
    *ret_functions = functions;
    *ret_count = count;
    return 0;
}
