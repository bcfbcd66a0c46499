/* scry diff: what changed between two recordings. */
#include <stdlib.h>
#include <string.h>

#include "format/diff.h"
#include "tool/commands.h"
#include "tool/diff.h"
#include "tool/inputs.h"
#include "tool/record.h"
#include "tool/shared_options.h"
#include "tool/text.h"
#include "util/buf.h"

enum diff_format {
    DIFF_AUTO, /* not chosen: a flame graph into a file, a table otherwise */
    DIFF_FLAMEGRAPH,
    DIFF_TEXT,
    DIFF_JSON,
};

struct diff_values {
    const char *output;
    int format, by, widths;
    uint32_t limit;
    bool threads, lines, function, nolineno, full_filenames;
    bool partial;
};

struct job {
    const struct invocation *call;
    const struct diff_values *values;
    enum diff_format format;
    struct diff_options options;
    struct recording *recordings[2];
    struct diff diff;
    struct outfile out;
};

static const char *const *inputs(const struct job *job)
{
    return (const char *const *)job->call->words.items;
}

/* ---- where to write ---- */

/* "after-diff.svg" beside "after.scry". */
static char *default_name(const struct job *job)
{
    const char *after = inputs(job)[DIFF_AFTER];
    struct buf name;
    buf_init(&name);
    buf_add(&name, after, inputs_stem(after));
    buf_add_str(&name, "-diff.svg");
    return buf_detach(&name);
}

static int open_output(struct job *job, struct error *err)
{
    char *name = NULL;
    const char *path = job->values->output;
    int r = 0;
    if (!path && job->format == DIFF_FLAMEGRAPH) {
        path = name = default_name(job);
        r = name ? inputs_check_default_name(name, err)
                 : error_set(err, -SCRY_E_NO_MEMORY, "out of memory");
    }
    path = path ?: "-";
    if (r == 0)
        r = inputs_check_output(inputs(job), 2, path, err);
    if (r == 0)
        r = outfile_open(&job->out, path, err);
    free(name);
    if (r < 0)
        return r;
    record_give_to_owner(&job->out);
    signals_set_cleanup(job->out.temp, 0);
    signals_give_up();
    return 0;
}

static int lost_output(const struct job *job, struct error *err)
{
    error_set(err, -SCRY_E_OUTPUT, "cannot write all of '%s'", job->out.path);
    error_hint(err, "make room there, or choose another path with -o");
    return -SCRY_E_OUTPUT;
}

/* ---- what to write ---- */

static int open_recordings(struct job *job, struct error *err)
{
    int r = 0;
    for (int i = 0; i < 2 && r == 0; i++) {
        r = recording_open(&inputs(job)[i], 1, &job->recordings[i], err);
        if (r == 0)
            r = inputs_check(job->call->tool, job->recordings[i], &inputs(job)[i], 1,
                             job->values->partial, err);
    }
    return r;
}

/* Shares of wall time and of CPU time mean different things. */
static int check_modes(const struct job *job, struct error *err)
{
    bool cpu[2];
    for (int i = 0; i < 2; i++)
        cpu[i] = recording_info(job->recordings[i])->options & REC_OPT_CPU;
    if (cpu[DIFF_BEFORE] == cpu[DIFF_AFTER])
        return 0;
    error_set(err, -SCRY_E_USAGE, "'%s' is a recording of CPU time and '%s' is not",
              inputs(job)[!cpu[DIFF_BEFORE]], inputs(job)[cpu[DIFF_BEFORE]]);
    error_hint(err, "record both with the same --mode");
    return -SCRY_E_USAGE;
}

static int print_functions(struct job *job, struct error *err)
{
    FILE *out = job->out.file;
    struct diff_function *functions;
    struct diff_report report = {
        .diff = &job->diff,
        .options = &job->options,
        .limit = job->values->limit,
        .width = term_width(out, 0),
        .style = term_style(!job->out.temp && term_has_colours(out)),
    };
    int r = diff_functions(&job->diff, &functions, &report.count, err);
    if (r < 0)
        return r;
    report.functions = functions;
    if (job->format == DIFF_JSON)
        diff_print_json(&report, out);
    else
        diff_print_text(&report, out);
    free(functions);
    return fflush(out) != 0 || ferror(out) ? -SCRY_E_OUTPUT : 0;
}

