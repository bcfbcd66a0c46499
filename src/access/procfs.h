/* The text files of /proc: reading them whole and taking them apart. Nothing here believes the
 * kernel's layout beyond what proc(5) promises; a field that is missing reads as zero. */
#ifndef SCRY_ACCESS_PROCFS_H
#define SCRY_ACCESS_PROCFS_H

#include "util/buf.h"
#include "util/types.h"

/* All of a file, at most `limit` bytes, appended to `to`. 0 or a negative errno. */
int procfs_read(int dir_fd, const char *name, size_t limit, struct buf *to);
/* The same into the caller's array, NUL-terminated, cut at cap-1; the length or a negative errno.
 */
ssize_t procfs_read_small(int dir_fd, const char *name, char *to, size_t cap);
/* Again from a descriptor that stays open. */
ssize_t procfs_reread(int fd, char *to, size_t cap);
/* What a symbolic link says, NULL on failure (errno). The caller frees it. */
char *procfs_link(int dir_fd, const char *name);

#define PROC_STAT_MAX 1024 /* a stat line is shorter than this */

struct proc_stat {
    pid_t pid;
    char comm[64]; /* threads: 15 bytes; kernel workers show longer names */
    char state;
    pid_t parent;
    uint64_t flags;
    int64_t threads;
    uint64_t start_time;
    uint64_t start_code; /* this and the next are 0 or 1 where scry may not look */
    uint64_t start_stack;
    unsigned cpu; /* where it runs, or ran last */
};

int proc_stat_parse(const char *text, struct proc_stat *ret_stat);

/* The value of "Name:\tvalue" in a status file: a pointer to its first character, or NULL. */
const char *proc_status_find(const char *status, const char *name);
/* The last number of NSpid: the id as the process itself sees it; 0 if unknown. */
pid_t proc_status_ns_pid(const char *status);
/* How many numbers NSpid has: 1 when the process lives in the namespace /proc was mounted for. */
int proc_status_ns_depth(const char *status);

#endif
