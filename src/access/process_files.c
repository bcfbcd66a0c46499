/* The files a process sees, opened from outside: its folder in /proc, and the file system below its
 * own root. What lies there belongs to the target: a path may name a fifo, a device or a link that
 * leads out, so a name is first resolved without opening it, and only a regular file is opened. */
#include "access/process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "access/procfs.h"

#define LINKS_MAX 40 /* as the kernel */

int process_read_proc(const struct process *process, const char *name, size_t limit, struct buf *to)
{
    int rc = procfs_read(process->proc_fd, name, limit, to);
    switch (rc) {
    case 0:
        return 0;
    case -ENOENT:
    case -ESRCH:
        return -SCRY_E_GONE;
    case -EACCES:
    case -EPERM:
        return -SCRY_E_PERMISSION;
    case -ENOMEM:
        return -SCRY_E_NO_MEMORY;
    default:
        return -SCRY_E_IO;
    }
}

const char *process_own_path(const struct process *process, const char *path)
{
    size_t len = process->root ? strlen(process->root) : 0;
    bool below = len > 1 && !strncmp(path, process->root, len) && path[len] == '/';
    return below ? path + len : path;
}

/* Turn a descriptor that only names a file (O_PATH; consumed) into one that reads it. */
static int open_named(int path_fd)
{
    struct stat st;
    char self[64];
    int fd;
    if (path_fd < 0)
        return path_fd;
    if (fstat(path_fd, &st)) {
        fd = -errno;
    } else if (!S_ISREG(st.st_mode)) {
        fd = S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
    } else {
        snprintf(self, sizeof(self), "/proc/self/fd/%d", path_fd);
        fd = open(self, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd < 0)
            fd = -errno;
    }
    close(path_fd);
    return fd;
}

static int open_in_root(int root_fd, const char *path)
{
    struct open_how how = {
        .flags = O_PATH | O_CLOEXEC,
        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
    };
    long fd = syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
    return fd < 0 ? -errno : (int)fd;
}

static bool same_file(int a, int b)
{
    struct stat x, y;
    return !fstat(a, &x) && !fstat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* The same by hand, one component at a time, for kernels and seccomp filters without openat2. */
struct walk {
    int root_fd;
    int at_fd;           /* where the walk stands; owned */
    int links;           /* followed so far */
    char rest[PATH_MAX]; /* what is still to be walked */
};

static int walk_into_link(struct walk *w, int link_fd)
{
    char target[PATH_MAX], joined[2 * PATH_MAX];
    ssize_t len = readlinkat(link_fd, "", target, sizeof(target) - 1);
    close(link_fd);
    if (len < 0)
        return -errno;
    if (++w->links > LINKS_MAX)
        return -ELOOP;
    target[len] = '\0';
    int need = snprintf(joined, sizeof(joined), "%s/%s", target, w->rest);
    if (need >= (int)sizeof(w->rest))
        return -ENAMETOOLONG;
    memcpy(w->rest, joined, (size_t)need + 1);
    if (target[0] != '/')
        return 0;
    close(w->at_fd);
    w->at_fd = fcntl(w->root_fd, F_DUPFD_CLOEXEC, 0);
    return w->at_fd < 0 ? -errno : 0;
}

static int walk_step(struct walk *w, const char *name)
{
    struct stat st;
    if (!strcmp(name, ".") || (!strcmp(name, "..") && same_file(w->at_fd, w->root_fd)))
        return 0;
    int fd = openat(w->at_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (!fstat(fd, &st) && S_ISLNK(st.st_mode))
        return walk_into_link(w, fd);
    close(w->at_fd);
    w->at_fd = fd;
    return 0;
}

static int walk_in_root(int root_fd, const char *path)
{
    struct walk w = {.root_fd = root_fd, .at_fd = fcntl(root_fd, F_DUPFD_CLOEXEC, 0)};
    if (w.at_fd < 0)
        return -errno;
    if (snprintf(w.rest, sizeof(w.rest), "%s", path) >= (int)sizeof(w.rest)) {
        close(w.at_fd);
        return -ENAMETOOLONG;
    }
    int rc = 0;
    for (;;) {
        char name[NAME_MAX + 1];
        size_t skip = strspn(w.rest, "/");
        size_t len = strcspn(w.rest + skip, "/");
        if (!len)
            break;
        rc = len < sizeof(name) ? 0 : -ENAMETOOLONG;
        if (rc)
            break;
        memcpy(name, w.rest + skip, len);
        name[len] = '\0';
        memmove(w.rest, w.rest + skip + len, strlen(w.rest + skip + len) + 1);
        rc = walk_step(&w, name);
        if (rc)
            break;
    }
    if (!rc)
        return w.at_fd;
    if (w.at_fd >= 0)
        close(w.at_fd);
    return rc;
}

int process_open_path(const struct process *process, const char *path)
{
    int root_fd = openat(process->proc_fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root_fd < 0)
        return -errno;
    int fd = open_in_root(root_fd, path);
    if (fd == -ENOSYS || fd == -EPERM)
        fd = walk_in_root(root_fd, path);
    close(root_fd);
    return open_named(fd);
}

static int open_magic_link(const struct process *process, const char *name)
{
    int fd = openat(process->proc_fd, name, O_PATH | O_CLOEXEC);
    return open_named(fd < 0 ? -errno : fd);
}

int process_open_exe(const struct process *process)
{
    return open_magic_link(process, "exe");
}

int process_open_mapping(const struct process *process, scry_addr start, scry_addr end)
{
    char name[64];
    snprintf(name, sizeof(name), "map_files/%" PRIx64 "-%" PRIx64, start, end);
    return open_magic_link(process, name);
}
