/* Quick readings (3.13+): all frames lie on the data stack and all code objects are known, so that the data stack and
 * the thread state say it all. Callers are the same as in the last stack that was proved as far up as their bytes are;
 * only what is above them is looked at.
 *
 * One system call can take several such readings in a row: the second copy of one is the first copy of the next, and
 * the count of code objects, read at the end, holds for all of them. */
#include <stdlib.h>
#include <string.h>

#include "cpython/peek_private.h"

/* Of a stack longer than this the readings would not follow each other closely enough. */
#define AHEAD_LONGEST 4096

static bool reserve(struct quick *q)
{
    size_t need = (PEEK_AHEAD_MOST + 1) * q->stack.len + PEEK_AHEAD_MOST * q->tstate.len + 8 +
                  2 * q->lower_len;
    for (int i = 0; i < 2; i++) {
        if (q->cap[i] >= need)
            continue;
        unsigned char *grown = realloc(q->data[i], need);
        if (!grown)
            return false;
        q->data[i] = grown;
        q->cap[i] = need;
    }
    return true;
}

bool quick_begin(struct peek *p, const struct layout *l, const struct py_thread *t)
{
    struct quick *q = &p->quick;
    q->stack = (struct mem_range){.addr = p->kept.addr, .len = p->kept.room};
    q->tstate = (struct mem_range){.addr = p->tstate, .len = p->tstate_len};
    q->generation =
        (struct mem_range){.addr = t->interp + (scry_addr)l->is_code_object_generation, .len = 8};
    q->readings = 1;
    q->at = 0;
    return reserve(q);
}

/* The lower pieces, from the top down, and what they hold. */
bool quick_keep_lower(struct quick *q, const struct mem_range *pieces, int count)
{
    q->lower_count = 0;
    q->lower_len = 0;
    for (int i = 0; i < count; i++)
        q->lower_len += pieces[i].len;
    if (q->lower_cap < q->lower_len) {
        unsigned char *grown = realloc(q->lower_kept, q->lower_len);
        if (!grown)
            return false;
        q->lower_kept = grown;
        q->lower_cap = q->lower_len;
    }
    size_t at = 0;
    for (int i = 0; i < count; i++) {
        memcpy(q->lower_kept + at, pieces[i].to, pieces[i].len);
        at += pieces[i].len;
        q->lower[i] = pieces[i];
    }
    q->lower_count = count;
    return true;
}

void quick_done(struct quick *q)
{
    free(q->lower_kept);
    free(q->data[0]);
    free(q->data[1]);
}

int peek_ahead(struct peek *p, int count)
{
    if (!p->is_quick)
        return 1;
    struct quick *q = &p->quick;
    bool one = count <= 1 || q->stack.len > AHEAD_LONGEST || q->lower_count;
    q->readings = one ? 1 : count > PEEK_AHEAD_MOST ? PEEK_AHEAD_MOST : count;
    return q->readings;
}

bool peek_next(struct peek *p)
{
    return p->is_quick && ++p->quick.at < p->quick.readings;
}

/* ---- reading ---- */

/* Copy `i` of the stack, and the thread state that was read after it. */
static unsigned char *stack_copy(const struct quick *q, int i)
{
    return q->data[q->side] + (size_t)i * q->stack.len;
}

static unsigned char *tstate_copy(const struct quick *q, int i)
{
    return stack_copy(q, q->readings + 1) + (size_t)i * q->tstate.len;
}

static unsigned char *generation_copy(const struct quick *q)
{
    return tstate_copy(q, q->readings);
}

static unsigned char *lower_copy(const struct quick *q, int i)
{
    return generation_copy(q) + 8 + (size_t)i * q->lower_len;
}

static size_t top_of(const struct quick *q)
{
    return q->stack.len > COPIES_LONG ? q->stack.len - COPIES_TOP : 0;
}

int quick_range_count(const struct peek *p)
{
    const struct quick *q = &p->quick;
    int pieces = top_of(q) ? 2 : 1;
    return p->warm + pieces * (q->readings + 1) + q->readings + 1 + 2 * q->lower_count;
}

static int add_lower(const struct quick *q, int copy, struct mem_range *to)
{
    unsigned char *at = lower_copy(q, copy);
    for (int i = 0; i < q->lower_count; i++) {
        to[i] = (struct mem_range){q->lower[i].addr, at, q->lower[i].len};
        at += q->lower[i].len;
    }
    return q->lower_count;
}

