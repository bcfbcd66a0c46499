/* Taking over the terminal, and giving it back whatever happens.
 *
 * A process that crashes, runs out of memory or is killed cannot clean up. So before the screen is
 * taken, a guard is forked that waits for the end of a pipe. A byte says that all is in order; the
 * end of the pipe without one means that scry is dead, and the guard restores the terminal. */
#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "tool/term.h"
#include "tool/top.h"

/* Last, because it makes macros of ordinary words such as "lines". */
#include <curses.h>
#include <term.h>

/* ---- the guard ---- */

struct former {
    struct termios modes;
    char leave[512]; /* what makes the terminal show what it showed before */
    size_t leave_len;
};

static void add_capability(struct former *f, const char *name)
{
    const char *text = tigetstr(name);
    if (!text || text == (char *)-1)
        return;
    /* Delays, written as $<5>, are for terminals of another age. */
    while (*text && f->leave_len + 1 < sizeof(f->leave)) {
        if (text[0] == '$' && text[1] == '<' && strchr(text, '>')) {
            text = strchr(text, '>') + 1;
            continue;
        }
        f->leave[f->leave_len++] = *text++;
    }
}

/* Only what is safe after a fork. */
static void guard_run(int pipe_end, int terminal, const struct former *f)
{
    char byte;
    ssize_t n;
    /* A session of its own: no signal from the terminal, no job control in the way. */
    setsid();
    prctl(PR_SET_NAME, "scry-guard", 0, 0, 0);
    signal(SIGHUP, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    do
        n = read(pipe_end, &byte, 1);
    while (n < 0 && errno == EINTR);
    if (n == 1)
        _exit(0);
    n = write(terminal, f->leave, f->leave_len);
    tcsetattr(terminal, TCSADRAIN, &f->modes);
    _exit(0);
}

/* All descriptors but two: a pipe that scry holds must not seem open longer than scry lives. */
static void close_others(int keep, int keep_too)
{
    for (int fd = 0; fd < 256; fd++)
        if (fd != keep && fd != keep_too)
            close(fd);
}

static int guard_start(struct terminal *t, const struct former *f, struct error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_set(err, -SCRY_E_IO, "no pipe: %s", strerror(errno));
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[1]);
        close_others(ends[0], fileno(t->out));
        guard_run(ends[0], fileno(t->out), f);
    }
    close(ends[0]);
    if (pid < 0) {
        close(ends[1]);
        return error_set(err, -SCRY_E_IO, "no process to guard the terminal: %s", strerror(errno));
    }
    t->guard = pid;
    t->guard_fd = ends[1];
    top_signals_guard(pid, ends[1]);
    return 0;
}

static void guard_end(struct terminal *t)
{
    if (t->guard <= 0)
        return;
    top_signals_guard(0, -1);
    ssize_t n = write(t->guard_fd, "", 1);
    (void)n;
    close(t->guard_fd);
    while (waitpid(t->guard, NULL, 0) < 0 && errno == EINTR)
        ;
    t->guard = 0;
}

/* ---- the terminal ---- */

static int open_streams(struct terminal *t, struct error *err)
{
    t->out = stdout;
    t->in = stdin;
    if (!isatty(STDOUT_FILENO)) {
        error_set(err, -SCRY_E_IO, "top draws on a terminal, and standard output is none");
        error_hint(err, "top --once prints one table, top --json the same for programs");
        return -SCRY_E_IO;
    }
    if (isatty(STDIN_FILENO))
        return 0;
    t->in = fopen("/dev/tty", "re");
    t->close_in = t->in != NULL;
    if (t->in)
        return 0;
    error_set(err, -SCRY_E_IO, "top takes keys from a terminal, and there is none to read from");
    error_hint(err, "top --once prints one table, top --json the same for programs");
    return -SCRY_E_IO;
}

static int check_kind(const struct terminal *t, struct error *err)
{
    const char *kind = getenv("TERM");
    int why = 1;
    bool known = kind && *kind && setupterm(NULL, fileno(t->out), &why) == OK;
    const char *move = known ? tigetstr("cup") : NULL;
    if (move && move != (char *)-1)
        return 0;
    if (!kind || !*kind)
        error_set(err, -SCRY_E_IO, "top cannot draw: TERM is not set");
    else if (known)
        error_set(err, -SCRY_E_IO, "top cannot draw: a terminal of the kind '%s' has no cursor",
                  kind);
    else
        error_set(err, -SCRY_E_IO, "top cannot draw: nothing is known of the terminal '%s'", kind);
    error_hint(err, "set TERM to what the terminal is, for example TERM=xterm, or use top --once");
    return -SCRY_E_IO;
}

/* Where nothing is said about the language, UTF-8 is the better guess than ASCII. */
static void choose_encoding(void)
{
    const char *const said[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    bool any = false;
    for (size_t i = 0; i < ARRAY_LEN(said); i++)
        any = any || (getenv(said[i]) && *getenv(said[i]));
    if (!any || !setlocale(LC_CTYPE, ""))
        setlocale(LC_CTYPE, "C.UTF-8");
}

static void start_colours(struct terminal *t)
{
    if (!has_colors() || !term_has_colours(t->out) || start_color() != OK)
        return;
    short background = use_default_colors() == OK ? -1 : COLOR_BLACK;
    t->colours = true;
    init_pair(1, COLOR_GREEN, background);
    init_pair(2, COLOR_CYAN, background);
    init_pair(3, COLOR_YELLOW, background);
    init_pair(4, COLOR_RED, background);
    init_pair(5, COLOR_BLACK, COLOR_CYAN);
    init_pair(6, COLOR_BLACK, COLOR_GREEN);
}

void terminal_resize(void)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col)
        resizeterm(size.ws_row, size.ws_col);
    clearok(stdscr, TRUE);
}

int terminal_check(struct terminal *t, struct error *err)
{
    *t = (struct terminal){.guard_fd = -1};
    int r = open_streams(t, err);
    return r == 0 ? check_kind(t, err) : r;
}

int terminal_open(struct terminal *t, struct error *err)
{
    struct former f = {0};
    int r = 0;
    if (tcgetattr(fileno(t->out), &f.modes) < 0)
        r = error_set(err, -SCRY_E_IO, "the terminal does not answer: %s", strerror(errno));
    if (r == 0) {
        static const char *const leaving[] = {"sgr0", "op", "rmkx", "cnorm", "rmcup"};
        for (size_t i = 0; i < ARRAY_LEN(leaving); i++)
            add_capability(&f, leaving[i]);
        r = guard_start(t, &f, err);
    }
    if (r == 0) {
        choose_encoding();
        set_escdelay(25);
        del_curterm(cur_term); /* newterm() makes its own */
        t->screen = newterm(NULL, t->out, t->in);
        if (!t->screen)
            r = error_set(err, -SCRY_E_IO, "the terminal cannot be drawn on");
    }
    if (r < 0) {
        terminal_close(t);
        return r;
    }
    start_colours(t);
    cbreak();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    curs_set(0);
    terminal_resize(); /* what LINES and COLUMNS say may be of another terminal */
    return 0;
}

void terminal_close(struct terminal *t)
{
    if (t->screen) {
        /* A terminal without a second screen goes on below what is on this one. */
        move(LINES - 1, 0);
        clrtoeol();
        refresh();
        endwin();
        delscreen(t->screen);
    }
    guard_end(t);
    if (t->close_in)
        fclose(t->in);
    *t = (struct terminal){.guard_fd = -1};
}

void terminal_suspend(struct terminal *t)
{
    (void)t;
    endwin();
    raise(SIGSTOP);
    terminal_resize();
    refresh();
}
