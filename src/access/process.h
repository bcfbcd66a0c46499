/* A process as /proc shows it. Identity is pid and start time: a pid that was given to somebody
 * else is a process that is gone. */
#ifndef SCRY_ACCESS_PROCESS_H
#define SCRY_ACCESS_PROCESS_H

#include "util/buf.h"
#include "util/error.h"
#include "util/types.h"

struct process {
    pid_t pid;    /* as we see it */
    pid_t ns_pid; /* as it sees itself: the last number of NSpid */
    pid_t parent;
    uint64_t start_time; /* clock ticks since boot */
    int proc_fd;         /* /proc/PID, O_PATH */
    char *exe;           /* what /proc/PID/exe names, in the target's own view; "" if hidden */
    bool exe_deleted;
    char *command;       /* the command line, arguments joined by blanks; "[comm]" if it has none */
    bool other_mount_ns; /* lives in another mount namespace or root folder than scry */
    bool other_pid_ns;
    /* private to process*.c */
    char *root;   /* its root folder as we see it: "/" unless it has been chroot'ed */
    int stat_fd;  /* stays with this very process: a reused pid reads as gone */
    int space_fd; /* stays with this very address space: reads as empty after exec; -1 when hidden
                   */
    uint64_t start_code, start_stack;
    uint64_t exe_dev, exe_inode;
};

/* Fails with NO_PROCESS, ZOMBIE, KERNEL_THREAD or PERMISSION (with the diagnosis of
 * access/permission.h). A process whose first thread has ended while others go on is no zombie. */
int process_open(pid_t pid, struct process **ret_process, struct error *err);
/* The same for a process that scry may not look into: what is hidden is empty, false or -1. */
int process_peek(pid_t pid, struct process **ret_process, struct error *err);
void process_close(struct process *process);

/* Still the same process, and not a zombie. One cheap system call or two. */
bool process_alive(const struct process *process);
/* Has another program been exec'ed since, be it the same one again? */
bool process_execed(const struct process *process);

/* For certain the same program as when it was opened, told by one small read; false = ask process_execed(). Of a
 * process that was opened between vfork and exec it says nothing: its memory was its parent's. */
bool process_space_lives(const struct process *process);
/* For certain the memory it was opened with is gone: it ends, or another program has been exec'ed. */
bool process_space_lost(const struct process *process);

/* A thread of this process that still has its memory: the first, unless that has ended; 0 if none.
 */
pid_t process_live_tid(pid_t pid);

/* The whole of /proc/PID/NAME, at most `limit` bytes, appended. 0, -SCRY_E_GONE, -SCRY_E_PERMISSION
 * or -SCRY_E_IO. */
int process_read_proc(const struct process *process, const char *name, size_t limit,
                      struct buf *to);
/* A path as /proc shows it to us, in the target's own view: a part of `path`, without the root
 * folder. */
const char *process_own_path(const struct process *process, const char *path);
/* Open a file by its path in the target's own view (through /proc/PID/root), read-only. Only
 * regular files; never blocks on a fifo. Returns a descriptor or a negative errno. */
int process_open_path(const struct process *process, const char *path);
/* The executable itself, also when deleted or replaced (through /proc/PID/exe). As
 * process_open_path. */
int process_open_exe(const struct process *process);
/* A mapped file even when its path is gone: through /proc/PID/map_files/START-END (needs
 * CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE). As process_open_path. */
int process_open_mapping(const struct process *process, scry_addr start, scry_addr end);

struct pid_list {
    pid_t *items;
    size_t count;
    size_t cap;
};

/* Direct children as one pass finds them: some may be missing while others come and go. */
int process_children_now(pid_t pid, struct pid_list *ret_list);
/* Changes whenever a process or thread is born that scry can see; 0 where the kernel does not say. */
uint64_t process_newest(void);
/* Direct children, through /proc/PID/task/ * /children, else by scanning parents in /proc. */
int process_children(pid_t pid, struct pid_list *ret_list);
/* All processes of this host that scry can see, by pid. */
int process_list(struct pid_list *ret_list);
void pid_list_done(struct pid_list *list);

#endif