static struct mem_range part(const struct quick *q, int copy, size_t from, size_t len)
{
    return (struct mem_range){q->stack.addr + from, stack_copy(q, copy) + from, len};
}

int quick_ranges(struct peek *p, struct mem_range *to)
{
    struct quick *q = &p->quick;
    const unsigned char *data = q->data[q->side];
    /* What is kept must not be read over. */
    if (p->kept.copy >= data && p->kept.copy < data + q->cap[q->side])
        q->side = !q->side;
    q->at = 0;
    size_t top = top_of(q);
    int n = 0;
    n += add_lower(q, 0, to);
    if (p->warm)
        to[n++] = part(q, 0, top, q->stack.len - top);
    if (top)
        to[n++] = part(q, 0, 0, top);
    to[n++] = part(q, 0, top, q->stack.len - top);
    for (int i = 0; i < q->readings; i++) {
        to[n++] = (struct mem_range){q->tstate.addr, tstate_copy(q, i), q->tstate.len};
        to[n++] = part(q, i + 1, top, q->stack.len - top);
        if (top)
            to[n++] = part(q, i + 1, 0, top);
    }
    n += add_lower(q, 1, to + n);
    to[n++] = (struct mem_range){q->generation.addr, generation_copy(q), q->generation.len};
    return n;
}

/* ---- judging ---- */

/* One reading. */
struct view {
    const unsigned char *first, *second;
    struct raw tstate;
    uint64_t generation;
};

static struct view view_of(const struct quick *q, const struct layout *l)
{
    struct view v = {
        stack_copy(q, q->at), stack_copy(q, q->at + 1), {tstate_copy(q, q->at), q->tstate.len}, 0};
    v.generation = code_generation(l, generation_copy(q));
    return v;
}

/* Of the last stack: the innermost frame that lies with all its variables in what stayed the same. If there is none in the
 * upper piece, the first of the lower ones, where there are some. */
static size_t innermost_same(const struct peek *p, scry_addr end_of_same)
{
    size_t i = 1;
    while (i < p->kept.frames && p->last.items[i - 1].addr > end_of_same)
        i++;
    return i;
}

/* The outermost frame of the last stack is entered from C, and by the same way as then: what was found takes the place of
 * the whole stack, and ends where that did. */
static bool takes_all(struct peek *p, const struct layout *l, scry_addr at, scry_addr caller)
{
    if (!p->found.count || !p->last.count)
        return false;
    const struct found_frame *outermost = &p->last.items[p->last.count - 1];
    size_t into = (size_t)(at - p->kept.addr);
    if (at != outermost->addr || into + (size_t)l->if_size > p->kept.len)
        return false;
    struct raw kept = {p->kept.copy + into, (size_t)l->if_size};
    struct found_frame *fresh = &p->found.items[p->found.count - 1];
    fresh->is_entry = outermost->is_entry;
    fresh->is_shim_entry = outermost->is_shim_entry;
    return raw_u64(kept, l->if_previous) == caller;
}

/* The frames above those that stayed the same, into p->found. *ret_joint: where they join the last stack. */
static enum peek_result walk_changed(struct peek *p, const struct layout *l, const struct view *v,
                                     scry_addr at, size_t unchanged, size_t *ret_joint)
{
    const struct found_frames *last = &p->last;
    size_t size = (size_t)l->if_size, upper = p->kept.frames;
    p->found.count = 0;
    for (;;) {
        size_t into = (size_t)(at - p->quick.stack.addr);
        bool is_lower = into >= p->quick.stack.len && upper < last->count;
        if (is_lower || (unchanged < upper && at <= last->items[unchanged].addr)) {
            while (unchanged < upper && (is_lower || last->items[unchanged].addr > at))
                unchanged++;
            *ret_joint = unchanged;
            return unchanged < last->count && last->items[unchanged].addr == at ? PEEK_PROVED
                                                                                : PEEK_MISSED;
        }
        if (at & 7 || into >= p->quick.stack.len || size > p->quick.stack.len - into)
            return PEEK_MISSED;
        struct both b = {{v->first + into, size}, {v->second + into, size}};
        scry_addr caller;
        enum peek_result r = peek_take_frame(p, l, &b, at, &caller);
        if (r != PEEK_PROVED)
            return r;
        if (takes_all(p, l, at, caller)) {
            *ret_joint = last->count;
            return PEEK_PROVED;
        }
        if (caller >= at && caller - p->quick.stack.addr < p->quick.stack.len)
            return PEEK_MISSED;
        at = caller;
    }
}

