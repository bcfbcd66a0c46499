/* Memory of a live process. process_vm_readv takes all ranges in one system call and needs nothing
 * kept open; where it is refused (an old kernel, a seccomp filter) /proc/PID/mem gives the same
 * bytes one range at a time. Neither stops the target nor writes to it. */
#include "access/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "access/permission.h"
#include "access/process.h"

/* Ranges per system call; the kernel takes 1024 at most, and two arrays of this size stand on the
 * stack. */
#define BATCH 256

struct mem_live {
    struct mem mem;
    pid_t pid;
    pid_t tid;  /* the thread whose memory is asked for: the first, unless that one ended before the
                   others */
    int mem_fd; /* /proc/TID/mem when process_vm_readv is refused, else -1 */
};

/* How many leading ranges a transfer of `bytes` covered in full. */
static int ranges_covered(const struct mem_range *ranges, int count, size_t bytes)
{
    int i = 0;
    while (i < count && bytes >= ranges[i].len)
        bytes -= ranges[i++].len;
    return i;
}

/* One system call, for at least one range. The number of ranges read, or a negative errno when the
 * whole call was refused. */
static int vm_read_batch(pid_t tid, const struct mem_range *ranges, int count)
{
    struct iovec local[BATCH], remote[BATCH];
    int i = 0;
    do {
        local[i] = (struct iovec){ranges[i].to, ranges[i].len};
        remote[i] = (struct iovec){(void *)(uintptr_t)ranges[i].addr, ranges[i].len};
    } while (++i < count);
    ssize_t got =
        process_vm_readv(tid, local, (unsigned long)count, remote, (unsigned long)count, 0);
    if (got >= 0)
        return ranges_covered(ranges, count, (size_t)got);
    /* Nothing of the first range that has a length; empty ones before it are read all the same. */
    return errno == EFAULT ? ranges_covered(ranges, count, 0) : -errno;
}

static int proc_mem_open(pid_t tid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/mem", tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* True if all of it was read; *ret_gone when the address space itself has ended. */
static bool proc_mem_read(int fd, const struct mem_range *range, bool *ret_gone)
{
    size_t done = 0;
    while (done < range->len) {
        scry_addr addr = range->addr + done;
        if (addr > (scry_addr)INT64_MAX)
            return false;
        ssize_t got = pread(fd, (char *)range->to + done, range->len - done, (off_t)addr);
        if (got < 0 && errno == EINTR)
            continue;
        if (got == 0 || (got < 0 && errno == ESRCH))
            *ret_gone = true;
        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

static int proc_mem_readv(struct mem_live *m, const struct mem_range *ranges, int count)
{
    for (int i = 0; i < count; i++) {
        bool gone = false;
        m->mem.calls++;
        if (!proc_mem_read(m->mem_fd, &ranges[i], &gone))
            return gone ? -SCRY_E_GONE : i;
    }
    return count;
}

/* process_vm_readv is not to be had: remember the way through /proc. */
static int switch_to_proc_mem(struct mem_live *m)
{
    int fd = proc_mem_open(m->tid);
    if (fd == -ENOENT || fd == -ESRCH)
        return -SCRY_E_GONE;
    if (fd < 0)
        return -SCRY_E_PERMISSION;
    m->mem_fd = fd;
    return 0;
}

/* The thread asked for has ended; the memory may live on in others (the first thread of a program
 * may end before the rest). */
static int switch_thread(struct mem_live *m)
{
    pid_t tid = process_live_tid(m->pid);
    if (tid <= 0 || tid == m->tid)
        return -SCRY_E_GONE;
    m->tid = tid;
    return 0;
}

static int live_readv(struct mem *mem, const struct mem_range *ranges, int count)
{
    struct mem_live *m = (struct mem_live *)mem;
    int done = 0;
    while (done < count) {
        int n = count - done < BATCH ? count - done : BATCH;
        if (m->mem_fd >= 0) {
            int rest = proc_mem_readv(m, ranges + done, count - done);
            return rest < 0 ? rest : done + rest;
        }
        int got = vm_read_batch(m->tid, ranges + done, n);
        m->mem.calls++;
        if (got < 0) {
            int rc = got == -ESRCH ? switch_thread(m) : switch_to_proc_mem(m);
            if (rc)
                return rc;
            continue;
        }
        done += got;
        if (got < n)
            break;
    }
    return done;
}

static void live_close(struct mem *mem)
{
    struct mem_live *m = (struct mem_live *)mem;
    if (m->mem_fd >= 0)
        close(m->mem_fd);
    free(m);
}

static const struct mem_ops live_ops = {live_readv, live_close};

/* The kernel checks permission before it looks at the address: reading one byte at 0 tells the two
 * apart and harms nobody. */
int mem_open_live(pid_t pid, struct mem **ret_mem, struct error *err)
{
    struct mem_live *m = calloc(1, sizeof(*m));
    if (!m)
        return error_set(err, -SCRY_E_NO_MEMORY, "out of memory");
    *m = (struct mem_live){.mem.ops = &live_ops, .pid = pid, .tid = pid, .mem_fd = -1};
    char byte;
    struct mem_range probe = {0, &byte, 1};
    int rc = live_readv(&m->mem, &probe, 1);
    if (rc >= 0) {
        *ret_mem = &m->mem;
        return 0;
    }
    live_close(&m->mem);
    return permission_error(pid, err) ?: error_set(err, rc, "process %d ended", pid);
}
