/* scry record: sample a process for a while and write a profile.
 *
 * The samples go as a stream into a file without a name and are converted at the end, so that
 * memory does not grow with time. The output is opened before anything else: a path that cannot be
 * written to is better known before ten minutes of recording than after. With --rotate a part ends
 * and the next begins between two looks; the one that ended is converted by another thread. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/wait.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tool/commands.h"
#include "tool/record.h"
#include "tool/record_part.h"
#include "tool/selection.h"
#include "tool/shared_options.h"
#include "util/buf.h"

#define PATIENCE          SCRY_NSEC_PER_SEC       /* for Python to start in a process named by -p */
#define PATIENCE_LAUNCHED (5 * SCRY_NSEC_PER_SEC) /* in a program just launched */
#define SHORTEST_PART     (SCRY_NSEC_PER_SEC / 10)
#define DEFAULT_RATE      100.0
#define GRACE             (2 * SCRY_NSEC_PER_SEC) /* for a launched program to end when told to */

struct record_values {
    struct pids pids;
    const char *name;
    struct strings threads_wanted, include, exclude;
    const char *output;
    const char *stats;
    const struct format *format;
    scry_nsec duration;
    scry_nsec delay;
    int start_on, stop_on; /* signals; 0 = none */
    scry_nsec rotate;
    uint32_t keep;
    double rate; /* 0 = not given */
    double overhead;
    int blocking;
    int mode;   /* enum mode */
    int reader; /* enum reader */
    bool subprocesses, gil, idle, nonblocking, native, native_all;
    bool threads, function, nolineno, full_filenames, mark_torn, no_source;
    bool gc, exception;
    bool hideprogress, capture;
    bool progress_lines, until_eof;
    const char *host;
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
    char *path;
    struct part_plan plan;
    struct part part;            /* being recorded */
    struct part_writing writing; /* the one before it, or a snapshot */
    bool writing_snapshot;
    bool flush_wanted;
    scry_nsec next_part;  /* since the start; 0 = there is none */
    struct pid_list pids; /* to be sampled, unless a program is launched */
    struct launch program;
    bool launched;
    struct sampler *sampler;
    struct sampler_stats stats; /* at the end */
    enum sampler_end end;
    struct progress progress;
    bool ended_early; /* before there was anything to sample */
    int failed;       /* while it went on */
    struct error *err;
};

/* ---- before ---- */

