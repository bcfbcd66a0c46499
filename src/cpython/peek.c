#include "cpython/peek.h"

#include <stdlib.h>
#include <string.h>

#include "cpython/raw.h"
#include "cpython/walk.h"
#include "util/table.h"

#define RECENT           16
#define RECENT_PER_STACK 3
#define MAX_RANGES       8192
#define MERGE_GAP        512 /* ranges closer than this are read as one: bytes are cheaper than ranges */
#define CHUNK_SLACK                                                                                \
    1024 /* read so far beyond the live end of the data stack: it may have grown                   \
          */
#define MAX_FRAME_SPAN 65536
#define CFRAME_SIZE    24
#define CHURN_LOOKS    256 /* check code objects one by one for so long after one was freed */
#define SPAN_MAX       4096

enum copies {
    TWICE,
    ONCE, /* cannot change while the rest is as it was: shims, code objects */
};

struct range {
    scry_addr addr;
    uint32_t len;
    uint32_t at; /* in each copy */
    enum copies copies;
};

struct peek {
    struct range *ranges; /* by address; TWICE before ONCE where they would overlap */
    size_t count, cap;
    size_t twice_count; /* ranges read twice stand before those read once */
    size_t twice_size, once_size;
    unsigned char *data; /* first copy, second copy, once */
    size_t data_cap;

    scry_addr tstate;
    size_t tstate_len;

    struct found_frames found; /* of this reading */
    struct found_frames last;  /* of the last one that was proved */
    bool has_last;
    bool has_guess;
    scry_addr recent[RECENT]; /* frames outside of the data stack that were innermost lately */
    unsigned recent_next;
    scry_addr recent_code[RECENT];
    unsigned recent_code_next;
    scry_addr recent_cframes[RECENT]; /* of the evaluator's C frames (3.11, 3.12) */
    unsigned recent_cframe_next;
    int churn; /* looks for which code objects are still checked one by one */

    struct py_thread scratch;  /* for walks that only learn */
    struct walk_place *places; /* the prediction, before it is made into ranges */
    size_t place_count, place_cap;
};

struct peek *peek_new(void)
{
    return calloc(1, sizeof(struct peek));
}

void peek_free(struct peek *p)
{
    if (!p)
        return;
    free(p->ranges);
    free(p->data);
    free(p->places);
    found_done(&p->found);
    found_done(&p->last);
    free(p->scratch.frames);
    free(p);
}

void peek_reset(struct peek *p)
{
    p->has_guess = p->has_last = false;
    p->place_count = 0;
}

void peek_invalidate(struct peek *p)
{
    p->has_last = false;
}

bool peek_sees_variables(const struct python *py)
{
    return py->layout.if_size != LAYOUT_NONE;
}

bool peek_has_guess(const struct peek *p)
{
    return p->has_guess;
}

/* ---- from places to ranges ---- */

static bool add_place(struct peek *p, scry_addr addr, size_t len, bool fixed)
{
    if (!addr || !len)
        return true;
    if (p->place_count == p->place_cap) {
        size_t cap = p->place_cap ? p->place_cap * 2 : 32;
        struct walk_place *grown =
            cap <= MAX_RANGES ? realloc(p->places, cap * sizeof(*grown)) : NULL;
        if (!grown)
            return false;
        p->places = grown;
        p->place_cap = cap;
    }
    p->places[p->place_count++] = (struct walk_place){.addr = addr, .len = len, .fixed = fixed};
    return true;
}

static bool comes_before(const struct walk_place *x, const struct walk_place *y)
{
    return x->fixed != y->fixed ? !x->fixed : x->addr < y->addr;
}

/* Shell sort: in place, for the C library's allocates, and quick on what is nearly sorted. */
static void sort_places(struct walk_place *places, size_t count)
{
    for (size_t gap = count / 2; gap > 0; gap = gap == 2 ? 1 : gap * 5 / 11) {
        for (size_t i = gap; i < count; i++) {
            struct walk_place moving = places[i];
            size_t k = i;
            for (; k >= gap && comes_before(&moving, &places[k - gap]); k -= gap)
                places[k] = places[k - gap];
            places[k] = moving;
        }
    }
}

