/* A sample says which code objects the frames ran, by address and with a mark that was taken at the same moment. One that is in
 * the cache with this mark is the same; one that is not is read now, which is later: if it still bears the mark, it was there
 * all the time. */
#include "cpython/in_kernel.h"

#include <stdlib.h>
#include <string.h>

#include "cpython/walk.h"

#define MARK_WORDS_OLD 3 /* up to 3.10 there is no qualified name, and what follows changes */

struct in_kernel {
    struct kernel_node *nodes; /* the last sample's, leaf first */
    size_t count, cap;
    struct found_frames found;
};

struct in_kernel *in_kernel_new(void)
{
    return calloc(1, sizeof(struct in_kernel));
}

void in_kernel_free(struct in_kernel *k)
{
    if (!k)
        return;
    free(k->nodes);
    found_done(&k->found);
    free(k);
}

/* ---- what to follow ---- */

static void plan_mark(const struct layout *l, struct kernel_plan *plan)
{
    plan->mark_number = l->co_version;
    plan->mark_at = plan->mark_deep = plan->mark_deep_at = KERNEL_WALK_NONE;
    if (l->co_version != LAYOUT_NONE)
        return;
    /* The names of file, function and where it is defined, and the table of lines, one after the other; and the hash of the function's
     * name, for an address comes back with another text. */
    plan->mark_at = l->co_filename;
    plan->mark_words = l->if_size == LAYOUT_NONE ? MARK_WORDS_OLD : KERNEL_WALK_MARK_WORDS;
    plan->mark_deep = (l->co_name - l->co_filename) / 8;
    plan->mark_deep_at = l->ascii_length + 8;
}

static int plan_lists(struct python *py, struct kernel_plan *plan)
{
    const struct layout *l = &py->layout;
    scry_addr interp, gil;
    int r = mem_read_u64(py->view.mem, py->interp_head_at, &interp);
    for (size_t i = 0; r == 0 && interp && i < KERNEL_WALK_HEADS; i++) {
        plan->heads[i] = interp + (scry_addr)l->is_threads_head;
        /* Others than the first one's are not told of. */
        if (i == 0 && l->is_ceval_gil != LAYOUT_NONE && l->gil_locked != LAYOUT_NONE &&
            mem_read_u64(py->view.mem, interp + (scry_addr)l->is_ceval_gil, &gil) == 0 && gil) {
            plan->holder_at = gil + (scry_addr)l->gil_last_holder;
            plan->locked_at = gil + (scry_addr)l->gil_locked;
        }
        r = mem_read_u64(py->view.mem, interp + (scry_addr)l->is_next, &interp);
    }
    if (!plan->holder_at)
        plan->holder_at = py->tstate_current_at;
    return r;
}

static bool fits(const struct kernel_plan *plan)
{
    int32_t where_size = plan->where_bits == UINT32_MAX ? 4 : 8;
    const int32_t ends[] = {plan->node_next + 8, plan->node_what + 8, plan->node_where + where_size,
                            plan->node_kind + 1, plan->node_may_end + 1};
    uint32_t span = 0;
    for (size_t i = 0; i < ARRAY_LEN(ends); i++)
        if (ends[i] > (int32_t)span)
            span = (uint32_t)ends[i];
    return span <= plan->span && plan->span <= KERNEL_WALK_SPAN && plan->node_next >= 0 &&
           plan->node_what >= 0 && plan->node_where >= 0;
}

static bool can_be_read(const struct layout *l)
{
    bool frames_by_pointer = l->if_size == LAYOUT_NONE;
#if defined(__x86_64__)
    bool threads_by_pointer = frames_by_pointer;
#else
    bool threads_by_pointer = false;
#endif
    return !l->free_threaded && l->ascii_length != LAYOUT_NONE &&
           (l->ts_native_thread_id != LAYOUT_NONE || threads_by_pointer);
}

/* Up to 3.10 frames are objects, and a thread's state bears what pthread_self() says: on x86-64 that is the thread pointer. */
static struct kernel_plan plan_objects(const struct layout *l)
{
    return (struct kernel_plan){
        .record_next = l->ts_next,
        .record_key = l->ts_thread_id,
        .key_is_pointer = 1,
        .record_first = l->ts_frame,
        .first_via = KERNEL_WALK_NONE,
        .node_next = l->fr_f_back,
        .node_what = l->fr_f_code,
        .node_where = l->fr_f_lasti,
        .where_bits = UINT32_MAX,
        .node_kind = KERNEL_WALK_NONE,
        .node_may_end = KERNEL_WALK_NONE,
        .span = (uint32_t)l->fr_f_lasti + 4,
    };
}

static struct kernel_plan plan_frames(const struct layout *l)
{
    bool through_cframe = l->ts_current_frame == LAYOUT_NONE;
    return (struct kernel_plan){
        .record_next = l->ts_next,
        .record_key = l->ts_native_thread_id,
        .record_first = through_cframe ? l->ts_cframe : l->ts_current_frame,
        .first_via = through_cframe ? l->cframe_current_frame : KERNEL_WALK_NONE,
        .node_next = l->if_previous,
        .node_what = l->if_code,
        .node_where = l->if_instr,
        .where_bits = UINT64_MAX,
        .node_kind = l->if_owner,
        .node_may_end = l->if_is_entry,
        .kind_hidden = OWNER_SHIM,
        .what_tags = l->tagged_refs ? TAG_MASK : 0,
        .what_begin = l->co_code_adaptive,
        .span = (uint32_t)l->if_size < KERNEL_WALK_SPAN ? (uint32_t)l->if_size : KERNEL_WALK_SPAN,
    };
}

