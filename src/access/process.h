/* A process as /proc shows it. Identity is pid and start time: a pid that was given to somebody else is a
 * process that is gone. */
#ifndef SCRY_ACCESS_PROCESS_H
#define SCRY_ACCESS_PROCESS_H

#include "util/buf.h"
#include "util/error.h"
#include "util/types.h"

struct process {
    pid_t pid;           /* as we see it */
    pid_t ns_pid;        /* as it sees itself: the last number of NSpid */
    pid_t parent;
    uint64_t start_time; /* clock ticks since boot */
    int proc_fd;         /* /proc/PID, O_PATH */
    char *exe;           /* what /proc/PID/exe names, in the target's own view; "" if hidden */
    bool exe_deleted;
    char *command;       /* the command line, arguments joined by blanks; "[comm]" if it has none */
    bool other_mount_ns; /* lives in another mount namespace or root folder than scry */
    bool other_pid_ns;
};

/* Fails with NO_PROCESS, ZOMBIE, KERNEL_THREAD or PERMISSION (with the diagnosis of access/permission.h). */
int process_open(pid_t pid, struct process **ret_process, struct error *err);
void process_close(struct process *process);

/* Still the same process, and not a zombie. One cheap system call or two. */
bool process_alive(const struct process *process);
/* Has another program been exec'ed since? Compares /proc/PID/exe and the auxv/start stack address. */
bool process_execed(const struct process *process);

/* The whole of /proc/PID/NAME, at most `limit` bytes. */
int process_read_proc(const struct process *process, const char *name, size_t limit,
                      struct buf *to);
/* Open a file by its path in the target's own view (through /proc/PID/root), read-only. Only regular files;
 * never blocks on a fifo. Returns a descriptor or a negative errno. */
int process_open_path(const struct process *process, const char *path);
/* The executable itself, also when deleted or replaced (through /proc/PID/exe). */
int process_open_exe(const struct process *process);
/* A mapped file even when its path is gone: through /proc/PID/map_files/START-END. */
int process_open_mapping(const struct process *process, scry_addr start, scry_addr end);

struct pid_list {
    pid_t *items;
    size_t count;
    size_t cap;
};

/* Direct children, through /proc/PID/task/ * /children, else by scanning parents in /proc. */
int process_children(pid_t pid, struct pid_list *ret_list);
/* All processes of this host that scry can see, by pid. */
int process_list(struct pid_list *ret_list);
void pid_list_done(struct pid_list *list);

#endif
