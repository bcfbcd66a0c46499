/* One look at a process, thread by thread:
 *
 *   1. a thread that sleeps in the kernel and did not run while it was read stands still: its stack
 * is proved without a stop;
 *   2. any other thread is stopped, alone, for as long as the reading takes;
 *   3. with BLOCKING_NEVER it is read as it runs, and marked torn unless two readings agree.
 *
 * A thread's trouble costs its own sample only. */
#include "engine/target.h"

#include <stdlib.h>
#include <string.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "access/permission.h"
#include "access/stop.h"
#include "cpython/thread_ids.h"
#include "util/table.h"

#define STOP_LIMIT  (50 * 1000 * 1000ULL)
#define NAMES_EVERY (200 * 1000 * 1000ULL)

/* What is kept about a thread from look to look. */
struct known_thread {
    scry_addr tstate;
    uint64_t thread_id;
    pid_t ns_tid;
    pid_t tid;
    struct task_watch watch;
    bool watched;
    bool named;
    char name[256];
    uint32_t seen; /* number of the last look that met it */
};

struct target_private {
    struct py_threads threads;
    struct task_list tasks;
    int32_t tid_offset;
    struct known_thread *known;
    size_t known_count, known_cap;
    uint32_t looks;
    scry_nsec names_read_at;
    struct snapshot snapshot;
    struct interner paths;
    struct table path_shortened;    /* path number -> characters to leave out */
    struct table folder_is_package; /* hash of folder -> 0 or 1 */
};

static scry_nsec now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (scry_nsec)ts.tv_sec * SCRY_NSEC_PER_SEC + (scry_nsec)ts.tv_nsec;
}

/* ---- opening ---- */

