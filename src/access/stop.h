/* Stopping one thread for as short as it takes to read it. The kernel lets a stopped thread go when
 * scry dies, whatever happens. All calls for one target must come from one thread of scry. */
#ifndef SCRY_ACCESS_STOP_H
#define SCRY_ACCESS_STOP_H

#include "util/error.h"
#include "util/types.h"

struct stop {
    pid_t tid;
    bool held;
};

/* Stop this thread (PTRACE_SEIZE, PTRACE_INTERRUPT, wait). Signals that arrive meanwhile are
 * delivered, not lost. Fails with -SCRY_E_GONE, -SCRY_E_PERMISSION, or -SCRY_E_TORN when it does
 * not stop within `limit` (uninterruptible sleep): then it has been let go again. A thread of a
 * process stopped by SIGSTOP can be read as it is and stays stopped afterwards. */
int stop_thread(struct stop *s, pid_t tid, scry_nsec limit);
/* Let it go. Safe on a zeroed struct and twice. */
void stop_release(struct stop *s);

#endif
