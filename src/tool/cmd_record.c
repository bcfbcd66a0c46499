/* scry record: sample a process for a while and write a profile.
 *
 * The samples go as a stream into a file without a name and are converted at the end, so that
 * memory does not grow with time. The output is opened before anything else: a path that cannot be
 * written to is better known before ten minutes of recording than after. */
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tool/commands.h"
#include "tool/record.h"
#include "tool/shared_options.h"
#include "util/buf.h"

#define PATIENCE          SCRY_NSEC_PER_SEC       /* for Python to start in a process named by -p */
#define PATIENCE_LAUNCHED (5 * SCRY_NSEC_PER_SEC) /* in a program just launched */
#define GRACE             (2 * SCRY_NSEC_PER_SEC) /* for a launched program to end when told to */

struct record_values {
    pid_t pid;
    const char *output;
    const char *stats;
    const struct format *format;
    scry_nsec duration;
    double rate;
    int blocking;
    int mode; /* enum mode */
    bool subprocesses, gil, idle, nonblocking;
    bool threads, function, nolineno, full_filenames, mark_torn;
    bool hideprogress, capture;
};

enum mode {
    MODE_UNSAID = -1,
    MODE_WALL,
    MODE_CPU,
    MODE_GIL,
};

struct job {
    const struct invocation *call;
    const struct record_values *values;
    const struct format *format;
    struct sampler_options options;
    struct voice voice;
    struct outfile out;
    FILE *stream; /* the recording: out.file, or a temporary file */
    struct launch program;
    bool launched;
    struct rec_writer *writer;
    struct sampler *sampler;
    struct sampler_stats stats; /* at the end */
    enum sampler_end end;
    struct progress progress;
};

/* The recording stream itself is the output: nothing to convert. */
static bool is_stream(const struct format *format)
{
    return strcmp(format->name, "scry") == 0;
}

/* ---- before ---- */

static int check(const struct job *job, struct error *err)
{
    const struct record_values *v = job->values;
    bool program = job->call->words.count > 0;
    const char *tool = job->call->tool;
    if (!v->pid && !program) {
        error_set(err, -SCRY_E_USAGE, "record needs to know what to record");
        error_hint(err, "name a process with -p PID, or a program: %s record -- python app.py",
                   tool);
    } else if (v->pid && program) {
        error_set(err, -SCRY_E_USAGE, "record was given both a process, %d, and a program, '%s'",
                  v->pid, job->call->words.items[0]);
        error_hint(err, "leave one of them out");
    } else {
        enum line_mode lines;
        return shared_lines(v->function, v->nolineno, &lines, err);
    }
    return -SCRY_E_USAGE;
}

static int check_mode(const struct record_values *v, struct error *err)
{
    bool gil = v->gil && v->mode != MODE_UNSAID && v->mode != MODE_GIL;
    bool idle = v->idle && v->mode == MODE_CPU;
    if (!gil && !idle)
        return 0;
    error_set(err, -SCRY_E_USAGE, "--%s and --mode %s contradict each other", gil ? "gil" : "idle",
              v->mode == MODE_CPU ? "cpu" : "wall");
    error_hint(err, idle ? "a thread that waits uses no CPU: leave one of them out"
                         : "leave one of them out");
    return -SCRY_E_USAGE;
}

static int open_output(struct job *job, struct error *err)
{
    const struct record_values *v = job->values;
    char *name = NULL;
    if (!v->output) {
        name = record_default_name(job->call->words.items[0], v->pid, job->format->extension);
        if (!name)
            return error_set(err, -SCRY_E_NO_MEMORY, "out of memory");
    }
    int r = outfile_open(&job->out, v->output ?: name, err);
    free(name);
    if (r < 0)
        return r;
    r = record_check_terminal(job->format, &job->out, err);
    if (r < 0)
        return r;
    record_give_to_owner(&job->out);
    job->voice = voice_for(job->call, &job->out);
    if (!is_stream(job->format))
        return record_open_temporary(&job->stream, err);
    job->stream = job->out.file;
    return 0;
}

