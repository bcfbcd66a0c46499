/* The differential flame graph: the boxes of one recording, coloured by what became of them from
 * one recording to the other. Both layouts are in the file, because each shows what the other
 * cannot: a frame that is new has no width before, and one that vanished has none after. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "format/diff.h"
#include "format/flame.h"
#include "format/writers.h"
#include "version.h"

#define LEVELS          6    /* of each colour, in flamegraph.css */
#define LEAST_REACH     0.02 /* a change of two points is not shown in the strongest colour */
#define LEGEND_X        10
#define LEGEND_Y        39
#define PATCH           18
#define LETTER          6.0 /* of the legend's font, on average */
#define PER_CENT(x)     (100.0 * (x))
#define MICROSECONDS(t) ((t) / 1000)

struct view {
    struct flame flame;
    struct tree tree;              /* the shared one, with totals of its own */
    struct diff_figures *rests[2]; /* by node: what of it is folded */
};

struct picture {
    const struct diff *d;
    const struct diff_options *options;
    double reach; /* the change that has the strongest colour */
    struct view views[2];
};

/* ---- one box ---- */

static const struct view *view_of(const struct flame *f)
{
    const struct picture *p = f->context;
    return f == &p->views[DIFF_BEFORE].flame ? &p->views[DIFF_BEFORE] : &p->views[DIFF_AFTER];
}

static struct diff_change change_of(const struct flame *f, const struct flame_part *part)
{
    const struct picture *p = f->context;
    const struct view *v = view_of(f);
    if (part->rest)
        return diff_total(p->d, &v->rests[DIFF_BEFORE][part->node],
                          &v->rests[DIFF_AFTER][part->node]);
    return diff_total(p->d, &p->d->sides[DIFF_BEFORE].nodes[part->node],
                      &p->d->sides[DIFF_AFTER].nodes[part->node]);
}

/* To two decimals, and 0 never negative. */
static double points(const struct diff_change *c)
{
    return round(PER_CENT(PER_CENT(c->after - c->before))) / 100 + 0.0;
}

static void note(const struct flame *f, const struct flame_part *part, struct buf *b)
{
    const struct picture *p = f->context;
    struct diff_change total = change_of(f, part);
    char before[32], after[32];
    buf_addf(b, "before %.2f%%, after %.2f%%, %+.2f points", PER_CENT(total.before),
             PER_CENT(total.after), points(&total));
    if (!part->rest) {
        struct diff_change own = diff_own(p->d, &p->d->sides[DIFF_BEFORE].nodes[part->node],
                                          &p->d->sides[DIFF_AFTER].nodes[part->node]);
        buf_addf(b, ", own %+.2f", points(&own));
    }
    buf_addf(b, ", %s → %s samples", flame_grouped(total.before_samples, before),
             flame_grouped(total.after_samples, after));
    if (total.before != total.after && diff_is_noise(&total))
        buf_add_str(b, ", within noise");
}

/* The square root, because most changes are small beside the greatest one. */
static int level(const struct picture *p, double change)
{
    int n = (int)ceil(LEVELS * sqrt(fabs(change) / p->reach));
    return n > LEVELS ? LEVELS : n < 1 ? 1 : n;
}

static void class(const struct flame *f, const struct flame_part *part, char ret_class[static 8])
{
    const struct picture *p = f->context;
    if (part->rest) {
        strcpy(ret_class, "x");
        return;
    }
    const struct tree *t = f->tree;
    bool root = t->labels[t->nodes[part->node].label].origin == ORIGIN_ROOT;
    struct diff_change c = change_of(f, part);
    if (diff_is_noise(&c))
        snprintf(ret_class, 8, "%sd0", root ? "r " : "");
    else
        snprintf(ret_class, 8, "%s%c%d", root ? "r " : "", c.after > c.before ? 'g' : 'd',
                 level(p, c.after - c.before));
}

