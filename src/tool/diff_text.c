#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "tool/diff.h"
#include "tool/text.h"
#include "util/buf.h"
#include "util/utf8.h"

#define SMALLEST 0.00005 /* of all: what the table would show as 0.00 */

static double points(const struct diff_change *c)
{
    return round(10000 * (c->after - c->before)) / 100 + 0.0;
}

static void print_side(const struct diff_report *r, FILE *out, const char *what,
                       enum diff_moment moment)
{
    const struct diff_side *side = &r->diff->sides[moment];
    fprintf(out, "%-8s%s", what, r->style->file);
    text_print(out, r->options->names[moment]);
    fprintf(out, "%s, %" PRIu64 " samples over %.1f s", r->style->end, side->samples,
            (double)side->duration / 1e9);
    if (side->rate > 0)
        fprintf(out, " at %g Hz", side->rate);
    fputc('\n', out);
}

static const char *colour(const struct diff_report *r, const struct diff_change *c)
{
    if (diff_is_noise(c))
        return r->style->dim;
    return c->after > c->before ? r->style->more : r->style->less;
}

/* "  10.25%", or a dash where nothing was seen. */
static void print_share(FILE *out, double share, uint64_t samples)
{
    if (samples)
        fprintf(out, "%8.2f%%", 100 * share);
    else
        fprintf(out, "%9s", "-");
}

static void print_change(const struct diff_report *r, FILE *out, const struct diff_change *c)
{
    fprintf(out, "%s%+8.2f%c%s", colour(r, c), points(c), diff_is_noise(c) ? '~' : ' ',
            r->style->end);
    print_share(out, c->before, c->before_samples);
    print_share(out, c->after, c->after_samples);
}

#define COLUMNS_BEFORE_NAME (2 * (9 + 9 + 9) + 4)

/* As much of `text` as fits into what is left of the line. */
static size_t cut(const struct diff_report *r, const char *text, size_t taken)
{
    size_t len = strlen(text);
    if (!r->width || COLUMNS_BEFORE_NAME + taken + len <= (size_t)r->width)
        return len;
    size_t room = (size_t)r->width > COLUMNS_BEFORE_NAME + taken
                      ? (size_t)r->width - COLUMNS_BEFORE_NAME - taken
                      : 0;
    return room > 1 ? utf8_prefix(text, len, room - 1) : 0;
}

/* The line does not wrap: what does not fit is left out. */
static void print_cut(const struct diff_report *r, FILE *out, const char *colour_of,
                      const char *text, size_t *taken)
{
    SCOPED_BUF printable;
    buf_init(&printable);
    text_add_printable(&printable, text);
    size_t len = cut(r, printable.data, *taken);
    bool whole = !printable.data[len];
    if (len)
        fprintf(out, "%s%.*s%s%s", colour_of, (int)len, printable.data, whole ? "" : "…",
                r->style->end);
    *taken += printable.len;
}

static void print_name(const struct diff_report *r, FILE *out, uint32_t label)
{
    const struct tree *t = &r->diff->tree;
    const char *text = interner_get(&t->texts, label, NULL);
    size_t name_length = t->labels[label].name, taken = 0;
    SCOPED_BUF name;
    buf_init(&name);
    buf_add(&name, text, name_length);
    print_cut(r, out, r->style->function, name.data, &taken);
    print_cut(r, out, r->style->file, text + name_length, &taken);
}

static void print_function(const struct diff_report *r, FILE *out, const struct diff_function *f)
{
    print_change(r, out, &f->own);
    fputs("  ", out);
    print_change(r, out, &f->total);
    fputs("  ", out);
    print_name(r, out, f->label);
    fputc('\n', out);
}

static bool is_worth_a_line(const struct diff_function *f)
{
    return fabs(f->own.after - f->own.before) >= SMALLEST ||
           fabs(f->total.after - f->total.before) >= SMALLEST;
}

static void print_head(const struct diff_report *r, FILE *out)
{
    print_side(r, out, "Before: ", DIFF_BEFORE);
    print_side(r, out, "After:  ", DIFF_AFTER);
    fprintf(out, "\n%s%-29s%s%s\n", r->style->heading, "  own", "  total, with what it calls",
            r->style->end);
    fprintf(out,
            "%s  change    before    after    change    before    after  function (%% of %s)%s\n",
            r->style->heading, diff_whole(r->diff), r->style->end);
}

static void print_foot(const struct diff_report *r, FILE *out, size_t shown, bool noise)
{
    if (noise)
        fprintf(out, "\n~ less than %g standard deviations: within the noise of sampling\n",
                DIFF_SIGMAS);
    if (shown < r->count)
        fprintf(out, "%s%zu more %s that changed less; --limit 0 shows all\n", noise ? "" : "\n",
                r->count - shown, r->count - shown == 1 ? "function" : "functions");
}

void diff_print_text(const struct diff_report *r, FILE *out)
{
    print_head(r, out);
    size_t shown = 0;
    bool noise = false;
    for (; shown < r->count; shown++) {
        const struct diff_function *f = &r->functions[shown];
        if (r->limit && (shown == r->limit || !is_worth_a_line(f)))
            break;
        print_function(r, out, f);
        noise |= diff_is_noise(&f->own) || diff_is_noise(&f->total);
    }
    if (!shown)
        fputs("  nothing changed\n", out);
    print_foot(r, out, shown, noise);
}