static void add_command_line(struct buf *to, char *const *argv)
{
    for (size_t i = 0; argv[i]; i++)
        buf_addf(to, "%s%s", i ? " " : "", argv[i]);
}

static int open_writer(struct job *job, struct error *err)
{
    const struct sampler_options *o = &job->options;
    SCOPED_BUF command;
    buf_init(&command);
    add_command_line(&command, job->call->argv);
    char host[256] = "";
    gethostname(host, sizeof(host) - 1);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct rec_info info = {
        .command = command.data,
        .host = host,
        .start_unix_ns = (uint64_t)now.tv_sec * SCRY_NSEC_PER_SEC + (uint64_t)now.tv_nsec,
        .rate = o->rate,
        .options = (o->idle ? REC_OPT_IDLE : 0u) | (o->gil_only ? REC_OPT_GIL : 0u) |
                   (o->cpu ? REC_OPT_CPU : 0u) | (o->subprocesses ? REC_OPT_SUBPROCESSES : 0u),
    };
    int r = rec_writer_new(job->stream, &info, &job->writer);
    return r < 0 ? error_set(err, r, "%s", error_sentence(r)) : 0;
}

/* ---- during ---- */

/* A program that has ended before there was anything to see explains more than what scry met
 * instead. */
static int explain_start(struct job *job, int code, struct error *err)
{
    if (!job->launched)
        return code;
    const char *name = job->call->words.items[0];
    if (launch_poll(&job->program)) {
        int status = job->program.status;
        bool signaled = WIFSIGNALED(status);
        error_set(err, -SCRY_E_LAUNCH,
                  "the program '%s' ended with %s %d before Python started in it", name,
                  signaled ? "signal" : "exit status",
                  signaled ? WTERMSIG(status) : WEXITSTATUS(status));
        error_hint(err, "name a Python program that runs for a while");
        return -SCRY_E_LAUNCH;
    }
    if (code == -SCRY_E_NOT_PYTHON) {
        error_set(err, code, "the program '%s' does not run CPython", name);
        error_hint(err, job->options.subprocesses
                            ? "name a program that runs Python"
                            : "if it starts Python as another process, add --subprocesses");
    }
    return code;
}

static bool on_tick(const struct sampler_stats *stats, void *context)
{
    struct job *job = context;
    progress_update(&job->progress, stats);
    return false;
}

static int sample(struct job *job, struct error *err)
{
    pid_t pid = job->launched ? job->program.pid : job->values->pid;
    int r = sampler_new(pid, &job->options, job->writer, &job->sampler, err);
    if (r < 0)
        return explain_start(job, r, err);
    signals_set_sampler(job->sampler);
    report_start(&job->voice, pid, job->options.rate, job->options.duration);
    progress_init(&job->progress, !job->values->hideprogress, job->launched, job->options.duration);
    r = sampler_run(job->sampler, on_tick, job, &job->end, err);
    progress_clear(&job->progress);
    signals_set_sampler(NULL);
    job->stats = *sampler_stats(job->sampler);
    sampler_free(job->sampler);
    job->sampler = NULL;
    return r;
}

static int finish_stream(struct job *job, struct error *err)
{
    struct rec_summary summary = {
        .complete = true,
        .duration = job->stats.elapsed,
        .samples = job->stats.samples,
        .torn = job->stats.torn,
        .missed = job->stats.missed,
        .late = job->stats.late,
        .errors = job->stats.errors,
        .own_cpu = job->stats.own_cpu,
    };
    int r = rec_writer_finish(job->writer, &summary);
    if (r < 0 || fflush(job->stream) != 0) {
        r = r < 0 ? r : -SCRY_E_OUTPUT;
        return error_set(err, r, "the recording cannot be written: %s", strerror(errno));
    }
    return 0;
}

/* ---- after ---- */

