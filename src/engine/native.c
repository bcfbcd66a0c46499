#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/native_private.h"

#define FIRST_WINDOW  (64u << 10)
#define WINDOW_MIN    (4u << 10)
#define WINDOW_MAX    (8u << 20)
#define WINDOW_SPARE  (4u << 10) /* beyond what was needed last time */
#define PAGES_AT_ONCE 64
#define RED_ZONE      128 /* below the stack pointer; a function that returns has just left it there */
#define REFRESH_EVERY (2 * SCRY_NSEC_PER_SEC) /* libraries that were replaced by others */
#define REFRESH_SOON  (10 * 1000 * 1000ULL)   /* after an address that nobody knows */

const char *native_state_text(enum native_state state)
{
    switch (state) {
    case NATIVE_CUT:
        return "outer native frames unknown";
    case NATIVE_UNMATCHED:
        return "native frames do not match";
    case NATIVE_MISSING:
        return "native frames not read";
    default:
        return "";
    }
}

const char *native_state_word(enum native_state state)
{
    switch (state) {
    case NATIVE_MERGED:
        return "merged";
    case NATIVE_CUT:
        return "cut";
    case NATIVE_UNMATCHED:
        return "unmatched";
    case NATIVE_MISSING:
        return "missing";
    default:
        return "off";
    }
}

static struct native *make(const struct python *py, bool all)
{
    struct native *n = calloc(1, sizeof(*n));
    if (!n)
        return NULL;
    unwinder_init(&n->unwinder, &n->modules);
    symbolizer_init(&n->symbolizer, &n->modules);
    n->all = all;
    n->python_binary = py->binary ? py->binary : "";
    return n;
}

struct native *native_new(const struct process *process, struct mem *mem, const struct python *py,
                          bool all)
{
    struct native *n = make(py, all);
    if (n)
        modules_init(&n->modules, process, mem);
    return n;
}

struct native *native_new_from(const struct modules_source *source, struct mem *mem,
                               const struct python *py, bool all)
{
    struct native *n = make(py, all);
    if (n)
        modules_init_from(&n->modules, source, mem);
    return n;
}

void native_free(struct native *n)
{
    if (!n)
        return;
    unwinder_done(&n->unwinder);
    symbolizer_done(&n->symbolizer);
    modules_done(&n->modules);
    py_entries_done(&n->entries);
    unwound_done(&n->unwound);
    free(n->copy);
    free(n);
}

struct native_thread *native_thread_new(void)
{
    struct native_thread *t = calloc(1, sizeof(*t));
    if (t)
        t->window = FIRST_WINDOW;
    return t;
}

void native_thread_free(struct native_thread *t)
{
    if (!t)
        return;
    free(t->merged.frames);
    free(t);
}

void native_forget(struct native_thread *t)
{
    t->merged.state = NATIVE_MISSING;
    t->merged.count = 0;
    t->merged.version = 0;
    t->want_more = t->need_stop = false;
}

/* ---- while it stands still ---- */

static bool find_stack(struct native *n, struct native_thread *t, scry_addr sp, scry_nsec now)
{
    if (t->stack_end && sp >= t->stack_start && sp < t->stack_end)
        return true;
    const struct mapping *m = maps_find(&n->modules.maps, sp);
    if (!m || !m->read) {
        if (modules_refresh(&n->modules, now) < 0)
            return false;
        m = maps_find(&n->modules.maps, sp);
    }
    if (!m || !m->read)
        return false;
    t->stack_start = m->start;
    t->stack_end = m->end;
    return true;
}

static bool reserve_copy(struct native *n, size_t len)
{
    if (n->copy_cap >= len)
        return true;
    unsigned char *grown = realloc(n->copy, len);
    if (!grown)
        return false;
    n->copy = grown;
    n->copy_cap = len;
    return true;
}

/* As much as can be read, page by page. The end of a stack may be guarded without a mapping of its
 * own (MADV_GUARD_INSTALL, glibc 2.42): then the map goes on where the memory does not. */
static size_t copy_pages(struct native *n, scry_addr sp, size_t len)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t done = 0; done < len;) {
        struct mem_range ranges[PAGES_AT_ONCE];
        size_t at = done;
        int count = 0;
        while (at < len && count < PAGES_AT_ONCE) {
            size_t part = page - ((sp + at) & (page - 1));
            part = part < len - at ? part : len - at;
            ranges[count++] = (struct mem_range){sp + at, n->copy + at, part};
            at += part;
        }
        int whole = mem_readv(n->modules.mem, ranges, count);
        if (whole < count)
            return whole > 0 ? (size_t)(ranges[whole].addr - sp) : done;
        done = at;
    }
    return len;
}