/* Neighbours become one range where the gap is small and on pages that are read anyway: the gap
 * must not reach over a page that may not be there. */
static bool joins(const struct range *r, const struct walk_place *place)
{
    scry_addr end = r->addr + r->len;
    return place->addr <= end + MERGE_GAP &&
           (place->addr <= end || (end - 1) / SPAN_MAX == place->addr / SPAN_MAX ||
            place->addr - end < 64);
}

static bool make_ranges(struct peek *p)
{
    sort_places(p->places, p->place_count);
    if (p->cap < p->place_count) {
        struct range *grown = realloc(p->ranges, p->place_count * sizeof(*grown));
        if (!grown)
            return false;
        p->ranges = grown;
        p->cap = p->place_count;
    }
    p->count = 0;
    for (size_t i = 0; i < p->place_count; i++) {
        const struct walk_place *place = &p->places[i];
        enum copies copies = place->fixed ? ONCE : TWICE;
        struct range *r = p->count ? &p->ranges[p->count - 1] : NULL;
        if (r && r->copies == copies && joins(r, place)) {
            if (place->addr + place->len > r->addr + r->len)
                r->len = (uint32_t)(place->addr + place->len - r->addr);
        } else {
            p->ranges[p->count++] = (struct range){place->addr, (uint32_t)place->len, 0, copies};
        }
    }
    p->twice_size = p->once_size = p->twice_count = 0;
    for (size_t i = 0; i < p->count; i++) {
        size_t *size = p->ranges[i].copies == ONCE ? &p->once_size : &p->twice_size;
        p->twice_count += p->ranges[i].copies == TWICE;
        p->ranges[i].at = (uint32_t)*size;
        *size += p->ranges[i].len;
    }
    size_t need = 2 * p->twice_size + p->once_size;
    if (need > MAX_CHUNK)
        return false;
    if (p->data_cap < need) {
        unsigned char *grown = realloc(p->data, need);
        if (!grown)
            return false;
        p->data = grown;
        p->data_cap = need;
    }
    p->has_guess = true;
    return true;
}

/* The range of this group that holds [addr, addr+len), or NULL. */
static const struct range *find_range(const struct range *ranges, size_t count, scry_addr addr,
                                      size_t len)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (ranges[middle].addr <= addr)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low)
        return NULL;
    const struct range *r = &ranges[low - 1];
    return addr - r->addr <= r->len && len <= r->len - (addr - r->addr) ? r : NULL;
}

/* The copy of [addr, addr+len), or NULL where it was not read. `second` picks the copy. */
static const unsigned char *copy_of(const struct peek *p, scry_addr addr, size_t len, bool second)
{
    const struct range *r = find_range(p->ranges, p->twice_count, addr, len);
    if (r)
        return p->data + (second ? p->twice_size : 0) + r->at + (addr - r->addr);
    r = find_range(p->ranges + p->twice_count, p->count - p->twice_count, addr, len);
    return r ? p->data + 2 * p->twice_size + r->at + (addr - r->addr) : NULL;
}

int peek_range_count(const struct peek *p)
{
    return (int)(p->count + p->twice_count);
}

/* First copy, then what is read once, then the second copy backwards: so what is read once is read between the
 * two, and the thread state, where it is the first of all, is the last of all as well. */
int peek_ranges(struct peek *p, struct mem_range *to)
{
    int n = 0;
    unsigned char *once = p->data + 2 * p->twice_size, *second = p->data + p->twice_size;
    for (size_t i = 0; i < p->twice_count; i++)
        to[n++] =
            (struct mem_range){p->ranges[i].addr, p->data + p->ranges[i].at, p->ranges[i].len};
    for (size_t i = p->twice_count; i < p->count; i++)
        to[n++] = (struct mem_range){p->ranges[i].addr, once + p->ranges[i].at, p->ranges[i].len};
    for (size_t i = p->twice_count; i-- > 0;)
        to[n++] = (struct mem_range){p->ranges[i].addr, second + p->ranges[i].at, p->ranges[i].len};
    return n;
}

/* ---- predicting ---- */

