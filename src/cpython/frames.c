/* Walking one thread's frames, leaf to root.
 *
 * Up to 3.10 a frame is a heap object linked by f_back. From 3.11 on most frames lie in the
 * thread's data stack, a chain of chunks: the chunk is copied in one read and frames are taken out
 * of the copy; frames of generators (heap) and shims (C stack) are read one by one. The walk first
 * collects addresses, then the code objects of all frames are looked up together. */
#include <stdlib.h>

#include "cpython/python.h"
#include "cpython/raw.h"
#include "cpython/walk.h"

#define MAX_FRAME_SIZE 512
#define MAX_CHUNKS     16384
/* Frame objects of the last stack are read together, if there are enough of them to make it worth while. */
#define OLD_BATCH  128
#define OLD_MIN    4
#define OLD_AHEAD  64 /* how far ahead in the old stack a frame is looked for */
#define MAX_PLACES 4096
#define NO_OFFSET  INT32_MAX /* the instruction lies outside of its code: no line */

/* One copied chunk: the part of the data stack the walk is in now. */
struct window {
    scry_addr start;
    size_t len;
    unsigned char *data;
    size_t cap;
    scry_addr next_chunk;
    int chunks_left;
};

struct walk_memory {
    struct found_frames found;
    struct walk_place *places;
    size_t place_count, place_cap;
    scry_addr cframes[WALK_CFRAMES];
    scry_addr *code_addrs;
    const struct py_code **codes;
    size_t distinct, code_cap; /* of both */
    struct window window;
    uint64_t generation; /* CPython's count of code objects (code.h) */
    bool has_generation;
    unsigned char *copies; /* of frame objects */
    size_t copies_cap;
};

void walk_memory_free(struct walk_memory *m)
{
    if (!m)
        return;
    found_done(&m->found);
    free(m->places);
    free(m->code_addrs);
    free(m->codes);
    free(m->window.data);
    free(m->copies);
    free(m);
}

static bool reserve_copies(struct walk_memory *m, size_t size)
{
    if (m->copies_cap >= size)
        return true;
    unsigned char *grown = realloc(m->copies, size * 2);
    if (!grown)
        return false;
    m->copies = grown;
    m->copies_cap = size * 2;
    return true;
}

struct found_frame *found_add(struct found_frames *f)
{
    if (f->count >= MAX_FRAMES)
        return NULL;
    if (f->count == f->cap) {
        size_t cap = f->cap ? f->cap * 2 : 64;
        struct found_frame *grown = realloc(f->items, cap * sizeof(*grown));
        if (!grown)
            return NULL;
        f->items = grown;
        f->cap = cap;
    }
    struct found_frame *frame = &f->items[f->count++];
    *frame = (struct found_frame){0};
    return frame;
}

void found_done(struct found_frames *f)
{
    free(f->items);
    *f = (struct found_frames){0};
}

/* Places are hints: one that cannot be noted costs a read later. */
static void note_place(struct walk_memory *m, scry_addr addr, size_t len, bool fixed)
{
    if (m->place_count == m->place_cap) {
        size_t cap = m->place_cap ? m->place_cap * 2 : 16;
        struct walk_place *grown =
            cap <= MAX_PLACES ? realloc(m->places, cap * sizeof(*grown)) : NULL;
        if (!grown)
            return;
        m->places = grown;
        m->place_cap = cap;
    }
    m->places[m->place_count++] = (struct walk_place){.addr = addr, .len = len, .fixed = fixed};
}

void walk_cframes(const struct python *py, scry_addr ret[WALK_CFRAMES])
{
    for (size_t i = 0; i < WALK_CFRAMES; i++)
        ret[i] = py->walk ? py->walk->cframes[i] : 0;
}

size_t walk_places(const struct python *py, const struct walk_place **ret_places)
{
    *ret_places = py->walk ? py->walk->places : NULL;
    return py->walk ? py->walk->place_count : 0;
}

/* Whether a chain comes back to a place where it was (Brent's way: one place is remembered, for ever longer). In a
 * thread that runs what was a frame may be something else by now, and then that is common: taken for a link, the type of
 * an object leads to `type`, whose type is itself. */
