#include "access/task.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "access/procfs.h"

#define TASKS_MAX (1u << 22) /* the kernel's own limit on pids */

static bool reserve(struct task **items, size_t *cap, size_t need)
{
    if (need <= *cap)
        return true;
    size_t grown_cap = *cap ? 2 * *cap : 64;
    while (grown_cap < need)
        grown_cap *= 2;
    struct task *grown = realloc(*items, grown_cap * sizeof(*grown));
    if (!grown)
        return false;
    *items = grown;
    *cap = grown_cap;
    return true;
}

static int by_tid(const void *a, const void *b)
{
    const struct task *x = a, *y = b;
    return (x->tid > y->tid) - (x->tid < y->tid);
}

static struct task *find_tid(struct task *items, size_t count, pid_t tid)
{
    struct task key = {.tid = tid};
    return count ? bsearch(&key, items, count, sizeof(key), by_tid) : NULL;
}

/* What CPython calls this thread. */
static pid_t read_ns_tid(int task_fd, pid_t tid)
{
    char name[32], status[8192];
    snprintf(name, sizeof(name), "%d/status", tid);
    if (procfs_read_small(task_fd, name, status, sizeof(status)) <= 0)
        return 0;
    return proc_status_ns_pid(status);
}

/* False when the thread is gone. */
static bool fill_in(const struct process *process, int task_fd, struct task_list *list,
                    size_t last_count, struct task *task)
{
    char name[32], text[PROC_STAT_MAX];
    struct proc_stat stat;
    snprintf(name, sizeof(name), "%d/stat", task->tid);
    if (procfs_read_small(task_fd, name, text, sizeof(text)) <= 0 || proc_stat_parse(text, &stat))
        return false;
    task->state = stat.state;
    task->start_time = stat.start_time;
    snprintf(task->comm, sizeof(task->comm), "%.15s", stat.comm);
    const struct task *known = find_tid(list->last, last_count, task->tid);
    if (!process->other_pid_ns)
        task->ns_tid = task->tid;
    else if (known && known->start_time == task->start_time && known->ns_tid)
        task->ns_tid = known->ns_tid;
    else
        task->ns_tid = read_ns_tid(task_fd, task->tid);
    return true;
}

/* The names in the folder, straight from the kernel: opendir would allocate at each look. */
static int list_tids(int task_fd, struct task_list *list)
{
    char entries[8192] __attribute__((aligned(8)));
    for (;;) {
        long got = syscall(SYS_getdents64, task_fd, entries, sizeof(entries));
        if (got < 0)
            return errno == ENOENT || errno == ESRCH ? -SCRY_E_GONE : -SCRY_E_IO;
        if (got == 0)
            return 0;
        for (long at = 0; at < got;) {
            const struct dirent64 *entry = (const struct dirent64 *)(const void *)(entries + at);
            at += entry->d_reclen;
            pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
            if (tid <= 0 || list->count >= TASKS_MAX)
                continue;
            if (!reserve(&list->items, &list->cap, list->count + 1))
                return -SCRY_E_NO_MEMORY;
            list->items[list->count++] = (struct task){.tid = tid};
        }
    }
}

static int open_tasks(const struct process *process)
{
    int task_fd = openat(process->proc_fd, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (task_fd >= 0)
        return task_fd;
    return errno == EACCES || errno == EPERM ? -SCRY_E_PERMISSION : -SCRY_E_GONE;
}

int tasks_ids(const struct process *process, struct task_list *list)
{
    int task_fd = open_tasks(process);
    if (task_fd < 0)
        return task_fd;
    list->count = 0;
    int rc = list_tids(task_fd, list);
    close(task_fd);
    return rc;
}

int tasks_read(const struct process *process, struct task_list *list)
{
    int task_fd = open_tasks(process);
    if (task_fd < 0)
        return task_fd;
    size_t last_count = list->count;
    struct task *last = list->items;
    size_t last_cap = list->cap;
    list->items = list->last;
    list->cap = list->last_cap;
    list->last = last;
    list->last_cap = last_cap;
    list->count = 0;
    int rc = list_tids(task_fd, list);
    size_t kept = 0;
    for (size_t i = 0; !rc && i < list->count; i++)
        if (fill_in(process, task_fd, list, last_count, &list->items[i]))
            list->items[kept++] = list->items[i];
    close(task_fd);
    list->count = kept;
    if (kept)
        qsort(list->items, kept, sizeof(*list->items), by_tid);
    return rc ? rc : kept ? 0 : -SCRY_E_GONE;
}

const struct task *tasks_by_ns_tid(const struct task_list *list, pid_t ns_tid)
{
    /* Mostly the two ids are one. */
    const struct task *same = find_tid(list->items, list->count, ns_tid);
    if (same && same->ns_tid == ns_tid)
        return same;
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].ns_tid == ns_tid)
            return &list->items[i];
    return NULL;
}

void tasks_done(struct task_list *list)
{
    free(list->items);
    free(list->last);
    *list = (struct task_list){0};
}
