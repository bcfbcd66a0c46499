/* The manual page: every command with every option, in man(7). */
#include "tool/help.h"

#include <string.h>

#include "format/format.h"
#include "version.h"

/* Escape what roff would act on. Hyphens are written as minus signs, so that options can be copied.
 */
static void roff(FILE *out, const char *text)
{
    bool line_start = true;
    for (; *text; text++) {
        if (line_start && (*text == '.' || *text == '\''))
            fputs("\\&", out);
        line_start = *text == '\n';
        if (*text == '-')
            fputs("\\-", out);
        else if (*text == '\\')
            fputs("\\e", out);
        else
            fputc(*text, out);
    }
}

/* Paragraphs are separated by an empty line. */
static void roff_paragraphs(FILE *out, const char *text)
{
    const char *gap;
    while ((gap = strstr(text, "\n\n"))) {
        char part[2048];
        snprintf(part, sizeof(part), "%.*s", (int)(gap - text), text);
        roff(out, part);
        fputs("\n.PP\n", out);
        text = gap + 2;
    }
    roff(out, text);
    fputc('\n', out);
}

/* A list inside the text of an option. */
static void print_formats(FILE *out)
{
    fputs(":\n.RS\n", out);
    for (const struct format *f = formats; f->name; f++) {
        fprintf(out, ".TP\n.B %s\n", f->name);
        roff(out, f->summary);
        fputc('\n', out);
    }
    fputs(".RE\n", out);
}

static void print_option(FILE *out, const struct option *o)
{
    fputs(".TP\n", out);
    if (o->letter)
        fprintf(out, "\\fB\\-%c\\fR, ", o->letter);
    fputs("\\fB\\-\\-", out);
    roff(out, o->name);
    fputs("\\fR", out);
    if (o->argument)
        fprintf(out, " \\fI%s\\fR", o->argument);
    fputc('\n', out);
    roff(out, o->help);
    if (o->kind == OPT_FORMAT) {
        print_formats(out);
        return;
    }
    const char *names[CHOICES_MAX];
    size_t count = option_choices(o, names, CHOICES_MAX);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s\\fB%s\\fR", i ? ", " : "; one of: ", names[i]);
    fputs(".\n", out);
}

static void print_examples(FILE *out, const struct example *e)
{
    for (; e && e->line; e++) {
        fputs(".PP\n", out);
        roff(out, e->what);
        fputs("\n.PP\n.RS 4\n.nf\n.B scry ", out);
        roff(out, e->line);
        fputs("\n.fi\n.RE\n", out);
    }
}

static void print_command(FILE *out, const struct command *c)
{
    fprintf(out, ".SS \"scry %s\"\n", c->name);
    roff(out, c->summary);
    fputs(".\n", out);
    for (size_t i = 0; c->usage[i]; i++) {
        fprintf(out, "%s\n.B scry %s\n", i ? ".br" : ".PP", c->name);
        roff(out, c->usage[i]);
        fputc('\n', out);
    }
    if (c->description) {
        fputs(".PP\n", out);
        roff_paragraphs(out, c->description);
    }
    for (const struct option *o = c->options; o->name; o++)
        if (option_visible(o))
            print_option(out, o);
    print_examples(out, c->examples);
}

static void print_closing(FILE *out)
{
    static const char *const environment[][2] = {
        {"NO_COLOR", "When set, nothing is coloured."},
        {"CLICOLOR_FORCE", "When set to anything but 0, colours are used even without a terminal."},
        {"TMPDIR", "Where the recording is kept while it grows; otherwise /tmp."},
        {"SUDO_UID, SUDO_GID",
         "Under sudo, files written and programs launched belong to the calling user."},
    };
    static const char *const status[][2] = {
        {"0", "Success; also when a recording was ended by a signal or by the end of its target."},
        {"1", "It failed; one line on standard error says why and what helps."},
        {"2", "The command line was not understood."},
        {"other", "A program launched by scry record that ended by itself gives its own status, "
                  "or 128 + n when signal n ended it."},
    };
    fputs(".SH \"EXIT STATUS\"\n", out);
    for (size_t i = 0; i < ARRAY_LEN(status); i++) {
        fprintf(out, ".TP\n.B %s\n", status[i][0]);
        roff(out, status[i][1]);
        fputc('\n', out);
    }
    fputs(".SH ENVIRONMENT\n", out);
    for (size_t i = 0; i < ARRAY_LEN(environment); i++) {
        fprintf(out, ".TP\n.B %s\n", environment[i][0]);
        roff(out, environment[i][1]);
        fputc('\n', out);
    }
    fputs(".SH \"SEE ALSO\"\n.BR python (1),\n.BR ptrace (2),\n.BR proc (5),\n"
          ".BR capabilities (7)\n",
          out);
}

void man_print(FILE *out)
{
    fputs(
        ".TH SCRY 1 \"\" \"scry " SCRY_VERSION "\" \"User Commands\"\n"
        ".SH NAME\nscry \\- look inside running Python programs\n"
        ".SH SYNOPSIS\n.B scry\n.I COMMAND\n.RI [ OPTIONS ]\n"
        ".SH DESCRIPTION\n"
        "scry shows what every thread of a running Python program does, and where its time goes,\n"
        "by reading the program's memory from outside.\n"
        "The program needs no change and no restart, and nothing is written into it.\n"
        ".PP\n"
        "Any unambiguous beginning of a command's name will do.\n"
        "Started under the name\n.BR py-spy ,\nit takes that tool's command line.\n",
        out);
    fputs(".SH OPTIONS\n", out);
    for (const struct option *o = global_options; o->name; o++)
        print_option(out, o);
    fputs(".SH COMMANDS\n", out);
    for (size_t i = 0; commands[i]; i++)
        print_command(out, commands[i]);
    print_closing(out);
}
