/* Stopping all threads of a process at one moment: what each of them was doing then is seen together, and which of them
 * were asleep. As with stop.h the kernel lets all go when scry dies. */
#ifndef SCRY_ACCESS_FREEZE_H
#define SCRY_ACCESS_FREEZE_H

#include "access/stop.h"
#include "access/task.h"

struct freeze {
    struct frozen *threads; /* by their ids */
    size_t count, cap;
    struct task_list ids;
    scry_nsec begun; /* when the first one was asked to stop */
};

/* Safe on a zeroed struct. Threads that begin meanwhile are stopped, too; one that does not stop within `limit` is left out. When none can be
 * stopped, the error of the first one. */
int freeze_begin(struct freeze *f, const struct process *process, scry_nsec limit);
bool freeze_holds(const struct freeze *f, pid_t tid);
/* UNKNOWN for one that is not held. */
enum task_activity freeze_activity(const struct freeze *f, pid_t tid);
/* This one alone may go on. */
void freeze_let_go(struct freeze *f, pid_t tid);
/* All of them. Safe twice. */
void freeze_end(struct freeze *f);
void freeze_done(struct freeze *f);

#endif
