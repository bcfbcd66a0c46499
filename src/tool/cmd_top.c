/* scry top: what a process does, live in the terminal, or once as a table.
 *
 * Two threads: one samples and counts (top_sampling.c), this one waits for keys, signals and the
 * next refresh, and draws. */
#include <curses.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tool/commands.h"
#include "tool/record.h"
#include "tool/shared_options.h"
#include "tool/text.h"
#include "tool/top.h"

#define PATIENCE          SCRY_NSEC_PER_SEC
#define PATIENCE_LAUNCHED (5 * SCRY_NSEC_PER_SEC)
#define GRACE             (2 * SCRY_NSEC_PER_SEC)
#define FIRST_REFRESH     (SCRY_NSEC_PER_SEC / 5)
#define ONCE_SECONDS      (2 * SCRY_NSEC_PER_SEC)
#define NOT_GIVEN         UINT64_MAX
#define FAREWELL_ROWS     10

struct top_values {
    pid_t pid;
    double rate;
    scry_nsec delay, duration;
    int blocking, by, sort;
    const char *search;
    uint32_t limit;
    bool subprocesses, gil, idle, nonblocking, native, native_all;
    bool full_filenames, threads, processes;
    bool once, json, stream;
};

struct top {
    const struct invocation *call;
    const struct top_values *values;
    struct launch program;
    bool launched;
    bool ended; /* before it was told to */
    struct top_output output;
    struct top_sampling sampling;
    struct tally *tally;
    struct tally_picture picture;
    struct top_screen screen;
    struct terminal terminal;
    int wake_read, wake_write;
    int signal; /* that asked to end */
    bool resized, suspend;
};

static scry_nsec now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (scry_nsec)ts.tv_sec * SCRY_NSEC_PER_SEC + (scry_nsec)ts.tv_nsec;
}

/* ---- before ---- */

static int check(const struct top *top, struct error *err)
{
    const struct top_values *v = top->values;
    bool program = top->call->words.count > 0;
    if (!v->pid && !program) {
        error_set(err, -SCRY_E_USAGE, "top needs to know what to look at");
        error_hint(err, "name a process with -p PID, or a program: %s top -- python app.py",
                   top->call->tool);
    } else if (v->pid && program) {
        error_set(err, -SCRY_E_USAGE, "top was given both a process, %d, and a program, '%s'",
                  v->pid, top->call->words.items[0]);
        error_hint(err, "leave one of them out");
    } else if (!v->delay) {
        error_set(err, -SCRY_E_USAGE, "--delay unlimited: the screen would never be drawn again");
        error_hint(err, "give seconds, for example --delay 2");
    } else {
        return 0;
    }
    return -SCRY_E_USAGE;
}

/* What the program prints goes to a page of its own; with --once, where it is not in the way of the
 * table. Its input stays ours: keys are not for it. */
static int launch(struct top *top, bool once, struct error *err)
{
    int write_end = -1, nothing = -1, r = 0;
    int streams[3] = {-1, STDERR_FILENO, -1};
    if (!once) {
        r = top_output_open(&top->output, &write_end, err);
        if (r < 0)
            return r;
        nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
        streams[0] = nothing;
        streams[1] = streams[2] = write_end;
    }
    r = launch_program_with(&top->program, top->call->words.items, streams, err);
    top->launched = r == 0;
    if (write_end >= 0)
        close(write_end);
    if (nothing >= 0)
        close(nothing);
    return r;
}

/* ---- waiting ---- */

static void take_signals(struct top *top)
{
    unsigned char bytes[64];
    ssize_t n;
    while ((n = read(top->wake_read, bytes, sizeof(bytes))) > 0) {
        for (ssize_t i = 0; i < n; i++) {
            if (bytes[i] == SIGWINCH)
                top->resized = true;
            else if (bytes[i] == SIGTSTP)
                top->suspend = true;
            else if (bytes[i] != 0)
                top->signal = bytes[i];
        }
    }
}