static int write_output(struct job *job, struct error *err)
{
    if (job->format == DIFF_FLAMEGRAPH)
        return flamegraph_diff_write(&job->diff, &job->options, job->out.file, err);
    return print_functions(job, err);
}

static void report(const struct job *job, const char *path)
{
    static const char *const what[] = {[DIFF_FLAMEGRAPH] = "differential flame graph",
                                       [DIFF_TEXT] = "table",
                                       [DIFF_JSON] = "comparison"};
    if (strcmp(path, "-") == 0)
        return;
    fprintf(stderr, "%s: wrote %s to '", job->call->tool, what[job->format]);
    text_print(stderr, path);
    fprintf(stderr, "'%s\n", job->format == DIFF_FLAMEGRAPH ? "; open it in a browser" : "");
}

static int job_run(struct job *job, struct error *err)
{
    int r = open_recordings(job, err);
    if (r == 0)
        r = check_modes(job, err);
    if (r == 0)
        r = diff_read(&job->diff, job->recordings, &job->options, err);
    if (r == 0)
        r = open_output(job, err);
    if (r == 0)
        r = write_output(job, err);
    if (r == -SCRY_E_OUTPUT && job->out.file)
        return lost_output(job, err);
    if (r < 0)
        return r;
    char *path = strdup(job->out.path);
    r = outfile_commit(&job->out, err);
    if (r == 0)
        report(job, path ?: "?");
    free(path);
    return r;
}

/* ---- the command ---- */

