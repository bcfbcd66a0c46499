/* The flame graph of one recording. Colours say whose code a box is. */
#include "format/writers.h"

#include <string.h>
#include <time.h>

#include "format/flame.h"
#include "version.h"

#define SHADES 8  /* per origin, in flamegraph.css */
#define MARGIN 10 /* where the legend begins */

static void note(const struct flame *f, const struct flame_part *part, struct buf *b)
{
    char count[32];
    double total = (double)f->tree->nodes[TREE_ROOT].total;
    if (f->measure != MEASURE_SAMPLES)
        buf_addf(b, "%.3f s%s", (double)part->width / 1e6,
                 f->measure == MEASURE_CPU ? " of CPU" : "");
    else
        buf_addf(b, "%s %s", flame_grouped(part->width, count),
                 flame_plural(part->width, "sample", "samples"));
    buf_addf(b, ", %.2f%%", 100.0 * (double)part->width / total);
}

static void class(const struct flame *f, const struct flame_part *part, char ret_class[static 8])
{
    static const char families[] = {
        [ORIGIN_USER] = 'u',   [ORIGIN_PACKAGE] = 'p', [ORIGIN_STDLIB] = 's',
        [ORIGIN_NATIVE] = 'c', [ORIGIN_ROOT] = 'r',
    };
    if (part->rest) {
        strcpy(ret_class, "x");
        return;
    }
    const struct tree_label *l = &f->tree->labels[f->tree->nodes[part->node].label];
    ret_class[0] = families[l->origin];
    ret_class[1] = (char)('0' + l->hue % SHADES);
    ret_class[2] = '\0';
}

static const struct flame_kind plain = {.note = note, .class = class};

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
    enum measure measure = words_measure(r);
    if (measure != MEASURE_SAMPLES)
        buf_addf(b, " · %.2f s of %s time over ", (double)samples / 1e6,
                 measure == MEASURE_CPU ? "CPU" : "running");
    else
        buf_addf(b, " · %s %s over ", flame_grouped(samples, number),
                 flame_plural(samples, "sample", "samples"));
    flame_add_span(b, (double)recording_summary(r)->duration / 1e9);
    if (info->rate > 0)
        buf_addf(b, " at %g Hz", info->rate);
}

static void add_count(struct buf *b, uint64_t count, const char *what)
{
    char number[32];
    if (count)
        buf_addf(b, " · %s %s", flame_grouped(count, number), what);
}

static void add_footer(struct buf *b, struct recording *r, const struct flame *f)
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
    add_count(b, sum->unmerged, "without all native frames");
    add_count(b, sum->errors, flame_plural(sum->errors, "error", "errors"));
    if (f->folded) {
        char number[32];
        buf_addf(b, " · %s %s than %.2f%% folded", flame_grouped(f->folded, number),
                 flame_plural(f->folded, "frame narrower", "frames narrower"),
                 100 * FLAME_NARROWEST);
    }
}

static void put_header(FILE *out, const char *title)
{
    static const struct {
        const char *class, *text;
    } items[] = {
        {"u2", "your code"},   {"p2", "packages"},        {"s2", "standard library"},
        {"c2", "native code"}, {"r0", "process, thread"},
    };
    int x = MARGIN;
    flame_begin_header(out, title);
    for (size_t i = 0; i < ARRAY_LEN(items); i++)
        flame_put_legend(out, items[i].class, items[i].text, &x);
    flame_end_header(out);
}

static int put_graph(struct flame *f, struct recording *r, const char *title)
{
    int result = flame_arrange(f);
    if (result < 0)
        return result;
    SCOPED_BUF footer;
    buf_init(&footer);
    add_footer(&footer, r, f);
    flame_put_head(f->out, title, flame_height(f->rows));
    result = flame_put_boxes(f, "", false);
    flame_put_foot(f->out, footer.data, flame_height(f->rows));
    put_header(f->out, title);
    flame_put_end(f->out);
    return result < 0 ? result : footer.failed ? -SCRY_E_NO_MEMORY : 0;
}

/* Not an error: a program that only waits has no active thread to show. */
static void put_empty(FILE *out, struct recording *r, const char *title)
{
    uint32_t options = recording_info(r)->options;
    const struct flame none = {0};
    SCOPED_BUF footer;
    buf_init(&footer);
    add_footer(&footer, r, &none);
    const char *why = "The program was probably idle. Record again with --idle to see what every "
                      "thread waits for.";
    if (options & REC_OPT_IDLE)
        why = "No thread had a Python frame while it was recorded.";
    else if (options & REC_OPT_CPU)
        why = "No thread used the CPU. Record again with --idle instead of --mode cpu to see what "
              "every thread waits for.";
    else if (options & REC_OPT_GIL)
        why = "No thread held the GIL. Record again without --gil, or with --idle to see what "
              "every thread waits for.";
    flame_put_empty(out, title, "No samples: no Python code was running", why, footer.data);
}

int flamegraph_write(struct recording *recording, const struct format_options *options, FILE *out,
                     struct error *err)
{
    struct tree tree;
    int r = tree_read(&tree, recording, options, false, err);
    if (r < 0)
        return r;
    struct flame f = {
        .tree = &tree, .kind = &plain, .out = out, .measure = words_measure(recording)};
    SCOPED_BUF title;
    buf_init(&title);
    add_title(&title, recording, options, tree.nodes[TREE_ROOT].total);
    if (tree.nodes[TREE_ROOT].total)
        r = put_graph(&f, recording, title.data);
    else
        put_empty(out, recording, title.data);
    flame_done(&f);
    tree_done(&tree);
    return r < 0 ? error_set(err, r, "out of memory") : writers_check(out, err);
}