/* Until something happens, or the time has come. */
static void await(struct top *top, bool keys, scry_nsec until)
{
    scry_nsec time = now();
    int limit = until <= time ? 0
                              : (int)((until - time + 999999) / 1000000 > 3600000
                                          ? 3600000
                                          : (until - time + 999999) / 1000000);
    struct pollfd fds[] = {
        {.fd = top->wake_read, .events = POLLIN},
        {.fd = top->output.fd, .events = POLLIN},
        {.fd = keys ? fileno(top->terminal.in) : -1, .events = POLLIN},
    };
    if (poll(fds, ARRAY_LEN(fds), limit) <= 0)
        return;
    if (fds[0].revents)
        take_signals(top);
    if (fds[1].revents)
        top_output_read(&top->output);
    /* A terminal that hung up has no more keys. */
    if (fds[2].revents & (POLLHUP | POLLERR | POLLNVAL))
        top->signal = SIGHUP;
}

/* Comes back when Python was found in the process, or was not. */
static int await_start(struct top *top, struct error *err)
{
    struct top_sampling *s = &top->sampling;
    for (;;) {
        struct top_progress p = top_sampling_progress(s);
        if (p.started)
            return 0;
        if (p.ended || top->signal)
            break;
        await(top, false, now() + SCRY_NSEC_PER_SEC);
    }
    if (top->signal)
        return 0;
    top_sampling_end(s);
    *err = s->err;
    if (!top->launched)
        return s->result;
    return program_explain_start(&top->program, top->call->words.items[0],
                                 top->values->subprocesses, s->result, err);
}

/* ---- pictures ---- */

static int take_picture(struct top *top, bool cut)
{
    const struct top_view *view = &top->screen.view;
    struct tally_picture picture;
    if (cut)
        tally_cut(top->tally);
    int r = tally_picture(top->tally, view->by, view->split, &picture);
    if (r < 0)
        return r;
    tally_picture_done(&top->picture);
    top->picture = picture;
    top_table_arrange(&top->picture, view);
    return 0;
}

static struct top_head head_of(struct top *top)
{
    return (struct top_head){
        .tool = top->call->tool,
        .pid = top->sampling.pid,
        .subprocesses = top->values->subprocesses,
        .launched = top->launched,
        .rate = top->values->rate,
        .stats =
            top->sampling.going ? top_sampling_progress(&top->sampling).stats : top->sampling.stats,
    };
}

/* ---- once ---- */

static int run_once(struct top *top, struct error *err)
{
    int r = await_start(top, err);
    while (r == 0 && !top->signal && !top_sampling_progress(&top->sampling).ended)
        await(top, false, now() + SCRY_NSEC_PER_SEC);
    if (r < 0)
        return r;
    top_sampling_end(&top->sampling);
    if (top->sampling.result < 0) {
        *err = top->sampling.err;
        return top->sampling.result;
    }
    r = take_picture(top, true);
    if (r < 0)
        return r;
    struct top_head head = head_of(top);
    size_t limit = top->values->limit ? top->values->limit : SIZE_MAX;
    if (top->values->json)
        top_print_json(stdout, &head, &top->picture, &top->screen.view, limit);
    else
        top_print_text(stdout, &head, &top->picture, &top->screen.view, limit);
    return 0;
}

/* ---- for a program ---- */

static int run_stream(struct top *top, struct error *err)
{
    size_t limit = top->values->limit ? top->values->limit : SIZE_MAX;
    int r = await_start(top, err);
    scry_nsec due = now();
    while (r == 0 && !top->signal && !top_sampling_progress(&top->sampling).ended) {
        due += top->values->delay;
        while (now() < due && !top->signal && !top_sampling_progress(&top->sampling).ended)
            await(top, false, due);
        r = take_picture(top, true);
        struct top_head head = head_of(top);
        if (r == 0)
            top_print_event(stdout, &head, &top->picture, &top->screen.view, limit);
        if (ferror(stdout))
            break;
    }
    if (r < 0)
        return r;
    top_sampling_end(&top->sampling);
    if (top->sampling.result < 0)
        *err = top->sampling.err;
    return top->sampling.result;
}

/* ---- live ---- */

