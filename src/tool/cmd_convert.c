/* scry convert: recordings made with `record -f scry` into any format; several are merged. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tool/commands.h"
#include "tool/inputs.h"
#include "tool/record.h"
#include "tool/shared_options.h"
#include "tool/text.h"
#include "util/buf.h"

struct convert_values {
    const char *output;
    const struct format *format;
    bool threads, function, nolineno, full_filenames, mark_torn, no_source;
    bool partial;
    bool hosts;
    int processes; /* enum processes */
};

enum processes { PROCESSES_AUTO, PROCESSES_ALWAYS, PROCESSES_NEVER };

static const char *const processes_choices[] = {
    [PROCESSES_AUTO] = "auto",
    [PROCESSES_ALWAYS] = "always",
    [PROCESSES_NEVER] = "never",
    NULL,
};

struct job {
    const struct invocation *call;
    const struct convert_values *values;
    const struct format *format;
    struct format_options options;
    struct recording *recording;
    struct rec_summary summary;
    struct outfile out;
};

/* ---- where to write ---- */

static const char *const *inputs(const struct job *job)
{
    return (const char *const *)job->call->words.items;
}

/* "run.svg" beside "run.scry"; a recording of the same name would be the input itself. */
static char *default_name(const struct job *job)
{
    const char *input = inputs(job)[0];
    struct buf name;
    buf_init(&name);
    buf_add(&name, input, inputs_stem(input));
    if (strcmp(job->format->extension, "scry") == 0)
        buf_add_str(&name, job->call->words.count > 1 ? "-merged" : "-copy");
    buf_addf(&name, ".%s", job->format->extension);
    return buf_detach(&name);
}

static int open_named(struct job *job, const char *name, struct error *err)
{
    int r = inputs_check_output(inputs(job), (size_t)job->call->words.count, name, err);
    if (r == 0)
        r = outfile_open(&job->out, name, err);
    if (r < 0)
        return r;
    r = record_check_terminal(job->format, &job->out, err);
    if (r < 0)
        return r;
    record_give_to_owner(&job->out);
    signals_set_cleanup(job->out.temp, 0);
    signals_give_up();
    return 0;
}

static int open_output(struct job *job, struct error *err)
{
    if (job->values->output)
        return open_named(job, job->values->output, err);
    char *name = default_name(job);
    if (!name)
        return error_set(err, -SCRY_E_NO_MEMORY, "out of memory");
    int r = inputs_check_default_name(name, err);
    if (r == 0)
        r = open_named(job, name, err);
    free(name);
    return r;
}

/* ---- the command ---- */

static void report(const struct job *job, const char *path)
{
    const struct rec_summary *s = &job->summary;
    fprintf(stderr, "%s: wrote %s to '", job->call->tool, job->format->what);
    text_print(stderr, strcmp(path, "-") == 0 ? "standard output" : path);
    fprintf(stderr, "': %" PRIu64 " samples of %.1f s", s->samples, (double)s->duration / 1e9);
    if (job->format->hint[0])
        fprintf(stderr, "; %s", job->format->hint);
    fputc('\n', stderr);
}

static int open_recording(struct job *job, struct error *err)
{
    int count = job->call->words.count;
    int r = recording_open(inputs(job), (size_t)count, &job->recording, err);
    if (r < 0)
        return r;
    bool tree = recording_info(job->recording)->options & REC_OPT_SUBPROCESSES;
    job->options.processes = job->values->processes == PROCESSES_ALWAYS ||
                             (job->values->processes == PROCESSES_AUTO && (tree || count > 1));
    return 0;
}

/* Formats do not know the name of what they write to. */
static int lost_output(const struct job *job, struct error *err)
{
    error_set(err, -SCRY_E_OUTPUT, "cannot write all of '%s'", job->out.path);
    error_hint(err, "make room there, or choose another path with -o");
    return -SCRY_E_OUTPUT;
}