static bool codes_known(const struct peek *p, struct python *py, uint64_t generation)
{
    for (size_t i = 0; i < p->found.count; i++) {
        const struct py_code *code = code_cache_peek(&py->codes, p->found.items[i].code);
        if (!code || !code_is_of(code, generation))
            return false;
    }
    return true;
}

/* The frames that were found take the place of the last stack's first `joint`. */
static bool replace_top(struct peek *p, size_t joint)
{
    struct found_frames *last = &p->last;
    size_t fresh = p->found.count, kept = last->count - joint;
    while (last->count < fresh + kept)
        if (!found_add(last))
            return false;
    memmove(last->items + fresh, last->items + joint, kept * sizeof(*last->items));
    memcpy(last->items, p->found.items, fresh * sizeof(*last->items));
    last->count = fresh + kept;
    return true;
}

static bool same_top(const struct peek *p, size_t joint)
{
    if (joint != p->found.count)
        return false;
    for (size_t i = 0; i < joint; i++)
        if (!peek_same_frame(&p->found.items[i], &p->last.items[i]))
            return false;
    return true;
}

/* The found frames are proved, and join the last stack at `joint`: that becomes the thread's stack. */
static enum peek_result take_over(struct peek *p, struct python *py, struct py_thread *t,
                                  const struct view *v, size_t joint)
{
    size_t same = t->frame_count == p->last.count ? p->last.count - joint : 0;
    size_t upper = p->found.count + p->kept.frames - joint;
    p->has_last = false;
    if (!replace_top(p, joint) || walk_resolve_known(py, &p->last, same, t) < 0 ||
        !peek_lines_known(t, t->frame_count - same))
        return PEEK_MOVED;
    t->incomplete = false;
    p->has_last = true;
    p->kept.copy = v->second;
    p->kept.len = p->kept.room = p->quick.stack.len;
    p->kept.addr = p->quick.stack.addr;
    p->kept.frames = upper;
    p->kept.generation = v->generation;
    return PEEK_PROVED;
}

static enum peek_result judge_lower(const struct quick *q)
{
    if (!q->lower_len)
        return PEEK_PROVED;
    if (memcmp(lower_copy(q, 0), lower_copy(q, 1), q->lower_len) != 0)
        return PEEK_MOVED;
    return memcmp(lower_copy(q, 0), q->lower_kept, q->lower_len) == 0 ? PEEK_PROVED : PEEK_MISSED;
}

enum peek_result quick_judge(struct peek *p, struct python *py, struct py_thread *t)
{
    const struct layout *l = &py->layout;
    const struct view v = view_of(&p->quick, l);
    if (!p->has_last || !p->kept.copy || !peek_belongs_to(v.tstate, l, t))
        return PEEK_MISSED;
    scry_addr leaf = p->leaf = raw_u64(v.tstate, l->ts_current_frame);
    size_t below = (size_t)(leaf - p->quick.stack.addr), joint;
    p->saw_it_run = below < p->quick.stack.len &&
                    memcmp(v.first + below, v.second + below, p->quick.stack.len - below) != 0;
    if (below >= p->quick.stack.len)
        return PEEK_MISSED;
    if (v.generation != p->kept.generation) {
        peek_check_codes_for(p, l, PEEK_CHURN_LOOKS);
        return PEEK_MISSED;
    }
    if (memcmp(v.first, v.second, below) != 0)
        return PEEK_MOVED;
    enum peek_result result = judge_lower(&p->quick);
    if (result != PEEK_PROVED)
        return result;
    size_t common = below < p->kept.len ? below : p->kept.len;
    scry_addr same_until = p->quick.stack.addr + peek_same_bytes(v.second, p->kept.copy, common);
    result = walk_changed(p, l, &v, leaf, innermost_same(p, same_until), &joint);
    if (result == PEEK_PROVED && !codes_known(p, py, v.generation))
        result = PEEK_MISSED;
    if (result != PEEK_PROVED)
        return result;
    peek_read_gil(v.tstate, l, t);
    return same_top(p, joint) ? PEEK_SAME : take_over(p, py, t, &v, joint);
}