static size_t tstate_span(const struct layout *l)
{
    const int32_t fields[] = {l->ts_frame,     l->ts_cframe,    l->ts_current_frame,
                              l->ts_status,    l->ts_thread_id, l->ts_native_thread_id,
                              l->ts_interp,    l->ts_next,      l->ts_datastack_chunk,
                              l->ts_base_frame};
    int32_t last = 0;
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        last = fields[i] > last ? fields[i] : last;
    return (size_t)last + 16;
}

static bool has_generation(const struct layout *l)
{
    return l->is_code_object_generation != LAYOUT_NONE;
}

/* From 3.14 on CPython counts the code objects that die: while none did, none needs to be looked
 * at. */
static bool must_check_code(const struct peek *p, const struct layout *l)
{
    return !has_generation(l) || p->churn > 0;
}

static void predict_fixed_parts(struct peek *p, struct python *py, const struct py_thread *t)
{
    const struct layout *l = &py->layout;
    p->tstate = t->tstate;
    p->tstate_len = tstate_span(l);
    add_place(p, p->tstate, p->tstate_len, false);
    if (has_generation(l))
        add_place(p, t->interp + (scry_addr)l->is_code_object_generation, 8, true);
    if (py->tstate_current_at)
        add_place(p, py->tstate_current_at, 8, true);
}

static void predict_code(struct peek *p, struct python *py, const struct py_code *code)
{
    struct code_place places[CODE_PLACES];
    size_t count = code_places(&py->layout, code, places);
    for (size_t i = 0; i < count; i++)
        add_place(p, places[i].addr, places[i].len, true);
}

static size_t frame_size(const struct layout *l)
{
    return l->if_size == LAYOUT_NONE ? (size_t)l->fr_f_lasti + 4 : (size_t)l->if_size;
}

static void remember(scry_addr *recent, unsigned *next, scry_addr addr)
{
    for (size_t k = 0; k < RECENT; k++)
        if (recent[k] == addr)
            return;
    recent[(*next)++ % RECENT] = addr;
}

/* The innermost frames come and go; those outside of the data stack come back at the same addresses more often
 * than not, so a few are read although the last stack did not have them. */
static void remember_recent(struct peek *p, const struct walk_place *places, size_t count,
                            size_t single)
{
    size_t seen = 0;
    for (size_t i = 0; i < count && seen < RECENT_PER_STACK; i++) {
        if (places[i].len != single || places[i].fixed)
            continue;
        seen++;
        remember(p->recent, &p->recent_next, places[i].addr);
    }
    for (size_t k = 0; k < RECENT; k++)
        add_place(p, p->recent[k], single, false);
}

/* The same for the code that runs in them. */
static void predict_recent_code(struct peek *p, struct python *py, const struct py_thread *t)
{
    if (!must_check_code(p, &py->layout))
        return;
    for (size_t i = 0; i < t->frame_count && i < RECENT_PER_STACK; i++)
        remember(p->recent_code, &p->recent_code_next, t->frames[i].code->addr);
    for (size_t k = 0; k < RECENT; k++) {
        const struct py_code *code =
            p->recent_code[k] ? code_cache_peek(&py->codes, p->recent_code[k]) : NULL;
        if (code)
            predict_code(p, py, code);
    }
}

/* The evaluator is entered at a few depths of the C stack, now at one, now at another. */
static void predict_cframes(struct peek *p, struct python *py, const struct py_thread *t)
{
    const struct layout *l = &py->layout;
    scry_addr at = t->tstate + (scry_addr)l->ts_cframe;
    for (int i = 0; i < 2; i++) {
        uint64_t cframe;
        if (mem_read_u64(py->view.mem, at, &cframe) < 0 || !cframe)
            break;
        remember(p->recent_cframes, &p->recent_cframe_next, cframe);
        at = cframe + (scry_addr)l->cframe_current_frame + 8;
    }
    for (size_t k = 0; k < RECENT; k++)
        add_place(p, p->recent_cframes[k], CFRAME_SIZE, false);
}

