/* Stopping one thread. PTRACE_SEIZE sends no signal and changes nothing by itself; PTRACE_INTERRUPT
 * makes the thread stop as soon as it can. It may stop for another reason first: on its way to a
 * signal (which the release then delivers) or together with its process by job control (which the
 * kernel restores at release). Either stop serves as well to read it.
 *
 * Two things need care. A thread in uninterruptible sleep does not stop in time, and one that runs
 * cannot be detached: it is remembered and let go when it does stop. And a traced thread that dies
 * must be waited for by its tracer, or its process never ends; but the exit status of a child of
 * ours is not ours to take. */
#include "access/stop.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "access/procfs.h"

#define OWED_MAX       64
#define QUICK_POLLS    20 /* at once: a thread on another CPU stops within microseconds */
#define QUICK_EVERY    16
#define FIRST_PAUSE    10000
#define LONGEST_PAUSE  1000000
#define FIRST_PATIENCE 200000
/* Longer than the time between two ticks of the kernel's clock: a shorter wait makes the kernel set
 * the hardware's timer, and that takes longer than all the rest. */
#define PATIENCE    5000000
#define UNTOLD_MOST 3 /* then the signal is not relied on */

/* ptrace ties a tracee to the tracing thread, and so does this. */
static _Thread_local pid_t owed[OWED_MAX];
static _Thread_local int owed_count;
static _Thread_local unsigned stop_count;
static _Thread_local bool slept_last; /* the last stop did not come while we were polling */
/* Stops in a row that came without the signal: another thread of this process takes it. */
static _Thread_local unsigned untold_count;

enum event { EVENT_NONE, EVENT_STOPPED, EVENT_DEAD, EVENT_LOST };

static scry_nsec now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (scry_nsec)t.tv_sec * SCRY_NSEC_PER_SEC + (scry_nsec)t.tv_nsec;
}

static bool read_status(pid_t tid, char *to, size_t cap)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/status", tid);
    return procfs_read_small(AT_FDCWD, path, to, cap) > 0;
}

static long status_number(const char *status, const char *name)
{
    const char *at = proc_status_find(status, name);
    return at ? strtol(at, NULL, 10) : 0;
}

pid_t stop_tracer(pid_t tid)
{
    char status[8192];
    return read_status(tid, status, sizeof(status)) ? (pid_t)status_number(status, "TracerPid") : 0;
}

static bool is_own_child(pid_t tid)
{
    char status[8192];
    return read_status(tid, status, sizeof(status)) && status_number(status, "Tgid") == tid &&
           status_number(status, "PPid") == getpid();
}

static bool is_dead(pid_t tid)
{
    char status[8192];
    if (!read_status(tid, status, sizeof(status)))
        return true;
    const char *state = proc_status_find(status, "State");
    return state && (*state == 'Z' || *state == 'X');
}

/* What happened to a thread we have seized. The stop is left for ptrace; a death is taken note of,
 * so that the process can end, unless the process is our own child: then whoever started it waits
 * for it. */
static enum event check(pid_t tid, int *ret_signal)
{
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)tid, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL))
        return EVENT_LOST;
    if (info.si_pid == 0)
        return EVENT_NONE;
    if (info.si_code == CLD_TRAPPED || info.si_code == CLD_STOPPED) {
        int event = info.si_status >> 8, signal = info.si_status & 0xff;
        *ret_signal = event ? 0 : signal;
        return EVENT_STOPPED;
    }
    if (!is_own_child(tid))
        waitid(P_PID, (id_t)tid, &info, WEXITED | WNOHANG | __WALL);
    return EVENT_DEAD;
}

/* ---- waiting ---- */

/* The kernel tells of a stop by SIGCHLD, unless it was asked not to. */
static bool is_told(const struct sigaction *action)
{
    return action->sa_handler != SIG_IGN && !(action->sa_flags & SA_NOCLDSTOP);
}

struct waiting {
    sigset_t former;         /* mask of this thread */
    struct sigaction action; /* for SIGCHLD, of whoever this process belongs to */
    bool told, taken, timed_out;
};

/* From here on the signal of a stop is kept until it is waited for. */
static void waiting_begin(struct waiting *w)
{
    sigset_t child;
    *w = (struct waiting){.taken = false};
    w->told =
        !sigaction(SIGCHLD, NULL, &w->action) && is_told(&w->action) && untold_count < UNTOLD_MOST;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &child, &w->former);
}

/* What was taken may have been somebody else's, for of several only one is kept. */
static void waiting_end(struct waiting *w)
{
    bool wanted = w->action.sa_handler != SIG_DFL || sigismember(&w->former, SIGCHLD);
    if (w->taken && wanted)
        kill(getpid(), SIGCHLD);
    pthread_sigmask(SIG_SETMASK, &w->former, NULL);
}

static void waiting_pause(struct waiting *w, scry_nsec span)
{
    struct timespec ts = {(time_t)(span / SCRY_NSEC_PER_SEC), (long)(span % SCRY_NSEC_PER_SEC)};
    sigset_t child;
    if (!w->told) {
        nanosleep(&ts, NULL);
        return;
    }
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    w->timed_out = sigtimedwait(&child, NULL, &ts) != SIGCHLD;
    w->taken |= !w->timed_out;
}

