#include "http/child.h"

#include <errno.h>
#include <fcntl.h>

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "access/confine.h"
#include "http/json_in.h"

#define ARGS_MAX    1100
#define BIRTH_STACK (32u << 10)
#define ERR_MAX     65536
#define LINE_MAX_   65536
#define POLL_MS     100
#define GRACE       (5 * SCRY_NSEC_PER_SEC) /* between asking it to stop and killing it */

static atomic_uint_fast64_t started, failed;

void child_counts(uint64_t *ret_started, uint64_t *ret_failed)
{
    *ret_started = atomic_load(&started);
    *ret_failed = atomic_load(&failed);
}

void child_result_init(struct child_result *r)
{
    *r = (struct child_result){0};
    buf_init(&r->out);
    buf_init(&r->err);
}

void child_result_done(struct child_result *r)
{
    buf_done(&r->out);
    buf_done(&r->err);
}

static scry_nsec now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (scry_nsec)t.tv_sec * SCRY_NSEC_PER_SEC + (scry_nsec)t.tv_nsec;
}

/* ---- starting ---- */

static void limit(int what, rlim_t value)
{
    struct rlimit to;
    if (getrlimit(what, &to) != 0)
        return;
    if (to.rlim_max == RLIM_INFINITY || value < to.rlim_max)
        to.rlim_max = value;
    to.rlim_cur = to.rlim_max;
    setrlimit(what, &to);
}

static void apply_limits(const struct child_limits *limits)
{
/* A sanitizer maps terabytes that it never touches. */
#ifndef __SANITIZE_ADDRESS__
    if (limits->memory)
        limit(RLIMIT_DATA, limits->memory);
#endif
    if (limits->file)
        limit(RLIMIT_FSIZE, limits->file);
    if (limits->cpu_seconds)
        limit(RLIMIT_CPU, limits->cpu_seconds);
    limit(RLIMIT_CORE, 0);
}

/* What the new process needs to become scry. */
struct birth {
    const struct child_job *job;
    char *const *argv, *const *environment;
    int out, err;
    pid_t parent;
};

/* Runs in the memory of the server, while the thread that started it waits: system calls only. */
static int become(void *context)
{
    const struct birth *b = context;
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != b->parent)
        _exit(127);
    setpgid(0, 0); /* Control-C at the server's terminal is the server's affair */
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || dup2(null, 0) < 0 || dup2(b->out, 1) < 0 || dup2(b->err, 2) < 0)
        _exit(127);
    apply_limits(&b->job->limits);
    execve("/proc/self/exe", b->argv, b->environment);
    _exit(127);
}

/* As vfork(), with a stack of its own. fork() copies the page tables of a process with hundreds of
 * threads, and each page that they write to meanwhile: under load that was more than half of the
 * server's time in the kernel. */
static pid_t give_birth(struct birth *b)
{
    sigset_t all, before;
    char *stack = malloc(BIRTH_STACK);
    if (!stack)
        return -1;
    /* No handler may run in there: it would run in our memory. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = clone(become, stack + BIRTH_STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, b);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    free(stack);
    return pid;
}

extern char **environ;

/* What the child's environment adds, before all else: errors in a form that can be read back, and what it may look
 * into. `confinement` must last as long. */
static char **make_environment(const struct child_job *job, struct buf *confinement)
{
    size_t count = 0, own = 0;
    while (environ[count])
        count++;
    char **made = calloc(count + 3, sizeof(*made));
    if (!made)
        return NULL;
    made[own++] = "SCRY_ERRORS=json";
    if (job->confine && *job->confine) {
        buf_addf(confinement, CONFINE_VARIABLE "=%s", job->confine);
        made[own++] = confinement->data;
    }
    memcpy(made + own, environ, count * sizeof(*made));
    return made;
}

static bool make_pipe(int fds[2])
{
    if (pipe2(fds, O_CLOEXEC) != 0)
        return false;
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    return true;
}

struct running {
    const struct child_job *job;
    struct child_result *r;
    pid_t pid;
    int out, err; /* our ends; -1 = closed */
    struct buf line;
    scry_nsec deadline, kill_at; /* 0 = none */
    bool killed, stopping;
};

static bool start(struct running *run)
{
    char *argv[ARGS_MAX + 2] = {"scry"};
    size_t n = 1;
    for (size_t i = 0; run->job->argv[i]; i++) {
        if (n == ARGS_MAX)
            return false;
        argv[n++] = (char *)run->job->argv[i];
    }
    SCOPED_BUF confinement;
    buf_init(&confinement);
    char **environment = make_environment(run->job, &confinement);
    int out[2] = {-1, -1}, err[2] = {-1, -1};
    bool piped = run->job->out_fd < 0;
    bool ok = environment && !confinement.failed && make_pipe(err) && (!piped || make_pipe(out));
    struct birth birth = {
        .job = run->job,
        .argv = argv,
        .environment = environment,
        .out = piped ? out[1] : run->job->out_fd,
        .err = err[1],
        .parent = getpid(),
    };
    run->pid = ok ? give_birth(&birth) : -1;
    free(environment);
    if (out[1] >= 0)
        close(out[1]);
    if (err[1] >= 0)
        close(err[1]);
    run->out = out[0];
    run->err = err[0];
    return run->pid > 0;
}

/* ---- while it runs ---- */

static void give_lines(struct running *run)
{
    char *end;
    while ((end = memchr(run->line.data, '\n', run->line.len))) {
        *end = '\0';
        run->job->line(run->job->context, run->line.data);
        size_t used = (size_t)(end - run->line.data) + 1;
        memmove(run->line.data, run->line.data + used, run->line.len - used);
        buf_truncate(&run->line, run->line.len - used);
    }
}

static void kill_it(struct running *run, enum child_end why)
{
    if (!run->killed)
        run->r->end = why;
    run->killed = true;
    kill(run->pid, SIGKILL);
}

static void take_out(struct running *run, const char *data, size_t len)
{
    const struct child_job *job = run->job;
    if (job->line) {
        buf_add(&run->line, data, len);
        give_lines(run);
        if (run->line.len > LINE_MAX_ && !job->limits.output)
            buf_reset(&run->line);
        else if (job->limits.output && run->line.len > job->limits.output)
            kill_it(run, CHILD_FLOOD);
        return;
    }
    buf_add(&run->r->out, data, len);
    if (run->r->out.failed || run->r->out.len > job->limits.output)
        kill_it(run, CHILD_FLOOD);
}

static void drain(struct running *run, int *fd)
{
    char data[8192]; /* on the stack of a connection, of which there are hundreds */
    for (;;) {
        ssize_t n = read(*fd, data, sizeof(data));
        if (n > 0 && fd == &run->out)
            take_out(run, data, (size_t)n);
        else if (n > 0 && run->r->err.len < ERR_MAX)
            buf_add(&run->r->err, data, (size_t)n);
        else if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
            close(*fd);
            *fd = -1;
            return;
        }
        if (n < 0 || run->killed)
            return;
    }
}

