/* The threads of a target from look to look. The interpreter's list is read anew only when it
 * begins differently or a thread has ended; names are looked up when a thread without one is met.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpython/thread_ids.h"
#include "engine/target_private.h"

#define NAMES_EVERY (200ULL * 1000 * 1000)

void known_thread_free(struct known_thread *k)
{
    if (!k)
        return;
    if (k->watched)
        task_watch_close(&k->watch);
    peek_free(k->peek);
    free(k->python.frames);
    free(k->memo.stacks);
    native_thread_free(k->native);
    in_kernel_free(k->in_kernel);
    free(k);
}

void known_threads_done(struct target_private *p)
{
    for (size_t i = 0; i < p->known_count; i++)
        known_thread_free(p->known[i]);
    free(p->known);
    py_threads_done(&p->met);
    tasks_done(&p->tasks);
}

static struct known_thread *known_new(struct target *t, const struct py_thread *met)
{
    struct target_private *p = t->private;
    struct known_thread *k = calloc(1, sizeof(*k));
    if (!k)
        return NULL;
    k->peek = peek_new();
    if (!k->peek) {
        free(k);
        return NULL;
    }
    k->moved_share = LOOK_MOVED_AT_FIRST;
    k->ns_tid = met->ns_tid;
    /* A state may outlive its thread: 2.7 keeps those of all threads over a fork. */
    const struct task *task = met->ns_tid ? tasks_by_ns_tid(&p->tasks, met->ns_tid) : NULL;
    k->tid = task ? task->tid : 0;
    if (k->tid > 0)
        k->watched = task_watch_open(&k->watch, t->process, k->tid) == 0;
    /* A thread that is met later has begun since: all its time is of interest. */
    if (k->watched && !p->met_at) {
        bool ran;
        task_watch_look(&k->watch, &ran);
        k->run_before = k->watch.run_time;
    }
    return k;
}

static bool is_same(const struct known_thread *k, const struct py_thread *met)
{
    return k->python.tstate == met->tstate && k->python.thread_id == met->thread_id &&
           k->ns_tid == met->ns_tid;
}

/* Take the thread out of the old list if it is there, else make it. The lists are mostly in the
 * same order. */
static struct known_thread *take_known(struct target *t, struct known_thread **old, size_t count,
                                       size_t *hint, const struct py_thread *met)
{
    for (size_t step = 0; step < count; step++) {
        size_t i = (*hint + step) % count;
        if (old[i] && is_same(old[i], met)) {
            struct known_thread *k = old[i];
            old[i] = NULL;
            *hint = i + 1;
            return k;
        }
    }
    return known_new(t, met);
}

/* The kernel's own ids of the threads, where CPython does not keep them, and the kernel's list,
 * which says whether they live and translates ids from another pid namespace. */
static void fill_thread_ids(struct target *t)
{
    struct target_private *p = t->private;
    bool from_pthread = t->python->layout.ts_native_thread_id == LAYOUT_NONE;
    bool learn = from_pthread && p->tid_offset == THREAD_ID_UNKNOWN;
    tasks_read(t->process, &p->tasks);
    if (learn)
        p->tid_offset = thread_ids_learn(t->mem, &p->met, &p->tasks);
    if (from_pthread)
        thread_ids_fill(t->mem, p->tid_offset, &p->met);
}

/* Its state has been made, newest first, but bears no id yet (3.12+) or still that of the thread that made it.
 * (A thread may have states in several interpreters, but only one in each.) */
static bool not_started(const struct py_threads *met, size_t i)
{
    if (!met->items[i].thread_id)
        return true;
    for (size_t k = i + 1; k < met->count; k++)
        if (met->items[k].thread_id == met->items[i].thread_id &&
            met->items[k].interp == met->items[i].interp)
            return true;
    return false;
}