static void fold(const struct flame *f, uint32_t node)
{
    const struct picture *p = f->context;
    const struct view *v = view_of(f);
    for (size_t i = 0; i < ARRAY_LEN(v->rests); i++) {
        const struct diff_figures *from = &p->d->sides[i].nodes[node];
        struct diff_figures *to = &v->rests[i][f->tree->nodes[node].parent];
        to->total_samples += from->total_samples;
        to->total_time += from->total_time;
    }
}

static const struct flame_kind differential = {.note = note, .class = class, .fold = fold};

/* ---- around the boxes ---- */

/* The greatest change that is no noise: other colours are measured by it. */
static double find_reach(const struct diff *d)
{
    double reach = LEAST_REACH;
    for (uint32_t i = 0; i < d->tree.count; i++) {
        struct diff_change c =
            diff_total(d, &d->sides[DIFF_BEFORE].nodes[i], &d->sides[DIFF_AFTER].nodes[i]);
        if (!diff_is_noise(&c) && fabs(c.after - c.before) > reach)
            reach = fabs(c.after - c.before);
    }
    return reach;
}

/* The share of one side in frames that the other does not have at all. */
static double only_in(const struct diff *d, enum diff_moment moment)
{
    const struct diff_figures *here = d->sides[moment].nodes, *there = d->sides[!moment].nodes;
    struct diff_figures none = {0}, sum = {0};
    for (uint32_t i = 1; i < d->tree.count; i++) {
        uint32_t parent = d->tree.nodes[i].parent;
        if (there[i].total_samples || (parent != TREE_ROOT && !there[parent].total_samples))
            continue;
        sum.total_samples += here[i].total_samples;
        sum.total_time += here[i].total_time;
    }
    return moment == DIFF_BEFORE ? diff_total(d, &sum, &none).before
                                 : diff_total(d, &none, &sum).after;
}

static void add_title(struct buf *b, const struct diff *d, const struct diff_options *o)
{
    char before[32], after[32];
    buf_add_str(b, "scry diff · ");
    if (o->view.title && o->view.title[0]) {
        words_clean(b, o->view.title);
    } else {
        words_clean(b, o->names[DIFF_BEFORE]);
        buf_add_str(b, " → ");
        words_clean(b, o->names[DIFF_AFTER]);
    }
    buf_addf(b, " · %s → %s samples", flame_grouped(d->sides[DIFF_BEFORE].samples, before),
             flame_grouped(d->sides[DIFF_AFTER].samples, after));
}

static void add_side(struct buf *b, const char *name, const struct diff_side *side)
{
    buf_addf(b, "%s: ", name);
    flame_add_span(b, (double)side->duration / 1e9);
    if (side->rate > 0)
        buf_addf(b, " at %g Hz", side->rate);
}

static void add_footer(struct buf *b, const struct diff *d)
{
    add_side(b, "Before", &d->sides[DIFF_BEFORE]);
    add_side(b, " · after", &d->sides[DIFF_AFTER]);
    buf_addf(b, " · %.2f%% gone, %.2f%% new", PER_CENT(only_in(d, DIFF_BEFORE)),
             PER_CENT(only_in(d, DIFF_AFTER)));
    buf_addf(b, " · percent of %s%s", diff_whole(d),
             d->by == DIFF_BY_TIME ? ", threads added up" : "");
    buf_addf(b, " · compared by scry %s", SCRY_VERSION);
}

/* "-12.3 points", six patches of blue, six of red, "+12.3 points". */
static void put_scale(const struct picture *p)
{
    FILE *out = p->views[0].flame.out;
    char text[32];
    int x = LEGEND_X;
    snprintf(text, sizeof(text), "-%.1f points", PER_CENT(p->reach));
    fprintf(out, "<text x=\"%d\" y=\"49\">%s</text>", x, text);
    x += (int)(LETTER * (double)strlen(text)) + 8;
    for (int i = -LEVELS; i <= LEVELS; i++) {
        fprintf(out, "<rect class=\"%c%d\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"11\"/>",
                i > 0 ? 'g' : 'd', abs(i), x, LEGEND_Y, PATCH);
        x += PATCH;
    }
    fprintf(out, "<text x=\"%d\" y=\"49\">+%.1f points</text>", x + 8, PER_CENT(p->reach));
    x += (int)(LETTER * (double)strlen(text)) + 34;
    flame_put_legend(out, "d0", "no change beyond the noise of sampling", &x);
}