/* After a wait that was too short the signal may have come right behind it, together with the stop. */
static void count_untold(struct waiting *w)
{
    if (!w->timed_out)
        return;
    waiting_pause(w, 0);
    untold_count = w->timed_out ? untold_count + 1 : 0;
}

/* A thread that runs on another CPU stops within microseconds: poll. One that is to run on ours cannot stop before we
 * give the CPU away: sleep at once, until the kernel tells of the stop. Which of the two it is stays the same, as a
 * rule. (Not by yielding: to get the CPU back after that takes a whole turn of whoever else is ready, and the thread
 * would be held all that time.) */
static enum event await(pid_t tid, struct waiting *w, scry_nsec limit, int *ret_signal)
{
    const scry_nsec deadline = now() + limit;
    const bool near = slept_last && stop_count++ % QUICK_EVERY;
    scry_nsec pause = !w->told ? FIRST_PAUSE : near ? PATIENCE : FIRST_PATIENCE;
    for (int polls = near ? QUICK_POLLS : 0;; polls++) {
        enum event event = check(tid, ret_signal);
        slept_last = polls > QUICK_POLLS;
        if (event != EVENT_NONE) {
            count_untold(w);
            return event;
        }
        if (polls < QUICK_POLLS)
            continue;
        scry_nsec t = now();
        if (t >= deadline)
            return EVENT_NONE;
        waiting_pause(w, pause < deadline - t ? pause : deadline - t);
        if (pause < LONGEST_PAUSE)
            pause *= 2;
    }
}

static enum event await_release(pid_t tid, int *ret_signal)
{
    struct waiting w;
    waiting_begin(&w);
    enum event event = await(tid, &w, 2000000, ret_signal);
    waiting_end(&w);
    return event;
}

static bool detach(pid_t tid, int signal)
{
    return !ptrace(PTRACE_DETACH, tid, NULL, (void *)(uintptr_t)signal);
}

/* True when nothing is owed to this thread any more. */
static bool settle(pid_t tid)
{
    int signal = 0;
    switch (check(tid, &signal)) {
    case EVENT_NONE:
        return false;
    case EVENT_STOPPED:
        return detach(tid, signal);
    default:
        return true;
    }
}

int stop_settle(void)
{
    for (int i = 0; i < owed_count;) {
        if (settle(owed[i]))
            owed[i] = owed[--owed_count];
        else
            i++;
    }
    return owed_count;
}

static bool is_owed(pid_t tid)
{
    for (int i = 0; i < owed_count; i++)
        if (owed[i] == tid)
            return true;
    return false;
}

static int seize(pid_t tid)
{
    if (!ptrace(PTRACE_SEIZE, tid, NULL, NULL))
        return 0;
    /* A thread that has ended but was not yet reaped is refused as if it were forbidden. */
    if (errno == ESRCH || is_dead(tid))
        return -SCRY_E_GONE;
    return -SCRY_E_PERMISSION;
}

static int may_ask(pid_t tid)
{
    if (owed_count)
        stop_settle();
    return is_owed(tid) || owed_count == OWED_MAX ? -SCRY_E_TORN : seize(tid);
}

static void interrupt(struct stop *s)
{
    s->asked = now();
    ptrace(PTRACE_INTERRUPT, s->tid, NULL, NULL);
}

static int await_held(struct stop *s, struct waiting *w, scry_nsec limit)
{
    switch (await(s->tid, w, limit, &s->signal)) {
    case EVENT_STOPPED:
        s->held = true;
        return 0;
    case EVENT_NONE:
        owed[owed_count++] = s->tid;
        return -SCRY_E_TORN;
    default:
        return -SCRY_E_GONE;
    }
}

int stop_thread(struct stop *s, pid_t tid, scry_nsec limit)
{
    *s = (struct stop){.tid = tid};
    int rc = may_ask(tid);
    if (rc)
        return rc;
    struct waiting w;
    waiting_begin(&w);
    interrupt(s);
    rc = await_held(s, &w, limit);
    waiting_end(&w);
    return rc;
}

int stop_ask(struct stop *s, pid_t tid)
{
    *s = (struct stop){.tid = tid};
    int rc = may_ask(tid);
    if (!rc)
        interrupt(s);
    return rc;
}

int stop_await(struct stop *s, scry_nsec limit)
{
    struct waiting w;
    waiting_begin(&w);
    int rc = await_held(s, &w, limit);
    waiting_end(&w);
    return rc;
}

void stop_release(struct stop *s)
{
    if (!s->held)
        return;
    s->held = false;
    if (detach(s->tid, s->signal))
        return;
    /* Killed while it stood still; it is about to be dead. */
    int signal = 0;
    enum event event = await_release(s->tid, &signal);
    if (event == EVENT_STOPPED && detach(s->tid, signal))
        return;
    if ((event == EVENT_NONE || event == EVENT_STOPPED) && owed_count < OWED_MAX)
        owed[owed_count++] = s->tid;
}
