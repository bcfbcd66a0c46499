/* Full readings: everything a stack consists of, whatever the version. */
#include <stdlib.h>
#include <string.h>

#include "cpython/peek_private.h"
#include "util/table.h"

#define RECENT_PER_STACK 3
/* So much is read beyond the live end of the data stack: it may have grown. */
#define CHUNK_SLACK    1024
#define MAX_FRAME_SPAN 65536
#define CFRAME_SIZE    24
#define WARM_MOST      32 /* ranges; more take too long */
#define FULL_FIRST     4  /* full readings after one that should have been quick and was not ... */
#define FULL_MOST      1024

struct peek *peek_new(void)
{
    struct peek *p = calloc(1, sizeof(*p));
    if (p)
        p->full_after = FULL_FIRST;
    return p;
}

void peek_free(struct peek *p)
{
    if (!p)
        return;
    copies_done(&p->full);
    copies_done(&p->still);
    free(p->places);
    quick_done(&p->quick);
    free(p->trusted);
    found_done(&p->found);
    found_done(&p->last);
    free(p->scratch.frames);
    free(p);
}

static void forget_last(struct peek *p)
{
    p->has_last = false;
    p->kept.copy = NULL;
}

void peek_reset(struct peek *p)
{
    p->has_guess = false;
    forget_last(p);
}

void peek_invalidate(struct peek *p)
{
    forget_last(p);
    p->is_quick = false;
}

bool peek_sees_variables(const struct python *py)
{
    return py->layout.if_size != LAYOUT_NONE;
}

scry_addr peek_leaf(const struct peek *p)
{
    return p->leaf;
}

bool peek_saw_it_run(const struct peek *p)
{
    return p->saw_it_run;
}

bool peek_has_guess(const struct peek *p)
{
    return p->has_guess;
}

void peek_warm(struct peek *p, bool warm)
{
    p->warm = warm && (p->is_quick || p->full.twice_count <= WARM_MOST);
}

int peek_range_count(const struct peek *p)
{
    return p->is_quick ? quick_range_count(p) : copies_range_count(&p->full, p->warm);
}

int peek_ranges(struct peek *p, struct mem_range *to)
{
    return p->is_quick ? quick_ranges(p, to) : copies_ranges(&p->full, p->warm, to);
}

int peek_still_count(const struct peek *p)
{
    return p->has_guess ? (int)p->still.count : 0;
}

