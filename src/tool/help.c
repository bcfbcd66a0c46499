/* Help for people at a terminal: aligned, wrapped, coloured only where it helps. */
#include "tool/help.h"

#include <string.h>

#include "format/format.h"
#include "tool/term.h"
#include "tool/text.h"
#include "util/buf.h"
#include "version.h"

#define HELP_WIDTH_MIN 40
#define HELP_WIDTH_MAX 110
#define OPTION_COLUMN  28 /* where the sentences of the options start */

/* The py-spy whose command line this is. Scripts read the number after the name. */
#define PY_SPY_VERSION "0.4.2"

struct page {
    FILE *out;
    const char *tool;
    const struct style *style;
    int width;
};

static struct page page_open(FILE *out, const char *tool)
{
    int width = term_width(out, 80);
    if (width > HELP_WIDTH_MAX)
        width = HELP_WIDTH_MAX;
    if (width < HELP_WIDTH_MIN)
        width = HELP_WIDTH_MIN;
    return (struct page){out, tool, term_style(term_has_colours(out)), width};
}

static void heading(const struct page *p, const char *text)
{
    fprintf(p->out, "\n%s%s:%s\n", p->style->heading, text, p->style->end);
}

/* Paragraphs separated by empty lines; inside one, lines are broken anew. */
static void paragraphs(const struct page *p, const char *text)
{
    fputc('\n', p->out);
    text_wrap(p->out, text, 0, 0, p->width);
}

static void option_term(const struct option *o, struct buf *to)
{
    if (o->letter)
        buf_addf(to, "-%c, ", o->letter);
    else
        buf_add_str(to, "    ");
    buf_addf(to, "--%s", o->name);
    if (o->argument)
        buf_addf(to, " %s", o->argument);
}

static void option_print(const struct page *p, const struct option *o)
{
    SCOPED_BUF term, help;
    buf_init(&term);
    buf_init(&help);
    option_term(o, &term);
    buf_add_str(&help, o->help);

    const char *names[CHOICES_MAX];
    size_t count = o->kind == OPT_FORMAT ? 0 : option_choices(o, names, CHOICES_MAX);
    for (size_t i = 0; i < count; i++)
        buf_addf(&help, "%s%s", i ? ", " : "; one of: ", names[i]);

    int column = 2 + (int)term.len;
    fprintf(p->out, "  %s%s%s", p->style->literal, term.data, p->style->end);
    if (column + 2 > OPTION_COLUMN) {
        fputc('\n', p->out);
        column = 0;
    }
    text_wrap(p->out, help.data, column, OPTION_COLUMN, p->width);
}

static bool seen_before(const struct option *options, const struct option *o)
{
    for (; options < o; options++)
        if (option_visible(options) && strcmp(options->group, o->group) == 0)
            return true;
    return false;
}

/* Groups in the order of their first option. */
static void options_print(const struct page *p, const struct option *options)
{
    for (const struct option *first = options; first->name; first++) {
        if (!option_visible(first) || seen_before(options, first))
            continue;
        heading(p, first->group);
        for (const struct option *o = first; o->name; o++)
            if (option_visible(o) && strcmp(o->group, first->group) == 0)
                option_print(p, o);
    }
}

static void formats_print(const struct page *p, const struct option *options)
{
    while (options->name && options->kind != OPT_FORMAT)
        options++;
    if (!options->name)
        return;
    heading(p, "Formats");
    for (const struct format *f = formats; f->name; f++) {
        fprintf(p->out, "  %s%-12s%s", p->style->literal, f->name, p->style->end);
        text_wrap(p->out, f->summary, 14, 15, p->width);
    }
}

static void examples_print(const struct page *p, const struct command *command)
{
    const struct example *e = command->examples;
    if (!e)
        return;
    heading(p, "Examples");
    for (; e->line; e++) {
        text_wrap(p->out, e->what, 0, 2, p->width);
        fprintf(p->out, "    %s%s %s%s\n", p->style->literal, p->tool, e->line, p->style->end);
    }
}

void help_print_command(FILE *out, const char *tool, const struct command *command)
{
    struct page p = page_open(out, tool);
    text_wrap(out, command->summary, 0, 0, p.width);
    fprintf(out, "\n%sUsage:%s ", p.style->heading, p.style->end);
    for (size_t i = 0; command->usage[i]; i++)
        fprintf(out, "%s%s %s %s\n", i ? "       " : "", tool, command->name, command->usage[i]);
    if (command->description)
        paragraphs(&p, command->description);
    options_print(&p, command->options);
    formats_print(&p, command->options);
    examples_print(&p, command);
}

void help_print_tool(FILE *out, const char *tool)
{
    struct page p = page_open(out, tool);
    text_wrap(out,
              "Looks inside running Python programs from outside: what every thread does now, and "
              "where the time goes. The program needs no change and no restart.",
              0, 0, p.width);
    fprintf(out, "\n%sUsage:%s %s COMMAND [OPTIONS]\n", p.style->heading, p.style->end, tool);
    heading(&p, "Commands");
    for (size_t i = 0; commands[i]; i++) {
        fprintf(out, "  %s%-12s%s", p.style->literal, commands[i]->name, p.style->end);
        text_wrap(out, commands[i]->summary, 14, 15, p.width);
    }
    options_print(&p, global_options);
    fputc('\n', out);
    fprintf(out, "Help on a command: %s COMMAND --help\n", tool);
}

void help_print_version(FILE *out, const struct invocation *call)
{
    if (call->as_py_spy)
        fprintf(out, "py-spy %s (scry %s)\n", PY_SPY_VERSION, SCRY_VERSION);
    else
        fprintf(out, "scry %s\n", SCRY_VERSION);
}
