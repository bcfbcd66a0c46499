/* A flame graph is one SVG file with everything in it. The boxes are drawn here, so that it is a
 * picture even where scripts do not run; the script (flamegraph.js) reads them back from the
 * document and adds zoom and search. Text from the target only ever stands in the document,
 * escaped, never in the script. */
#include "format/flame.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "flamegraph_assets.h"
#include "util/utf8.h"

/* Geometry in pixels of the static picture; the script asks the document, not these. */
#define WIDTH        1200
#define MARGIN       10
#define TOP          64 /* first row */
#define ROW          18
#define BOX          17 /* leaves a line between rows */
#define BASELINE     12.5
#define FOOTER       30
#define EMPTY_HEIGHT 190
#define CHAR_WIDTH   7.25 /* of the monospaced label font */

#define MAX_BOXES  8000 /* a few megabytes at most, whatever the profile */
#define MAX_LABEL  600  /* bytes of a label; a command line can be 100 KB */
#define BARE_BELOW 3.0  /* pixels: no outline on narrower boxes, it would hide them */
#define PADDING    3.0

struct flame_rest { /* the children of a box that are too narrow to be drawn, together */
    uint64_t count, total;
    scry_nsec time;
};

/* ---- text ---- */

static void put_escaped(FILE *out, const char *text)
{
    for (; *text; text++) {
        switch (*text) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        default:
            fputc(*text, out);
        }
    }
}

const char *flame_grouped(uint64_t number, char text[static 32])
{
    char digits[24];
    int n = snprintf(digits, sizeof(digits), "%" PRIu64, number);
    char *to = text;
    for (int i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0)
            *to++ = ',';
        *to++ = digits[i];
    }
    *to = '\0';
    return text;
}

void flame_add_span(struct buf *b, double seconds)
{
    if (seconds < 120)
        buf_addf(b, "%.1f s", seconds);
    else if (seconds < 7200)
        buf_addf(b, "%.0f min %02.0f s", floor(seconds / 60), fmod(floor(seconds), 60));
    else
        buf_addf(b, "%.0f h %02.0f min", floor(seconds / 3600), fmod(floor(seconds / 60), 60));
}

const char *flame_plural(uint64_t number, const char *one, const char *many)
{
    return number == 1 ? one : many;
}

/* How many bytes of `text` fit into `columns`; wide characters count twice. *ret_columns: what they
 * take. */
static size_t fitting(const char *text, size_t columns, size_t *ret_columns)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t left = strlen(text), used = 0, taken = 0;
    while (used < left) {
        size_t n = utf8_length(s + used, left - used);
        if (!n)
            break;
        size_t wide = utf8_decode(s + used, n) >= 0x1100 ? 2 : 1;
        if (taken + wide > columns)
            break;
        taken += wide;
        used += n;
    }
    *ret_columns = taken;
    return used;
}

/* The label as put into titles: whole, unless it is absurdly long. */
static void add_label(struct buf *b, const char *text)
{
    size_t length = utf8_prefix(text, strlen(text), MAX_LABEL);
    buf_add(b, text, length);
    if (text[length])
        buf_add_str(b, "…");
}

/* ---- what is drawn ---- */

static int by_parent_and_weight(const void *pa, const void *pb, void *tree)
{
    const struct tree *t = tree;
    uint32_t a = *(const uint32_t *)pa, b = *(const uint32_t *)pb;
    const struct tree_node *x = &t->nodes[a], *y = &t->nodes[b];
    if (x->parent != y->parent)
        return x->parent < y->parent ? -1 : 1;
    if (x->total != y->total)
        return x->total > y->total ? -1 : 1;
    return strcmp(tree_text(t, a), tree_text(t, b));
}

static int by_importance(const void *pa, const void *pb, void *tree)
{
    const struct tree *t = tree;
    uint32_t a = *(const uint32_t *)pa, b = *(const uint32_t *)pb;
    const struct tree_node *x = &t->nodes[a], *y = &t->nodes[b];
    if (x->total != y->total)
        return x->total > y->total ? -1 : 1;
    if (x->depth != y->depth)
        return x->depth < y->depth ? -1 : 1;
    return by_parent_and_weight(pa, pb, tree);
}

/* The nodes to draw, most important first. A parent weighs at least as much as its child and lies
 * above it: with any box, its callers are drawn. */