static void suspend(struct top *top)
{
    top->suspend = false;
    top_sampling_rest(&top->sampling);
    terminal_suspend(&top->terminal);
    top_sampling_pause(&top->sampling, top->screen.paused);
}

/* Returns whether there was any. */
static bool take_keys(struct top *top)
{
    bool any = false;
    for (int key; !top->screen.quit && (key = getch()) != ERR; any = true)
        if (key != KEY_RESIZE)
            top_screen_key(&top->screen, key);
    struct top_screen *s = &top->screen;
    if (s->chosen)
        top_sampling_choose(&top->sampling, &s->view);
    if (s->fresh)
        tally_reset(top->tally);
    if (any)
        top_sampling_pause(&top->sampling, s->paused);
    s->chosen = s->fresh = false;
    return any;
}

static bool is_over(const struct top *top, const struct top_progress *progress)
{
    return top->screen.quit || top->signal || progress->ended;
}

static int watch(struct top *top)
{
    scry_nsec refresh_at = now() + FIRST_REFRESH;
    int r = take_picture(top, true);
    for (bool draw = true; r == 0;) {
        struct top_progress progress = top_sampling_progress(&top->sampling);
        if (is_over(top, &progress))
            return 0;
        if (top->suspend) {
            suspend(top);
            draw = true;
        }
        if (top->resized) {
            top->resized = false;
            terminal_resize();
            draw = true;
        }
        if (now() >= refresh_at) {
            refresh_at = now() + top->values->delay;
            r = take_picture(top, !top->screen.paused);
            draw = true;
        }
        if (draw && r == 0) {
            struct top_head head = head_of(top);
            top_screen_draw(&top->screen, &top->terminal, &head, &top->picture, &top->output);
        }
        draw = false;
        await(top, true, refresh_at);
        if (take_keys(top)) {
            r = take_picture(top, false);
            draw = true;
        }
    }
    return r;
}

/* The screen is gone when the process has ended: what was on top of it is worth keeping. */
static void say_farewell(struct top *top)
{
    FILE *out = stdout;
    struct top_head head = head_of(top);
    top->screen.view = (struct top_view){
        .by = top->screen.view.by,
        .sort = TOP_OWN_TIME,
        .full_filenames = top->screen.view.full_filenames,
        .of_samples = true,
    };
    if (top->launched) {
        top_output_read(&top->output);
        if (top->output.cut)
            fputs("...\n", out);
        fwrite(top->output.kept.data, 1, top->output.kept.len, out);
    }
    /* py-spy's words. */
    fprintf(out, "process %d ended", head.pid);
    if (take_picture(top, true) < 0 || top->picture.row_count == 0) {
        fputc('\n', out);
        return;
    }
    fprintf(out, " after %.1f s; most time was spent in:\n", (double)head.stats.elapsed / 1e9);
    /* Shares of all, not of the last moments. */
    for (size_t i = 0; i < top->picture.row_count; i++)
        top->picture.rows[i].lately = top->picture.rows[i].overall;
    top->picture.lately = top->picture.overall;
    top_print_rows(out, &top->picture, &top->screen.view, FAREWELL_ROWS);
}

static int run_live(struct top *top, struct error *err)
{
    int r = await_start(top, err);
    if (r < 0 || top->signal)
        return r;
    r = terminal_open(&top->terminal, err);
    if (r < 0)
        return r;
    r = watch(top);
    terminal_close(&top->terminal);
    if (r < 0)
        return error_set(err, r, "%s", error_sentence(r));
    top_sampling_end(&top->sampling);
    if (top->sampling.result < 0) {
        *err = top->sampling.err;
        return top->sampling.result;
    }
    if (top->sampling.end == SAMPLER_EXITED && !top->screen.quit && !top->signal)
        say_farewell(top);
    return 0;
}

/* ---- the command ---- */