void peek_forget(struct peek *p)
{
    memset(p->recent, 0, sizeof(p->recent));
    memset(p->recent_cframes, 0, sizeof(p->recent_cframes));
    memset(p->recent_code, 0, sizeof(p->recent_code));
    p->has_guess = p->has_last = false;
}

void peek_learn(struct peek *p, struct python *py, const struct py_thread *t)
{
    const struct layout *l = &py->layout;
    const struct walk_place *places;
    size_t count = walk_places(py, &places);
    p->place_count = 0;
    p->has_guess = p->has_last = false;
    predict_fixed_parts(p, py, t);
    for (size_t i = 0; i < count; i++) {
        size_t slack = places[i].room < CHUNK_SLACK ? places[i].room : CHUNK_SLACK;
        add_place(p, places[i].addr, places[i].len + slack, places[i].fixed);
    }
    remember_recent(p, places, count, frame_size(l));
    if (l->cframe_current_frame != LAYOUT_NONE)
        predict_cframes(p, py, t);
    const struct py_code *last = NULL;
    for (size_t i = 0; i < t->frame_count && must_check_code(p, l); i++)
        if (t->frames[i].code != last)
            predict_code(p, py, last = t->frames[i].code);
    predict_recent_code(p, py, t);
    make_ranges(p);
}

/* ---- judging ---- */

struct both {
    struct raw first, second;
};

static bool get_both(const struct peek *p, scry_addr addr, size_t len, struct both *ret)
{
    const unsigned char *a = copy_of(p, addr, len, false);
    if (!a)
        return false;
    *ret = (struct both){{a, len}, {copy_of(p, addr, len, true), len}};
    return true;
}

static bool same_u64(const struct both *b, int32_t offset)
{
    return raw_u64(b->first, offset) == raw_u64(b->second, offset);
}

/* The current frame, the same in both copies (P1), and a frame that the chain leads through, if one is known: what
 * the evaluator before this one runs (3.11, 3.12; frames.c says why). */
static enum peek_result current_frame(struct peek *p, const struct layout *l, uint64_t thread_id,
                                      scry_addr *ret_frame, scry_addr *ret_outer)
{
    struct both ts, cf;
    if (!get_both(p, p->tstate, p->tstate_len, &ts) ||
        raw_u64(ts.second, l->ts_thread_id) != thread_id)
        return PEEK_MISSED;
    int32_t at = l->ts_frame;
    if (l->ts_current_frame != LAYOUT_NONE)
        at = l->ts_current_frame;
    else if (l->cframe_current_frame != LAYOUT_NONE)
        at = l->ts_cframe;
    if (!same_u64(&ts, at))
        return PEEK_MOVED;
    *ret_frame = raw_u64(ts.first, at);
    if (at != l->ts_cframe || l->cframe_current_frame == LAYOUT_NONE)
        return PEEK_PROVED;
    if (!get_both(p, *ret_frame, CFRAME_SIZE, &cf))
        return PEEK_MISSED;
    if (!same_u64(&cf, l->cframe_current_frame))
        return PEEK_MOVED;
    *ret_frame = raw_u64(cf.first, l->cframe_current_frame);
    scry_addr before = raw_u64(cf.first, l->cframe_current_frame + 8);
    if (before && !get_both(p, before, CFRAME_SIZE, &cf))
        return PEEK_MISSED;
    *ret_outer = before ? raw_u64(cf.first, l->cframe_current_frame) : 0;
    return PEEK_PROVED;
}

/* One frame of 3.11+, the same in both copies but for the top one's instruction (P2). Returns the
 * caller. */