int in_kernel_plan(struct python *py, struct kernel_plan *ret, struct error *err)
{
    const struct layout *l = &py->layout;
    if (!can_be_read(l)) {
        char version[32];
        py_version_text(py, version, sizeof(version));
        error_set(err, -SCRY_E_UNSUPPORTED,
                  "the kernel cannot be asked to read stacks of Python %s", version);
        error_hint(err, "--reader memory can");
        return -SCRY_E_UNSUPPORTED;
    }
    *ret = l->if_size == LAYOUT_NONE ? plan_objects(l) : plan_frames(l);
    plan_mark(l, ret);
    if (l->is_code_object_generation != LAYOUT_NONE) {
        ret->generation = l->is_code_object_generation - l->is_threads_head;
        ret->generation_size = l->counts_births ? 4 : 8;
    }
    int r = plan_lists(py, ret);
    if (r < 0)
        return error_set(err, r, "Python's list of threads cannot be read");
    return fits(ret)
               ? 0
               : error_set(err, -SCRY_E_UNSUPPORTED,
                           "frames of this Python are larger than the kernel can be asked to read");
}

/* ---- what came of it ---- */

static uint64_t mark_now(struct python *py, scry_addr code)
{
    const struct layout *l = &py->layout;
    if (l->co_version != LAYOUT_NONE) {
        uint32_t version = 0;
        mem_read(py->view.mem, code + (scry_addr)l->co_version, &version, sizeof(version));
        return version;
    }
    struct kernel_plan plan;
    uint64_t words[KERNEL_WALK_MARK_WORDS] = {0}, deep = 0, mark = 0;
    plan_mark(l, &plan);
    if (mem_read(py->view.mem, code + (scry_addr)plan.mark_at, words, sizeof(words)) < 0 ||
        mem_read_u64(py->view.mem, words[plan.mark_deep] + (scry_addr)plan.mark_deep_at, &deep) < 0)
        return 0;
    for (size_t i = 0; i < plan.mark_words; i++)
        mark = kernel_mark_mix(mark, words[i]);
    return kernel_mark_mix(mark, deep);
}

/* Whether the cache has the code object that the frame ran. */
static bool is_known(struct python *py, struct kernel_walk *walk, const struct kernel_node *node)
{
    const scry_addr addr = node->what;
    const struct py_code *code = code_cache_peek(&py->codes, addr);
    if (code && node->mark && code->kernel_mark == node->mark)
        return true;
    /* Those of CPython's own making have no number, and live for ever. */
    if (!node->mark && (code || code_cache_get(&py->codes, &addr, 1, NULL, &code) == 0))
        return code && code->artificial;
    if (code_cache_get(&py->codes, &addr, 1, NULL, &code) < 0 || !code ||
        mark_now(py, addr) != node->mark)
        return false;
    code_cache_set_mark(&py->codes, addr, node->mark);
    if (walk)
        kernel_walk_know(walk, addr, node->mark);
    return true;
}

static bool keep_nodes(struct in_kernel *k, const struct kernel_node *nodes, size_t count)
{
    if (k->cap < count) {
        size_t cap = count + count / 2 + 16;
        struct kernel_node *grown = realloc(k->nodes, cap * sizeof(*grown));
        if (!grown)
            return false;
        k->nodes = grown;
        k->cap = cap;
    }
    if (count)
        memcpy(k->nodes, nodes, count * sizeof(*nodes));
    k->count = count;
    return true;
}

/* So many outermost nodes are the same as last time. */
static size_t same_callers(const struct in_kernel *k, const struct kernel_node *nodes, size_t count)
{
    size_t n = 0, most = count < k->count ? count : k->count;
    while (n < most &&
           memcmp(&nodes[count - 1 - n], &k->nodes[k->count - 1 - n], sizeof(*nodes)) == 0)
        n++;
    return n;
}

static bool ends_well(const struct layout *l, const struct kernel_sample *s)
{
    if (s->flags & (KERNEL_WALK_FAULT | KERNEL_WALK_CUT))
        return false;
    if (l->if_size == LAYOUT_NONE)
        return true;
    return s->flags & (l->if_is_entry == LAYOUT_NONE ? KERNEL_WALK_HIDDEN : KERNEL_WALK_MAY);
}

static struct found_frame *add_found(struct in_kernel *k, const struct layout *l,
                                     const struct kernel_node *node)
{
    struct found_frame *f = found_add(&k->found);
    if (f) {
        f->addr = node->addr;
        f->code = node->what;
        f->instr = l->if_size == LAYOUT_NONE ? (scry_addr)(int32_t)node->where : node->where;
    }
    return f;
}

int in_kernel_take(struct in_kernel *k, struct python *py, struct kernel_walk *walk,
                   const struct kernel_sample *sample, const struct kernel_node *nodes,
                   struct py_thread *t)
{
    size_t count = sample->count, same = same_callers(k, nodes, count);
    t->owns_gil = sample->flags & KERNEL_WALK_HOLDS;
    if (!ends_well(&py->layout, sample))
        return -SCRY_E_TORN;
    if (same == count && count == k->count && t->frame_count)
        return 0;
    /* Frames that are hidden, or whose functions were gone, have no place among the thread's. */
    if (t->frame_count != k->count)
        same = 0;
    bool gone = false;
    t->incomplete = false;
    k->found.count = 0;
    for (size_t i = 0; i < count; i++) {
        bool known = i >= count - same || is_known(py, walk, &nodes[i]);
        gone |= !known;
        if (known && !add_found(k, &py->layout, &nodes[i]))
            return -SCRY_E_NO_MEMORY;
    }
    /* Without all of them nobody may compare with it. */
    if (!keep_nodes(k, nodes, gone ? 0 : count))
        return -SCRY_E_NO_MEMORY;
    int r = walk_resolve_known(py, &k->found, same, t);
    return r == 0 && gone ? -SCRY_E_CORRUPT : r;
}
