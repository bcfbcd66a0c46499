/* A real child for tests: forked, runs a function, says "ready" through a pipe, and is gone at the
 * end of the test whatever happens. */
#ifndef SCRY_TESTS_CHILD_H
#define SCRY_TESTS_CHILD_H

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct child {
    pid_t pid;
    int from; /* read what the child says */
    int to;   /* write to it; it sees the end of file when the test closes it */
};

/* `body` runs in the child with its two ends of the pipes and an argument; it tells that it is
 * ready by writing at least one byte. */
typedef void child_body(int in, int out, void *arg);

/* Between two looks at something that is about to happen: lets others run, and comes back soon. */
static inline void breathe(void)
{
    struct timespec t = {0, 20000};
    nanosleep(&t, NULL);
}

static inline void child_say(int out, char c)
{
    if (write(out, &c, 1) != 1)
        _exit(99);
}

static inline char child_hear(int in)
{
    char c = 0;
    return read(in, &c, 1) == 1 ? c : 0;
}

static inline struct child child_start(child_body *body, void *arg)
{
    int up[2], down[2];
    struct child c = {-1, -1, -1};
    if (pipe(up) || pipe(down))
        abort();
    c.pid = fork();
    if (c.pid < 0)
        abort();
    if (!c.pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(up[0]);
        close(down[1]);
        body(down[0], up[1], arg);
        _exit(0);
    }
    close(up[1]);
    close(down[0]);
    c.from = up[0];
    c.to = down[1];
    return c;
}

/* Start and wait for its first byte. */
static inline struct child child_start_ready(child_body *body, void *arg)
{
    struct child c = child_start(body, arg);
    if (!child_hear(c.from))
        abort();
    return c;
}

/* Kill, reap, close; the wait status. */
static inline int child_end(struct child *c)
{
    int status = 0;
    kill(c->pid, SIGKILL);
    waitpid(c->pid, &status, __WALL);
    close(c->from);
    close(c->to);
    return status;
}

#endif