struct ring {
    scry_addr mark;
    uint32_t steps, next_mark;
};

static bool ring_closes(struct ring *r, scry_addr at)
{
    if (at == r->mark)
        return true;
    if (r->steps++ == r->next_mark) {
        r->mark = at;
        r->next_mark = 2 * r->next_mark + 1;
        r->steps = 0;
    }
    return false;
}

/* ---- up to 3.10 ---- */

/* Copies of the frames of the last stack, made with few reads: most of them are still there. */
struct old_frames {
    const struct py_frame *frames; /* leaf first */
    size_t count;                  /* of those whose copies are complete */
    size_t size;
    const unsigned char *copies;
    size_t next; /* where the chain is likely to go on */
};

static void read_old_frames(struct python *py, const struct py_thread *t, size_t size,
                            struct old_frames *ret)
{
    struct walk_memory *m = py->walk;
    struct mem_range ranges[OLD_BATCH];
    *ret = (struct old_frames){.frames = t->frames, .size = size};
    if (t->frame_count < OLD_MIN || !reserve_copies(m, t->frame_count * size))
        return;
    ret->copies = m->copies;
    while (ret->count < t->frame_count) {
        int n = 0;
        for (size_t i = ret->count; i < t->frame_count && n < OLD_BATCH; i++, n++)
            ranges[n] = (struct mem_range){t->frames[i].addr, m->copies + i * size, size};
        int got = mem_readv(py->view.mem, ranges, n);
        if (got > 0)
            ret->count += (size_t)got;
        if (got < n)
            return;
    }
}

static const unsigned char *find_old_frame(struct old_frames *old, scry_addr addr)
{
    for (size_t i = old->next; i < old->count && i < old->next + OLD_AHEAD; i++) {
        if (old->frames[i].addr == addr) {
            old->next = i + 1;
            return old->copies + i * old->size;
        }
    }
    return NULL;
}

static int walk_objects(struct python *py, const struct py_thread *t, struct walk_memory *m)
{
    const struct layout *l = &py->layout;
    unsigned char copy[MAX_FRAME_SIZE];
    size_t size = (size_t)l->fr_f_lasti + 4;
    struct old_frames old;
    struct ring ring = {0};
    scry_addr at;
    int error = mem_read_u64(py->view.mem, t->tstate + (scry_addr)l->ts_frame, &at);
    if (error < 0)
        return error;
    read_old_frames(py, t, size, &old);
    while (at) {
        struct raw r = {find_old_frame(&old, at), size};
        if (ring_closes(&ring, at))
            return -SCRY_E_CORRUPT;
        if (!r.data) {
            r.data = copy;
            error = mem_read(py->view.mem, at, copy, size);
            if (error < 0)
                return error;
        }
        note_place(m, at, size, false);
        struct found_frame *f = found_add(&m->found);
        if (!f)
            return -SCRY_E_CORRUPT;
        f->addr = at;
        f->code = raw_u64(r, l->fr_f_code);
        f->instr = (scry_addr)(int64_t)(int32_t)raw_u32(r, l->fr_f_lasti);
        f->is_entry = true;
        at = raw_u64(r, l->fr_f_back);
    }
    return 0;
}

/* ---- 3.11 and later ---- */

static bool window_holds(const struct window *w, scry_addr addr, size_t len)
{
    return addr >= w->start && addr - w->start <= w->len && len <= w->len - (addr - w->start);
}

/* Where a walk of 3.11 or later begins. */
struct walk_start {
    scry_addr leaf;
    scry_addr outer; /* a frame the chain leads through; 0 = not known */
    scry_addr chunk; /* the newest of the data stack */
};

/* Before its first instruction a frame points one before it. */
static bool has_not_begun(const struct layout *l, const struct found_frame *f)
{
    return f->instr < f->code + (scry_addr)l->co_code_adaptive;
}

static int window_fill(struct python *py, struct window *w, scry_addr start, size_t len)
{
    note_place(py->walk, start, len, false);
    if (len > w->cap) {
        unsigned char *grown = realloc(w->data, len);
        if (!grown)
            return -SCRY_E_NO_MEMORY;
        w->data = grown;
        w->cap = len;
    }
    w->len = 0;
    int r = mem_read(py->view.mem, start, w->data, len);
    if (r < 0)
        return r;
    w->start = start;
    w->len = len;
    return 0;
}

