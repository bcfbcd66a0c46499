/* A signal handler can only reach what is global, hence the globals here and nowhere else in top.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tool/top.h"

static int wake_read = -1, wake_write = -1;

static const int handled[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP};
static struct sigaction former[ARRAY_LEN(handled)];
static struct sigaction former_pipe;

/* What a crash is. The guard restores the terminal when scry is dead, but then the shell is writing
 * already: better before. */
static const int fatal[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGSYS, SIGXCPU};
static int guard_end = -1;
static pid_t guard;

static void on_crash(int number)
{
    /* SA_RESETHAND: the second one kills. */
    if (guard > 0) {
        close(guard_end);
        while (waitpid(guard, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    raise(number);
}

void top_signals_guard(pid_t pid, int fd)
{
    guard = pid;
    guard_end = fd;
    struct sigaction action = {.sa_handler = on_crash, .sa_flags = SA_RESETHAND | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < ARRAY_LEN(fatal); i++) {
        struct sigaction present;
        sigaction(fatal[i], NULL, &present);
        bool ours = present.sa_handler == on_crash;
        /* A sanitizer's own handler has more to say. */
        if (pid > 0 && present.sa_handler == SIG_DFL)
            sigaction(fatal[i], &action, NULL);
        else if (pid == 0 && ours)
            signal(fatal[i], SIG_DFL);
    }
}

static void on_signal(int number)
{
    int kept = errno;
    unsigned char byte = (unsigned char)number;
    ssize_t n = write(wake_write, &byte, 1);
    (void)n;
    errno = kept;
}

int top_signals_open(int *ret_read_end, int *ret_write_end, struct error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return error_set(err, -SCRY_E_IO, "no pipe for signals: %s", strerror(errno));
    *ret_read_end = wake_read = ends[0];
    *ret_write_end = wake_write = ends[1];
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < ARRAY_LEN(handled); i++)
        sigaction(handled[i], &action, &former[i]);
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &ignore, &former_pipe);
    return 0;
}

void top_signals_close(void)
{
    if (wake_write < 0)
        return;
    for (size_t i = 0; i < ARRAY_LEN(handled); i++)
        sigaction(handled[i], &former[i], NULL);
    sigaction(SIGPIPE, &former_pipe, NULL);
    close(wake_read);
    close(wake_write);
    wake_read = wake_write = -1;
}