static struct sampler_options sampler_options(const struct top *top, enum blocking blocking)
{
    const struct top_values *v = top->values;
    scry_nsec usual = v->once || v->json ? ONCE_SECONDS : 0;
    return (struct sampler_options){
        .rate = v->rate,
        .duration = v->duration == NOT_GIVEN ? usual : v->duration,
        .blocking = blocking,
        .gil_only = v->gil,
        .idle = v->idle,
        .subprocesses = v->subprocesses,
        .native = v->native || v->native_all,
        .native_all = v->native_all,
        .patience = v->pid ? PATIENCE : PATIENCE_LAUNCHED,
    };
}

static int start(struct top *top, bool once, struct error *err)
{
    int r = once ? 0 : terminal_check(&top->terminal, err);
    if (r == 0)
        r = top_signals_open(&top->wake_read, &top->wake_write, err);
    if (r == 0 && tally_new(&top->tally) < 0)
        r = error_set(err, -SCRY_E_NO_MEMORY, "out of memory");
    if (r == 0 && top->call->words.count > 0)
        r = launch(top, once, err);
    if (r < 0)
        return r;
    top->sampling.tally = top->tally;
    top->sampling.wake = top->wake_write;
    top->sampling.pid = top->launched ? top->program.pid : top->values->pid;
    tally_choose(top->tally, top->values->gil, top->values->idle);
    r = top_sampling_start(&top->sampling, err);
    if (r == 0)
        r = top->values->stream ? run_stream(top, err)
            : once              ? run_once(top, err)
                                : run_live(top, err);
    return r;
}

static void top_done(struct top *top)
{
    terminal_close(&top->terminal);
    top_sampling_end(&top->sampling);
    if (top->launched && !top->program.ended)
        program_end(&top->program, GRACE);
    top_output_done(&top->output);
    tally_picture_done(&top->picture);
    tally_free(top->tally);
    top_signals_close();
}

/* Control-C is the way to leave; other signals say that somebody else wanted the end. */
static int exit_status(const struct top *top)
{
    if (top->signal && top->signal != SIGINT)
        return 128 + top->signal;
    bool by_itself = top->launched && (top->ended || top->sampling.end == SAMPLER_EXITED);
    return by_itself && !top->signal && !top->screen.quit ? launch_exit_status(&top->program) : 0;
}

static int run(const struct invocation *call, const void *values, struct error *err)
{
    const struct top_values *v = values;
    struct top top = {
        .call = call,
        .values = v,
        .output = {.fd = -1},
        .terminal = {.guard_fd = -1},
        .wake_read = -1,
        .screen =
            {
                .view =
                    {
                        .by = (enum tally_by)v->by,
                        .split = (v->threads ? TALLY_THREADS : 0u) |
                                 (v->processes ? TALLY_PROCESSES : 0u),
                        .sort = (enum top_sort)v->sort,
                        .full_filenames = v->full_filenames,
                        .gil_only = v->gil,
                        .idle = v->idle,
                    },
                .has_output = call->words.count > 0,
            },
    };
    buf_init(&top.output.kept);
    if (v->search)
        snprintf(top.screen.view.search, sizeof(top.screen.view.search), "%s", v->search);
    enum blocking blocking;
    int r = check(&top, err);
    if (r == 0)
        r = shared_blocking(v->blocking, v->nonblocking, &blocking, err);
    if (r < 0)
        return r;
    top.sampling.options = sampler_options(&top, blocking);
    r = start(&top, v->once || v->json || v->stream, err);
    /* Whether it ended by itself is to be known before it is ended. */
    top.ended = top.launched && launch_poll(&top.program);
    top_done(&top);
    return r < 0 ? r : exit_status(&top);
}

#define FLAG(option_letter, option_name, member, option_group, sentence)                           \
    {                                                                                              \
        .letter = (option_letter), .name = (option_name), .kind = OPT_FLAG,                        \
        .offset = offsetof(struct top_values, member), .group = (option_group), .help = (sentence) \
    }

static const char *const by_choices[] = {
    [TALLY_FUNCTIONS] = "function",
    [TALLY_LINES] = "line",
    NULL,
};