static bool copy_stack(struct native *n, struct native_thread *t, scry_addr sp)
{
    if (sp - t->stack_start >= RED_ZONE)
        sp -= RED_ZONE;
    size_t len = t->stack_end - sp < t->window ? (size_t)(t->stack_end - sp) : t->window;
    if (!reserve_copy(n, len))
        return false;
    if (mem_read(n->modules.mem, sp, n->copy, len) < 0) {
        len = copy_pages(n, sp, len);
        t->stack_end = len ? sp + len : 0; /* 0: the memory is another by now, look it up again */
        if (!len)
            return false;
    }
    n->stack = (struct stack_copy){.start = sp, .len = len, .data = n->copy};
    return true;
}

/* All but the registers, which are known. */
static void capture_stack(struct native *n, struct native_thread *t, struct python *py,
                          const struct py_thread *python, scry_nsec now)
{
    scry_addr sp = n->registers.value[REGISTER_SP];
    if (!find_stack(n, t, sp, now) || !copy_stack(n, t, sp))
        return;
    n->captured = python_entries(py, python, &n->entries) == 0;
}

void native_capture(struct native *n, struct native_thread *t, struct python *py,
                    const struct py_thread *python, pid_t tid, bool stopped, scry_nsec now)
{
    n->captured = false;
    int r = stopped ? registers_of_stopped(tid, &n->registers)
                    : registers_of_blocked(n->modules.process, tid, &n->registers);
    if (r == 0)
        capture_stack(n, t, py, python, now);
}

/* ---- after it was let go ---- */

/* What is needed of the stack changes slowly: copy a little more than last time. */
static void adapt_window(struct native *n, struct native_thread *t)
{
    const struct unwound *u = &n->unwound;
    if (u->end == UNWIND_OUT_OF_COPY) {
        bool all = n->stack.start + n->stack.len >= t->stack_end;
        t->want_more = !all && t->window < WINDOW_MAX;
        if (t->want_more)
            t->window *= 4;
        return;
    }
    size_t used = (size_t)(u->frames[u->count - 1].sp - n->stack.start);
    size_t wanted = used < n->stack.len ? used + used / 4 + WINDOW_SPARE : n->stack.len;
    size_t less = t->window - t->window / 32;
    t->window = wanted > less ? wanted : less;
    if (t->window < WINDOW_MIN)
        t->window = WINDOW_MIN;
    if (t->window > WINDOW_MAX)
        t->window = WINDOW_MAX;
}

/* Code that is on no map: a library was loaded since it was read. */
static bool met_unknown_code(const struct native *n)
{
    return n->unwound.end == UNWIND_LOST;
}

static int unwind(struct native *n, scry_nsec now)
{
    if (!n->modules.count || now - n->modules.read_at >= REFRESH_EVERY) {
        int r = modules_refresh(&n->modules, now);
        if (r < 0)
            return r;
    }
    int r = unwinder_run(&n->unwinder, &n->registers, &n->stack, &n->unwound);
    if (r < 0 || !met_unknown_code(n) || now - n->modules.read_at < REFRESH_SOON)
        return r;
    r = modules_refresh(&n->modules, now);
    return r < 0 ? r : unwinder_run(&n->unwinder, &n->registers, &n->stack, &n->unwound);
}

void native_finish(struct native *n, struct native_thread *t, const struct py_thread *python,
                   scry_nsec now)
{
    native_forget(t);
    if (!n->captured)
        return;
    n->captured = false;
    if (unwind(n, now) < 0)
        return;
    adapt_window(n, t);
    t->need_stop = n->unwound.end == UNWIND_NEEDS_REGISTER;
    t->merged.version = ++n->next_version;
    native_merge(n, python, &t->merged);
}

/* ---- of a process that is no more ---- */

void native_read_dead(struct native *n, struct native_thread *t, struct python *py,
                      const struct py_thread *python, const struct registers *registers)
{
    do {
        n->captured = false;
        n->registers = *registers;
        capture_stack(n, t, py, python, 0);
        native_finish(n, t, python, 0);
    } while (t->want_more);
}