static int convert(struct job *job, struct error *err)
{
    if (is_stream(job->format))
        return 0;
    const struct record_values *v = job->values;
    struct format_options options = {
        .lines = v->function   ? LINES_FUNCTION
                 : v->nolineno ? LINES_NONE
                               : LINES_EXACT,
        .full_filenames = v->full_filenames,
        .threads = v->threads,
        .mark_torn = v->mark_torn,
        .processes = v->subprocesses,
        .title = "",
        .tool = job->call->tool,
    };
    struct recording *recording;
    rewind(job->stream);
    int r = recording_open_stream(job->stream, &recording, err);
    if (r < 0)
        return r;
    r = job->format->write(recording, &options, job->out.file, err);
    recording_close(recording);
    return r;
}

static int job_run(struct job *job, struct error *err)
{
    int r = open_output(job, err);
    if (r < 0)
        return r;
    signals_set_cleanup(job->out.temp, 0);
    signals_catch();
    if (job->call->words.count > 0) {
        r = launch_program(&job->program, job->call->words.items, err);
        if (r < 0)
            return r;
        job->launched = true;
        signals_set_cleanup(job->out.temp, job->program.pid);
    }
    r = open_writer(job, err);
    if (r == 0)
        r = sample(job, err);
    if (r < 0)
        return r;

    /* Whether it ended by itself is to be known before it is ended. */
    bool by_itself = job->launched && job->end == SAMPLER_EXITED && !signals_caught();
    if (job->launched)
        program_end(&job->program, GRACE);
    r = finish_stream(job, err);
    if (r == 0)
        r = convert(job, err);
    char *path = job->out.path ? strdup(job->out.path) : NULL;
    if (r == 0)
        r = outfile_commit(&job->out, err);
    if (r == 0 && job->values->stats)
        r = report_stats(job->values->stats, &job->stats, err);
    if (r == 0) {
        report_end(&job->voice, job->end, signals_caught());
        report_result(&job->voice, job->format, path ?: "?", &job->stats, &job->options);
        r = by_itself ? launch_exit_status(&job->program) : 0;
    }
    free(path);
    return r;
}

static void job_done(struct job *job)
{
    signals_set_sampler(NULL);
    sampler_free(job->sampler);
    if (job->launched && !job->program.ended)
        program_end(&job->program, GRACE);
    rec_writer_free(job->writer);
    if (job->stream && !is_stream(job->format))
        fclose(job->stream);
    outfile_abandon(&job->out);
}

static int run(const struct invocation *call, const void *values, struct error *err)
{
    const struct record_values *v = values;
    struct job job = {
        .call = call,
        .values = v,
        .format = v->format ? v->format : &formats[0],
        .options =
            {
                .rate = v->rate,
                .duration = v->duration,
                .gil_only = v->gil || v->mode == MODE_GIL,
                .cpu = v->mode == MODE_CPU,
                .idle = v->idle,
                .subprocesses = v->subprocesses,
                .patience = v->pid ? PATIENCE : PATIENCE_LAUNCHED,
            },
    };
    int r = check(&job, err);
    if (r == 0)
        r = check_mode(v, err);
    if (r == 0)
        r = shared_blocking(v->blocking, v->nonblocking, &job.options.blocking, err);
    if (r < 0)
        return r;
    r = job_run(&job, err);
    job_done(&job);
    signals_release();
    return r;
}

#define FLAG(option_letter, option_name, member, option_group, sentence)                           \
    {                                                                                              \
        .letter = (option_letter), .name = (option_name), .kind = OPT_FLAG,                        \
        .offset = offsetof(struct record_values, member), .group = (option_group),                 \
        .help = (sentence)                                                                         \
    }

static const char *const mode_choices[] = {
    [MODE_WALL] = "wall",
    [MODE_CPU] = "cpu",
    [MODE_GIL] = "gil",
    NULL,
};