static const struct option options[] = {
    OPTION_PID(struct top_values, pid),
    OPTION_SUBPROCESSES(struct top_values, subprocesses,
                        "Look at the descendants of the process too, also those yet to come"),
    OPTION_BLOCKING(struct top_values, blocking),
    OPTION_NONBLOCKING(struct top_values, nonblocking),
    OPTION_NATIVE(struct top_values, native),
    OPTION_NATIVE_ALL(struct top_values, native_all),
    OPTION_RATE(struct top_values, rate),
    {
        .letter = 'd',
        .name = "duration",
        .argument = "SECONDS",
        .kind = OPT_DURATION,
        .offset = offsetof(struct top_values, duration),
        .group = "Sampling",
        .help = "How long to look; if not given until you quit, and with --once 2 seconds",
    },
    FLAG('g', "gil", gil, "Sampling", "Count only the thread that holds the interpreter lock"),
    FLAG('i', "idle", idle, "Sampling", "Count waiting threads too, not only those that run"),
    {
        .name = "delay",
        .argument = "SECONDS",
        .kind = OPT_DURATION,
        .offset = offsetof(struct top_values, delay),
        .group = "Output",
        .help = "The screen is drawn anew so often, and percentages are of this time; 1 if not "
                "given",
    },
    {
        .name = "by",
        .argument = "WHAT",
        .kind = OPT_CHOICE,
        .offset = offsetof(struct top_values, by),
        .choices = by_choices,
        .group = "Output",
        .help = "What a row stands for, a function if not given",
    },
    {
        .name = "sort",
        .argument = "COLUMN",
        .kind = OPT_CHOICE,
        .offset = offsetof(struct top_values, sort),
        .choices = top_sort_names,
        .group = "Output",
        .help = "The column to sort by, own-time if not given",
    },
    {
        .name = "search",
        .argument = "TEXT",
        .kind = OPT_STRING,
        .offset = offsetof(struct top_values, search),
        .group = "Output",
        .help = "Show only rows with this text",
    },
    FLAG('t', "threads", threads, "Output", "Keep threads apart, in a column of their own"),
    FLAG(0, "processes", processes, "Output", "Keep processes apart, in a column of their own"),
    OPTION_FULL_FILENAMES(struct top_values, full_filenames),
    FLAG(0, "once", once, "Output",
         "Print one table at the end instead of drawing on the terminal: for scripts"),
    FLAG('j', "json", json, "Output", "The same as JSON"),
    {
        .name = "stream",
        .kind = OPT_FLAG,
        .offset = offsetof(struct top_values, stream),
        .group = "Output",
        .help = "A line of JSON per --delay, about that time",
        .hidden = true,
    },
    {
        .name = "limit",
        .argument = "ROWS",
        .kind = OPT_NUMBER,
        .offset = offsetof(struct top_values, limit),
        .group = "Output",
        .help = "With --once or --json, at most so many functions or lines; 0 and if not given all",
    },
    OPTION_HELP,
    OPTIONS_END,
};

static const struct example examples[] = {
    {"What is a process busy with?", "top -p 4242"},
    {"A server with all its workers:", "top -s -p 4242"},
    {"A program from its start, line by line:", "top --by line -- python app.py"},
    {"Five seconds of it as a table, for a script:", "top --once -d 5 --limit 20 -p 4242"},
    {NULL, NULL},
};

const struct command cmd_top = {
    .name = "top",
    .letter = 't',
    .summary = "Watch live where a Python process spends its time",
    .usage = (const char *const[]){"[OPTIONS] -p PID", "[OPTIONS] -- PROGRAM [ARGUMENT]...", NULL},
    .description =
        "Shows for each function the share of time, lately, that was spent in it (%Own) and in it "
        "and all that it calls (%Total), and the same as time since the start. Threads that run "
        "side by side add up to more than 100 %. Press ? for the keys, q to quit.\n\n"
        "What a launched program prints is kept and shown with the key o; the program is ended "
        "when you quit.",
    .options = options,
    .examples = examples,
    .words = WORDS_PROGRAM,
    .values_size = sizeof(struct top_values),
    .defaults =
        &(const struct top_values){
            .rate = 100,
            .delay = SCRY_NSEC_PER_SEC,
            .duration = NOT_GIVEN,
            .sort = TOP_OWN_TIME,
        },
    .run = run,
};
