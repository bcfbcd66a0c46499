/* Opening a process: its /proc entry, its memory, its Python. Looking at it is in look.c. */
#include "engine/target.h"

#include <stdlib.h>
#include <time.h>

#include "access/permission.h"
#include "cpython/thread_ids.h"
#include "engine/kernel_look.h"
#include "engine/target_private.h"

scry_nsec clock_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (scry_nsec)ts.tv_sec * SCRY_NSEC_PER_SEC + (scry_nsec)ts.tv_nsec;
}

static int open_memory(pid_t pid, struct target *t, struct error *err)
{
    struct mem *live;
    int r = mem_open_live(pid, &live, err);
    if (r < 0)
        return r;
    t->private->ahead_mem = mem_ahead_new(live);
    if (!t->private->ahead_mem) {
        mem_close(live);
        return error_set(err, -SCRY_E_NO_MEMORY, "out of memory");
    }
    t->mem = &t->private->ahead_mem->mem;
    return 0;
}

static int open_once(pid_t pid, struct target *t, struct error *err)
{
    int r = process_open(pid, &t->process, err);
    if (r == 0)
        r = open_memory(pid, t, err);
    if (r == 0)
        r = python_find(t->process, t->mem, &t->python, err);
    /* It finds nothing where something else than the kernel's permission was missing. */
    if (r == -SCRY_E_PERMISSION)
        r = permission_error(pid, err) ?: r;
    return r;
}

static void close_parts(struct target *t)
{
    python_free(t->python);
    mem_close(t->mem);
    process_close(t->process);
    t->python = NULL;
    t->mem = NULL;
    t->process = NULL;
}

static bool may_become_python(int error)
{
    return error == -SCRY_E_NOT_READY || error == -SCRY_E_NOT_PYTHON ||
           error == -SCRY_E_UNSUPPORTED || error == -SCRY_E_READ || error == -SCRY_E_TORN;
}

int target_open(pid_t pid, scry_nsec patience, struct target **ret_target, struct error *err)
{
    struct target *t = calloc(1, sizeof(*t));
    struct target_private *p = calloc(1, sizeof(*p));
    if (!t || !p) {
        free(t);
        free(p);
        return error_set(err, -SCRY_E_NO_MEMORY, "out of memory");
    }
    t->private = p;
    p->tid_offset = THREAD_ID_UNKNOWN;
    p->must_meet = true;
    scry_nsec give_up = clock_now() + patience;
    scry_nsec pause = 1000 * 1000;
    int r;
    while ((r = open_once(pid, t, err)) < 0) {
        close_parts(t);
        if (!may_become_python(r) || clock_now() >= give_up)
            break;
        struct timespec ts = {.tv_nsec = (long)pause};
        nanosleep(&ts, NULL);
        if (pause < 20 * 1000 * 1000)
            pause *= 2;
    }
    if (r < 0) {
        target_close(t);
        return r;
    }
    *ret_target = t;
    return 0;
}

void target_close(struct target *t)
{
    if (!t)
        return;
    struct target_private *p = t->private;
    target_kernel_end(t);
    known_threads_done(p);
    freeze_done(&p->freeze);
    free(p->snapshot.threads);
    free(p->ranges);
    free(p->readers);
    short_paths_done(&p->short_paths);
    native_free(p->native);
    free(p);
    close_parts(t);
    free(t);
}

void target_stats_add(struct target_stats *to, const struct target_stats *from)
{
    to->reads += from->reads;
    to->reused += from->reused;
    to->peeked += from->peeked;
    to->moved += from->moved;
    to->missed += from->missed;
    to->memory_calls += from->memory_calls;
    to->stops += from->stops;
    to->stop_time += from->stop_time;
    to->held += from->held;
    for (size_t i = 0; i < STOP_BUCKETS; i++)
        to->stop_times[i] += from->stop_times[i];
}

scry_nsec target_stats_median_stop(const struct target_stats *stats)
{
    uint64_t seen = 0;
    for (size_t i = 0; i < STOP_BUCKETS; i++) {
        seen += stats->stop_times[i];
        if (seen && 2 * seen >= stats->stops)
            return (i + 1) * STOP_STEP;
    }
    return 0;
}