static const struct option options[] = {
    OPTION_PID(struct record_values, pid),
    OPTION_SUBPROCESSES(struct record_values, subprocesses,
                        "Record the descendants of the process too, also those yet to come"),
    OPTION_BLOCKING(struct record_values, blocking),
    OPTION_NONBLOCKING(struct record_values, nonblocking),
    OPTION_NO_NATIVE,
    {
        .letter = 'r',
        .name = "rate",
        .argument = "RATE",
        .kind = OPT_RATE,
        .offset = offsetof(struct record_values, rate),
        .group = "Sampling",
        .help = "Samples per second, 0.01 to 1000000; 100 if not given",
    },
    {
        .letter = 'd',
        .name = "duration",
        .argument = "SECONDS",
        .kind = OPT_DURATION,
        .offset = offsetof(struct record_values, duration),
        .group = "Sampling",
        .help = "How long to record, in seconds, fractions allowed; unlimited if not given: until "
                "the program ends or Control-C is pressed",
    },
    {
        .name = "mode",
        .argument = "MODE",
        .kind = OPT_CHOICE,
        .offset = offsetof(struct record_values, mode),
        .choices = mode_choices,
        .group = "Sampling",
        .help = "What is measured: wall, if not given, is the time that passes while threads run; "
                "cpu is the time they are on a CPU, as the kernel accounts for it; gil is the time "
                "they hold the interpreter lock, like --gil",
    },
    FLAG('g', "gil", gil, "Sampling", "Record only the thread that holds the interpreter lock"),
    FLAG('i', "idle", idle, "Sampling", "Record waiting threads too, not only those that run"),
    {
        .letter = 'o',
        .name = "output",
        .argument = "FILE",
        .kind = OPT_FILE,
        .offset = offsetof(struct record_values, output),
        .group = "Output",
        .help =
            "Where to write, - for standard output; named after the program and the time if not "
            "given",
    },
    OPTION_FORMAT(struct record_values, format),
    OPTION_THREADS(struct record_values, threads),
    OPTION_FUNCTION(struct record_values, function),
    OPTION_NOLINENO(struct record_values, nolineno),
    OPTION_FULL_FILENAMES(struct record_values, full_filenames),
    OPTION_MARK_TORN(struct record_values, mark_torn),
    {
        .name = "stats",
        .argument = "FILE",
        .kind = OPT_FILE,
        .offset = offsetof(struct record_values, stats),
        .group = "Output",
        .help = "Also write how the recording went, as JSON: samples, torn, missed, late, how "
                "often and how long threads were stopped, own CPU time",
    },
    FLAG(0, "hideprogress", hideprogress, "Output",
         "Show no progress line; without a terminal there is none anyway"),
    {
        .name = "capture",
        .kind = OPT_FLAG,
        .offset = offsetof(struct record_values, capture),
        .group = "Output",
        .help = "Accepted for the sake of py-spy's command line; has no effect",
        .hidden = true,
    },
    OPTION_HELP,
    OPTIONS_END,
};

static const struct example examples[] = {
    {"Where does a running program spend its time? Ten seconds of it, as a flame graph:",
     "record -p 4242 -d 10 -o profile.svg"},
    {"A program from start to end, threads apart, for speedscope:",
     "record -t -f speedscope -o profile.json -- python app.py --port 80"},
    {"What does it wait for? Waiting threads too, in all processes of a server:",
     "record -i -s -d 30 -o waiting.svg -p 4242"},
    {"Record once, look at it in several ways:", "record -f scry -o run.scry -d 60 -p 4242"},
    {NULL, NULL},
};

const struct command cmd_record = {
    .name = "record",
    .letter = 'r',
    .summary = "Sample a Python process for a while and write a profile",
    .usage = (const char *const[]){"[OPTIONS] -p PID", "[OPTIONS] -- PROGRAM [ARGUMENT]...", NULL},
    .description =
        "Looks at every thread many times a second and writes where the time went. Ends after the "
        "given time, when the process ends, or at Control-C; in each case the profile is written. "
        "A "
        "launched program that ends by itself gives scry its exit status; otherwise it is ended "
        "with "
        "the recording.",
    .options = options,
    .examples = examples,
    .words = WORDS_PROGRAM,
    .values_size = sizeof(struct record_values),
    .defaults = &(const struct record_values){.rate = 100, .mode = MODE_UNSAID},
    .run = run,
};