/* If `addr` lies in the next older chunk, copy that chunk. Frames go through the chunks in order
 * and each chunk holds at least one, so looking one ahead is enough. */
static int window_advance(struct python *py, struct window *w, scry_addr addr)
{
    uint64_t
        header[3]; /* previous, size, top (in words; kept only in chunks that are not the newest) */
    if (!w->next_chunk || w->chunks_left <= 0)
        return 0;
    int r = mem_read(py->view.mem, w->next_chunk, header, sizeof(header));
    if (r < 0)
        return r;
    scry_addr chunk = w->next_chunk;
    uint64_t size = header[1];
    if (size < CHUNK_HEADER || size > MAX_CHUNK || addr < chunk || addr >= chunk + size)
        return 0;
    uint64_t used = CHUNK_HEADER + header[2] * 8;
    w->chunks_left--;
    w->next_chunk = header[0];
    return window_fill(py, w, chunk, header[2] && used < size ? used : size);
}

static int read_frame(struct python *py, struct window *w, scry_addr addr, unsigned char *copy,
                      size_t size, struct raw *ret)
{
    if (!window_holds(w, addr, size)) {
        int r = window_advance(py, w, addr);
        if (r < 0)
            return r;
    }
    if (window_holds(w, addr, size)) {
        *ret = (struct raw){w->data + (addr - w->start), size};
        return 0;
    }
    *ret = (struct raw){copy, size};
    int r = mem_read(py->view.mem, addr, copy, size);
    if (r == 0)
        note_place(py->walk, addr, size, raw_u8(*ret, py->layout.if_owner) >= OWNER_SHIM);
    return r;
}

/* The frame that the evaluator's C frame runs (3.11, 3.12), and the one that the evaluator before it runs. */
static int read_cframes(struct python *py, scry_addr cframe, struct walk_start *ret)
{
    scry_addr at = cframe + (scry_addr)py->layout.cframe_current_frame;
    uint64_t now[2], before[2];
    int r = mem_read(py->view.mem, at, now, sizeof(now));
    if (r < 0)
        return r;
    ret->leaf = now[0];
    py->walk->cframes[0] = cframe;
    py->walk->cframes[1] = now[1];
    if (now[1] && mem_read(py->view.mem, now[1] + (scry_addr)py->layout.cframe_current_frame,
                           before, sizeof(before)) == 0)
        ret->outer = before[0];
    return 0;
}

/* Where the walk starts: the leaf frame, and the newest chunk up to its live end. */
static int start_walk(struct python *py, const struct py_thread *t, struct window *w,
                      struct walk_start *ret)
{
    const struct layout *l = &py->layout;
    bool through_cframe = l->ts_current_frame == LAYOUT_NONE;
    uint64_t chunk_and_top[2], frame;
    struct walk_memory *m = py->walk;
    m->has_generation = l->is_code_object_generation != LAYOUT_NONE;
    struct mem_range ranges[] = {
        {t->tstate + (scry_addr)(through_cframe ? l->ts_cframe : l->ts_current_frame), &frame, 8},
        {t->tstate + (scry_addr)l->ts_datastack_chunk, chunk_and_top, 16},
        {t->interp + (scry_addr)l->is_code_object_generation, &m->generation, 8},
    };
    int got = mem_readv(py->view.mem, ranges, m->has_generation ? 3 : 2);
    if (got < 2)
        return got < 0 ? got : -SCRY_E_READ;
    m->has_generation &= got > 2;
    m->generation = m->has_generation ? code_generation(l, &m->generation) : 0;
    *ret = (struct walk_start){.leaf = frame};
    int r = through_cframe && frame ? read_cframes(py, frame, ret) : 0;
    if (r < 0)
        return r;
    scry_addr chunk = chunk_and_top[0], top = chunk_and_top[1];
    w->len = 0;
    w->next_chunk = ret->chunk = chunk;
    w->chunks_left = MAX_CHUNKS;
    if (!chunk || top <= chunk + CHUNK_HEADER || top - chunk > MAX_CHUNK)
        return 0;
    if (window_fill(py, w, chunk, top - chunk) == 0) {
        struct raw copy = {w->data, w->len};
        uint64_t size = raw_u64(copy, 8);
        w->next_chunk = raw_u64(copy, 0);
        if (size > w->len && size <= MAX_CHUNK && py->walk->place_count)
            py->walk->places[py->walk->place_count - 1].room = (size_t)size - w->len;
    }
    return 0;
}

