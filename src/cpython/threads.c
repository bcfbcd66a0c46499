/* The list of interpreters and, for each, the list of thread states. Both are chains through memory
 * that may change while it is read: each link is checked (a thread state names its interpreter),
 * each chain has a limit. */
#include <stdlib.h>
#include <string.h>

#include "cpython/object.h"
#include "cpython/python.h"
#include "cpython/raw.h"

#define MAX_INTERPRETERS 256
#define MAX_THREADS      16384
#define MAX_TSTATE       1024
#define MAX_TRIES        3
#define MAX_HANDLED      64 /* generators within generators, each with an exception of its own */

static struct py_thread *add_thread(struct py_threads *list)
{
    if (list->count == list->cap) {
        size_t cap = list->cap ? list->cap * 2 : 16;
        struct py_thread *grown = realloc(list->items, cap * sizeof(*grown));
        if (!grown)
            return NULL;
        memset(grown + list->cap, 0, (cap - list->cap) * sizeof(*grown));
        list->items = grown;
        list->cap = cap;
    }
    struct py_thread *t = &list->items[list->count++];
    struct py_frame *frames = t->frames;
    size_t frame_cap = t->frame_cap;
    *t = (struct py_thread){.frames = frames, .frame_cap = frame_cap};
    return t;
}

void py_threads_done(struct py_threads *list)
{
    for (size_t i = 0; i < list->cap; i++)
        free(list->items[i].frames);
    free(list->items);
    *list = (struct py_threads){0};
}

struct interp {
    scry_addr addr;
    scry_addr next;
    scry_addr threads_head;
    scry_addr gil_holder;
    int64_t id;
    bool collecting;
};

/* The GIL of 3.12+ hangs at the interpreter; several interpreters may share one. */
static scry_addr read_gil_holder(struct python *py, scry_addr gil)
{
    const struct layout *l = &py->layout;
    if (!gil || l->gil_locked == LAYOUT_NONE)
        return 0;
    unsigned char copy[64];
    struct raw r = {copy, sizeof(copy)};
    if (mem_read(py->view.mem, gil, copy, sizeof(copy)) < 0 || !raw_u32(r, l->gil_locked))
        return 0;
    return raw_u64(r, l->gil_last_holder);
}

static int read_interp(struct python *py, scry_addr addr, struct interp *ret)
{
    const struct layout *l = &py->layout;
    uint64_t next = 0, head = 0, id = 0, gil = 0;
    uint32_t collecting = 0;
    struct mem_range ranges[5];
    int n = 0;
    ranges[n++] = (struct mem_range){addr + (scry_addr)l->is_next, &next, 8};
    ranges[n++] = (struct mem_range){addr + (scry_addr)l->is_threads_head, &head, 8};
    if (l->is_id != LAYOUT_NONE)
        ranges[n++] = (struct mem_range){addr + (scry_addr)l->is_id, &id, 8};
    if (l->is_gc_collecting != LAYOUT_NONE)
        ranges[n++] = (struct mem_range){addr + (scry_addr)l->is_gc_collecting, &collecting, 4};
    if (l->is_ceval_gil != LAYOUT_NONE)
        ranges[n++] = (struct mem_range){addr + (scry_addr)l->is_ceval_gil, &gil, 8};
    int got = mem_readv(py->view.mem, ranges, n);
    if (got < 0)
        return got;
    if (got < n)
        return -SCRY_E_READ;
    *ret = (struct interp){.addr = addr,
                           .next = next,
                           .threads_head = head,
                           .id = (int64_t)id,
                           .collecting = collecting};
    if (py->tstate_current_at)
        mem_read_u64(py->view.mem, py->tstate_current_at, &ret->gil_holder);
    else if (!l->free_threaded)
        ret->gil_holder = read_gil_holder(py, gil);
    return 0;
}

/* Bit 4 of _status: attached to the interpreter. Free-threaded builds have no holder of one lock.
 */
static bool is_attached(uint32_t status)
{
    return status >> 4 & 1;
}

static int add_threads(struct python *py, const struct interp *interp, struct py_threads *list)
{
    const struct layout *l = &py->layout;
    unsigned char copy[MAX_TSTATE];
    size_t size = l->ts_size > 0 && l->ts_size < MAX_TSTATE ? (size_t)l->ts_size : MAX_TSTATE;
    struct raw r = {copy, size};
    for (scry_addr at = interp->threads_head; at; at = raw_u64(r, l->ts_next)) {
        int error = mem_read(py->view.mem, at, copy, size);
        if (error < 0)
            return error;
        if (raw_u64(r, l->ts_interp) != interp->addr || list->count >= MAX_THREADS)
            return -SCRY_E_TORN;
        struct py_thread *t = add_thread(list);
        if (!t)
            return -SCRY_E_NO_MEMORY;
        t->tstate = at;
        t->interp = interp->addr;
        t->interp_id = interp->id;
        t->thread_id = raw_u64(r, l->ts_thread_id);
        t->ns_tid = (pid_t)raw_u64(r, l->ts_native_thread_id);
        t->owns_gil =
            l->free_threaded ? is_attached(raw_u32(r, l->ts_status)) : interp->gil_holder == at;
        t->in_gc = interp->collecting && t->owns_gil;
    }
    return 0;
}