static int choose_boxes(struct flame *f)
{
    const struct tree *t = f->tree;
    f->boxes = malloc(t->count * sizeof(*f->boxes));
    if (!f->boxes)
        return -SCRY_E_NO_MEMORY;
    f->narrowest = (uint64_t)ceil((double)t->nodes[TREE_ROOT].total * FLAME_NARROWEST);
    size_t seen = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        seen += t->nodes[i].total > 0;
        if (t->nodes[i].total >= f->narrowest)
            f->boxes[f->count++] = i;
    }
    qsort_r(f->boxes, f->count, sizeof(*f->boxes), by_importance, (void *)t);
    if (f->count > MAX_BOXES)
        f->count = MAX_BOXES;
    f->folded = seen - f->count;
    return 0;
}

static int add_rests(struct flame *f)
{
    const struct tree *t = f->tree;
    bool *drawn = calloc(t->count, sizeof(*drawn));
    f->rests = calloc(t->count, sizeof(*f->rests));
    if (!drawn || !f->rests) {
        free(drawn);
        return -SCRY_E_NO_MEMORY;
    }
    for (size_t i = 0; i < f->count; i++)
        drawn[f->boxes[i]] = true;
    for (uint32_t i = 1; i < t->count; i++) {
        const struct tree_node *node = &t->nodes[i];
        if (drawn[i] || !drawn[node->parent] || !node->total)
            continue;
        struct flame_rest *rest = &f->rests[node->parent];
        rest->count++;
        rest->total += node->total;
        rest->time += node->time;
        if (f->kind->fold)
            f->kind->fold(f, i);
    }
    free(drawn);
    return 0;
}

static int arrange_boxes(struct flame *f)
{
    const struct tree *t = f->tree;
    f->first = calloc(t->count, sizeof(*f->first));
    if (!f->first)
        return -SCRY_E_NO_MEMORY;
    /* Boxes 0 is the root, whatever is chosen: nothing weighs more, nothing lies above it. */
    qsort_r(f->boxes + 1, f->count - 1, sizeof(*f->boxes), by_parent_and_weight, (void *)t);
    for (uint32_t i = (uint32_t)f->count; i-- > 1;)
        f->first[t->nodes[f->boxes[i]].parent] = i;
    for (size_t i = 0; i < f->count; i++)
        if (t->nodes[f->boxes[i]].depth > f->deepest)
            f->deepest = t->nodes[f->boxes[i]].depth;
    return 0;
}

int flame_arrange(struct flame *f)
{
    int r = choose_boxes(f);
    if (r >= 0)
        r = add_rests(f);
    if (r >= 0)
        r = arrange_boxes(f);
    /* One row more where the narrow ones below the deepest row are folded. */
    f->rows = f->deepest + 1 + (f->folded ? 1 : 0);
    return r;
}

void flame_done(struct flame *f)
{
    free(f->boxes);
    free(f->first);
    free(f->rests);
    f->boxes = f->first = NULL;
    f->rests = NULL;
}

/* ---- boxes ---- */

struct box {
    struct flame_part part;
    const char *label;
    char class[8];
    uint64_t x;
    scry_nsec time;
    uint32_t row;
};

/* The place in a frame's label where the file begins; NULL in labels of other boxes. */
static const char *file_part(const struct box *box)
{
    if (box->class[0] == 'r' || box->class[0] == 'x')
        return NULL;
    const char *last = NULL;
    for (const char *s = box->label; (s = strstr(s, " (")); s++)
        last = s;
    return last;
}

/* What of the name fits: all, or its last part ("_format" of "dump.<locals>._format"), or the beginning of
 * that. */
static void add_name(struct buf *shown, const char *name, bool qualified, size_t columns)
{
    size_t taken;
    if (qualified && name[fitting(name, columns, &taken)]) {
        const char *dot = strrchr(name, '.');
        name = dot && dot[1] ? dot + 1 : name;
    }
    size_t length = fitting(name, columns, &taken);
    if (name[length])
        length = fitting(name, columns - 1, &taken);
    buf_add(shown, name, length);
    if (name[length])
        buf_add_str(shown, "…");
}