/* From `at` to the root. */
static int walk_chain(struct python *py, struct walk_memory *m, scry_addr at, scry_addr outer,
                      bool *ret_met_outer)
{
    const struct layout *l = &py->layout;
    unsigned char copy[MAX_FRAME_SIZE];
    size_t size =
        l->if_size > 0 && l->if_size < MAX_FRAME_SIZE ? (size_t)l->if_size : MAX_FRAME_SIZE;
    uint64_t tags = l->tagged_refs ? TAG_MASK : 0;
    bool ended_in_shim = false;
    struct ring ring = {0};
    for (int steps = 0; at; steps++) {
        struct raw r;
        if (steps > MAX_FRAMES || ring_closes(&ring, at))
            return -SCRY_E_CORRUPT;
        int error = read_frame(py, &m->window, at, copy, size, &r);
        if (error < 0)
            return error;
        *ret_met_outer |= at == outer;
        struct found_frames *found = &m->found;
        if (raw_u8(r, l->if_owner) >= OWNER_SHIM) {
            if (found->count)
                found->items[found->count - 1].is_shim_entry =
                    found->items[found->count - 1].is_entry = true;
        } else {
            struct found_frame *f = found_add(found);
            if (!f)
                return -SCRY_E_CORRUPT;
            f->addr = at;
            f->code = raw_u64(r, l->if_code) & ~tags;
            f->instr = raw_u64(r, l->if_instr);
            f->tlbc_index = (int32_t)raw_u32(r, l->if_tlbc_index);
            f->is_entry = raw_u8(r, l->if_is_entry);
        }
        ended_in_shim = raw_u8(r, l->if_owner) >= OWNER_SHIM;
        at = raw_u64(r, l->if_previous);
    }
    return walk_has_end(l, &m->found, ended_in_shim) ? 0 : -SCRY_E_TORN;
}

/* An evaluator that has just been entered may not have linked its first frame to its caller yet: the link is what
 * a frame that lay there before has left. What the evaluator before it runs is known all the same (`outer`), and a
 * sound chain leads through it. */
static int walk_interpreter_frames(struct python *py, const struct py_thread *t,
                                   struct walk_memory *m)
{
    struct walk_start start;
    int error = start_walk(py, t, &m->window, &start);
    if (error < 0)
        return error;
    bool met_outer = !start.outer;
    error = walk_chain(py, m, start.leaf, start.outer, &met_outer);
    if (met_outer)
        return error;
    /* A leaf that has begun would be linked: then it is the mark of an evaluator that has ended, and not true. */
    m->found.count = m->found.count && has_not_begun(&py->layout, &m->found.items[0]);
    m->window.next_chunk = start.chunk;
    return walk_chain(py, m, start.outer, start.outer, &met_outer);
}

bool walk_has_end(const struct layout *l, const struct found_frames *found, bool ended_in_shim)
{
    if (!found->count || l->if_size == LAYOUT_NONE)
        return true;
    return l->if_is_entry == LAYOUT_NONE ? ended_in_shim : found->items[found->count - 1].is_entry;
}

bool walk_copy(const struct python *py, struct walk_copy *ret)
{
    const struct walk_memory *m = py->walk;
    if (!m || !m->has_generation || !m->found.count)
        return false;
    for (size_t i = 0; i < m->found.count; i++)
        if (!window_holds(&m->window, m->found.items[i].addr, (size_t)py->layout.if_size))
            return false;
    *ret = (struct walk_copy){&m->found, m->window.data, m->window.start, m->window.len,
                              m->generation};
    return true;
}

/* ---- what they run ---- */