int peek_still_ranges(struct peek *p, struct mem_range *to)
{
    return p->has_guess ? copies_ranges_once(&p->still, to) : 0;
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

/* From 3.13 on CPython counts code objects (code.h): while the count stays, none needs to be looked at. */
static bool must_check_code(const struct peek *p, const struct layout *l)
{
    return !has_generation(l) || p->churn > 0;
}

static void predict_fixed_parts(struct copies *to, struct peek *p, struct python *py,
                                const struct py_thread *t)
{
    const struct layout *l = &py->layout;
    p->tstate = t->tstate;
    p->tstate_len = tstate_span(l);
    /* Between two copies of the frames that agree, variables and all, one copy of the thread state says which of them
     * runs. Not so where the way there leads over the C stack, or where variables are not looked at. */
    copies_add(to, p->tstate, p->tstate_len,
               l->ts_current_frame != LAYOUT_NONE ? COPIES_BETWEEN : COPIES_TWICE);
    if (has_generation(l))
        copies_add(to, t->interp + (scry_addr)l->is_code_object_generation, 8, COPIES_BETWEEN);
    if (py->tstate_current_at)
        copies_add(to, py->tstate_current_at, 8, COPIES_AFTER);
}

/* What a frame runs cannot die before the frame does: if it is what is known, it was so then. That it has not died since is
 * counted before. */
static void predict_code(struct peek *p, struct python *py, const struct py_code *code)
{
    struct code_place places[CODE_PLACES];
    size_t count = code_places(&py->layout, code, places);
    for (size_t i = 0; i < count; i++)
        copies_add(&p->full, places[i].addr, places[i].len, COPIES_AFTER);
}

static size_t frame_size(const struct layout *l)
{
    return l->if_size == LAYOUT_NONE ? (size_t)l->fr_f_lasti + 4 : (size_t)l->if_size;
}

static void remember(scry_addr *recent, unsigned *next, scry_addr addr)
{
    for (size_t k = 0; k < PEEK_RECENT; k++)
        if (recent[k] == addr)
            return;
    recent[(*next)++ % PEEK_RECENT] = addr;
}

/* The innermost frames come and go; those outside of the data stack come back at the same addresses more often
 * than not, so a few are read although the last stack did not have them. */
static void remember_recent(struct peek *p, size_t single)
{
    size_t seen = 0;
    for (size_t i = 0; i < p->place_count && seen < RECENT_PER_STACK; i++) {
        if (p->places[i].len != single || p->places[i].fixed)
            continue;
        seen++;
        remember(p->recent, &p->recent_next, p->places[i].addr);
    }
    for (size_t k = 0; k < PEEK_RECENT; k++)
        copies_add(&p->full, p->recent[k], single, COPIES_TWICE);
}

/* The same for the code that runs in them. */
static void predict_recent_code(struct peek *p, struct python *py, const struct py_thread *t)
{
    if (!must_check_code(p, &py->layout))
        return;
    for (size_t i = 0; i < t->frame_count && i < RECENT_PER_STACK; i++)
        remember(p->recent_code, &p->recent_code_next, t->frames[i].code->addr);
    for (size_t k = 0; k < PEEK_RECENT; k++) {
        const struct py_code *code =
            p->recent_code[k] ? code_cache_peek(&py->codes, p->recent_code[k]) : NULL;
        if (code)
            predict_code(p, py, code);
    }
}

/* The evaluator is entered at a few depths of the C stack, now at one, now at another. */
static void predict_cframes(struct copies *to, const struct peek *p)
{
    for (size_t k = 0; k < PEEK_RECENT; k++)
        copies_add(to, p->recent_cframes[k], CFRAME_SIZE, COPIES_TWICE);
}

/* Chunks of the data stack, frames elsewhere, C frames. */
static void predict_places(struct copies *to, const struct peek *p)
{
    for (size_t i = 0; i < p->place_count; i++) {
        const struct walk_place *place = &p->places[i];
        size_t slack = place->room < CHUNK_SLACK ? place->room : CHUNK_SLACK;
        copies_add(to, place->addr, place->len + slack, COPIES_TWICE);
        if (place->room)
            copies_put_near(to, place->addr);
    }
    predict_cframes(to, p);
}

void peek_forget(struct peek *p)
{
    memset(p->recent, 0, sizeof(p->recent));
    memset(p->recent_cframes, 0, sizeof(p->recent_cframes));
    memset(p->recent_code, 0, sizeof(p->recent_code));
    peek_reset(p);
}

/* Whether what was expected covers what the walk met. */
static bool met_what_was_expected(const struct peek *p, const struct walk_place *places,
                                  size_t count, const scry_addr cframes[WALK_CFRAMES])
{
    for (size_t i = 0; i < count; i++)
        if (!copies_find(&p->still, places[i].addr, places[i].len))
            return false;
    for (size_t i = 0; i < WALK_CFRAMES; i++)
        if (cframes[i] && !copies_find(&p->still, cframes[i], CFRAME_SIZE))
            return false;
    return count == p->place_count;
}

static bool keep_places(struct peek *p, const struct walk_place *places, size_t count)
{
    if (p->place_cap < count) {
        struct walk_place *grown = realloc(p->places, 2 * count * sizeof(*grown));
        if (!grown)
            return false;
        p->places = grown;
        p->place_cap = 2 * count;
    }
    if (count)
        memcpy(p->places, places, count * sizeof(*places));
    p->place_count = count;
    return true;
}

void peek_learn(struct peek *p, struct python *py, const struct py_thread *t)
{
    scry_addr cframes[WALK_CFRAMES];
    const struct walk_place *places;
    size_t count = walk_places(py, &places);
    walk_cframes(py, cframes);
    bool expected =
        p->has_guess && p->tstate == t->tstate && met_what_was_expected(p, places, count, cframes);
    peek_reset(p);
    p->is_quick = p->full_made = false;
    p->has_guess = keep_places(p, places, count);
    if (expected || !p->has_guess)
        return;
    for (size_t i = 0; i < WALK_CFRAMES; i++)
        if (cframes[i])
            remember(p->recent_cframes, &p->recent_cframe_next, cframes[i]);
    copies_begin(&p->still);
    predict_fixed_parts(&p->still, p, py, t);
    predict_places(&p->still, p);
    p->has_guess = copies_make(&p->still);
}

void peek_prepare(struct peek *p, struct python *py, const struct py_thread *t)
{
    const struct layout *l = &py->layout;
    p->leaf = 0;
    if (p->is_quick || p->full_made)
        return;
    copies_begin(&p->full);
    predict_fixed_parts(&p->full, p, py, t);
    predict_places(&p->full, p);
    if (p->place_count && l->if_size == LAYOUT_NONE)
        copies_put_near(&p->full, p->places[0].addr);
    remember_recent(p, frame_size(l));
    for (size_t i = 0; i < t->frame_count && must_check_code(p, l); i++)
        if (i == 0 || t->frames[i].code != t->frames[i - 1].code)
            predict_code(p, py, t->frames[i].code);
    predict_recent_code(p, py, t);
    p->full_made = copies_make(&p->full);
    p->has_guess = p->full_made;
}

/* ---- judging ---- */

static bool get_both(const struct peek *p, scry_addr addr, size_t len, struct both *ret)
{
    const struct copies_range *r = copies_find(&p->full, addr, len);
    if (!r)
        return false;
    size_t into = (size_t)(addr - r->addr);
    *ret = (struct both){{copies_first(&p->full, r) + into, len},
                         {copies_second(&p->full, r) + into, len}};
    return true;
}

/* The first copy, or NULL where it was not read. */
static const unsigned char *get_first(const struct peek *p, scry_addr addr, size_t len)
{
    struct both b;
    return get_both(p, addr, len, &b) ? b.first.data : NULL;
}

static bool same_u64(const struct both *b, int32_t offset)
{
    return raw_u64(b->first, offset) == raw_u64(b->second, offset);
}

bool peek_belongs_to(struct raw tstate, const struct layout *l, const struct py_thread *t)
{
    return raw_u64(tstate, l->ts_thread_id) == t->thread_id &&
           (l->ts_native_thread_id == LAYOUT_NONE || !t->ns_tid ||
            raw_u32(tstate, l->ts_native_thread_id) == (uint32_t)t->ns_tid);
}

/* The current frame, the same in both copies (P1), and a frame that the chain leads through, if one is known: what
 * the evaluator before this one runs (3.11, 3.12; frames.c says why). */
static enum peek_result current_frame(struct peek *p, const struct layout *l,
                                      const struct py_thread *t, scry_addr *ret_frame,
                                      scry_addr *ret_outer)
{
    struct both ts, cf;
    if (!get_both(p, p->tstate, p->tstate_len, &ts) || !peek_belongs_to(ts.second, l, t))
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

enum peek_result peek_take_frame(struct peek *p, const struct layout *l, const struct both *b,
                                 scry_addr addr, scry_addr *ret_caller)
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

size_t peek_same_bytes(const unsigned char *a, const unsigned char *b, size_t len)
{
    len &= ~(size_t)7;
    if (memcmp(a, b, len) == 0) /* mostly */
        return len;
    size_t i = 0;
    while (len - i >= 256 && memcmp(a + i, b + i, 256) == 0)
        i += 256;
    while (len - i >= 8 && memcmp(a + i, b + i, 8) == 0)
        i += 8;
    return i;
}

/* The range that a frame lies in: those of its callers mostly do, too. */
struct window {
    const struct copies_range *range; /* NULL = none yet */
    const unsigned char *first, *second;
    size_t same; /* so many bytes from its beginning are the same in both copies */
};

static bool window_holds(const struct window *w, scry_addr addr, size_t len)
{
    return w->range && addr - w->range->addr <= w->range->len &&
           len <= w->range->len - (addr - w->range->addr);
}

static bool get_frame(const struct peek *p, scry_addr addr, size_t len, struct window *w,
                      struct both *ret)
{
    if (!window_holds(w, addr, len)) {
        w->range = copies_find(&p->full, addr, len);
        if (!w->range)
            return false;
        w->first = copies_first(&p->full, w->range);
        w->second = copies_second(&p->full, w->range);
        w->same = peek_same_bytes(w->first, w->second, w->range->len);
    }
    size_t into = (size_t)(addr - w->range->addr);
    *ret = (struct both){{w->first + into, len}, {w->second + into, len}};
    return true;
}

/* A caller stands still while its callee runs, all of it: its variables too, which tell one round
 * of a loop from the next. They lie between its own frame and the callee's where both are on the
 * data stack. */
static bool caller_unchanged(const struct window *w, scry_addr caller, scry_addr callee)
{
    if (!callee || callee <= caller || callee - caller > MAX_FRAME_SPAN)
        return true;
    size_t len = (size_t)(callee - caller), into = (size_t)(caller - w->range->addr);
    if (into + len <= w->same || !window_holds(w, caller, len))
        return true;
    return memcmp(w->first + into, w->second + into, len) == 0;
}

/* Whether the innermost frame differs between the copies, with what was read behind it: there are its variables (3.11+).
 * The instruction alone does not say, for from 3.14 on it is not written down at each step. */
static bool leaf_changed(const struct peek *p, const struct layout *l, scry_addr leaf)
{
    const struct copies_range *r = copies_find(&p->full, leaf, frame_size(l));
    if (!r)
        return false;
    size_t into = (size_t)(leaf - r->addr);
    size_t len = l->if_size == LAYOUT_NONE ? frame_size(l) : r->len - into;
    return memcmp(copies_first(&p->full, r) + into, copies_second(&p->full, r) + into, len) != 0;
}

static enum peek_result walk_copies(struct peek *p, struct python *py, const struct py_thread *t)
{
    const struct layout *l = &py->layout;
    bool objects = l->if_size == LAYOUT_NONE;
    size_t size = frame_size(l);
    scry_addr at, outer = 0, callee = 0;
    bool shim = false, met_outer = false;
    struct window w = {0};
    p->found.count = 0;
    enum peek_result r = current_frame(p, l, t, &at, &outer);
    p->leaf = r == PEEK_PROVED ? at : 0;
    p->saw_it_run = r == PEEK_PROVED && leaf_changed(p, l, at);
    for (int steps = 0; r == PEEK_PROVED && at; steps++) {
        struct both b;
        if (steps > MAX_FRAMES || at & 7)
            return PEEK_MOVED;
        if (!get_frame(p, at, size, &w, &b))
            return PEEK_MISSED;
        if (!objects && !caller_unchanged(&w, at, callee))
            return PEEK_MOVED;
        met_outer |= at == outer;
        callee = at;
        r = objects ? take_frame_object(p, l, &b, at, &at) : peek_take_frame(p, l, &b, at, &at);
        shim = !objects && raw_u8(b.first, l->if_owner) >= OWNER_SHIM;
    }
    if (r == PEEK_PROVED && (!walk_has_end(l, &p->found, shim) || (outer && !met_outer)))
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
        copies[i] = get_first(p, places[i].addr, places[i].len);
        if (!copies[i]) {
            *ret_missed = true;
            return false;
        }
    }
    return code_matches(l, code, places, copies, count);
}

static bool read_generation(const struct peek *p, const struct layout *l, const struct py_thread *t,
                            uint64_t *ret)
{
    const unsigned char *g = get_first(p, t->interp + (scry_addr)l->is_code_object_generation, 8);
    if (g)
        *ret = code_generation(l, g);
    return g != NULL;
}

void peek_check_codes_for(struct peek *p, const struct layout *l, int looks)
{
    if (has_generation(l) && p->churn < looks)
        p->churn = looks;
}

/* P4. A code object that is not known cannot be proved here: its names would be read while it runs.
 */
static enum peek_result check_code_objects(struct peek *p, struct python *py,
                                           const struct py_thread *t)
{
    const struct layout *l = &py->layout;
    uint64_t generation = 0;
    if (has_generation(l)) {
        if (!read_generation(p, l, t, &generation))
            return PEEK_MISSED;
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
        if (code_is_of(code, generation))
            continue;
        peek_check_codes_for(p, l, code->generation ? PEEK_CHURN_LOOKS : PEEK_CHURN_NEW);
        if (!code_unchanged(p, l, code, &missed))
            return PEEK_MISSED;
        code_cache_stamp(&py->codes, addr, generation);
    }
    return PEEK_PROVED;
}

bool peek_same_frame(const struct found_frame *a, const struct found_frame *b)
{
    return a->code == b->code && a->instr == b->instr && a->addr == b->addr &&
           a->tlbc_index == b->tlbc_index;
}

/* How many of the outermost frames are the same as last time. */
static size_t count_same(const struct found_frames *a, const struct found_frames *b)
{
    size_t shorter = a->count < b->count ? a->count : b->count, n = 0;
    while (n < shorter && peek_same_frame(&a->items[a->count - 1 - n], &b->items[b->count - 1 - n]))
        n++;
    return n;
}

static void swap_found(struct peek *p)
{
    struct found_frames other = p->last;
    p->last = p->found;
    p->found = other;
}

void peek_read_gil(struct raw tstate, const struct layout *l, struct py_thread *t)
{
    if (l->ts_status != LAYOUT_NONE)
        t->owns_gil = raw_u32(tstate, l->ts_status) >> 4 & 1;
}

static void read_gil(struct peek *p, struct python *py, struct py_thread *t)
{
    struct both ts;
    if (py->tstate_current_at) {
        const unsigned char *holder = get_first(p, py->tstate_current_at, 8);
        t->owns_gil = holder && raw_u64((struct raw){holder, 8}, 0) == t->tstate;
    } else if (get_both(p, p->tstate, p->tstate_len, &ts)) {
        peek_read_gil(ts.second, &py->layout, t);
    }
}

bool peek_lines_known(const struct py_thread *t, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (t->frames[i].offset == INT32_MAX)
            return false;
    return true;
}

static void keep(struct peek *p, const unsigned char *copy, size_t len, size_t frames,
                 const struct copies_range *r, uint64_t generation)
{
    p->kept.copy = copy;
    p->kept.len = len;
    p->kept.frames = frames;
    p->kept.addr = r->addr;
    p->kept.room = r->len;
    p->kept.generation = generation;
}

static bool lies_in(const struct copies_range *r, scry_addr addr)
{
    return addr - r->addr < r->len;
}

/* The pieces of the data stack that the frames of the last stack lie in, from the top down; how many, 0 if there are
 * too many, or frames elsewhere. *ret_upper: so many frames lie in the first one. */
static int find_pieces(const struct peek *p, const struct layout *l,
                       const struct copies_range *ret_pieces[1 + PEEK_LOWER_MOST],
                       size_t *ret_upper)
{
    int count = 0;
    *ret_upper = p->last.count;
    for (size_t i = 0; i < p->last.count; i++) {
        scry_addr addr = p->last.items[i].addr;
        if (count && lies_in(ret_pieces[count - 1], addr))
            continue;
        if (count == 1)
            *ret_upper = i;
        const struct copies_range *r = copies_find(&p->full, addr, (size_t)l->if_size);
        if (!r || r->when != COPIES_TWICE || count > PEEK_LOWER_MOST)
            return 0;
        for (int k = 0; k < count; k++)
            if (ret_pieces[k] == r)
                return 0;
        ret_pieces[count++] = r;
    }
    return count;
}

/* After a full reading that was proved: may the next one be quick? All frames must lie on the data stack. */
static void consider_quick(struct peek *p, struct python *py, const struct py_thread *t)
{
    const struct layout *l = &py->layout;
    const struct copies_range *pieces[1 + PEEK_LOWER_MOST];
    struct mem_range lower[PEEK_LOWER_MOST];
    uint64_t generation;
    size_t upper;
    if (p->full_for > 0) {
        p->full_for--;
        return;
    }
    if (!has_generation(l) || py->tstate_current_at || !p->last.count ||
        !read_generation(p, l, t, &generation))
        return;
    int count = find_pieces(p, l, pieces, &upper);
    for (int i = 1; i < count; i++)
        lower[i - 1] = (struct mem_range){
            pieces[i]->addr, (void *)(uintptr_t)copies_second(&p->full, pieces[i]), pieces[i]->len};
    if (!count || !quick_keep_lower(&p->quick, lower, count - 1))
        return;
    keep(p, copies_second(&p->full, pieces[0]), pieces[0]->len, upper, pieces[0], generation);
    p->is_quick = quick_begin(p, l, t);
}

static bool copy_found(struct found_frames *to, const struct found_frames *from)
{
    to->count = 0;
    for (size_t i = 0; i < from->count; i++) {
        struct found_frame *f = found_add(to);
        if (!f)
            return false;
        *f = from->items[i];
    }
    return true;
}

static bool copy_trusted(struct peek *p, const struct walk_copy *w)
{
    if (p->trusted_cap < w->len) {
        unsigned char *grown = realloc(p->trusted, w->len * 2);
        if (!grown)
            return false;
        p->trusted = grown;
        p->trusted_cap = w->len * 2;
    }
    memcpy(p->trusted, w->data, w->len);
    return true;
}

void peek_trust(struct peek *p, struct python *py, const struct py_thread *t)
{
    struct walk_copy w;
    if (!p->has_guess || t->incomplete || py->tstate_current_at || !walk_copy(py, &w))
        return;
    const struct copies_range *r = copies_find(&p->still, w.addr, w.len);
    if (!r || r->when != COPIES_TWICE || r->addr != w.addr || !copy_found(&p->last, w.found) ||
        !copy_trusted(p, &w) || !quick_keep_lower(&p->quick, NULL, 0))
        return;
    keep(p, p->trusted, w.len, p->last.count, r, w.generation);
    for (size_t i = 0; i < t->frame_count; i++)
        code_cache_stamp(&py->codes, t->frames[i].code->addr, w.generation);
    p->has_last = p->is_quick = quick_begin(p, &py->layout, t);
}

static enum peek_result judge_full(struct peek *p, struct python *py, struct py_thread *t)
{
    enum peek_result r = walk_copies(p, py, t);
    if (r == PEEK_PROVED)
        r = check_code_objects(p, py, t);
    if (r != PEEK_PROVED)
        return r;
    read_gil(p, py, t);
    size_t same = p->has_last ? count_same(&p->found, &p->last) : 0;
    if (p->has_last && same == p->found.count && same == p->last.count) {
        consider_quick(p, py, t);
        return PEEK_SAME;
    }
    /* Hidden frames make the two lists differ in length. */
    if (t->frame_count != p->last.count)
        same = 0;
    forget_last(p);
    if (walk_resolve_known(py, &p->found, same, t) < 0)
        return PEEK_MOVED;
    t->incomplete = false;
    if (!peek_lines_known(t, t->frame_count))
        return PEEK_MOVED;
    swap_found(p);
    p->has_last = true;
    consider_quick(p, py, t);
    return PEEK_PROVED;
}

enum peek_result peek_judge(struct peek *p, struct python *py, struct py_thread *t)
{
    if (!p->is_quick)
        return judge_full(p, py, t);
    enum peek_result r = quick_judge(p, py, t);
    if (r == PEEK_PROVED || r == PEEK_SAME)
        p->full_after = FULL_FIRST;
    return r;
}

bool peek_widen(struct peek *p)
{
    if (!p->is_quick)
        return false;
    p->is_quick = false;
    p->full_for = p->full_after;
    p->full_after = p->full_after * 2 < FULL_MOST ? p->full_after * 2 : FULL_MOST;
    /* Code objects that have to be checked are not among what was to be read. */
    return p->churn < PEEK_CHURN_LOOKS;
}

int peek_relearn(struct peek *p, struct python *py, const struct py_thread *t)
{
    p->scratch.tstate = t->tstate;
    p->scratch.interp = t->interp;
    p->scratch.thread_id = t->thread_id;
    int r = python_walk(py, &p->scratch);
    if (r < 0)
        return r;
    peek_learn(p, py, &p->scratch);
    peek_prepare(p, py, &p->scratch);
    return 0;
}