static void ask(struct running *run)
{
    scry_nsec t = now();
    if (run->deadline && t >= run->deadline)
        kill_it(run, CHILD_LATE);
    else if (run->kill_at && t >= run->kill_at)
        kill_it(run, CHILD_CANCELLED);
    if (run->killed || !run->job->poll)
        return;
    enum child_poll answer = run->job->poll(run->job->context);
    if (answer == CHILD_KILL) {
        kill_it(run, CHILD_CANCELLED);
    } else if (answer == CHILD_STOP && !run->stopping) {
        run->stopping = true;
        run->kill_at = t + GRACE;
        kill(run->pid, SIGINT);
    }
}

/* Its pipes tell when it ends; a child of its own could hold them open, so it is asked for, too. */
static bool has_ended(struct running *run, int *ret_status)
{
    return waitpid(run->pid, ret_status, WNOHANG) == run->pid;
}

static int watch(struct running *run)
{
    int status = 0;
    for (;;) {
        struct pollfd fds[2] = {{.fd = run->out, .events = POLLIN},
                                {.fd = run->err, .events = POLLIN}};
        bool open = run->out >= 0 || run->err >= 0;
        poll(fds, 2, open ? POLL_MS : 5);
        if (fds[0].revents)
            drain(run, &run->out);
        if (fds[1].revents)
            drain(run, &run->err);
        if (has_ended(run, &status))
            break;
        ask(run);
    }
    if (run->out >= 0)
        drain(run, &run->out);
    if (run->err >= 0)
        drain(run, &run->err);
    return status;
}

/* ---- afterwards ---- */

static void copy(char *to, size_t cap, const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    snprintf(to, cap, "%s", text ? text : "");
}

/* The last line of standard error is its error. */
static void read_error(struct child_result *r)
{
    while (r->err.len && r->err.data[r->err.len - 1] == '\n')
        buf_truncate(&r->err, r->err.len - 1);
    const char *line = strrchr(r->err.data, '\n');
    json_t *root = json_loads(line ? line + 1 : r->err.data, 0, NULL);
    copy(r->code, sizeof(r->code), root, "code");
    copy(r->message, sizeof(r->message), root, "message");
    copy(r->hint, sizeof(r->hint), root, "hint");
    json_decref(root);
    if (!r->message[0])
        snprintf(r->message, sizeof(r->message), "the job ended with status %d", r->status);
}

static void judge(struct running *run, int status)
{
    struct child_result *r = run->r;
    r->status = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
    if (!run->killed)
        r->end = WIFSIGNALED(status) ? CHILD_CRASHED : r->status ? CHILD_FAILED : CHILD_OK;
    r->stopped = run->stopping && r->end == CHILD_OK;
    if (r->end == CHILD_FAILED)
        read_error(r);
    else if (r->end == CHILD_CRASHED)
        snprintf(r->message, sizeof(r->message), "the job died of signal %d (%s)", r->status,
                 strsignal(r->status));
    else if (r->end == CHILD_LATE)
        snprintf(r->message, sizeof(r->message), "the job took longer than it may and was ended");
    else if (r->end == CHILD_FLOOD)
        snprintf(r->message, sizeof(r->message), "the job wrote more than %zu bytes and was ended",
                 run->job->limits.output);
    else if (r->end == CHILD_CANCELLED)
        snprintf(r->message, sizeof(r->message), "cancelled");
    if (r->end != CHILD_OK && r->end != CHILD_CANCELLED)
        atomic_fetch_add(&failed, 1);
}

void child_run(const struct child_job *job, struct child_result *r)
{
    struct running run = {.job = job, .r = r, .out = -1, .err = -1};
    buf_init(&run.line);
    if (job->limits.time)
        run.deadline = now() + job->limits.time;
    atomic_fetch_add(&started, 1);
    if (start(&run)) {
        judge(&run, watch(&run));
    } else {
        r->end = CHILD_NOT_STARTED;
        snprintf(r->message, sizeof(r->message), "the job could not be started: %s",
                 strerror(errno));
        atomic_fetch_add(&failed, 1);
    }
    if (run.out >= 0)
        close(run.out);
    if (run.err >= 0)
        close(run.err);
    buf_done(&run.line);
}