/* Free-threaded builds give each thread its own copy of the bytecode: entry `index` of an array. */
static scry_addr bytecode_start(struct python *py, const struct found_frame *f)
{
    const struct layout *l = &py->layout;
    scry_addr start = f->code + (scry_addr)l->co_code_adaptive;
    scry_addr array, copy;
    uint64_t count;
    if (f->tlbc_index <= 0 || l->co_tlbc == LAYOUT_NONE ||
        mem_read_u64(py->view.mem, f->code + (scry_addr)l->co_tlbc, &array) < 0 ||
        mem_read_u64(py->view.mem, array, &count) < 0 || (uint64_t)f->tlbc_index >= count ||
        mem_read_u64(py->view.mem, array + 8 + 8 * (scry_addr)f->tlbc_index, &copy) < 0 || !copy)
        return start;
    return copy;
}

static int32_t instruction_offset(struct python *py, const struct found_frame *f,
                                  const struct py_code *code)
{
    const struct layout *l = &py->layout;
    int64_t offset;
    if (l->co_code_adaptive == LAYOUT_NONE)
        offset = (int64_t)f->instr < 0 ? -1 : (int64_t)f->instr * l->instr_unit;
    else
        offset = (int64_t)(f->instr - bytecode_start(py, f));
    if (offset < 0)
        return -1;
    return code->code_bytes && offset <= (int64_t)code->code_bytes ? (int32_t)offset : NO_OFFSET;
}

static bool reserve_codes(struct walk_memory *m, size_t count)
{
    if (m->code_cap >= count)
        return true;
    size_t cap = count + count / 2 + 64;
    scry_addr *addrs = realloc(m->code_addrs, cap * sizeof(*addrs));
    if (!addrs)
        return false;
    m->code_addrs = addrs;
    const struct py_code **codes = realloc(m->codes, cap * sizeof(*codes));
    if (!codes)
        return false;
    m->codes = codes;
    m->code_cap = cap;
    return true;
}

/* Recursion repeats a few code objects many times: ask for each only once in a while. */
static size_t distinct_codes(struct walk_memory *m, const struct found_frames *found)
{
    size_t n = 0;
    for (size_t i = 0; i < found->count; i++) {
        bool known = false;
        for (size_t k = n; k > 0 && k + 16 > n && !known; k--)
            known = m->code_addrs[k - 1] == found->items[i].code;
        if (!known)
            m->code_addrs[n++] = found->items[i].code;
    }
    return n;
}

static const struct py_code *code_of(const struct walk_memory *m, size_t *near, scry_addr addr)
{
    for (size_t step = 0; step < m->distinct; step++) {
        size_t i = (*near + step) % m->distinct;
        if (m->code_addrs[i] == addr) {
            *near = i;
            return m->codes[i];
        }
    }
    return NULL;
}

static bool reserve_frames(struct py_thread *t, size_t count)
{
    if (t->frame_cap >= count)
        return true;
    size_t cap = count + count / 2 + 16;
    struct py_frame *grown = realloc(t->frames, cap * sizeof(*grown));
    if (!grown)
        return false;
    t->frames = grown;
    t->frame_cap = cap;
    return true;
}

/* False when the frame is left out. */
static bool make_frame(struct python *py, const struct found_frame *f, const struct py_code *code,
                       struct py_thread *t, struct py_frame *ret)
{
    if (!code)
        t->incomplete = true;
    if (!code || code->artificial)
        return false;
    int32_t offset = instruction_offset(py, f, code);
    *ret = (struct py_frame){
        .addr = f->addr,
        .code = code,
        .offset = offset,
        .line = offset == NO_OFFSET ? 0 : code_line(code, py->layout.lines, offset),
        .is_entry = f->is_entry,
        .is_shim_entry = f->is_shim_entry,
    };
    return true;
}

static bool same_frame(const struct py_frame *a, const struct py_frame *b)
{
    return a->addr == b->addr && a->code == b->code && a->offset == b->offset &&
           a->is_entry == b->is_entry && a->is_shim_entry == b->is_shim_entry;
}

