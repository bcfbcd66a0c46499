#include "access/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/confine.h"
#include "access/permission.h"
#include "access/procfs.h"

#define PF_KTHREAD  0x00200000u /* include/linux/sched.h; shown in the flags of /proc/PID/stat */
#define COMMAND_MAX (32u << 10)
#define STATUS_MAX  8192

static bool has_ended(const struct proc_stat *stat)
{
    bool dead = stat->state == 'Z' || stat->state == 'X' || stat->state == 'x';
    return dead && stat->threads <= 1;
}

static int stat_by_path(pid_t pid, pid_t tid, struct proc_stat *ret_stat)
{
    char path[64], text[PROC_STAT_MAX];
    snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
    ssize_t len = procfs_read_small(AT_FDCWD, path, text, sizeof(text));
    return len < 0 ? (int)len : proc_stat_parse(text, ret_stat);
}

pid_t process_live_tid(pid_t pid)
{
    struct proc_stat stat;
    if (!stat_by_path(pid, pid, &stat) && stat.state != 'Z' && stat.state != 'X')
        return pid;
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/task", pid);
    DIR *dir = opendir(path);
    if (!dir)
        return 0;
    pid_t found = 0;
    for (struct dirent *entry; !found && (entry = readdir(dir));) {
        pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (tid > 0 && tid != pid && !stat_by_path(pid, tid, &stat) && stat.state != 'Z' &&
            stat.state != 'X')
            found = tid;
    }
    closedir(dir);
    return found;
}