static int choose_lines(const struct diff_values *v, enum line_mode *ret_lines, struct error *err)
{
    if (v->lines + v->function + v->nolineno > 1) {
        error_set(err, -SCRY_E_USAGE, "--lines, --function and --nolineno contradict each other");
        error_hint(err, "leave all but one of them out");
        return -SCRY_E_USAGE;
    }
    *ret_lines = v->lines ? LINES_EXACT : v->function ? LINES_FUNCTION : LINES_NONE;
    return 0;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* The names to show: without their folders, unless they would be the same. */
static void name_sides(struct job *job)
{
    const char *a = inputs(job)[DIFF_BEFORE], *b = inputs(job)[DIFF_AFTER];
    bool same = strcmp(base_name(a), base_name(b)) == 0;
    job->options.names[DIFF_BEFORE] = same ? a : base_name(a);
    job->options.names[DIFF_AFTER] = same ? b : base_name(b);
}

static enum diff_format chosen_format(const struct diff_values *v)
{
    if (v->format)
        return (enum diff_format)v->format;
    return v->output && strcmp(v->output, "-") != 0 ? DIFF_FLAMEGRAPH : DIFF_TEXT;
}

static int run(const struct invocation *call, const void *values, struct error *err)
{
    const struct diff_values *v = values;
    struct job job = {
        .call = call,
        .values = v,
        .format = chosen_format(v),
        .options =
            {
                .by = (enum diff_by)v->by,
                .widths = (enum diff_moment)v->widths,
                .view = {.full_filenames = v->full_filenames,
                         .threads = v->threads,
                         .title = "",
                         .tool = call->tool},
            },
    };
    if (call->words.count != 2) {
        error_set(err, -SCRY_E_USAGE, "diff needs two recordings, and was given %d",
                  call->words.count);
        error_hint(err, "name the one before and the one after: %s diff before.scry after.scry",
                   call->tool);
        return -SCRY_E_USAGE;
    }
    name_sides(&job);
    int r = choose_lines(v, &job.options.view.lines, err);
    if (r == 0)
        r = job_run(&job, err);
    outfile_abandon(&job.out);
    signals_release();
    diff_done(&job.diff);
    recording_close(job.recordings[DIFF_BEFORE]);
    recording_close(job.recordings[DIFF_AFTER]);
    return r;
}

static const char *const format_choices[] = {
    [DIFF_AUTO] = "auto",
    [DIFF_FLAMEGRAPH] = "flamegraph",
    [DIFF_TEXT] = "text",
    [DIFF_JSON] = "json",
    NULL,
};
static const char *const by_choices[] = {
    [DIFF_BY_SHARE] = "share",
    [DIFF_BY_TIME] = "time",
    NULL,
};
static const char *const widths_choices[] = {
    [DIFF_BEFORE] = "before",
    [DIFF_AFTER] = "after",
    NULL,
};

static const struct option options[] = {
    {
        .letter = 'o',
        .name = "output",
        .argument = "FILE",
        .kind = OPT_FILE,
        .offset = offsetof(struct diff_values, output),
        .group = "Output",
        .help = "Where to write, - for standard output; text and json go there if not given",
    },
    {
        .letter = 'f',
        .name = "format",
        .argument = "FORMAT",
        .kind = OPT_CHOICE,
        .offset = offsetof(struct diff_values, format),
        .choices = format_choices,
        .group = "Output",
        .help = "What to write; auto, if not given, is a differential flame graph where -o names "
                "a file, and a table of functions otherwise",
    },
    {
        .name = "by",
        .argument = "WHAT",
        .kind = OPT_CHOICE,
        .offset = offsetof(struct diff_values, by),
        .choices = by_choices,
        .group = "Comparison",
        .help = "What is compared: the share of all samples, or the time per second of wall clock, "
                "which also shows that there is more to do in all",
    },
    {
        .name = "widths",
        .argument = "WHICH",
        .kind = OPT_CHOICE,
        .offset = offsetof(struct diff_values, widths),
        .choices = widths_choices,
        .group = "Output",
        .help = "Which recording the widths of the flame graph are at first, after if not given; "
                "the page can switch. Frames that vanished are seen only with before",
    },
    {
        .name = "limit",
        .argument = "N",
        .kind = OPT_NUMBER,
        .offset = offsetof(struct diff_values, limit),
        .group = "Output",
        .help = "How many functions the table has, 30 if not given; 0 for all",
    },
    {
        .name = "lines",
        .kind = OPT_FLAG,
        .offset = offsetof(struct diff_values, lines),
        .group = "Comparison",
        .help = "Compare line by line; lines move when a file is edited, so functions are compared "
                "if not given",
    },
    {
        .letter = 'F',
        .name = "function",
        .kind = OPT_FLAG,
        .offset = offsetof(struct diff_values, function),
        .group = "Comparison",
        .help = "Keep functions of one name in one file apart by the line of their def",
    },
    {
        .name = "nolineno",
        .kind = OPT_FLAG,
        .offset = offsetof(struct diff_values, nolineno),
        .group = "Comparison",
        .help = "Compare functions by name and file alone, as if not given",
    },
    OPTION_THREADS(struct diff_values, threads),
    OPTION_FULL_FILENAMES(struct diff_values, full_filenames),
    OPTION_PARTIAL(struct diff_values, partial),
    OPTION_HELP,
    OPTIONS_END,
};

static const struct example examples[] = {
    {"What became slower? The functions that changed most:", "diff before.scry after.scry"},
    {"The same as a flame graph, red where it grew and blue where it shrank:",
     "diff -o change.svg before.scry after.scry"},
    {"Does it do more per second, not only something else?",
     "diff --by time before.scry after.scry"},
    {NULL, NULL},
};

const struct command cmd_diff = {
    .name = "diff",
    .summary = "Compare two recordings: what takes more time now, and what less",
    .usage = (const char *const[]){"[OPTIONS] BEFORE.scry AFTER.scry", NULL},
    .description =
        "Reads two files that `record -f scry` wrote. Functions are the same if they have the same "
        "name in the same file. Changes are in points: from 10 % to 12 % is +2. A change below "
        "three standard deviations of what chance makes of two samplings of the same program is "
        "marked as noise.",
    .options = options,
    .examples = examples,
    .words = WORDS_FILES,
    .values_size = sizeof(struct diff_values),
    .defaults = &(const struct diff_values){.widths = DIFF_AFTER, .limit = 30},
    .run = run,
};