static int take_over(struct target *t)
{
    struct target_private *p = t->private;
    size_t old_count = p->known_count, hint = 0;
    struct known_thread **old = p->known;
    struct known_thread **fresh = calloc(p->met.count + 1, sizeof(struct known_thread *));
    if (!fresh)
        return -SCRY_E_NO_MEMORY;
    int r = 0;
    p->known = fresh;
    p->known_count = 0;
    for (size_t i = 0; i < p->met.count && r == 0; i++) {
        const struct py_thread *met = &p->met.items[i];
        if (not_started(&p->met, i)) {
            p->unstarted = true;
            continue;
        }
        struct known_thread *k = take_known(t, old, old_count, &hint, met);
        if (!k) {
            r = -SCRY_E_NO_MEMORY;
            break;
        }
        struct py_thread kept = k->python;
        k->python = *met;
        k->python.frames = kept.frames;
        k->python.frame_count = kept.frame_count;
        k->python.frame_cap = kept.frame_cap;
        k->python.stack_version = kept.stack_version;
        k->python.same_callers = kept.same_callers;
        fresh[p->known_count++] = k;
    }
    for (size_t i = 0; i < old_count; i++) {
        if (p->kernel && old[i])
            kernel_look_keep(p->kernel, old[i]);
        else
            known_thread_free(old[i]);
    }
    free(old);
    return r;
}

int known_threads_meet(struct target *t, scry_nsec now)
{
    struct target_private *p = t->private;
    if (!p->must_meet && python_threads_same(t->python, &p->mark)) {
        p->met_at = now;
        return 0;
    }
    python_threads_mark(t->python, &p->mark);
    int r = python_threads(t->python, &p->met);
    if (r < 0)
        return r;
    fill_thread_ids(t);
    p->unstarted = false;
    r = take_over(t);
    p->must_meet = r < 0 || p->unstarted;
    p->met_at = now;
    return r;
}

/* ---- names ---- */

static void set_name(struct known_thread *k, const char *name)
{
    if (strncmp(k->name, name, sizeof(k->name) - 1) == 0)
        return;
    snprintf(k->name, sizeof(k->name), "%s", name);
    k->name_version++;
}

static void take_name(uint64_t thread_id, const char *name, void *context)
{
    struct target_private *p = context;
    for (size_t i = 0; i < p->known_count; i++) {
        if (p->known[i]->python.thread_id != thread_id)
            continue;
        set_name(p->known[i], name);
        p->known[i]->named = true;
    }
}

/* The name of a kernel thread, "" if it cannot be had. */
static void read_comm(const struct process *process, const char *file, char to[32])
{
    SCOPED_BUF text;
    buf_init(&text);
    to[0] = '\0';
    if (process_read_proc(process, file, 32, &text) < 0 || !text.len)
        return;
    text.data[strcspn(text.data, "\n")] = '\0';
    snprintf(to, 32, "%s", text.data);
}

/* A thread starts with the name of the process; only another one was given to it. */
static void read_os_name(struct target *t, struct known_thread *k)
{
    char file[64], own[32], process[32];
    if (k->tid <= 0 || k->tid == t->process->pid)
        return;
    snprintf(file, sizeof(file), "task/%d/comm", k->tid);
    read_comm(t->process, file, own);
    read_comm(t->process, "comm", process);
    if (strcmp(own, process) != 0)
        set_name(k, own);
}

/* A thread that has no name in `threading` may never get one, so it is asked for only now and then.
 */
void known_threads_name(struct target *t, scry_nsec now)
{
    struct target_private *p = t->private;
    bool missing = false, fresh = false;
    for (size_t i = 0; i < p->known_count; i++) {
        missing |= !p->known[i]->named;
        fresh |= !p->known[i]->asked;
    }
    if (!missing || (!fresh && now - p->names_read_at < NAMES_EVERY))
        return;
    p->names_read_at = now;
    scry_addr last = 0;
    for (size_t i = 0; i < p->known_count; i++) {
        scry_addr interp = p->known[i]->python.interp;
        if (interp != last)
            py_thread_names(&t->python->view, interp, take_name, p);
        last = interp;
    }
    for (size_t i = 0; i < p->known_count; i++) {
        if (!p->known[i]->named && !p->known[i]->name[0])
            read_os_name(t, p->known[i]);
        p->known[i]->asked = true;
    }
}
