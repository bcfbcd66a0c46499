#include "access/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "access/stop.h"
#include "util/limits.h"

#define GROUPS_MAX 1024

/* Who the program is to run as: under sudo not root but the person who called. */
struct identity {
    bool change;
    uid_t uid;
    gid_t gid;
    gid_t *groups;
    int group_count;
};

static bool env_number(const char *name, unsigned long *ret_value)
{
    const char *text = getenv(name);
    char *end;
    if (!text || !*text)
        return false;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno || *end || value > UINT32_MAX - 1)
        return false;
    *ret_value = value;
    return true;
}

/* Looked up before the fork: name services may take locks and open files. */
static void find_identity(struct identity *id)
{
    unsigned long uid, gid;
    *id = (struct identity){0};
    if (geteuid() != 0 || !env_number("SUDO_UID", &uid) || !env_number("SUDO_GID", &gid) ||
        uid == 0)
        return;
    id->change = true;
    id->uid = (uid_t)uid;
    id->gid = (gid_t)gid;
    id->groups = calloc(GROUPS_MAX, sizeof(*id->groups));
    const struct passwd *user = getpwuid(id->uid);
    int count = GROUPS_MAX;
    if (id->groups && user && getgrouplist(user->pw_name, id->gid, id->groups, &count) > 0)
        id->group_count = count;
}

static int take_identity(const struct identity *id)
{
    if (!id->change)
        return 0;
    if (setgroups((size_t)id->group_count, id->groups) || setresgid(id->gid, id->gid, id->gid) ||
        setresuid(id->uid, id->uid, id->uid))
        return -errno;
    return 0;
}

/* A folder in PATH that may not be searched makes execvp say "permission denied" for a program that is nowhere. */
static bool is_nowhere(const char *name)
{
    const char *path = getenv("PATH");
    if (!path || strchr(name, '/'))
        return false;
    for (const char *at = path;; at++) {
        char file[PATH_MAX];
        int len = (int)strcspn(at, ":");
        int need = snprintf(file, sizeof(file), "%.*s%s%s", len, at, len ? "/" : "", name);
        if (need < (int)sizeof(file) && !access(file, F_OK))
            return false;
        at += len;
        if (!*at)
            return true;
    }
}

static int take_streams(const int streams[3])
{
    for (int fd = 0; fd < 3; fd++)
        if (streams[fd] >= 0 && dup2(streams[fd], fd) < 0)
            return -errno;
    return 0;
}

/* In the child: only what is safe after a fork. Returns only on failure. */
static int become(char *const argv[], const int streams[3], const struct identity *id)
{
    struct sigaction act = {.sa_handler = SIG_DFL};
    for (int n = 1; n < NSIG; n++)
        sigaction(n, &act, NULL); /* KILL, STOP and those the C library keeps refuse: no matter */
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    limits_restore_files();
    int rc = take_streams(streams);
    if (rc == 0)
        rc = take_identity(id);
    if (rc)
        return -rc;
    execvp(argv[0], argv);
    rc = errno;
    return rc == EACCES && is_nowhere(argv[0]) ? ENOENT : rc;
}

static int launch_failed(struct error *err, const char *name, int why)
{
    error_set(err, -SCRY_E_LAUNCH, "cannot run '%s': %s", name, strerror(why));
    if (why == ENOENT)
        error_hint(
            err, "check the name and the path: the first word after '--' is the program to start");
    else if (why == EACCES)
        error_hint(err,
                   "is the file executable? to run a script, put the interpreter first: "
                   "-- python %s",
                   name);
    else if (why == ENOEXEC)
        error_hint(err, "put the interpreter first: -- python %s", name);
    return -SCRY_E_LAUNCH;
}

/* 0 when the pipe closed by itself, as it does at exec. */
static int read_failure(int fd)
{
    int why = 0;
    ssize_t got;
    do
        got = read(fd, &why, sizeof(why));
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof(why) ? why : 0;
}

int launch_program(struct launch *l, char *const argv[], struct error *err)
{
    static const int own[3] = {-1, -1, -1};
    return launch_program_with(l, argv, own, err);
}

int launch_program_with(struct launch *l, char *const argv[], const int streams[3],
                        struct error *err)
{
    struct identity id;
    int ends[2];
    *l = (struct launch){0};
    if (!argv[0] || !argv[0][0])
        return error_set(err, -SCRY_E_LAUNCH, "there is no program to run");
    if (pipe2(ends, O_CLOEXEC))
        return launch_failed(err, argv[0], errno);
    find_identity(&id);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        int why = become(argv, streams, &id);
        if (write(ends[1], &why, sizeof(why)) < 0)
            _exit(126);
        _exit(127);
    }
    int why = pid < 0 ? errno : 0;
    close(ends[1]);
    if (!why)
        why = read_failure(ends[0]);
    close(ends[0]);
    free(id.groups);
    if (!why) {
        l->pid = pid;
        return 0;
    }
    if (pid > 0)
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
    return launch_failed(err, argv[0], why);
}

/* A wait for the end of a child that is also traced is given its stops as well, and what is taken of a stop is lost,
 * the signal it is about included: so first only look. */
bool launch_poll(struct launch *l)
{
    siginfo_t info = {0};
    int rc;
    if (l->ended || l->pid <= 0)
        return l->ended;
    do
        rc = waitid(P_PID, (id_t)l->pid, &info, WEXITED | WNOHANG | WNOWAIT);
    while (rc < 0 && errno == EINTR);
    if (rc == 0 && (info.si_pid == 0 || info.si_code == CLD_TRAPPED || info.si_code == CLD_STOPPED))
        return false;
    l->ended = true; /* also when somebody else has taken the status */
    if (rc == 0 && info.si_code == CLD_EXITED)
        l->status = (info.si_status & 0xff) << 8;
    else if (rc == 0)
        l->status = (info.si_status & 0x7f) | (info.si_code == CLD_DUMPED ? 0x80 : 0);
    if (rc == 0)
        waitid(P_PID, (id_t)l->pid, &info, WEXITED | WNOHANG);
    return true;
}

static scry_nsec now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (scry_nsec)t.tv_sec * SCRY_NSEC_PER_SEC + (scry_nsec)t.tv_nsec;
}

/* Until it has ended or the time has come. Threads of it that scry still owes their freedom are let
 * go meanwhile: a process does not end before its tracer has let go of its dead. */
static bool await_end(struct launch *l, scry_nsec deadline)
{
    struct timespec pause = {0, 100000};
    while (!launch_poll(l)) {
        if (now() >= deadline)
            return false;
        stop_settle();
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < 10000000)
            pause.tv_nsec *= 2;
    }
    return true;
}

bool launch_wait(struct launch *l, scry_nsec limit)
{
    return await_end(l, now() + limit);
}

void launch_end(struct launch *l, scry_nsec grace)
{
    if (l->pid <= 0 || launch_poll(l))
        return;
    kill(l->pid, SIGTERM);
    kill(l->pid, SIGCONT); /* one that is stopped would not hear the first */
    if (await_end(l, now() + grace))
        return;
    kill(l->pid, SIGKILL);
    await_end(l, UINT64_MAX);
}

int launch_exit_status(const struct launch *l)
{
    return WIFSIGNALED(l->status) ? 128 + WTERMSIG(l->status) : WEXITSTATUS(l->status);
}
