/* The threads of a process, as the kernel sees them. */
#ifndef SCRY_ACCESS_TASK_H
#define SCRY_ACCESS_TASK_H

#include "access/process.h"

struct task {
    pid_t tid;    /* as we see it */
    pid_t ns_tid; /* as the target sees it: what CPython stores */
    char state;   /* R S D T t Z X I, 0 if unknown */
    char comm[16];
    uint64_t start_time; /* with the tid its identity */
};

struct task_list {
    struct task *items; /* by tid */
    size_t count;
    size_t cap;
    struct task *last; /* the list before, for what is known already; private */
    size_t last_cap;
};

/* Refresh the list; memory is reused. ns_tid costs one more file per thread and is read only for
 * threads not seen before, and only when the process lives in another pid namespace. */
int tasks_read(const struct process *process, struct task_list *list);
/* Only which there are: nothing but the ids is filled in. */
int tasks_ids(const struct process *process, struct task_list *list);
const struct task *tasks_by_ns_tid(const struct task_list *list, pid_t ns_tid);
void tasks_done(struct task_list *list);

enum task_activity {
    TASK_UNKNOWN, /* /proc does not say, or the thread is gone */
    TASK_RUNNING, /* on a CPU, or ready to run */
    TASK_BLOCKED, /* asleep in the kernel */
};

/* One thread watched from tick to tick through descriptors that stay open. */
struct task_watch {
    pid_t tid;
    int schedstat_fd; /* -1 when not to be had */
    int syscall_fd;
    int stat_fd;        /* -1 until it is needed */
    int proc_fd;        /* of the process, which must stay open */
    bool transient;     /* no descriptors to spare: the files are opened for each look */
    scry_nsec run_time; /* as last read: time on a CPU so far */
    uint64_t switches;  /* how often it had been put on a CPU, before it was last seen blocked */
    bool blocked;       /* as last seen */
    bool crowded; /* lately it often had to wait for a CPU; judged anew now and then, since: */
    scry_nsec crowd_run, crowd_wait;
};

int task_watch_open(struct task_watch *w, const struct process *process, pid_t tid);
void task_watch_close(struct task_watch *w);
/* What it does now. *ret_ran: it may have run since the last call (always true on the first, and
 * where the kernel keeps no account). BLOCKED and not ran: it stood still from the last look to
 * this one, proved. */
enum task_activity task_watch_look(struct task_watch *w, bool *ret_ran);

/* Whether it is ready to run and cannot: the CPU it was last on is the one that runs us. As long as
 * task_watch_waited() with the same *ret_switches is true it has stood still since, proved. False
 * says nothing. */
bool task_watch_waits(struct task_watch *w, uint64_t *ret_switches);
bool task_watch_waited(const struct task_watch *w, uint64_t switches);

/* What a blocked thread waits for, in a few words: "futex", "epoll_wait", "read pipe",
 * "recvfrom tcp 127.0.0.1:5432", "clock_nanosleep"; "" when it runs or /proc does not say.
 * Everything taken from the target's side (paths, names) is cut and made printable. */
void task_wait_reason(const struct process *process, pid_t tid, char *to, size_t cap);

#endif