/* ---- the page ---- */

static int view_init(struct picture *p, enum diff_moment moment, FILE *out)
{
    const struct diff *d = p->d;
    struct view *v = &p->views[moment];
    v->tree = d->tree;
    v->tree.nodes = malloc(d->tree.count * sizeof(*v->tree.nodes));
    v->rests[0] = calloc(d->tree.count, sizeof(*v->rests[0]));
    v->rests[1] = calloc(d->tree.count, sizeof(*v->rests[1]));
    if (!v->tree.nodes || !v->rests[0] || !v->rests[1])
        return -SCRY_E_NO_MEMORY;
    for (size_t i = 0; i < d->tree.count; i++) {
        const struct diff_figures *from = &d->sides[moment].nodes[i];
        v->tree.nodes[i] = d->tree.nodes[i];
        v->tree.nodes[i].time = from->total_time;
        v->tree.nodes[i].total = d->by == DIFF_BY_TIME || d->measure != MEASURE_SAMPLES
                                     ? MICROSECONDS(from->total_time)
                                     : from->total_samples;
    }
    v->flame = (struct flame){.tree = &v->tree, .kind = &differential, .context = p, .out = out};
    return v->tree.nodes[TREE_ROOT].total ? flame_arrange(&v->flame) : 0;
}

static void view_done(struct view *v)
{
    flame_done(&v->flame);
    free(v->tree.nodes);
    free(v->rests[0]);
    free(v->rests[1]);
}

static bool has_boxes(const struct view *v)
{
    return v->tree.nodes[TREE_ROOT].total > 0;
}

static int put_page(const struct picture *p, enum diff_moment shown, const char *title,
                    const char *footer)
{
    static const char *const names[] = {[DIFF_BEFORE] = "before", [DIFF_AFTER] = "after"};
    FILE *out = p->views[shown].flame.out;
    uint32_t height = flame_height(p->views[shown].flame.rows);
    int r = 0;
    flame_put_head(out, title, height);
    for (enum diff_moment m = DIFF_BEFORE; m <= DIFF_AFTER && r >= 0; m++)
        if (has_boxes(&p->views[m]))
            r = flame_put_boxes(&p->views[m].flame, names[m], m != shown);
    flame_put_foot(out, footer, height);
    flame_begin_header(out, title);
    put_scale(p);
    flame_end_header(out);
    flame_put_end(out);
    return r;
}

static int put_picture(struct picture *p, const char *title, const char *footer, FILE *out)
{
    int r = view_init(p, DIFF_BEFORE, out);
    if (r >= 0)
        r = view_init(p, DIFF_AFTER, out);
    if (r < 0)
        return r;
    enum diff_moment shown = p->options->widths;
    if (!has_boxes(&p->views[shown]))
        shown = !shown;
    if (has_boxes(&p->views[shown]))
        return put_page(p, shown, title, footer);
    flame_put_empty(out, title, "No samples: no Python code was running in either recording",
                    "The programs were probably idle. Record again with --idle to see what every "
                    "thread waits for.",
                    footer);
    return 0;
}

int flamegraph_diff_write(const struct diff *d, const struct diff_options *options, FILE *out,
                          struct error *err)
{
    struct picture p = {.d = d, .options = options, .reach = find_reach(d)};
    SCOPED_BUF title, footer;
    buf_init(&title);
    buf_init(&footer);
    add_title(&title, d, options);
    add_footer(&footer, d);
    int r = title.failed || footer.failed ? -SCRY_E_NO_MEMORY
                                          : put_picture(&p, title.data, footer.data, out);
    view_done(&p.views[DIFF_BEFORE]);
    view_done(&p.views[DIFF_AFTER]);
    return r < 0 ? error_set(err, r, "out of memory") : writers_check(out, err);
}
