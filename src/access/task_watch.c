/* Does a thread run, and has it run since the last look? Two small files say so, kept open:
 * `schedstat` counts how often the thread was put on a CPU, `syscall` says whether it is on one.
 *
 * The order matters: first the count, then the state. A thread seen blocked after its count was
 * read, and whose count is the same at a later look, has not been on a CPU since: it is still
 * blocked, and one small read has shown it. Read the other way round, a thread that wakes between
 * the two reads would pass for one that never ran. (The run time beside the count would not do: it
 * moves only when a thread leaves its CPU, or at a timer tick.)
 *
 * A third one, `stat`, says which CPU a thread is on or was on last. If that is ours, it does not run at this
 * moment, for we do; and as long as the count that was read before stays the same, it has not run since. */
#include "access/task.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "access/procfs.h"

#define DESCRIPTORS_SPARED 64
#define CROWD_SPAN         (2 * 1000 * 1000ULL) /* of running, to judge by */
#define CROWD_SHARE        5                    /* crowded: it waits a fifth as long as it runs */

static int open_task_file(const struct task_watch *w, const char *name)
{
    char path[64];
    snprintf(path, sizeof(path), "task/%d/%s", w->tid, name);
    return openat(w->proc_fd, path, O_RDONLY | O_CLOEXEC);
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void task_watch_close(struct task_watch *w)
{
    close_fd(&w->schedstat_fd);
    close_fd(&w->syscall_fd);
    close_fd(&w->stat_fd);
}

static int open_files(struct task_watch *w)
{
    char text[256];
    w->schedstat_fd = open_task_file(w, "schedstat");
    w->syscall_fd = open_task_file(w, "syscall");
    /* Opening it is allowed to all, reading it only to those who may trace. */
    if (w->syscall_fd >= 0 && procfs_reread(w->syscall_fd, text, sizeof(text)) <= 0)
        close_fd(&w->syscall_fd);
    if (w->syscall_fd < 0)
        w->stat_fd = open_task_file(w, "stat");
    if (w->syscall_fd >= 0 || w->stat_fd >= 0)
        return 0;
    int rc = errno == EMFILE || errno == ENFILE ? -SCRY_E_IO : -SCRY_E_GONE;
    task_watch_close(w);
    return rc;
}

/* Leave some for all the other files that have to be opened now and then. */
static bool few_left(int fd)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
           (rlim_t)fd + DESCRIPTORS_SPARED > limit.rlim_cur;
}

int task_watch_open(struct task_watch *w, const struct process *process, pid_t tid)
{
    *w = (struct task_watch){.tid = tid,
                             .schedstat_fd = -1,
                             .syscall_fd = -1,
                             .stat_fd = -1,
                             .proc_fd = process->proc_fd};
    int rc = open_files(w);
    if (rc == -SCRY_E_IO || (rc == 0 && few_left(w->schedstat_fd))) {
        task_watch_close(w);
        w->transient = true;
        return 0;
    }
    return rc;
}

static enum task_activity activity_of_state(char state)
{
    switch (state) {
    case 'R':
        return TASK_RUNNING;
    case 'S':
    case 'D':
    case 'T':
    case 't':
    case 'I':
        return TASK_BLOCKED;
    default:
        return TASK_UNKNOWN;
    }
}

static enum task_activity look_at_activity(const struct task_watch *w)
{
    char text[PROC_STAT_MAX];
    struct proc_stat stat;
    if (w->syscall_fd >= 0) {
        if (procfs_reread(w->syscall_fd, text, sizeof(text)) <= 0)
            return TASK_UNKNOWN;
        return text[0] == 'r' ? TASK_RUNNING : TASK_BLOCKED;
    }
    if (w->stat_fd < 0 || procfs_reread(w->stat_fd, text, sizeof(text)) <= 0 ||
        proc_stat_parse(text, &stat))
        return TASK_UNKNOWN;
    return activity_of_state(stat.state);
}

struct account {
    scry_nsec run_time;  /* on a CPU */
    scry_nsec wait_time; /* ready, but others had the CPU */
    uint64_t switches;   /* how often it was put on one */
};

/* Zeros where the kernel does not count. */
static struct account read_account(const struct task_watch *w)
{
    char text[128], *at = text;
    struct account a = {0};
    if (w->schedstat_fd < 0 || procfs_reread(w->schedstat_fd, text, sizeof(text)) <= 0)
        return a;
    a.run_time = strtoull(at, &at, 10);
    a.wait_time = strtoull(at, &at, 10);
    a.switches = strtoull(at, &at, 10);
    return a;
}

static void judge_crowd(struct task_watch *w, const struct account *a)
{
    scry_nsec ran = a->run_time - w->crowd_run;
    if (ran < CROWD_SPAN)
        return;
    w->crowded = (a->wait_time - w->crowd_wait) * CROWD_SHARE > ran;
    w->crowd_run = a->run_time;
    w->crowd_wait = a->wait_time;
}

static enum task_activity look(struct task_watch *w, bool *ret_ran)
{
    const struct account a = read_account(w);
    w->run_time = a.run_time;
    *ret_ran = !(w->blocked && a.switches && a.switches == w->switches);
    if (!*ret_ran)
        return TASK_BLOCKED;
    judge_crowd(w, &a);
    enum task_activity activity = look_at_activity(w);
    w->blocked = activity == TASK_BLOCKED;
    w->switches = a.switches;
    return activity;
}

enum task_activity task_watch_look(struct task_watch *w, bool *ret_ran)
{
    if (!w->transient)
        return look(w, ret_ran);
    *ret_ran = true;
    if (open_files(w) < 0)
        return TASK_UNKNOWN;
    enum task_activity activity = look(w, ret_ran);
    task_watch_close(w);
    return activity;
}

/* The CPU that it is on or waits for; -1 = it is not ready to run, or nobody knows. */
static int cpu_of(struct task_watch *w)
{
    char text[PROC_STAT_MAX];
    struct proc_stat stat;
    if (w->stat_fd < 0)
        w->stat_fd = open_task_file(w, "stat");
    if (w->stat_fd < 0 || procfs_reread(w->stat_fd, text, sizeof(text)) <= 0 ||
        proc_stat_parse(text, &stat) || stat.state != 'R')
        return -1;
    return (int)stat.cpu;
}

/* To be told to stop, a thread that waits for its turn must first get it, and it loses it by that. Where we are on its
 * CPU it only waits for us a little. (Going to its CPU to make it so was tried: that moves the program's other threads
 * about, and what one of them is seen to do in a process of several is no longer what it does unseen.) */
bool task_watch_waits(struct task_watch *w, uint64_t *ret_switches)
{
    if (w->transient)
        return false;
    *ret_switches = read_account(w).switches;
    int ours = sched_getcpu();
    return *ret_switches && ours >= 0 && cpu_of(w) == ours && sched_getcpu() == ours;
}

bool task_watch_waited(const struct task_watch *w, uint64_t switches)
{
    return read_account(w).switches == switches;
}
