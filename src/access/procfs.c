#include "access/procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int procfs_read(int dir_fd, const char *name, size_t limit, struct buf *to)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return -errno;
    int rc = 0;
    while (limit) {
        size_t want = limit < 16384 ? limit : 16384;
        if (!buf_reserve(to, want)) {
            rc = -ENOMEM;
            break;
        }
        ssize_t got = read(fd, to->data + to->len, want);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            rc = -errno;
        if (got <= 0)
            break;
        to->len += (size_t)got;
        to->data[to->len] = '\0';
        limit -= (size_t)got;
    }
    close(fd);
    return rc;
}

ssize_t procfs_reread(int fd, char *to, size_t cap)
{
    ssize_t got;
    do
        got = pread(fd, to, cap - 1, 0);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return -errno;
    to[got] = '\0';
    return got;
}

ssize_t procfs_read_small(int dir_fd, const char *name, char *to, size_t cap)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return -errno;
    ssize_t got = procfs_reread(fd, to, cap);
    close(fd);
    return got;
}

char *procfs_link(int dir_fd, const char *name)
{
    char path[PATH_MAX + 1];
    ssize_t len = readlinkat(dir_fd, name, path, sizeof(path) - 1);
    if (len < 0)
        return NULL;
    path[len] = '\0';
    return strdup(path);
}

/* The numbers of stat that follow the command name, by their place in proc(5). */
enum {
    STAT_PPID = 4,
    STAT_FLAGS = 9,
    STAT_THREADS = 20,
    STAT_START_TIME = 22,
    STAT_START_CODE = 26
};
enum { STAT_START_STACK = 28, STAT_CPU = 39, STAT_LAST = 39 };

int proc_stat_parse(const char *text, struct proc_stat *ret_stat)
{
    /* The name may contain anything, closing parentheses too: the last one ends it. */
    const char *open = strchr(text, '(');
    const char *close = strrchr(text, ')');
    if (!open || !close || close < open || close[1] != ' ' || !close[2])
        return -EINVAL;
    uint64_t fields[STAT_LAST + 1] = {0};
    const char *at = close + 3;
    for (int i = STAT_PPID; i <= STAT_LAST; i++) {
        char *end;
        fields[i] = strtoull(at, &end, 10);
        if (end == at)
            break;
        at = end;
    }
    struct proc_stat s = {
        .pid = (pid_t)strtol(text, NULL, 10),
        .state = close[2],
        .parent = (pid_t)fields[STAT_PPID],
        .flags = fields[STAT_FLAGS],
        .threads = (int64_t)fields[STAT_THREADS],
        .start_time = fields[STAT_START_TIME],
        .start_code = fields[STAT_START_CODE],
        .start_stack = fields[STAT_START_STACK],
        .cpu = (unsigned)fields[STAT_CPU],
    };
    size_t len = (size_t)(close - open - 1);
    if (len > sizeof(s.comm) - 1)
        len = sizeof(s.comm) - 1;
    memcpy(s.comm, open + 1, len);
    *ret_stat = s;
    return 0;
}

const char *proc_status_find(const char *status, const char *name)
{
    size_t len = strlen(name);
    for (const char *line = status; line; line = strchr(line, '\n')) {
        if (*line == '\n')
            line++;
        if (strncmp(line, name, len) != 0 || line[len] != ':')
            continue;
        line += len + 1;
        return line + strspn(line, " \t");
    }
    return NULL;
}

static int ns_numbers(const char *status, pid_t *ret_last)
{
    const char *at = proc_status_find(status, "NSpid");
    int count = 0;
    *ret_last = 0;
    while (at && *at && *at != '\n') {
        char *end;
        long value = strtol(at, &end, 10);
        if (end == at)
            break;
        *ret_last = (pid_t)value;
        count++;
        at = end + strspn(end, " \t");
    }
    return count;
}

pid_t proc_status_ns_pid(const char *status)
{
    pid_t last;
    ns_numbers(status, &last);
    return last;
}

int proc_status_ns_depth(const char *status)
{
    pid_t last;
    return ns_numbers(status, &last);
}