static int open_proc_dir(pid_t pid)
{
    char path[32];
    snprintf(path, sizeof(path), "/proc/%d", pid);
    return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* /proc/PID, or, where the first thread has ended before the others, /proc/TID of one that lives:
 * through the first thread's own folder neither memory nor executable can be reached any more. */
static int open_living_dir(struct process *p, const struct proc_stat *stat)
{
    if (stat->state != 'Z' && stat->state != 'X')
        return p->proc_fd;
    pid_t tid = process_live_tid(p->pid);
    int fd = tid > 0 ? open_proc_dir(tid) : -1;
    if (fd < 0)
        return p->proc_fd;
    close(p->proc_fd);
    return fd;
}

/* Two files are bound to the address space they were opened with, and read as empty when it is
 * gone. Any stretch will do: pagemap at 0 is the entry of a page that is not there, mem at 0 an
 * error. */
static int open_space(const struct process *p)
{
    int fd = openat(p->proc_fd, "pagemap", O_RDONLY | O_CLOEXEC);
    return fd >= 0 ? fd : openat(p->proc_fd, "mem", O_RDONLY | O_CLOEXEC);
}

static void read_exe(struct process *p)
{
    static const char mark[] = " (deleted)";
    p->exe = procfs_link(p->proc_fd, "exe");
    if (!p->exe)
        return;
    size_t len = strlen(p->exe);
    struct stat st;
    if (!fstatat(p->proc_fd, "exe", &st, 0)) {
        p->exe_dev = st.st_dev;
        p->exe_inode = st.st_ino;
        /* A file may really be called so; then it still has a name. */
        p->exe_deleted = st.st_nlink == 0;
    }
    if (len > sizeof(mark) - 1 && !strcmp(p->exe + len - (sizeof(mark) - 1), mark)) {
        struct stat named;
        bool real =
            !stat(p->exe, &named) && named.st_ino == p->exe_inode && named.st_dev == p->exe_dev;
        if (!real) {
            p->exe[len - (sizeof(mark) - 1)] = '\0';
            p->exe_deleted = true;
        }
    }
    const char *own = process_own_path(p, p->exe);
    memmove(p->exe, own, strlen(own) + 1);
}

static void read_command(struct process *p, const struct proc_stat *stat)
{
    SCOPED_BUF line;
    buf_init(&line);
    procfs_read(p->proc_fd, "cmdline", COMMAND_MAX, &line);
    while (line.len && line.data[line.len - 1] == '\0')
        buf_truncate(&line, line.len - 1);
    for (size_t i = 0; i < line.len; i++)
        if (!line.data[i])
            line.data[i] = ' ';
    if (!line.len)
        buf_addf(&line, "[%s]", stat->comm);
    p->command = buf_detach(&line);
}

static bool same_link(int dir_fd, const char *name, const char *self)
{
    char *theirs = procfs_link(dir_fd, name);
    char *ours = procfs_link(AT_FDCWD, self);
    bool same = !theirs || !ours || !strcmp(theirs, ours);
    free(theirs);
    free(ours);
    return same;
}

static void read_pid_ns(struct process *p)
{
    char status[STATUS_MAX];
    p->ns_pid = p->pid;
    if (procfs_read_small(p->proc_fd, "status", status, sizeof(status)) <= 0)
        return;
    pid_t seen = proc_status_ns_pid(status);
    p->other_pid_ns = proc_status_ns_depth(status) > 1;
    if (seen > 0 && p->other_pid_ns)
        p->ns_pid = seen;
}

static void read_mount_ns(struct process *p)
{
    struct stat theirs, ours;
    p->other_mount_ns = !same_link(p->proc_fd, "ns/mnt", "/proc/self/ns/mnt");
    if (!fstatat(p->proc_fd, "root", &theirs, 0) && !stat("/", &ours))
        p->other_mount_ns |= theirs.st_dev != ours.st_dev || theirs.st_ino != ours.st_ino;
}

static int no_process(pid_t pid, struct error *err)
{
    return error_set(err, -SCRY_E_NO_PROCESS, "there is no process with pid %d", pid);
}

/* /proc answers for the ids of single threads too, without listing them. */
static int check_is_process(struct process *p, struct error *err)
{
    char status[STATUS_MAX];
    if (procfs_read_small(p->proc_fd, "status", status, sizeof(status)) < 0)
        return 0;
    const char *tgid = proc_status_find(status, "Tgid");
    pid_t owner = tgid ? (pid_t)strtol(tgid, NULL, 10) : p->pid;
    if (owner == p->pid || owner <= 0)
        return 0;
    error_set(err, -SCRY_E_NO_PROCESS,
              "there is no process with pid %d: that is a thread of process %d", p->pid, owner);
    error_hint(err, "use pid %d", owner);
    return -SCRY_E_NO_PROCESS;
}

static int check_kind(struct process *p, const struct proc_stat *stat, struct error *err)
{
    if (stat->flags & PF_KTHREAD)
        return error_set(err, -SCRY_E_KERNEL_THREAD,
                         "process %d (%s) is a kernel thread and runs no Python", p->pid,
                         stat->comm);
    if (has_ended(stat))
        return error_set(err, -SCRY_E_ZOMBIE,
                         "process %d (%s) is a zombie: it has ended and waits to be reaped by its "
                         "parent, process %d",
                         p->pid, stat->comm, stat->parent);
    return check_is_process(p, err);
}

/* The parts that may fail; fields not reached keep what process_close can take. */
static int fill_in(struct process *p, struct error *err)
{
    char text[PROC_STAT_MAX];
    struct proc_stat stat;
    p->proc_fd = p->pid > 0 ? open_proc_dir(p->pid) : -1;
    if (p->proc_fd >= 0)
        p->stat_fd = openat(p->proc_fd, "stat", O_RDONLY | O_CLOEXEC);
    if (p->stat_fd < 0 || procfs_reread(p->stat_fd, text, sizeof(text)) < 0 ||
        proc_stat_parse(text, &stat))
        return permission_error(p->pid, err) ?: no_process(p->pid, err);
    int rc = check_kind(p, &stat, err);
    if (rc)
        return rc;
    read_pid_ns(p);
    p->proc_fd = open_living_dir(p, &stat);
    p->parent = stat.parent;
    p->start_time = stat.start_time;
    p->start_code = stat.start_code;
    p->start_stack = stat.start_stack;
    p->space_fd = open_space(p);
    p->root = procfs_link(p->proc_fd, "root");
    read_exe(p);
    if (!p->exe)
        p->exe = strdup("");
    read_command(p, &stat);
    read_mount_ns(p);
    return p->exe && p->command ? 0 : error_set(err, -SCRY_E_NO_MEMORY, "out of memory");
}

int process_peek(pid_t pid, struct process **ret_process, struct error *err)
{
    struct process *p = calloc(1, sizeof(*p));
    if (!p)
        return error_set(err, -SCRY_E_NO_MEMORY, "out of memory");
    *p = (struct process){.pid = pid, .proc_fd = -1, .stat_fd = -1, .space_fd = -1};
    int rc = fill_in(p, err);
    if (rc) {
        process_close(p);
        return rc;
    }
    *ret_process = p;
    return 0;
}

int process_open(pid_t pid, struct process **ret_process, struct error *err)
{
    struct process *p = NULL;
    int rc = process_peek(pid, &p, err);
    if (rc || !p)
        return rc;
    rc = confine_check(p->proc_fd, pid, err);
    if (rc < 0) {
        process_close(p);
        return rc;
    }
    /* The memory map is hidden from those who may not look; an empty one belongs to a process that
     * ends. */
    int fd = openat(p->proc_fd, "maps", O_RDONLY | O_CLOEXEC);
    if (fd < 0 && (errno == EACCES || errno == EPERM)) {
        process_close(p);
        return permission_error(pid, err)
                   ?: error_set(err, -SCRY_E_PERMISSION,
                                "no permission to read the memory map of process %d", pid);
    }
    if (fd >= 0)
        close(fd);
    *ret_process = p;
    return 0;
}

void process_close(struct process *process)
{
    if (!process)
        return;
    int fds[] = {process->proc_fd, process->stat_fd, process->space_fd};
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    free(process->exe);
    free(process->command);
    free(process->root);
    free(process);
}

static bool read_stat(const struct process *p, struct proc_stat *ret_stat)
{
    char text[PROC_STAT_MAX];
    return procfs_reread(p->stat_fd, text, sizeof(text)) > 0 && !proc_stat_parse(text, ret_stat);
}

bool process_alive(const struct process *process)
{
    struct proc_stat stat;
    return read_stat(process, &stat) && !has_ended(&stat) && stat.start_time == process->start_time;
}

bool process_execed(const struct process *process)
{
    struct proc_stat stat;
    if (!read_stat(process, &stat) || has_ended(&stat))
        return false;
    /* The first thread has ended, but exec would have made it anew. */
    if (stat.state == 'Z' || stat.state == 'X')
        return false;
    if (process->start_stack && stat.start_stack &&
        (stat.start_code != process->start_code || stat.start_stack != process->start_stack))
        return true;
    /* Without address randomisation all of those may come out the same. */
    if (process_space_lost(process))
        return process_alive(process);
    struct stat st;
    return process->exe_inode && !fstatat(process->proc_fd, "exe", &st, 0) &&
           (st.st_dev != process->exe_dev || st.st_ino != process->exe_inode);
}

bool process_space_lost(const struct process *process)
{
    char word[8];
    return process->space_fd >= 0 && pread(process->space_fd, word, sizeof(word), 0) == 0;
}

bool process_space_lives(const struct process *process)
{
    char word[8];
    return process->space_fd >= 0 &&
           pread(process->space_fd, word, sizeof(word), 0) == (ssize_t)sizeof(word);
}