static enum peek_result take_interpreter_frame(struct peek *p, const struct layout *l,
                                               const struct both *b, scry_addr addr,
                                               scry_addr *ret_caller)
{
    uint64_t tags = l->tagged_refs ? TAG_MASK : 0;
    uint8_t owner = raw_u8(b->first, l->if_owner);
    if (!same_u64(b, l->if_previous) || owner != raw_u8(b->second, l->if_owner) ||
        owner > OWNER_LAST)
        return PEEK_MOVED;
    *ret_caller = raw_u64(b->first, l->if_previous);
    struct found_frames *f = &p->found;
    if (owner >= OWNER_SHIM) {
        if (f->count)
            f->items[f->count - 1].is_shim_entry = f->items[f->count - 1].is_entry = true;
        return PEEK_PROVED;
    }
    if (!same_u64(b, l->if_code) || (f->count && !same_u64(b, l->if_instr)))
        return PEEK_MOVED;
    struct found_frame *frame = found_add(f);
    if (!frame)
        return PEEK_MOVED;
    frame->addr = addr;
    frame->code = raw_u64(b->first, l->if_code) & ~tags;
    frame->instr = raw_u64(b->first, l->if_instr);
    frame->tlbc_index = (int32_t)raw_u32(b->first, l->if_tlbc_index);
    frame->is_entry = raw_u8(b->first, l->if_is_entry);
    return frame->code ? PEEK_PROVED : PEEK_MOVED;
}

static enum peek_result take_frame_object(struct peek *p, const struct layout *l,
                                          const struct both *b, scry_addr addr,
                                          scry_addr *ret_caller)
{
    struct found_frames *f = &p->found;
    if (!same_u64(b, l->fr_f_back) || !same_u64(b, l->fr_f_code) ||
        (f->count && raw_u32(b->first, l->fr_f_lasti) != raw_u32(b->second, l->fr_f_lasti)))
        return PEEK_MOVED;
    struct found_frame *frame = found_add(f);
    if (!frame)
        return PEEK_MOVED;
    *ret_caller = raw_u64(b->first, l->fr_f_back);
    frame->addr = addr;
    frame->code = raw_u64(b->first, l->fr_f_code);
    frame->instr = (scry_addr)(int64_t)(int32_t)raw_u32(b->first, l->fr_f_lasti);
    frame->is_entry = true;
    return frame->code ? PEEK_PROVED : PEEK_MOVED;
}

/* A caller stands still while its callee runs, all of it: its variables too, which tell one round
 * of a loop from the next. They lie between its own frame and the callee's where both are on the
 * data stack. */
static bool caller_unchanged(const struct peek *p, scry_addr caller, scry_addr callee)
{
    if (!callee || callee <= caller || callee - caller > MAX_FRAME_SPAN)
        return true;
    size_t len = (size_t)(callee - caller);
    const unsigned char *first = copy_of(p, caller, len, false);
    return !first || memcmp(first, copy_of(p, caller, len, true), len) == 0;
}

static enum peek_result walk_copies(struct peek *p, struct python *py, uint64_t thread_id)
{
    const struct layout *l = &py->layout;
    bool objects = l->if_size == LAYOUT_NONE;
    size_t size = frame_size(l);
    scry_addr at, outer = 0, callee = 0;
    bool shim = false, met_outer = false;
    p->found.count = 0;
    enum peek_result r = current_frame(p, l, thread_id, &at, &outer);
    for (int steps = 0; r == PEEK_PROVED && at; steps++) {
        struct both b;
        if (steps > MAX_FRAMES || at & 7)
            return PEEK_MOVED;
        if (!get_both(p, at, size, &b))
            return PEEK_MISSED;
        if (!objects && !caller_unchanged(p, at, callee))
            return PEEK_MOVED;
        met_outer |= at == outer;
        callee = at;
        r = objects ? take_frame_object(p, l, &b, at, &at)
                    : take_interpreter_frame(p, l, &b, at, &at);
        shim = !objects && raw_u8(b.first, l->if_owner) >= OWNER_SHIM;
    }
    if (r == PEEK_PROVED && !shim && p->found.count && walk_ends_in_shim(l))
        return PEEK_MOVED;
    if (r == PEEK_PROVED && outer && !met_outer)
        return PEEK_MOVED;
    return r;
}

static bool code_unchanged(const struct peek *p, const struct layout *l, const struct py_code *code,
                           bool *ret_missed)
{
    struct code_place places[CODE_PLACES];
    const unsigned char *copies[CODE_PLACES];
    size_t count = code_places(l, code, places);
    for (size_t i = 0; i < count; i++) {
        copies[i] = copy_of(p, places[i].addr, places[i].len, false);
        if (!copies[i]) {
            *ret_missed = true;
            return false;
        }
    }
    return code_matches(l, code, places, copies, count);
}