static int open_once(pid_t pid, struct target *t, struct error *err)
{
    int r = process_open(pid, &t->process, err);
    if (r == 0)
        r = mem_open_live(pid, &t->mem, err);
    if (r == 0)
        r = python_find(t->process, t->mem, &t->python, err);
    if (r == -SCRY_E_PERMISSION)
        r = permission_error(pid, err);
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
    interner_init(&p->paths);
    scry_nsec give_up = now() + patience;
    scry_nsec pause = 1000 * 1000;
    int r;
    while ((r = open_once(pid, t, err)) < 0) {
        close_parts(t);
        if (!may_become_python(r) || now() >= give_up)
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
    for (size_t i = 0; i < p->known_count; i++)
        if (p->known[i].watched)
            task_watch_close(&p->known[i].watch);
    free(p->known);
    free(p->snapshot.threads);
    py_threads_done(&p->threads);
    tasks_done(&p->tasks);
    interner_done(&p->paths);
    table_done(&p->path_shortened);
    table_done(&p->folder_is_package);
    free(p);
    close_parts(t);
    free(t);
}

/* ---- the threads it has ---- */

static struct known_thread *find_known(struct target_private *p, const struct py_thread *t)
{
    for (size_t i = 0; i < p->known_count; i++) {
        struct known_thread *k = &p->known[i];
        if (k->tstate == t->tstate && k->thread_id == t->thread_id && k->ns_tid == t->ns_tid)
            return k;
    }
    return NULL;
}

static struct known_thread *add_known(struct target *target, const struct py_thread *t)
{
    struct target_private *p = target->private;
    if (p->known_count == p->known_cap) {
        size_t cap = p->known_cap ? p->known_cap * 2 : 16;
        struct known_thread *grown = realloc(p->known, cap * sizeof(*grown));
        if (!grown)
            return NULL;
        p->known = grown;
        p->known_cap = cap;
    }
    struct known_thread *k = &p->known[p->known_count++];
    *k = (struct known_thread){
        .tstate = t->tstate, .thread_id = t->thread_id, .ns_tid = t->ns_tid, .tid = t->ns_tid};
    if (target->process->other_pid_ns) {
        const struct task *task = tasks_by_ns_tid(&p->tasks, t->ns_tid);
        k->tid = task ? task->tid : 0;
    }
    if (k->tid > 0)
        k->watched = task_watch_open(&k->watch, target->process, k->tid) == 0;
    return k;
}

static void forget_ended(struct target_private *p)
{
    size_t kept = 0;
    for (size_t i = 0; i < p->known_count; i++) {
        if (p->known[i].seen == p->looks)
            p->known[kept++] = p->known[i];
        else if (p->known[i].watched)
            task_watch_close(&p->known[i].watch);
    }
    p->known_count = kept;
}

/* Kernel threads are listed only when a Python thread turns up that is not known yet. */
static int meet_threads(struct target *target)
{
    struct target_private *p = target->private;
    struct py_threads *threads = &p->threads;
    int r = python_threads(target->python, threads);
    if (r < 0)
        return r;
    p->looks++;
    bool listed = false;
    if (target->python->layout.ts_native_thread_id == LAYOUT_NONE) {
        if (p->tid_offset == THREAD_ID_UNKNOWN) {
            tasks_read(target->process, &p->tasks);
            listed = true;
            p->tid_offset = thread_ids_learn(target->mem, threads, &p->tasks);
        }
        thread_ids_fill(target->mem, p->tid_offset, threads);
    }
    for (size_t i = 0; i < threads->count; i++) {
        struct known_thread *k = find_known(p, &threads->items[i]);
        if (!k) {
            if (!listed && target->process->other_pid_ns)
                tasks_read(target->process, &p->tasks);
            listed = true;
            k = add_known(target, &threads->items[i]);
            if (!k)
                return -SCRY_E_NO_MEMORY;
        }
        k->seen = p->looks;
    }
    forget_ended(p);
    return 0;
}

/* ---- their names ---- */

static void take_name(uint64_t thread_id, const char *name, void *context)
{
    struct target_private *p = context;
    for (size_t i = 0; i < p->known_count; i++) {
        struct known_thread *k = &p->known[i];
        if (k->thread_id != thread_id)
            continue;
        snprintf(k->name, sizeof(k->name), "%s", name);
        k->named = true;
    }
}

static void read_os_name(struct target *target, struct known_thread *k)
{
    char file[64];
    SCOPED_BUF text;
    buf_init(&text);
    snprintf(file, sizeof(file), "task/%d/comm", k->tid);
    if (k->tid > 0 && process_read_proc(target->process, file, 64, &text) >= 0 && text.len) {
        text.data[strcspn(text.data, "\n")] = '\0';
        snprintf(k->name, sizeof(k->name), "%s", text.data);
    }
}

/* Names are looked up when a thread without one is met, and then only now and then: a thread that
 * has no name in `threading` never gets one. */
static void name_threads(struct target *target)
{
    struct target_private *p = target->private;
    bool missing = false, fresh = false;
    for (size_t i = 0; i < p->known_count; i++) {
        missing |= !p->known[i].named;
        fresh |= !p->known[i].named && !p->known[i].name[0];
    }
    scry_nsec time = now();
    if (!missing || (!fresh && time - p->names_read_at < NAMES_EVERY))
        return;
    p->names_read_at = time;
    scry_addr last = 0;
    for (size_t i = 0; i < p->threads.count; i++) {
        scry_addr interp = p->threads.items[i].interp;
        if (interp != last)
            py_thread_names(&target->python->view, interp, take_name, p);
        last = interp;
    }
    for (size_t i = 0; i < p->known_count; i++)
        if (!p->known[i].named && !p->known[i].name[0])
            read_os_name(target, &p->known[i]);
}

/* ---- looking ---- */

static struct thread_state *add_state(struct snapshot *s)
{
    if (s->count == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 16;
        struct thread_state *grown = realloc(s->threads, cap * sizeof(*grown));
        if (!grown)
            return NULL;
        s->threads = grown;
        s->cap = cap;
    }
    struct thread_state *state = &s->threads[s->count++];
    *state = (struct thread_state){0};
    return state;
}

static int walk_and_visit(struct target *target, const struct look *look, struct py_thread *t)
{
    int r = python_walk(target->python, t);
    if (r == 0 && look->visit)
        look->visit(target, t, look->visit_context);
    return r;
}

static int walk_stopped(struct target *target, const struct look *look, struct known_thread *k,
                        struct py_thread *t)
{
    struct stop stop = {0};
    if (k->tid <= 0)
        return -SCRY_E_TORN;
    int r = stop_thread(&stop, k->tid, STOP_LIMIT);
    if (r == 0)
        r = walk_and_visit(target, look, t);
    stop_release(&stop);
    return r;
}

static bool same_stack(const struct py_thread *t, const struct py_frame *frames, size_t count)
{
    if (t->frame_count != count)
        return false;
    for (size_t i = 0; i < count; i++)
        if (t->frames[i].addr != frames[i].addr || t->frames[i].code != frames[i].code)
            return false;
    return true;
}

/* Read it twice as it runs; agreement makes it likely, not certain. */
static int walk_running(struct target *target, const struct look *look, struct py_thread *t,
                        bool *ret_torn)
{
    int r = python_walk(target->python, t);
    if (r < 0)
        return r;
    size_t count = t->frame_count;
    struct py_frame *first = malloc((count ? count : 1) * sizeof(*first));
    if (!first)
        return -SCRY_E_NO_MEMORY;
    memcpy(first, t->frames, count * sizeof(*first));
    r = walk_and_visit(target, look, t);
    *ret_torn = t->incomplete || !same_stack(t, first, count);
    free(first);
    return r;
}

static int walk_blocked(struct target *target, const struct look *look, struct known_thread *k,
                        struct py_thread *t, bool *ret_proved)
{
    bool ran;
    int r = walk_and_visit(target, look, t);
    *ret_proved =
        r == 0 && !t->incomplete && task_watch_look(&k->watch, &ran) == TASK_BLOCKED && !ran;
    return r;
}

static int walk(struct target *target, const struct look *look, struct known_thread *k,
                enum task_activity activity, struct py_thread *t, bool *ret_torn)
{
    bool proved = false;
    *ret_torn = false;
    if (activity == TASK_BLOCKED && look->blocking != BLOCKING_ALWAYS) {
        int r = walk_blocked(target, look, k, t, &proved);
        if (proved || r == -SCRY_E_GONE)
            return r;
    }
    if (look->blocking != BLOCKING_NEVER) {
        int r = walk_stopped(target, look, k, t);
        if (r != -SCRY_E_TORN && r != -SCRY_E_PERMISSION)
            return r;
    }
    return walk_running(target, look, t, ret_torn);
}

static int look_at(struct target *target, const struct look *look, struct py_thread *t)
{
    struct target_private *p = target->private;
    struct known_thread *k = find_known(p, t);
    if (!k || (look->gil_only && !t->owns_gil))
        return 0;
    bool ran = true, torn;
    enum task_activity activity = k->watched ? task_watch_look(&k->watch, &ran) : TASK_UNKNOWN;
    if (look->skip_idle && activity == TASK_BLOCKED && !(look->gil_only && t->owns_gil))
        return 0;
    int r = walk(target, look, k, activity, t, &torn);
    if (r < 0 || (look->gil_only && !t->owns_gil))
        return r;
    struct thread_state *state = add_state(&p->snapshot);
    if (!state)
        return -SCRY_E_NO_MEMORY;
    *state = (struct thread_state){
        .python = t,
        .tid = k->tid,
        .ns_tid = k->ns_tid,
        .name = k->name,
        .active = activity != TASK_BLOCKED,
        .owns_gil = t->owns_gil,
        .torn = torn,
    };
    if (look->wait_reasons && !state->active && k->tid > 0)
        task_wait_reason(target->process, k->tid, state->wait, sizeof(state->wait));
    return 0;
}

int target_look(struct target *t, const struct look *look, const struct snapshot **ret_snapshot)
{
    struct target_private *p = t->private;
    code_cache_sweep(&t->python->codes);
    p->snapshot.count = 0;
    int r = meet_threads(t);
    if (r < 0)
        return process_alive(t->process) ? r : -SCRY_E_GONE;
    name_threads(t);
    for (size_t i = 0; i < p->threads.count; i++) {
        r = look_at(t, look, &p->threads.items[i]);
        if (r == -SCRY_E_NO_MEMORY)
            return r;
        if (r < 0 && !process_alive(t->process))
            return -SCRY_E_GONE;
    }
    *ret_snapshot = &p->snapshot;
    return 0;
}

/* ---- short paths ---- */

static bool folder_is_package(struct target *t, const char *path, size_t len)
{
    struct target_private *p = t->private;
    uint64_t known;
    uint64_t key = hash_bytes(path, len, 1);
    if (table_get(&p->folder_is_package, key, &known))
        return known;
    SCOPED_BUF init;
    buf_init(&init);
    buf_add(&init, path, len);
    buf_add_str(&init, "/__init__.py");
    int fd = init.failed ? -1 : process_open_path(t->process, init.data);
    if (fd >= 0)
        close(fd);
    table_put(&p->folder_is_package, key, fd >= 0);
    return fd >= 0;
}

static size_t count_to_leave_out(struct target *t, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (path[0] != '/' || !slash)
        return 0;
    while (slash > path && folder_is_package(t, path, (size_t)(slash - path))) {
        const char *up = slash - 1;
        while (up > path && *up != '/')
            up--;
        slash = up;
    }
    return (size_t)(slash - path) + 1;
}

const char *target_short_path(struct target *t, const char *path)
{
    struct target_private *p = t->private;
    bool fresh;
    uint64_t skip = 0;
    uint32_t id = interner_add(&p->paths, path, strlen(path), &fresh);
    if (id == INTERN_FAILED)
        return path;
    if (fresh) {
        skip = count_to_leave_out(t, path);
        table_put(&p->path_shortened, id, skip);
    } else {
        table_get(&p->path_shortened, id, &skip);
    }
    return path + skip;
}
