/* Stopping one thread for as short as it takes to read it. The kernel lets a stopped thread go when
 * scry dies, whatever happens. All calls for one target must come from one thread of scry. */
#ifndef SCRY_ACCESS_STOP_H
#define SCRY_ACCESS_STOP_H

#include "util/error.h"
#include "util/types.h"

struct stop {
    pid_t tid;
    bool held;
    int signal;      /* stopped on its way to this signal, which release delivers; 0 = none */
    scry_nsec asked; /* when it was asked to stop (CLOCK_MONOTONIC); it ran until then at least */
};

/* Stop this thread (PTRACE_SEIZE, PTRACE_INTERRUPT, wait). Signals that arrive meanwhile are
 * delivered, not lost. Fails with -SCRY_E_GONE, -SCRY_E_PERMISSION, or -SCRY_E_TORN when it does
 * not stop within `limit` (uninterruptible sleep): then it has been let go again. A thread of a
 * process stopped by SIGSTOP can be read as it is and stays stopped afterwards. */
int stop_thread(struct stop *s, pid_t tid, scry_nsec limit);
/* Both halves of that, for whoever stops several: a thread that was asked must be waited for. */
int stop_ask(struct stop *s, pid_t tid);
int stop_await(struct stop *s, scry_nsec limit);
/* Let it go. Safe on a zeroed struct and twice. */
void stop_release(struct stop *s);
/* A thread that did not stop in time cannot be let go before it does stop. Such threads are
 * remembered (per thread of scry) and let go at the next call of stop_thread or of this: call it
 * now and then while a target is watched. Returns how many are still owed their freedom. */
int stop_settle(void);
/* The process that traces this thread (a debugger, say), 0 if none: the usual cause of
 * -SCRY_E_PERMISSION where memory can be read. */
pid_t stop_tracer(pid_t tid);

#endif