static int read_threads(struct python *py, struct py_threads *list)
{
    list->count = 0;
    scry_addr at;
    int r = mem_read_u64(py->view.mem, py->interp_head_at, &at);
    for (int i = 0; r == 0 && at; i++) {
        struct interp interp;
        if (i == MAX_INTERPRETERS)
            return -SCRY_E_TORN;
        r = read_interp(py, at, &interp);
        if (r == 0)
            r = add_threads(py, &interp, list);
        at = r == 0 ? interp.next : 0;
    }
    return r;
}

int python_threads(struct python *py, struct py_threads *list)
{
    int r = 0;
    for (int i = 0; i < MAX_TRIES; i++) {
        r = read_threads(py, list);
        if (r == 0 || r == -SCRY_E_GONE || r == -SCRY_E_PERMISSION)
            break;
    }
    return r;
}

scry_addr python_gil_holder(struct python *py, scry_addr interp)
{
    scry_addr holder = 0, gil;
    if (py->tstate_current_at)
        mem_read_u64(py->view.mem, py->tstate_current_at, &holder);
    else if (py->layout.is_ceval_gil != LAYOUT_NONE && !py->layout.free_threaded &&
             mem_read_u64(py->view.mem, interp + (scry_addr)py->layout.is_ceval_gil, &gil) == 0)
        holder = read_gil_holder(py, gil);
    return holder;
}

int python_refresh_gil(struct python *py, struct py_thread *t)
{
    const struct layout *l = &py->layout;
    if (!l->free_threaded) {
        t->owns_gil = python_gil_holder(py, t->interp) == t->tstate;
        return 0;
    }
    uint32_t status;
    int r = mem_read_u32(py->view.mem, t->tstate + (scry_addr)l->ts_status, &status);
    if (r == 0)
        t->owns_gil = is_attached(status);
    return r;
}

bool python_collecting(struct python *py, scry_addr interp)
{
    const struct layout *l = &py->layout;
    uint32_t collecting = 0;
    scry_addr at = 0;
    if (l->is_gc_collecting != LAYOUT_NONE)
        at = interp + (scry_addr)l->is_gc_collecting;
    else if (l->rt_gc_collecting != LAYOUT_NONE && py->runtime)
        at = py->runtime + (scry_addr)l->rt_gc_collecting;
    return at && mem_read_u32(py->view.mem, at, &collecting) == 0 && collecting;
}

/* None stands for nothing, and is told by its type; the first one found is remembered. */
static bool is_none(struct python *py, scry_addr object)
{
    char name[16];
    if (object == py->none)
        return true;
    if (py_type_name(&py->view, object, name, sizeof(name)) < 0 || strcmp(name, "NoneType") != 0)
        return false;
    py->none = object;
    return true;
}

bool python_has_exception(struct python *py, const struct py_thread *t)
{
    const struct layout *l = &py->layout;
    uint64_t raised = 0, item = 0;
    if (l->ts_raised != LAYOUT_NONE)
        mem_read_u64(py->view.mem, t->tstate + (scry_addr)l->ts_raised, &raised);
    if (raised)
        return true;
    if (l->ts_handled == LAYOUT_NONE ||
        mem_read_u64(py->view.mem, t->tstate + (scry_addr)l->ts_handled, &item) < 0)
        return false;
    /* Generators have items of their own, mostly empty, above that of their caller. */
    for (int i = 0; item && i < MAX_HANDLED; i++) {
        uint64_t value = 0, previous = 0;
        if (mem_read_u64(py->view.mem, item + (scry_addr)l->handled_value, &value) < 0 ||
            mem_read_u64(py->view.mem, item + (scry_addr)l->handled_previous, &previous) < 0)
            return false;
        if (value && !is_none(py, value))
            return true;
        item = previous;
    }
    return false;
}

void python_threads_mark(struct python *py, struct threads_mark *ret)
{
    const struct layout *l = &py->layout;
    *ret = (struct threads_mark){.addrs = {py->interp_head_at}, .count = 1};
    if (mem_read_u64(py->view.mem, py->interp_head_at, &ret->values[0]) < 0)
        ret->count = 0;
    scry_addr interp = ret->count ? ret->values[0] : 0;
    while (interp) {
        uint64_t next, head;
        if (ret->count + 2 > THREADS_MARK_MAX ||
            mem_read_u64(py->view.mem, interp + (scry_addr)l->is_next, &next) < 0 ||
            mem_read_u64(py->view.mem, interp + (scry_addr)l->is_threads_head, &head) < 0) {
            ret->count = 0;
            return;
        }
        ret->addrs[ret->count] = interp + (scry_addr)l->is_next;
        ret->values[ret->count++] = next;
        ret->addrs[ret->count] = interp + (scry_addr)l->is_threads_head;
        ret->values[ret->count++] = head;
        interp = next;
    }
}

int threads_mark_ranges(const struct threads_mark *mark, uint64_t *values, struct mem_range *ranges)
{
    for (int i = 0; i < mark->count; i++)
        ranges[i] = (struct mem_range){mark->addrs[i], &values[i], 8};
    return mark->count;
}

bool threads_mark_same(const struct threads_mark *mark, const uint64_t *values)
{
    return mark->count > 0 && memcmp(values, mark->values, (size_t)mark->count * 8) == 0;
}

bool python_threads_same(struct python *py, const struct threads_mark *mark)
{
    struct mem_range ranges[THREADS_MARK_MAX];
    uint64_t values[THREADS_MARK_MAX];
    int n = threads_mark_ranges(mark, values, ranges);
    return mem_readv(py->view.mem, ranges, n) == n && threads_mark_same(mark, values);
}