static int check(const struct job *job, struct error *err)
{
    const struct record_values *v = job->values;
    bool program = job->call->words.count > 0;
    const char *tool = job->call->tool;
    bool process = v->pids.count || v->name;
    if (!process && !program) {
        error_set(err, -SCRY_E_USAGE, "record needs to know what to record");
        error_hint(err, "name a process with -p PID, or a program: %s record -- python app.py",
                   tool);
    } else if (process && program) {
        if (v->pids.count)
            error_set(err, -SCRY_E_USAGE,
                      "record was given both a process, %d, and a program, '%s'", v->pids.items[0],
                      job->call->words.items[0]);
        else
            error_set(err, -SCRY_E_USAGE, "record was given both --name '%s' and a program, '%s'",
                      v->name, job->call->words.items[0]);
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

static int check_rate(const struct record_values *v, struct error *err)
{
    if (!v->rate || !v->overhead)
        return 0;
    error_set(err, -SCRY_E_USAGE, "--rate and --overhead contradict each other");
    error_hint(err, "with --overhead scry finds the rate by itself: leave one of them out");
    return -SCRY_E_USAGE;
}

static int check_rotation(const struct job *job, struct error *err)
{
    const struct record_values *v = job->values;
    if (v->keep && !v->rotate) {
        error_set(err, -SCRY_E_USAGE, "--keep is about the files of --rotate");
        error_hint(err, "add --rotate SECONDS, or leave --keep out");
        return -SCRY_E_USAGE;
    }
    if (v->rotate && v->rotate < SHORTEST_PART) {
        error_set(err, -SCRY_E_USAGE, "--rotate is given less than %g seconds",
                  (double)SHORTEST_PART / 1e9);
        error_hint(err, "each file holds a while: give more, for example --rotate 60");
        return -SCRY_E_USAGE;
    }
    if (v->rotate && v->output && strcmp(v->output, "-") == 0) {
        error_set(err, -SCRY_E_USAGE, "--rotate cannot make several files of standard output");
        error_hint(err, "name a file with -o: run.%s becomes run-0001.%s, run-0002.%s ...",
                   job->format->extension, job->format->extension, job->format->extension);
        return -SCRY_E_USAGE;
    }
    return 0;
}

static pid_t first_pid(const struct job *job)
{
    return job->launched ? job->program.pid : job->pids.count ? job->pids.items[0] : 0;
}

static int open_output(struct job *job, struct error *err)
{
    const struct record_values *v = job->values;
    job->path = v->output ? strdup(v->output)
                          : record_default_name(job->call->words.items[0], first_pid(job),
                                                job->format->extension);
    if (!job->path)
        return error_set(err, -SCRY_E_NO_MEMORY, "out of memory");
    job->plan = (struct part_plan){
        .path = job->path,
        .numbered = v->rotate > 0,
        .format = job->format,
        .view =
            {
                .lines = v->function   ? LINES_FUNCTION
                         : v->nolineno ? LINES_NONE
                                       : LINES_EXACT,
                .full_filenames = v->full_filenames,
                .threads = v->threads,
                .mark_torn = v->mark_torn,
                .no_source = v->no_source,
                .processes = v->subprocesses || job->pids.count > 1,
                .title = "",
                .tool = job->call->tool,
            },
    };
    job->next_part = v->rotate;
    int r = part_open(&job->part, &job->plan, 1, err);
    if (r == 0)
        job->voice = voice_for(job->call, &job->part.out);
    return r;
}

static void add_command_line(struct buf *to, char *const *argv)
{
    for (size_t i = 0; argv[i]; i++)
        buf_addf(to, "%s%s", i ? " " : "", argv[i]);
}

/* `ago`: how long ago the part begins. */
static int open_writer(const struct job *job, struct part *part, scry_nsec ago, struct error *err)
{
    const struct sampler_options *o = &job->options;
    SCOPED_BUF command;
    buf_init(&command);
    add_command_line(&command, job->call->argv);
    char host[256] = "";
    if (job->values->host)
        snprintf(host, sizeof(host), "%s", job->values->host);
    else
        gethostname(host, sizeof(host) - 1);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct rec_info info = {
        .command = command.data,
        .host = host,
        .start_unix_ns = (uint64_t)now.tv_sec * SCRY_NSEC_PER_SEC + (uint64_t)now.tv_nsec - ago,
        .rate = o->overhead > 0 ? 0 : o->rate,
        .options = (o->idle ? REC_OPT_IDLE : 0u) | (o->gil_only ? REC_OPT_GIL : 0u) |
                   (o->cpu ? REC_OPT_CPU : 0u) | (o->subprocesses ? REC_OPT_SUBPROCESSES : 0u) |
                   (o->overhead > 0 ? REC_OPT_VARIED : 0u) | (o->native ? REC_OPT_NATIVE : 0u),
    };
    int r = rec_writer_new(part->stream, &info, &part->writer);
    return r < 0 ? error_set(err, r, "%s", error_sentence(r)) : 0;
}

/* ---- during ---- */

/* The parts before it that are more than --keep says. */
static void drop_old(const struct job *job, unsigned number)
{
    uint32_t keep = job->values->keep;
    if (!keep || number <= keep)
        return;
    char *name = part_name(job->path, number - keep);
    if (name)
        unlink(name);
    free(name);
}

static void tell_part(struct job *job, const struct part *part, const char *path)
{
    progress_clear(&job->progress);
    if (job->writing_snapshot)
        report_so_far(&job->voice, job->format, path);
    else
        report_result(&job->voice, job->format, path, &part->stats, &job->options);
}

/* What another thread was given to write is there, or has failed. */
static int end_writing(struct job *job, struct error *err)
{
    struct part_writing *w = &job->writing;
    if (!w->going)
        return 0;
    int r = part_writing_finish(w, err);
    signals_set_second(NULL);
    if (r == 0) {
        tell_part(job, &w->part, w->path);
        if (!job->writing_snapshot)
            drop_old(job, w->part.number);
    }
    return r;
}

static int begin_writing(struct job *job, struct part *part, bool snapshot, struct error *err)
{
    job->writing_snapshot = snapshot;
    signals_set_second(part->out.temp);
    return part_writing_start(&job->writing, part, err);
}

/* SIGUSR1. A stream only has to be made visible. */
static int flush_part(struct job *job, struct error *err)
{
    struct part *part = &job->part, snapshot;
    job->flush_wanted = false;
    if (part_is_stream(job->format)) {
        int r = rec_writer_flush(part->writer);
        if (r < 0)
            return error_set(err, r, "the recording cannot be written: %s", strerror(errno));
        bool named = outfile_publish(&part->out);
        progress_clear(&job->progress);
        report_so_far(&job->voice, job->format, named ? part->out.path : part->out.temp ?: "-");
        return 0;
    }
    if (!part->out.temp)
        return 0; /* what goes to a pipe cannot be written twice */
    rec_writer_flush(part->writer);
    int r = part_snapshot(part, &snapshot, err);
    return r < 0 ? r : begin_writing(job, &snapshot, true, err);
}

/* --rotate: the next part begins where the one before ends. */
static int next_part(struct job *job, const struct sampler_stats *stats, struct error *err)
{
    struct part next;
    int r = part_open(&next, &job->plan, job->part.number + 1, err);
    if (r == 0)
        r = open_writer(job, &next, stats->elapsed - stats->last_look, err);
    if (r < 0)
        return r;
    next.begun = sampler_switch(job->sampler, rec_writer_sink(next.writer));
    next.stats = *stats;
    struct part ended = job->part;
    job->part = next;
    signals_set_cleanup(next.out.temp, job->launched ? job->program.pid : 0);
    while (job->next_part <= stats->elapsed)
        job->next_part += job->values->rotate;
    r = part_end(&ended, stats, next.begun, err);
    if (r == 0)
        r = begin_writing(job, &ended, false, err);
    part_done(&ended);
    return r;
}

/* --until-eof: who holds the other end of standard input is gone, however it went. */
static bool input_closed(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    char byte;
    return poll(&input, 1, 0) > 0 && read(STDIN_FILENO, &byte, 1) <= 0;
}

static bool on_tick(const struct sampler_stats *stats, void *context)
{
    struct job *job = context;
    int r = 0;
    progress_update(&job->progress, stats);
    job->flush_wanted |= signals_take_flush();
    if (job->writing.going && atomic_load(&job->writing.ended))
        r = end_writing(job, job->err);
    /* One at a time: whatever else is due can wait until it is written. */
    if (r == 0 && !job->writing.going && job->next_part && stats->elapsed >= job->next_part)
        r = next_part(job, stats, job->err);
    if (r == 0 && !job->writing.going && job->flush_wanted)
        r = flush_part(job, job->err);
    job->failed = r;
    return r < 0 || (job->values->until_eof && input_closed());
}

/* --delay and --start-on. The recording, and the time in it, begins afterwards. */
static bool await_start(struct job *job)
{
    const struct record_values *v = job->values;
    if (v->start_on) {
        report_waiting(&job->voice, v->start_on);
        sampler_pause(job->sampler, true);
        if (!signals_resting()) /* it came already */
            sampler_pause(job->sampler, false);
    }
    return sampler_await(job->sampler, v->delay);
}

static int begin(struct job *job, struct error *err)
{
    pid_t launched = job->program.pid;
    const pid_t *pids = job->launched ? &launched : job->pids.items;
    size_t count = job->launched ? 1 : job->pids.count;
    int r = sampler_new_many(pids, count, &job->options, NULL, &job->sampler, err);
    if (r < 0 && job->launched)
        return program_explain_start(&job->program, job->call->words.items[0],
                                     job->options.subprocesses, r, err);
    if (r < 0)
        return r;
    signals_set_sampler(job->sampler);
    bool wanted = await_start(job);
    r = open_writer(job, &job->part, 0, err);
    if (r < 0)
        return r;
    sampler_switch(job->sampler, rec_writer_sink(job->part.writer));
    if (!wanted) {
        sampler_stop(job->sampler);
        job->ended_early = !signals_over();
    }
    return 0;
}

static int sample(struct job *job, struct error *err)
{
    int r = begin(job, err);
    if (r < 0)
        return r;
    report_start(&job->voice, first_pid(job), job->launched ? 1 : job->pids.count, &job->options);
    progress_init(&job->progress, !job->values->hideprogress, job->launched, job->options.duration);
    job->progress.lines = job->values->progress_lines;
    r = sampler_run(job->sampler, on_tick, job, &job->end, err);
    if (job->ended_early)
        job->end = SAMPLER_EXITED;
    progress_clear(&job->progress);
    signals_set_sampler(NULL);
    job->stats = *sampler_stats(job->sampler);
    if (job->values->progress_lines)
        progress_tell(&job->stats);
    sampler_free(job->sampler);
    job->sampler = NULL;
    return r < 0 ? r : job->failed;
}

/* ---- after ---- */

static int job_run(struct job *job, struct error *err)
{
    int r = selection_find(&job->values->pids, job->values->name, &job->pids, err);
    if (r == 0)
        r = open_output(job, err);
    if (r < 0)
        return r;
    signals_set_cleanup(job->part.out.temp, 0);
    signals_catch();
    signals_watch(job->values->start_on, job->values->stop_on);
    if (job->call->words.count > 0) {
        r = launch_program(&job->program, job->call->words.items, err);
        if (r < 0)
            return r;
        job->launched = true;
        signals_set_cleanup(job->part.out.temp, job->program.pid);
    }
    r = sample(job, err);
    if (r < 0)
        return r;

    /* Whether it ended by itself is to be known before it is ended. */
    bool by_itself = job->launched && job->end == SAMPLER_EXITED && !signals_caught();
    if (job->launched)
        program_end(&job->program, GRACE);
    r = end_writing(job, err);
    if (r == 0)
        r = part_end(&job->part, &job->stats, job->stats.elapsed, err);
    char *path = job->part.out.path ? strdup(job->part.out.path) : NULL;
    if (r == 0)
        r = part_write(&job->part, err);
    if (r == 0)
        drop_old(job, job->part.number);
    if (r == 0 && job->values->stats)
        r = report_stats(job->values->stats, &job->stats, err);
    if (r == 0) {
        report_end(&job->voice, job->end, signals_caught());
        report_result(&job->voice, job->format, path ?: "?", &job->part.stats, &job->options);
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
    part_writing_finish(&job->writing, NULL);
    part_done(&job->writing.part);
    part_done(&job->part);
    pid_list_done(&job->pids);
    free(job->path);
}

static struct patterns patterns(const struct strings *from)
{
    return (struct patterns){.items = from->items, .count = from->count};
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
                .rate = v->rate ? v->rate : DEFAULT_RATE,
                .overhead = v->overhead,
                .duration = v->duration,
                .gil_only = v->gil || v->mode == MODE_GIL,
                .cpu = v->mode == MODE_CPU,
                .reader = (enum reader)v->reader,
                .idle = v->idle,
                .subprocesses = v->subprocesses,
                .choice =
                    {
                        .threads = patterns(&v->threads_wanted),
                        .include = patterns(&v->include),
                        .exclude = patterns(&v->exclude),
                    },
                .gc = v->gc,
                .exceptions = v->exception,
                .any = v->name != NULL,
                .patience = call->words.count ? PATIENCE_LAUNCHED : PATIENCE,
                .native = v->native || v->native_all,
                .native_all = v->native_all,
            },
    };
    job.err = err;
    int r = check(&job, err);
    if (r == 0)
        r = check_mode(v, err);
    if (r == 0)
        r = check_rate(v, err);
    if (r == 0)
        r = check_rotation(&job, err);
    if (r == 0)
        r = shared_blocking(v->blocking, v->nonblocking, &job.options.blocking, err);
    if (r < 0)
        return r;
    if (job.options.native)
        shared_note_native(call->tool, job.options.blocking);
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

static const char *const reader_choices[] = {
    [READER_MEMORY] = "memory",
    [READER_KERNEL] = "kernel",
    [READER_AUTO] = "auto",
    NULL,
};

static const struct option options[] = {
    OPTION_PIDS(struct record_values, pids),
    OPTION_NAME(struct record_values, name),
    OPTION_THREAD(struct record_values, threads_wanted),
    OPTION_SUBPROCESSES(struct record_values, subprocesses,
                        "Record the descendants of the process too, also those yet to come"),
    OPTION_BLOCKING(struct record_values, blocking),
    OPTION_NONBLOCKING(struct record_values, nonblocking),
    {
        .name = "reader",
        .argument = "WHERE",
        .kind = OPT_CHOICE,
        .offset = offsetof(struct record_values, reader),
        .choices = reader_choices,
        .group = "Target",
        .help = "Where stacks are read: memory is from outside; kernel is in the middle of the "
                "thread, by a program in the kernel (root, Python 3 with a GIL), which stops "
                "nobody and costs a fraction; auto, if not given, is kernel where that can be had",
    },
    OPTION_NATIVE(struct record_values, native),
    OPTION_NATIVE_ALL(struct record_values, native_all),
    OPTION_RATE(struct record_values, rate),
    {
        .name = "overhead",
        .argument = "PERCENT",
        .kind = OPT_PERCENT,
        .offset = offsetof(struct record_values, overhead),
        .group = "Sampling",
        .help = "Instead of a rate what it may cost, 0.01 to 100: scry looks as often as its own "
                "CPU time and the time it holds threads of the program stay below this share of "
                "the time",
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
    {
        .name = "delay",
        .argument = "SECONDS",
        .kind = OPT_DURATION,
        .offset = offsetof(struct record_values, delay),
        .group = "Sampling",
        .help = "Wait so long before the recording begins",
    },
    {
        .name = "start-on",
        .argument = "SIGNAL",
        .kind = OPT_SIGNAL,
        .offset = offsetof(struct record_values, start_on),
        .group = "Sampling",
        .help = "Begin when this signal comes to scry, for example USR2; may be that of --stop-on, "
                "which then comes in turn",
    },
    {
        .name = "stop-on",
        .argument = "SIGNAL",
        .kind = OPT_SIGNAL,
        .offset = offsetof(struct record_values, stop_on),
        .group = "Sampling",
        .help = "End when this signal comes; with --start-on rest until that comes again",
    },
    FLAG('g', "gil", gil, "Sampling", "Record only the thread that holds the interpreter lock"),
    FLAG(0, "exception", exception, "Sampling",
         "Record only threads that raise an exception or are in an except or finally block of one"),
    FLAG(0, "gc", gc, "Sampling",
         "Show the garbage collector as a frame of its own, on top of what made it run"),
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
    {
        .name = "rotate",
        .argument = "SECONDS",
        .kind = OPT_DURATION,
        .offset = offsetof(struct record_values, rotate),
        .group = "Output",
        .help = "Begin a new file so often, without a gap: run.svg becomes run-0001.svg, "
                "run-0002.svg ...",
    },
    {
        .name = "keep",
        .argument = "N",
        .kind = OPT_NUMBER,
        .offset = offsetof(struct record_values, keep),
        .group = "Output",
        .help = "With --rotate: remove all but the last N files; 0, if not given, keeps all",
    },
    {
        .name = "include",
        .argument = "PATTERN",
        .kind = OPT_STRINGS,
        .offset = offsetof(struct record_values, include),
        .group = "Output",
        .help = "Show only frames of these files or modules, as requests, 'app.*' or "
                "'*/site-packages/*'; may be given several times",
    },
    {
        .name = "exclude",
        .argument = "PATTERN",
        .kind = OPT_STRINGS,
        .offset = offsetof(struct record_values, exclude),
        .group = "Output",
        .help = "Leave frames of these files or modules out: their time is that of what called "
                "them; may be given several times",
    },
    OPTION_FORMAT(struct record_values, format),
    OPTION_THREADS(struct record_values, threads),
    OPTION_FUNCTION(struct record_values, function),
    OPTION_NOLINENO(struct record_values, nolineno),
    OPTION_FULL_FILENAMES(struct record_values, full_filenames),
    OPTION_MARK_TORN(struct record_values, mark_torn),
    OPTION_NO_SOURCE(struct record_values, no_source),
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
        .name = "progress-lines",
        .kind = OPT_FLAG,
        .offset = offsetof(struct record_values, progress_lines),
        .group = "Output",
        .help = "Print a line on standard output twice a second: progress SECONDS SAMPLES",
        .hidden = true,
    },
    {
        .name = "host",
        .argument = "NAME",
        .kind = OPT_STRING,
        .offset = offsetof(struct record_values, host),
        .group = "Output",
        .help = "What the recording calls this host; its own name if not given",
        .hidden = true,
    },
    {
        .name = "until-eof",
        .kind = OPT_FLAG,
        .offset = offsetof(struct record_values, until_eof),
        .group = "Sampling",
        .help = "End when standard input does, so that a recording ends with who began it",
        .hidden = true,
    },
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
    {"All day long, a file per minute, the last hour of them kept:",
     "record --rotate 60 --keep 60 -f scry -o run.scry -p 4242"},
    {"As many samples as one percent of a CPU affords:",
     "record --overhead 1 -d 60 -o profile.svg -p 4242"},
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
        "SIGUSR1 has what was recorded so far written, and recording goes on. A "
        "launched program that ends by itself gives scry its exit status; otherwise it is ended "
        "with "
        "the recording.",
    .options = options,
    .examples = examples,
    .words = WORDS_PROGRAM,
    .values_size = sizeof(struct record_values),
    .defaults = &(const struct record_values){.mode = MODE_UNSAID, .reader = READER_AUTO},
    .run = run,
};