/* P4. A code object that is not known cannot be proved here: its names would be read while it runs.
 */
static enum peek_result check_code_objects(struct peek *p, struct python *py,
                                           const struct py_thread *t)
{
    const struct layout *l = &py->layout;
    uint64_t generation = 0;
    if (has_generation(l)) {
        const unsigned char *g =
            copy_of(p, t->interp + (scry_addr)l->is_code_object_generation, 8, false);
        if (!g)
            return PEEK_MISSED;
        memcpy(&generation, g, 8);
    }
    if (p->churn > 0)
        p->churn--;
    scry_addr last = 0;
    for (size_t i = 0; i < p->found.count; i++) {
        scry_addr addr = p->found.items[i].code;
        if (addr == last)
            continue;
        last = addr;
        const struct py_code *code = code_cache_peek(&py->codes, addr);
        bool missed = false;
        if (!code)
            return PEEK_MISSED;
        if (has_generation(l) && code->generation == generation)
            continue;
        p->churn = has_generation(l) ? CHURN_LOOKS : 0;
        if (!code_unchanged(p, l, code, &missed))
            return PEEK_MISSED;
        code_cache_stamp(&py->codes, addr, generation);
    }
    return PEEK_PROVED;
}

static bool same_frame(const struct found_frame *a, const struct found_frame *b)
{
    return a->code == b->code && a->instr == b->instr && a->addr == b->addr &&
           a->tlbc_index == b->tlbc_index;
}

/* How many of the outermost frames are the same as last time. */
static size_t count_same(const struct found_frames *a, const struct found_frames *b)
{
    size_t shorter = a->count < b->count ? a->count : b->count, n = 0;
    while (n < shorter && same_frame(&a->items[a->count - 1 - n], &b->items[b->count - 1 - n]))
        n++;
    return n;
}

static void swap_found(struct peek *p)
{
    struct found_frames other = p->last;
    p->last = p->found;
    p->found = other;
}

static void read_gil(struct peek *p, struct python *py, struct py_thread *t)
{
    const struct layout *l = &py->layout;
    if (py->tstate_current_at) {
        const unsigned char *holder = copy_of(p, py->tstate_current_at, 8, false);
        t->owns_gil = holder && raw_u64((struct raw){holder, 8}, 0) == t->tstate;
    } else if (l->ts_status != LAYOUT_NONE) {
        struct both ts;
        if (get_both(p, p->tstate, p->tstate_len, &ts))
            t->owns_gil = raw_u32(ts.second, l->ts_status) >> 4 & 1;
    }
}

enum peek_result peek_judge(struct peek *p, struct python *py, struct py_thread *t)
{
    enum peek_result r = walk_copies(p, py, t->thread_id);
    if (r == PEEK_PROVED)
        r = check_code_objects(p, py, t);
    if (r != PEEK_PROVED)
        return r;
    read_gil(p, py, t);
    size_t same = p->has_last ? count_same(&p->found, &p->last) : 0;
    if (p->has_last && same == p->found.count && same == p->last.count)
        return PEEK_SAME;
    /* Hidden frames make the two lists differ in length. */
    if (t->frame_count != p->last.count)
        same = 0;
    p->has_last = false;
    if (walk_resolve_known(py, &p->found, same, t) < 0)
        return PEEK_MOVED;
    t->incomplete = false;
    for (size_t i = 0; i < t->frame_count; i++)
        if (t->frames[i].offset == INT32_MAX)
            return PEEK_MOVED;
    swap_found(p);
    p->has_last = true;
    return PEEK_PROVED;
}

int peek_relearn(struct peek *p, struct python *py, const struct py_thread *t)
{
    p->scratch.tstate = t->tstate;
    p->scratch.interp = t->interp;
    p->scratch.thread_id = t->thread_id;
    int r = python_walk(py, &p->scratch);
    if (r == 0)
        peek_learn(p, py, &p->scratch);
    return r;
}

int peek_take_unproved(struct peek *p, struct python *py, struct py_thread *t)
{
    p->has_last = false;
    return walk_resolve(py, &p->found, t);
}