/* Returns whether they are the frames that were there before. */
static bool make_frames(struct python *py, struct py_thread *t)
{
    const struct found_frames *found = &py->walk->found;
    size_t before = t->frame_count, n = 0, near = 0;
    bool same = true;
    for (size_t i = 0; i < found->count; i++) {
        struct py_frame frame;
        const struct py_code *code = code_of(py->walk, &near, found->items[i].code);
        if (!make_frame(py, &found->items[i], code, t, &frame))
            continue;
        same = same && n < before && same_frame(&frame, &t->frames[n]);
        t->frames[n++] = frame;
    }
    t->frame_count = n;
    return same && n == before;
}

/* Look up the code of each frame and fill in the thread's frames. */
static int resolve(struct python *py, struct py_thread *t)
{
    struct walk_memory *m = py->walk;
    int r = code_cache_get(&py->codes, m->code_addrs, m->distinct,
                           m->has_generation ? &m->generation : NULL, m->codes);
    if (r < 0)
        t->frame_count = 0;
    if (r < 0 || !make_frames(py, t)) {
        t->same_callers = 0;
        t->stack_version++;
    }
    return r;
}

int walk_resolve_known(struct python *py, const struct found_frames *found, size_t same,
                       struct py_thread *t)
{
    size_t fresh = found->count - same;
    if (!reserve_frames(t, found->count))
        return -SCRY_E_NO_MEMORY;
    /* Make room for the new callees in front of the callers that stay. */
    if (same > 0)
        memmove(t->frames + fresh, t->frames + (t->frame_count - same), same * sizeof(*t->frames));
    size_t made = 0;
    for (size_t i = 0; i < fresh; i++)
        made += make_frame(py, &found->items[i], code_cache_peek(&py->codes, found->items[i].code),
                           t, &t->frames[made]);
    if (made < fresh)
        memmove(t->frames + made, t->frames + fresh, same * sizeof(*t->frames));
    t->frame_count = made + same;
    t->same_callers = same;
    t->stack_version++;
    return 0;
}

/* A thread state made for a thread that has not started yet bears the id of its creator: what was taken for the
 * kernel's thread may be another one. */
static int check_thread(struct python *py, const struct py_thread *t)
{
    uint64_t id;
    int r = mem_read_u64(py->view.mem, t->tstate + (scry_addr)py->layout.ts_thread_id, &id);
    if (r < 0)
        return r;
    return id == t->thread_id ? 0 : -SCRY_E_CORRUPT;
}

int python_walk_begin(struct python *py, struct py_thread *t)
{
    struct walk_memory *m = py->walk;
    if (!m) {
        m = py->walk = calloc(1, sizeof(*m));
        if (!m)
            return -SCRY_E_NO_MEMORY;
    }
    m->found.count = 0;
    m->place_count = 0;
    memset(m->cframes, 0, sizeof(m->cframes));
    int r = check_thread(py, t);
    if (r < 0)
        return r;
    r = python_refresh_gil(py, t);
    if (r == 0)
        r = py->layout.if_size == LAYOUT_NONE ? walk_objects(py, t, m)
                                              : walk_interpreter_frames(py, t, m);
    if (r == -SCRY_E_GONE || r == -SCRY_E_PERMISSION || r == -SCRY_E_NO_MEMORY)
        return r;
    /* One frame's trouble never costs its stack: keep what was found. */
    t->incomplete = r < 0;
    if (!reserve_codes(m, m->found.count) || !reserve_frames(t, m->found.count))
        return -SCRY_E_NO_MEMORY;
    m->distinct = distinct_codes(m, &m->found);
    return 0;
}

/* Of code objects that bear a number: if one that was known before is still there afterwards, it was there all the
 * time. */
bool python_walk_may_end_late(const struct python *py)
{
    const struct walk_memory *m = py->walk;
    for (size_t i = 0; i < m->distinct; i++) {
        const struct py_code *code = code_cache_peek(&py->codes, m->code_addrs[i]);
        if (!code || !code->version)
            return false;
    }
    return py->layout.co_tlbc == LAYOUT_NONE;
}

int python_walk_end(struct python *py, struct py_thread *t, bool late)
{
    uint32_t serial = py->codes.next_serial;
    int r = resolve(py, t);
    t->incomplete |= late && py->codes.next_serial != serial;
    return r;
}

int python_walk(struct python *py, struct py_thread *t)
{
    int r = python_walk_begin(py, t);
    return r < 0 ? r : python_walk_end(py, t, false);
}
