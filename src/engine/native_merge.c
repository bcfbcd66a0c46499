/* Putting Python's frames in their place among native ones.
 *
 *   M1  From 3.11 on each call of the evaluator keeps a record of its Python frames in its own native
 *       frame; the record's address says which native frame that is.
 *   M2  Before, each call of the evaluator runs one Python frame: the nth evaluator from outside runs
 *       the nth Python frame. An innermost one too many has not linked its frame in yet, or has it
 *       linked out already.
 *   M3  If the outer native frames are not known, the Python frames they would run go below.
 *   M4  Every Python frame is in the result, in its order; or there is no result. */
#include <stdlib.h>

#include "engine/native_private.h"

struct merge {
    struct native *native;
    const struct py_thread *python;
    struct merged_stack *to;
    size_t entry; /* next to be placed */
    size_t frame; /* the first of its frames */
    bool failed;
};

static struct merged_frame *add(struct merge *m)
{
    struct merged_stack *s = m->to;
    if (s->count == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 64;
        struct merged_frame *grown = realloc(s->frames, cap * sizeof(*grown));
        if (!grown) {
            m->failed = true;
            return NULL;
        }
        s->frames = grown;
        s->cap = cap;
    }
    return &s->frames[s->count++];
}

static void place_entry(struct merge *m)
{
    size_t count = m->native->entries.items[m->entry++].frame_count;
    for (size_t i = 0; i < count; i++) {
        struct merged_frame *f = add(m);
        if (f)
            *f = (struct merged_frame){.python = (uint32_t)m->frame};
        m->frame++;
    }
}

static bool is_shown(const struct native *n, struct native_code *code)
{
    return n->all || native_role(code, n->python_binary) == ROLE_ORDINARY;
}

/* A function and those inlined into it. */
static void place_native(struct merge *m, struct native_code *code, scry_addr pc)
{
    for (; code; code = code->next) {
        struct merged_frame *f = is_shown(m->native, code) ? add(m) : NULL;
        if (f)
            *f = (struct merged_frame){.native = code, .pc = pc};
    }
}

static struct native_code *code_of(struct merge *m, const struct native_frame *f)
{
    struct native_code *code = symbolizer_find(&m->native->symbolizer, f->pc, f->exact);
    m->failed |= !code;
    return code;
}

/* The role of the function that was really called, not of one inlined into it. */
static bool is_evaluator(struct merge *m, struct native_code *code)
{
    while (code && code->next)
        code = code->next;
    return code && native_role(code, m->native->python_binary) == ROLE_EVALUATOR;
}

static bool has_addresses(const struct py_entries *e)
{
    for (size_t i = 0; i < e->count; i++)
        if (!e->items[i].at || (i && e->items[i].at <= e->items[i - 1].at))
            return false;
    return e->count > 0;
}

/* The frame at which the walk ended before the outermost has no known end: it is taken to run one
 * entry if it is the evaluator's. */
static bool runs_entry(struct merge *m, const struct native_frame *f, struct native_code *code)
{
    const struct py_entries *e = &m->native->entries;
    if (m->entry == e->count || e->items[m->entry].at < f->sp)
        return false;
    return f->end == UINT64_MAX ? is_evaluator(m, code) : e->items[m->entry].at < f->end;
}

/* M1. False when an entry lies in none of the frames. */
static bool merge_by_address(struct merge *m)
{
    const struct unwound *u = &m->native->unwound;
    const struct py_entries *e = &m->native->entries;
    for (size_t i = 0; i < u->count && !m->failed; i++) {
        const struct native_frame *f = &u->frames[i];
        struct native_code *code = code_of(m, f);
        if (m->entry < e->count && e->items[m->entry].at < f->sp)
            return false;
        bool runs = false;
        while (runs_entry(m, f, code)) {
            place_entry(m);
            runs = true;
            if (f->end == UINT64_MAX)
                break;
        }
        if (!runs)
            place_native(m, code, f->pc);
    }
    return true;
}

static size_t count_evaluators(struct merge *m)
{
    const struct unwound *u = &m->native->unwound;
    size_t n = 0;
    for (size_t i = 0; i < u->count && !m->failed; i++)
        n += is_evaluator(m, code_of(m, &u->frames[i]));
    return n;
}

/* M2. */
static bool merge_by_count(struct merge *m)
{
    const struct unwound *u = &m->native->unwound;
    size_t evaluators = count_evaluators(m), entries = m->native->entries.count;
    bool complete = u->end == UNWIND_COMPLETE;
    if (evaluators > entries + 1 || (complete && evaluators < entries))
        return false;
    size_t skip = evaluators > entries ? evaluators - entries : 0;
    for (size_t i = 0; i < u->count && !m->failed; i++) {
        struct native_code *code = code_of(m, &u->frames[i]);
        if (skip && is_evaluator(m, code)) {
            place_native(m, code, u->frames[i].pc);
            skip--;
        } else if (is_evaluator(m, code)) {
            place_entry(m);
        } else {
            place_native(m, code, u->frames[i].pc);
        }
    }
    return true;
}

/* How a program starts has no names where the C library has been stripped. */
static void drop_nameless_start(struct merge *m)
{
    struct merged_stack *s = m->to;
    while (!m->native->all && m->frame && s->count && s->frames[s->count - 1].native &&
           !s->frames[s->count - 1].native->symbol[0] && !s->frames[s->count - 1].native->line)
        s->count--;
}

int native_merge(struct native *n, const struct py_thread *python, struct merged_stack *to)
{
    struct merge m = {.native = n, .python = python, .to = to};
    const struct py_entries *e = &n->entries;
    to->count = 0;
    bool matched = has_addresses(e) ? merge_by_address(&m) : merge_by_count(&m);
    bool complete = n->unwound.end == UNWIND_COMPLETE;
    to->state = complete ? NATIVE_MERGED : NATIVE_CUT;
    if (matched && m.entry < e->count && complete)
        matched = false;
    if (complete)
        drop_nameless_start(&m);
    while (matched && m.entry < e->count) /* M3 */
        place_entry(&m);
    if (m.failed || !matched || m.frame != python->frame_count) { /* M4 */
        to->count = 0;
        to->state = NATIVE_UNMATCHED;
    }
    return m.failed ? -SCRY_E_NO_MEMORY : 0;
}
