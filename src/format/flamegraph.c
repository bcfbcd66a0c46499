/* The flame graph: one SVG file with everything in it. The boxes are drawn here, so that it is a
 * picture even where scripts do not run; the script (flamegraph.js) reads them back from the
 * document and adds zoom and search. Text from the target only ever stands in the document,
 * escaped, never in the script. */
#include "format/writers.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "flamegraph_assets.h"
#include "format/tree.h"
#include "util/utf8.h"
#include "version.h"

/* Geometry in pixels of the static picture; the script asks the document, not these. */
#define WIDTH      1200
#define MARGIN     10
#define TOP        64 /* first row */
#define ROW        18
#define BOX        17 /* leaves a line between rows */
#define BASELINE   12.5
#define FOOTER     30
#define CHAR_WIDTH 7.25 /* of the monospaced label font */

#define NARROWEST  0.0002 /* of all samples; less is folded into one box per parent */
#define MAX_BOXES  8000   /* a few megabytes at most, whatever the profile */
#define MAX_LABEL  600    /* bytes of a label; a command line can be 100 KB */
#define SHADES     8      /* per origin, in flamegraph.css */
#define BARE_BELOW 3.0    /* pixels: no outline on narrower boxes, it would hide them */
#define PADDING    3.0

struct rest { /* the children of a box that are too narrow to be drawn, together */
    uint64_t count, samples;
    scry_nsec time;
};