static int job_run(struct job *job, struct error *err)
{
    int r = open_recording(job, err);
    if (r == 0)
        r = open_output(job, err);
    if (r == 0)
        r = inputs_check(job->call->tool, job->recording, inputs(job),
                         (size_t)job->call->words.count, job->values->partial, err);
    if (r == 0)
        job->summary = *recording_summary(job->recording);
    if (r == 0)
        r = job->format->write(job->recording, &job->options, job->out.file, err);
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

static int run(const struct invocation *call, const void *values, struct error *err)
{
    const struct convert_values *v = values;
    struct job job = {
        .call = call,
        .values = v,
        .format = v->format ? v->format : &formats[0],
        .options =
            {
                .full_filenames = v->full_filenames,
                .threads = v->threads,
                .hosts = v->hosts,
                .mark_torn = v->mark_torn,
                .no_source = v->no_source,
                .title = "",
                .tool = call->tool,
            },
    };
    if (call->words.count == 0) {
        error_set(err, -SCRY_E_USAGE, "convert needs a recording to convert");
        error_hint(err, "make one with: %s record -f scry -o run.scry -p PID", call->tool);
        return -SCRY_E_USAGE;
    }
    int r = shared_lines(v->function, v->nolineno, &job.options.lines, err);
    if (r == 0)
        r = job_run(&job, err);
    outfile_abandon(&job.out);
    signals_release();
    recording_close(job.recording);
    return r;
}

static const struct option options[] = {
    {
        .letter = 'o',
        .name = "output",
        .argument = "FILE",
        .kind = OPT_FILE,
        .offset = offsetof(struct convert_values, output),
        .group = "Output",
        .help = "Where to write, - for standard output; beside the first recording and named after "
                "it if not given",
    },
    OPTION_FORMAT(struct convert_values, format),
    OPTION_THREADS(struct convert_values, threads),
    {
        .name = "processes",
        .argument = "WHEN",
        .kind = OPT_CHOICE,
        .offset = offsetof(struct convert_values, processes),
        .choices = processes_choices,
        .group = "Output",
        .help = "Keep processes apart, each under a frame of its own; auto, if not given, does so "
                "where there are several",
    },
    {
        .name = "hosts",
        .kind = OPT_FLAG,
        .offset = offsetof(struct convert_values, hosts),
        .group = "Output",
        .help = "Keep hosts apart, each under a frame of its own",
    },
    OPTION_FUNCTION(struct convert_values, function),
    OPTION_NOLINENO(struct convert_values, nolineno),
    OPTION_FULL_FILENAMES(struct convert_values, full_filenames),
    OPTION_MARK_TORN(struct convert_values, mark_torn),
    OPTION_NO_SOURCE(struct convert_values, no_source),
    OPTION_PARTIAL(struct convert_values, partial),
    OPTION_HELP,
    OPTIONS_END,
};

static const struct example examples[] = {
    {"A recording as a flame graph, run.svg:", "convert run.scry"},
    {"The same for speedscope, threads apart:", "convert -t -f speedscope -o run.json run.scry"},
    {"Recordings of several hosts in one trace, on one time line:",
     "convert -f chrometrace -o all.json web1.scry web2.scry db.scry"},
    {NULL, NULL},
};

const struct command cmd_convert = {
    .name = "convert",
    .summary = "Make any format from a recording, or from several merged",
    .usage = (const char *const[]){"[OPTIONS] FILE.scry...", NULL},
    .description =
        "Reads what `record -f scry` wrote. Several recordings become one: their times are put on "
        "one wall clock, what is equal in them is added up, and their processes are kept apart.",
    .options = options,
    .examples = examples,
    .words = WORDS_FILES,
    .values_size = sizeof(struct convert_values),
    .run = run,
};

/* ---- scry merge: the same, into a recording ---- */

static int run_merge(const struct invocation *call, const void *values, struct error *err)
{
    struct convert_values v = *(const struct convert_values *)values;
    v.format = format_find("scry");
    if (call->words.count < 2) {
        error_set(err, -SCRY_E_USAGE, "merge needs at least two recordings");
        error_hint(err, "name them: %s merge -o all.scry one.scry two.scry", call->tool);
        return -SCRY_E_USAGE;
    }
    return run(call, &v, err);
}

static const struct option merge_options[] = {
    {
        .letter = 'o',
        .name = "output",
        .argument = "FILE",
        .kind = OPT_FILE,
        .offset = offsetof(struct convert_values, output),
        .group = "Output",
        .help = "Where to write, - for standard output; beside the first recording and named after "
                "it if not given",
    },
    OPTION_PARTIAL(struct convert_values, partial),
    OPTION_HELP,
    OPTIONS_END,
};

static const struct example merge_examples[] = {
    {"The files of record --rotate as one again:", "merge -o run.scry run-*.scry"},
    {"Recordings of several hosts, to be looked at together:",
     "merge -o all.scry web1.scry web2.scry"},
    {NULL, NULL},
};

const struct command cmd_merge = {
    .name = "merge",
    .summary = "Make one recording of several",
    .usage = (const char *const[]){"[OPTIONS] FILE.scry FILE.scry...", NULL},
    .description =
        "Their times are put on one wall clock, what is equal in them is stored once, and their "
        "processes are kept apart.",
    .options = merge_options,
    .examples = merge_examples,
    .words = WORDS_FILES,
    .values_size = sizeof(struct convert_values),
    .run = run_merge,
};