/* The whole label if it fits, else what fits of the name. */
static void put_label(FILE *out, const struct box *box, double pixels)
{
    double room = (pixels - 2 * PADDING) / CHAR_WIDTH;
    if (room < 3)
        return;
    size_t columns = (size_t)room, taken;
    const char *where = file_part(box);
    SCOPED_BUF name, shown;
    buf_init(&name);
    buf_init(&shown);
    buf_add(&name, box->label, where ? (size_t)(where - box->label) : strlen(box->label));
    add_name(&shown, name.data, where, columns);
    put_escaped(out, shown.data);
    if (where && !box->label[fitting(box->label, columns, &taken)]) {
        fputs("<tspan>", out);
        put_escaped(out, where);
        fputs("</tspan>", out);
    }
}

static void put_title(const struct flame *f, const struct box *box)
{
    SCOPED_BUF note;
    buf_init(&note);
    f->kind->note(f, &box->part, &note);
    fputs("<title>", f->out);
    put_escaped(f->out, box->label);
    fputs(" (", f->out);
    put_escaped(f->out, note.data);
    fputs(")</title>", f->out);
}

static void put_box(const struct flame *f, const struct box *box)
{
    double total = (double)f->tree->nodes[TREE_ROOT].total;
    double x = 100.0 * (double)box->x / total, width = 100.0 * (double)box->part.width / total;
    double pixels = width / 100 * (WIDTH - 2 * MARGIN);
    uint32_t y = box->row * ROW;
    fputs("<g>", f->out);
    put_title(f, box);
    fprintf(f->out,
            "<rect class=\"%s%s\" x=\"%.4f%%\" y=\"%" PRIu32 "\" width=\"%.4f%%\" height=\"%d\" "
            "fg:x=\"%" PRIu64 "\" fg:w=\"%" PRIu64 "\" fg:t=\"%.3f\"/>",
            box->class, pixels < BARE_BELOW ? " n" : "", x, y, width, BOX, box->x, box->part.width,
            (double)box->time / 1e9);
    fprintf(f->out, "<text x=\"%.4f%%\" y=\"%.1f\">", x + 100 * PADDING / (WIDTH - 2 * MARGIN),
            y + BASELINE);
    put_label(f->out, box, pixels);
    fputs("</text></g>\n", f->out);
}

static void put_node(const struct flame *f, uint32_t node, uint64_t x)
{
    const struct tree_node *n = &f->tree->nodes[node];
    SCOPED_BUF label;
    buf_init(&label);
    add_label(&label, node == TREE_ROOT ? "all" : tree_text(f->tree, node));
    struct box box = {.part = {.node = node, .width = n->total},
                      .label = label.data,
                      .x = x,
                      .time = n->time,
                      .row = n->depth};
    f->kind->class(f, &box.part, box.class);
    put_box(f, &box);
}

/* One box for all children too narrow to be drawn, so that the widths below a box still add up. */
static void put_rest(const struct flame *f, uint32_t parent, uint64_t x)
{
    const struct flame_rest *rest = &f->rests[parent];
    if (!rest->count || rest->total < f->narrowest)
        return;
    char number[32];
    SCOPED_BUF label;
    buf_init(&label);
    buf_addf(&label, "(%s narrower %s)", flame_grouped(rest->count, number),
             flame_plural(rest->count, "frame", "frames"));
    struct box box = {.part = {.node = parent, .rest = true, .width = rest->total},
                      .label = label.data,
                      .x = x,
                      .time = rest->time,
                      .row = f->tree->nodes[parent].depth + 1};
    f->kind->class(f, &box.part, box.class);
    put_box(f, &box);
}

struct visit {
    uint32_t node;
    uint32_t next; /* in boxes; 0 = no child is left */
    uint64_t x;    /* where the next child begins */
};

static struct visit visit(const struct flame *f, uint32_t node, uint64_t x)
{
    put_node(f, node, x);
    return (struct visit){.node = node, .next = f->first[node], .x = x};
}

/* A box and then, one after another, the boxes below it. The depth is the target's: no recursion
 * here. */