struct graph {
    const struct tree *tree;
    FILE *out;
    uint32_t *boxes; /* the nodes drawn, by parent, heaviest first; the root stands first */
    size_t count;
    uint32_t *first;    /* node -> index in `boxes` of its first child; 0 = none is drawn */
    struct rest *rests; /* by node */
    uint64_t narrowest; /* samples */
    uint32_t deepest;
    uint64_t folded;
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

/* 1234567 -> "1,234,567" */
static const char *grouped(uint64_t number, char text[static 32])
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

static const char *plural(uint64_t number, const char *one, const char *many)
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
static int choose_boxes(struct graph *g)
{
    const struct tree *t = g->tree;
    g->boxes = malloc(t->count * sizeof(*g->boxes));
    if (!g->boxes)
        return -SCRY_E_NO_MEMORY;
    g->narrowest = (uint64_t)ceil((double)t->nodes[TREE_ROOT].total * NARROWEST);
    for (uint32_t i = 0; i < t->count; i++)
        if (t->nodes[i].total >= g->narrowest)
            g->boxes[g->count++] = i;
    qsort_r(g->boxes, g->count, sizeof(*g->boxes), by_importance, (void *)t);
    if (g->count > MAX_BOXES)
        g->count = MAX_BOXES;
    g->folded = t->count - g->count;
    return 0;
}

static int add_rests(struct graph *g)
{
    const struct tree *t = g->tree;
    bool *drawn = calloc(t->count, sizeof(*drawn));
    g->rests = calloc(t->count, sizeof(*g->rests));
    if (!drawn || !g->rests) {
        free(drawn);
        return -SCRY_E_NO_MEMORY;
    }
    for (size_t i = 0; i < g->count; i++)
        drawn[g->boxes[i]] = true;
    for (uint32_t i = 1; i < t->count; i++) {
        const struct tree_node *node = &t->nodes[i];
        if (drawn[i] || !drawn[node->parent])
            continue;
        struct rest *rest = &g->rests[node->parent];
        rest->count++;
        rest->samples += node->total;
        rest->time += node->time;
    }
    free(drawn);
    return 0;
}

static int arrange_boxes(struct graph *g)
{
    const struct tree *t = g->tree;
    g->first = calloc(t->count, sizeof(*g->first));
    if (!g->first)
        return -SCRY_E_NO_MEMORY;
    /* Boxes 0 is the root, whatever is chosen: nothing weighs more, nothing lies above it. */
    qsort_r(g->boxes + 1, g->count - 1, sizeof(*g->boxes), by_parent_and_weight, (void *)t);
    for (uint32_t i = (uint32_t)g->count; i-- > 1;)
        g->first[t->nodes[g->boxes[i]].parent] = i;
    for (size_t i = 0; i < g->count; i++)
        if (t->nodes[g->boxes[i]].depth > g->deepest)
            g->deepest = t->nodes[g->boxes[i]].depth;
    return 0;
}

/* ---- boxes ---- */

struct box {
    const char *label;
    const char *class;
    uint64_t x, samples;
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

static void put_box(const struct graph *g, const struct box *box)
{
    char count[32];
    double total = (double)g->tree->nodes[TREE_ROOT].total;
    double x = 100.0 * (double)box->x / total, width = 100.0 * (double)box->samples / total;
    double pixels = width / 100 * (WIDTH - 2 * MARGIN);
    uint32_t y = box->row * ROW;
    fputs("<g><title>", g->out);
    put_escaped(g->out, box->label);
    fprintf(g->out, " (%s %s, %.2f%%)</title>", grouped(box->samples, count),
            plural(box->samples, "sample", "samples"), width);
    fprintf(g->out,
            "<rect class=\"%s%s\" x=\"%.4f%%\" y=\"%" PRIu32 "\" width=\"%.4f%%\" height=\"%d\" "
            "fg:x=\"%" PRIu64 "\" fg:w=\"%" PRIu64 "\" fg:t=\"%.3f\"/>",
            box->class, pixels < BARE_BELOW ? " n" : "", x, y, width, BOX, box->x, box->samples,
            (double)box->time / 1e9);
    fprintf(g->out, "<text x=\"%.4f%%\" y=\"%.1f\">", x + 100 * PADDING / (WIDTH - 2 * MARGIN),
            y + BASELINE);
    put_label(g->out, box, pixels);
    fputs("</text></g>\n", g->out);
}

static void put_node(const struct graph *g, uint32_t node, uint64_t x)
{
    static const char families[] = {
        [ORIGIN_USER] = 'u',   [ORIGIN_PACKAGE] = 'p', [ORIGIN_STDLIB] = 's',
        [ORIGIN_NATIVE] = 'c', [ORIGIN_ROOT] = 'r',
    };
    const struct tree_node *n = &g->tree->nodes[node];
    const struct tree_label *l = &g->tree->labels[n->label];
    char class[3] = {families[l->origin], (char)('0' + l->hue % SHADES), '\0'};
    SCOPED_BUF label;
    buf_init(&label);
    add_label(&label, node == TREE_ROOT ? "all" : tree_text(g->tree, node));
    put_box(g, &(struct box){.label = label.data,
                             .class = class,
                             .x = x,
                             .samples = n->total,
                             .time = n->time,
                             .row = n->depth});
}

/* One box for all children too narrow to be drawn, so that the widths below a box still add up. */
static void put_rest(const struct graph *g, uint32_t parent, uint64_t x)
{
    const struct rest *rest = &g->rests[parent];
    if (!rest->count || rest->samples < g->narrowest)
        return;
    char number[32];
    SCOPED_BUF label;
    buf_init(&label);
    buf_addf(&label, "(%s narrower %s)", grouped(rest->count, number),
             plural(rest->count, "frame", "frames"));
    put_box(g, &(struct box){.label = label.data,
                             .class = "x",
                             .x = x,
                             .samples = rest->samples,
                             .time = rest->time,
                             .row = g->tree->nodes[parent].depth + 1});
}

struct visit {
    uint32_t node;
    uint32_t next; /* in boxes; 0 = no child is left */
    uint64_t x;    /* where the next child begins */
};

static struct visit visit(const struct graph *g, uint32_t node, uint64_t x)
{
    put_node(g, node, x);
    return (struct visit){.node = node, .next = g->first[node], .x = x};
}

/* A box and then, one after another, the boxes below it. The depth is the target's: no recursion
 * here. */
static int put_boxes(const struct graph *g)
{
    const struct tree *t = g->tree;
    struct visit *stack = malloc((g->deepest + 1) * sizeof(*stack));
    if (!stack)
        return -SCRY_E_NO_MEMORY;
    size_t depth = 0;
    stack[depth++] = visit(g, TREE_ROOT, 0);
    while (depth) {
        struct visit *top = &stack[depth - 1];
        if (!top->next) {
            put_rest(g, top->node, top->x);
            depth--;
            continue;
        }
        uint32_t node = g->boxes[top->next++];
        uint64_t x = top->x;
        top->x += t->nodes[node].total;
        if (top->next == g->count || t->nodes[g->boxes[top->next]].parent != top->node)
            top->next = 0;
        stack[depth++] = visit(g, node, x);
    }
    free(stack);
    return 0;
}

/* ---- around the boxes ---- */

/* "30.0 s", "2 min 5 s" */
static void add_span(struct buf *b, double seconds)
{
    if (seconds < 120)
        buf_addf(b, "%.1f s", seconds);
    else if (seconds < 7200)
        buf_addf(b, "%.0f min %02.0f s", floor(seconds / 60), fmod(floor(seconds), 60));
    else
        buf_addf(b, "%.0f h %02.0f min", floor(seconds / 3600), fmod(floor(seconds / 60), 60));
}

static void add_title(struct buf *b, struct recording *r, const struct format_options *options,
                      uint64_t samples)
{
    const struct rec_info *info = recording_info(r);
    char number[32];
    buf_add_str(b, "scry · ");
    size_t processes = recording_process_count(r);
    if (options->title && options->title[0])
        words_clean(b, options->title);
    else if (processes)
        words_program(b, recording_process(r, 0)->command);
    else
        buf_add_str(b, "no process");
    if (processes > 1)
        buf_addf(b, " and %zu more", processes - 1);
    buf_addf(b, " · %s %s over ", grouped(samples, number), plural(samples, "sample", "samples"));
    add_span(b, (double)recording_summary(r)->duration / 1e9);
    if (info->rate > 0)
        buf_addf(b, " at %g Hz", info->rate);
}

static void add_count(struct buf *b, uint64_t count, const char *what)
{
    char number[32];
    if (count)
        buf_addf(b, " · %s %s", grouped(count, number), what);
}

static void add_footer(struct buf *b, struct recording *r, const struct graph *g)
{
    const struct rec_info *info = recording_info(r);
    const struct rec_summary *sum = recording_summary(r);
    time_t start = (time_t)(info->start_unix_ns / SCRY_NSEC_PER_SEC);
    struct tm tm;
    char when[40] = "";
    if (info->start_unix_ns && gmtime_r(&start, &tm))
        strftime(when, sizeof(when), " %Y-%m-%d %H:%M:%S UTC", &tm);
    buf_addf(b, "Recorded%s by scry %s", when, SCRY_VERSION);
    if (recording_process_count(r) && recording_process(r, 0)->python[0]) {
        buf_add_str(b, " · Python ");
        words_clean(b, recording_process(r, 0)->python);
    }
    if (!sum->complete)
        buf_add_str(b, " · the recording was cut off");
    add_count(b, sum->torn, "torn");
    add_count(b, sum->missed, "missed");
    add_count(b, sum->late, "late");
    add_count(b, sum->errors, plural(sum->errors, "error", "errors"));
    if (g->folded) {
        char number[32];
        buf_addf(b, " · %s %s than %.2f%% folded", grouped(g->folded, number),
                 plural(g->folded, "frame narrower", "frames narrower"), 100 * NARROWEST);
    }
}

static void put_legend(FILE *out)
{
    static const struct {
        const char *class, *text;
    } items[] = {
        {"u2", "your code"},   {"p2", "packages"},        {"s2", "standard library"},
        {"c2", "native code"}, {"r0", "process, thread"},
    };
    int x = MARGIN;
    fputs("<g id=\"legend\">", out);
    for (size_t i = 0; i < ARRAY_LEN(items); i++) {
        fprintf(out, "<rect class=\"%s\" x=\"%d\" y=\"39\" width=\"11\" height=\"11\" rx=\"2\"/>",
                items[i].class, x);
        fprintf(out, "<text x=\"%d\" y=\"49\">%s</text>", x + 16, items[i].text);
        x += 16 + (int)(strlen(items[i].text) * 6.0) + 18;
    }
    fputs("</g>\n", out);
}

static void put_head(FILE *out, const char *title, uint32_t height)
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

static void put_header(FILE *out, const char *title)
{
    fputs("<g id=\"header\"><rect id=\"band\" width=\"100%\" height=\"58\"/>"
          "<text id=\"title\" x=\"10\" y=\"25\">",
          out);
    put_escaped(out, title);
    fputs("</text>\n", out);
    put_legend(out);
    fputs("<text id=\"details\" x=\"10\" y=\"49\"> </text></g>\n", out);
}

static void put_foot(FILE *out, const char *footer, uint32_t height)
{
    fprintf(out, "<text id=\"footer\" x=\"%d\" y=\"%" PRIu32 "\">", MARGIN, height - 11);
    put_escaped(out, footer);
    fputs("</text>\n", out);
}

static int put_graph(struct graph *g, struct recording *r, const char *title)
{
    int result = choose_boxes(g);
    if (result >= 0)
        result = add_rests(g);
    if (result >= 0)
        result = arrange_boxes(g);
    if (result < 0)
        return result;
    /* One row more where the narrow ones below the deepest row are folded. */
    uint32_t rows = g->deepest + 1 + (g->folded ? 1 : 0);
    uint32_t height = TOP + rows * ROW + FOOTER;
    SCOPED_BUF footer;
    buf_init(&footer);
    add_footer(&footer, r, g);
    put_head(g->out, title, height);
    fprintf(g->out,
            "<svg id=\"frames\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%" PRIu32
            "\" total_samples=\"%" PRIu64 "\">\n",
            MARGIN, TOP, WIDTH - 2 * MARGIN, rows * ROW, g->tree->nodes[TREE_ROOT].total);
    result = put_boxes(g);
    fputs("</svg>\n", g->out);
    put_foot(g->out, footer.data, height);
    put_header(g->out, title);
    fputs("<script><![CDATA[\n", g->out);
    fputs(flamegraph_js, g->out);
    fputs("]]></script>\n</svg>\n", g->out);
    return result < 0 ? result : footer.failed ? -SCRY_E_NO_MEMORY : 0;
}

/* Not an error: a program that only waits has no active thread to show. */
static void put_empty(FILE *out, struct recording *r, const char *title)
{
    uint32_t height = 190;
    bool idle = recording_info(r)->options & REC_OPT_IDLE;
    bool gil = recording_info(r)->options & REC_OPT_GIL;
    struct graph none = {0};
    SCOPED_BUF footer;
    buf_init(&footer);
    add_footer(&footer, r, &none);
    put_head(out, title, height);
    fputs("<text id=\"title\" x=\"10\" y=\"25\">", out);
    put_escaped(out, title);
    fputs("</text>\n<text class=\"empty\" x=\"50%\" y=\"88\">No samples: no Python code was running"
          "</text>\n<text class=\"empty why\" x=\"50%\" y=\"114\">",
          out);
    if (idle)
        fputs("No thread had a Python frame while it was recorded.", out);
    else if (gil)
        fputs("No thread held the GIL. Record again without --gil, or with --idle to see what "
              "every thread waits for.",
              out);
    else
        fputs("The program was probably idle. Record again with --idle to see what every thread "
              "waits for.",
              out);
    fputs("</text>\n", out);
    put_foot(out, footer.data, height);
    fputs("</svg>\n", out);
}

int flamegraph_write(struct recording *recording, const struct format_options *options, FILE *out,
                     struct error *err)
{
    struct tree tree;
    int r = tree_read(&tree, recording, options, false, err);
    if (r < 0)
        return r;
    struct graph g = {.tree = &tree, .out = out};
    SCOPED_BUF title;
    buf_init(&title);
    add_title(&title, recording, options, tree.nodes[TREE_ROOT].total);
    if (tree.nodes[TREE_ROOT].total)
        r = put_graph(&g, recording, title.data);
    else
        put_empty(out, recording, title.data);
    free(g.boxes);
    free(g.first);
    free(g.rests);
    tree_done(&tree);
    return r < 0 ? error_set(err, r, "out of memory") : writers_check(out, err);
}
