#include "access/permission_facts.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "access/process.h"
#include "access/procfs.h"

#define STATUS_MAX 8192
#define PF_KTHREAD 0x00200000u

static uint64_t status_hex(const char *status, const char *name)
{
    const char *at = proc_status_find(status, name);
    return at ? strtoull(at, NULL, 16) : 0;
}

static void status_ids(const char *status, const char *name, unsigned ids[3])
{
    const char *at = proc_status_find(status, name);
    if (at)
        sscanf(at, "%u %u %u", &ids[0], &ids[1], &ids[2]);
}

/* 0 if allowed, else an errno. Permission is checked before the address is. */
static int try_vm_read(pid_t tid, uintptr_t addr)
{
    char byte;
    struct iovec local = {&byte, 1}, remote = {(void *)addr, 1};
    if (process_vm_readv(tid, &local, 1, &remote, 1, 0) >= 0 || errno == EFAULT)
        return 0;
    return errno;
}

static bool can_open_mem(pid_t tid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/mem", tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static bool same_userns(int proc_fd)
{
    char *theirs = procfs_link(proc_fd, "ns/user");
    char *ours = procfs_link(AT_FDCWD, "/proc/self/ns/user");
    bool same = true;
    if (theirs && ours) {
        same = !strcmp(theirs, ours);
    } else {
        /* The link is hidden from those who may not look; which ids it maps is not. */
        char map[1024], own_map[1024];
        same = procfs_read_small(proc_fd, "uid_map", map, sizeof(map)) < 0 ||
               procfs_read_small(AT_FDCWD, "/proc/self/uid_map", own_map, sizeof(own_map)) < 0 ||
               !strcmp(map, own_map);
    }
    free(theirs);
    free(ours);
    return same;
}

/* The first pid namespace has a fixed number (PROC_PID_INIT_INO in include/linux/proc_ns.h). */
static bool in_own_pidns(void)
{
    char *link = procfs_link(AT_FDCWD, "/proc/self/ns/pid");
    bool own = link && strcmp(link, "pid:[4026531836]") != 0;
    free(link);
    return own;
}

static void gather_own(struct permission_facts *f, const char *status)
{
    const uint64_t cap = 1ull << CAP_SYS_PTRACE;
    const char *nnp = proc_status_find(status, "NoNewPrivs");
    char text[32];
    f->own_uid = getuid();
    f->own_gid = getgid();
    f->has_cap = status_hex(status, "CapEff") & cap;
    f->cap_reachable = status_hex(status, "CapBnd") & cap;
    f->no_new_privs = nnp && *nnp == '1';
    f->seccomp = try_vm_read(getpid(), (uintptr_t)&text[0]) != 0;
    f->in_kubernetes = getenv("KUBERNETES_SERVICE_HOST") != NULL;
    f->own_pidns = in_own_pidns();
    f->yama = -1;
    if (procfs_read_small(AT_FDCWD, "/proc/sys/kernel/yama/ptrace_scope", text, sizeof(text)) > 0)
        f->yama = (int)strtol(text, NULL, 10);
    if (procfs_read_small(AT_FDCWD, "/sys/kernel/security/lsm", f->modules, sizeof(f->modules)) <=
        0)
        f->modules[0] = '\0';
    f->modules[strcspn(f->modules, "\n")] = '\0';
}

/* The files in /proc of a process that may not be dumped belong to root (of its user namespace),
 * not to it. */
static bool is_undumpable(int proc_fd, const struct permission_facts *f)
{
    struct stat st;
    return !fstatat(proc_fd, "environ", &st, 0) && st.st_uid != f->uids[1];
}

static void gather_target(struct permission_facts *f, int proc_fd, const char *own_status)
{
    char text[PROC_STAT_MAX], status[STATUS_MAX];
    struct proc_stat stat;
    if (procfs_read_small(proc_fd, "stat", text, sizeof(text)) <= 0 ||
        proc_stat_parse(text, &stat)) {
        f->hidden = errno == EACCES || errno == EPERM;
        f->exists = f->hidden;
        return;
    }
    f->exists = true;
    snprintf(f->comm, sizeof(f->comm), "%.15s", stat.comm);
    f->kernel_thread = stat.flags & PF_KTHREAD;
    f->zombie = (stat.state == 'Z' || stat.state == 'X') && stat.threads <= 1;
    if (procfs_read_small(proc_fd, "status", status, sizeof(status)) > 0) {
        status_ids(status, "Uid", f->uids);
        status_ids(status, "Gid", f->gids);
        f->more_caps = status_hex(status, "CapPrm") & ~status_hex(own_status, "CapPrm");
    }
    f->undumpable = is_undumpable(proc_fd, f);
    f->other_userns = !same_userns(proc_fd);
}

void permission_gather(pid_t pid, struct permission_facts *ret)
{
    char path[32], own_status[STATUS_MAX] = "";
    struct permission_facts f = {.pid = pid};
    procfs_read_small(AT_FDCWD, "/proc/self/status", own_status, sizeof(own_status));
    gather_own(&f, own_status);
    snprintf(path, sizeof(path), "/proc/%d", pid);
    int proc_fd = pid > 0 ? open(path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    if (proc_fd >= 0) {
        gather_target(&f, proc_fd, own_status);
        pid_t tid = process_live_tid(pid);
        int refused = tid > 0 ? try_vm_read(tid, 0) : ESRCH;
        f.readable = !refused || (tid > 0 && can_open_mem(tid));
        /* It ended while we looked: no question of permission. */
        if (refused == ESRCH && !f.readable) {
            gather_target(&f, proc_fd, own_status);
            f.exists &= f.zombie || f.kernel_thread || f.hidden;
        }
        close(proc_fd);
    }
    /* Where /proc hides a process, the kernel still knows it. */
    if (!f.exists && pid > 0 && kill(pid, 0) && errno == EPERM)
        f.hidden = f.exists = true;
    *ret = f;
}