static int put_boxes(const struct flame *f)
{
    const struct tree *t = f->tree;
    struct visit *stack = malloc((f->deepest + 1) * sizeof(*stack));
    if (!stack)
        return -SCRY_E_NO_MEMORY;
    size_t depth = 0;
    stack[depth++] = visit(f, TREE_ROOT, 0);
    while (depth) {
        struct visit *top = &stack[depth - 1];
        if (!top->next) {
            put_rest(f, top->node, top->x);
            depth--;
            continue;
        }
        uint32_t node = f->boxes[top->next++];
        uint64_t x = top->x;
        top->x += t->nodes[node].total;
        if (top->next == f->count || t->nodes[f->boxes[top->next]].parent != top->node)
            top->next = 0;
        stack[depth++] = visit(f, node, x);
    }
    free(stack);
    return 0;
}

static const char *const units[] = {
    [MEASURE_SAMPLES] = "",
    [MEASURE_WALL] = " unit=\"wall\"",
    [MEASURE_CPU] = " unit=\"us\"",
};

int flame_put_boxes(const struct flame *f, const char *view, bool hidden)
{
    fprintf(
        f->out,
        "<svg class=\"frames\" id=\"frames%s%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%" PRIu32
        "\" total_samples=\"%" PRIu64 "\"%s%s>\n",
        view[0] ? "-" : "", view, MARGIN, TOP, WIDTH - 2 * MARGIN, f->rows * ROW,
        f->tree->nodes[TREE_ROOT].total, units[f->measure],
        hidden ? " style=\"display:none\"" : "");
    int r = put_boxes(f);
    fputs("</svg>\n", f->out);
    return r;
}

/* ---- around the boxes ---- */

uint32_t flame_height(uint32_t rows)
{
    return TOP + rows * ROW + FOOTER;
}

void flame_put_head(FILE *out, const char *title, uint32_t height)
{
    fprintf(out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"no\"?>\n"
            "<!DOCTYPE svg>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" xmlns:fg=\"urn:scry:flamegraph\" "
            "version=\"1.1\" width=\"%d\" height=\"%" PRIu32 "\" viewBox=\"0 0 %d %" PRIu32 "\">\n",
            WIDTH, height, WIDTH, height);
    fputs("<title>", out);
    put_escaped(out, title);
    fputs("</title>\n<style><![CDATA[\n", out);
    fputs(flamegraph_css, out);
    fputs("]]></style>\n<rect id=\"background\" width=\"100%\" height=\"100%\"/>\n", out);
}

void flame_begin_header(FILE *out, const char *title)
{
    fputs("<g id=\"header\"><rect id=\"band\" width=\"100%\" height=\"58\"/>"
          "<text id=\"title\" x=\"10\" y=\"25\">",
          out);
    put_escaped(out, title);
    fputs("</text>\n<g id=\"legend\">", out);
}

void flame_put_legend(FILE *out, const char *class, const char *text, int *x)
{
    fprintf(out, "<rect class=\"%s\" x=\"%d\" y=\"39\" width=\"11\" height=\"11\" rx=\"2\"/>",
            class, *x);
    fprintf(out, "<text x=\"%d\" y=\"49\">%s</text>", *x + 16, text);
    *x += 16 + (int)(strlen(text) * 6.0) + 18;
}

void flame_end_header(FILE *out)
{
    fputs("</g>\n<text id=\"details\" x=\"10\" y=\"49\"> </text></g>\n", out);
}

void flame_put_foot(FILE *out, const char *footer, uint32_t height)
{
    fprintf(out, "<text id=\"footer\" x=\"%d\" y=\"%" PRIu32 "\">", MARGIN, height - 11);
    put_escaped(out, footer);
    fputs("</text>\n", out);
}

void flame_put_end(FILE *out)
{
    fputs("<script><![CDATA[\n", out);
    fputs(flamegraph_js, out);
    fputs("]]></script>\n</svg>\n", out);
}

void flame_put_empty(FILE *out, const char *title, const char *what, const char *why,
                     const char *footer)
{
    flame_put_head(out, title, EMPTY_HEIGHT);
    fputs("<text id=\"title\" x=\"10\" y=\"25\">", out);
    put_escaped(out, title);
    fputs("</text>\n<text class=\"empty\" x=\"50%\" y=\"88\">", out);
    put_escaped(out, what);
    fputs("</text>\n<text class=\"empty why\" x=\"50%\" y=\"114\">", out);
    put_escaped(out, why);
    fputs("</text>\n", out);
    flame_put_foot(out, footer, EMPTY_HEIGHT);
    fputs("</svg>\n", out);
}
