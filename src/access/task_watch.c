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

/* Run time and how often it was put on a CPU; zeros where the kernel does not count. */
static void read_account(const struct task_watch *w, scry_nsec *ret_run_time,
                         uint64_t *ret_switches)
{
    char text[128];
    *ret_run_time = *ret_switches = 0;
    if (w->schedstat_fd < 0 || procfs_reread(w->schedstat_fd, text, sizeof(text)) <= 0)
        return;
    char *at = text;
    *ret_run_time = strtoull(at, &at, 10);
    strtoull(at, &at, 10);
    *ret_switches = strtoull(at, &at, 10);
}

static enum task_activity look(struct task_watch *w, bool *ret_ran)
{
    uint64_t switches;
    read_account(w, &w->run_time, &switches);
    *ret_ran = !(w->blocked && switches && switches == w->switches);
    if (!*ret_ran)
        return TASK_BLOCKED;
    enum task_activity activity = look_at_activity(w);
    w->blocked = activity == TASK_BLOCKED;
    w->switches = switches;
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

static bool is_on_our_cpu(struct task_watch *w)
{
    char text[PROC_STAT_MAX];
    struct proc_stat stat;
    if (w->stat_fd < 0)
        w->stat_fd = open_task_file(w, "stat");
    int cpu = sched_getcpu();
    return w->stat_fd >= 0 && procfs_reread(w->stat_fd, text, sizeof(text)) > 0 &&
           !proc_stat_parse(text, &stat) && stat.state == 'R' && cpu >= 0 &&
           stat.cpu == (unsigned)cpu && sched_getcpu() == cpu;
}

bool task_watch_waits(struct task_watch *w, uint64_t *ret_switches)
{
    scry_nsec run_time;
    if (w->transient)
        return false;
    read_account(w, &run_time, ret_switches);
    return *ret_switches && is_on_our_cpu(w);
}

bool task_watch_waited(const struct task_watch *w, uint64_t switches)
{
    scry_nsec run_time;
    uint64_t now;
    read_account(w, &run_time, &now);
    return now == switches;
}
