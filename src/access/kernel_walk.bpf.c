// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Runs in the kernel, by a timer of each CPU, in the middle of whatever runs there. If that is a thread of the target, nothing it has can change
 * meanwhile: the program finds the thread's record, follows the chain that begins there and hands over what it met. It knows
 * nothing of Python; what is where stands in the plan, which is constant for the program that is loaded. */
#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "kernel_walk_wire.h"

#define THREADS      4096
#define KNOWN_MOST   8192
#define ASK_AGAIN_NS 20000000ULL

char terms[] SEC("license") = "Dual MIT/GPL";

const volatile struct kernel_plan plan;

struct sched_entity {
    __u64 sum_exec_runtime;
} __attribute__((preserve_access_index));

struct task_struct {
    struct sched_entity se;
} __attribute__((preserve_access_index));

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, KERNEL_WALK_ROOM);
} samples SEC(".maps");

/* One for each CPU: what runs by a timer is not interrupted by another. */
struct scratch {
    struct kernel_sample head;
    struct kernel_node nodes[KERNEL_WALK_NODES];
};
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, struct scratch);
    __uint(max_entries, 1);
} scratches SEC(".maps");

/* What is known of a thread. */
struct known {
    __u64 record; /* 0 = it has none, as of ... */
    __u64 asked;  /* ... then */
};
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __type(key, __u32);
    __type(value, struct known);
    __uint(max_entries, THREADS);
} threads SEC(".maps");

/* What runs in nodes, by address, with its mark: those that are known. For others whoever collects is woken, since they may be gone soon. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __type(key, __u64);
    __type(value, __u64);
    __uint(max_entries, KNOWN_MOST);
} known_whats SEC(".maps");

__u64 lost = 0; /* samples there was no room for */

static inline __attribute__((always_inline)) long read_word(__u64 *to, __u64 at)
{
    return bpf_probe_read_user(to, sizeof(*to), (const void *)at);
}

/* ---- the thread's record ---- */

struct search {
    __u64 at, found;
    __u64 tid;
    __u64 bare; /* one without a chain */
};

static inline __attribute__((always_inline)) __u64 first_node(__u64 record, __u64 *ret_further)
{
    __u64 first = 0, via[2];
    *ret_further = 0;
    if (read_word(&first, record + plan.record_first) || plan.first_via < 0 || !first)
        return first;
    if (bpf_probe_read_user(via, sizeof(via), (const void *)(first + plan.first_via)))
        return 0;
    if (via[1])
        read_word(ret_further, via[1] + plan.first_via);
    return via[0];
}

static long look_at_record(__u32 i, struct search *s)
{
    __u64 key = 0, further, at = s->at;
    if (!at)
        return 1;
    if (read_word(&key, at + plan.record_key))
        return 1;
    /* The record of a thread that is about to be started may bear the id of the one that starts it. */
    if (key == s->tid) {
        s->bare = at;
        if (first_node(at, &further)) {
            s->found = at;
            return 1;
        }
    }
    return read_word(&s->at, at + plan.record_next) != 0;
}

/* *ret_none: there is none at all, with a chain or without. */
static inline __attribute__((always_inline)) __u64 find_record(__u32 tid, __u32 *ret_none)
{
    *ret_none = 1;
    for (int i = 0; i < KERNEL_WALK_HEADS; i++) {
        struct search s = {.tid = tid};
        if (!plan.heads[i] || read_word(&s.at, plan.heads[i]))
            break;
        bpf_loop(KERNEL_WALK_RECORDS, look_at_record, &s, 0);
        if (s.bare)
            *ret_none = 0;
        if (s.found)
            return s.found;
    }
    return 0;
}

static inline __attribute__((always_inline)) __u64 record_of(__u32 tid, __u64 now)
{
    __u64 key = 0;
    __u32 none = 0;
    struct known *k = bpf_map_lookup_elem(&threads, &tid);
    if (k && k->record && !read_word(&key, k->record + plan.record_key) && key == tid)
        return k->record;
    if (k && !k->record && now - k->asked < ASK_AGAIN_NS)
        return 0;
    struct known fresh = {.record = find_record(tid, &none), .asked = now};
    if (fresh.record || none)
        bpf_map_update_elem(&threads, &tid, &fresh, BPF_ANY);
    return fresh.record;
}

/* ---- its chain ---- */

struct walk {
    __u64 at, further;
    struct scratch *to;
    __u32 count, flags;
    __u32 met_further, may_end;
};

static inline __attribute__((always_inline)) __u64 mark_of(__u64 what, __u32 *flags)
{
    if (plan.mark_number >= 0) {
        __u32 number = 0;
        if (bpf_probe_read_user(&number, sizeof(number), (const void *)(what + plan.mark_number)))
            *flags |= KERNEL_WALK_FAULT;
        return number;
    }
    __u64 words[KERNEL_WALK_MARK_WORDS] = {0}, deep = 0, mark = 0;
    if (bpf_probe_read_user(words, sizeof(words), (const void *)(what + plan.mark_at)))
        *flags |= KERNEL_WALK_FAULT;
    for (int i = 0; i < KERNEL_WALK_MARK_WORDS; i++)
        mark = kernel_mark_mix(mark, words[i]);
    if (read_word(&deep, words[plan.mark_deep & (KERNEL_WALK_MARK_WORDS - 1)] + plan.mark_deep_at))
        *flags |= KERNEL_WALK_FAULT;
    return kernel_mark_mix(mark, deep);
}

static long look_at_node(__u32 i, struct walk *w)
{
    unsigned char node[KERNEL_WALK_SPAN] __attribute__((aligned(8)));
    __u64 at = w->at;
    struct scratch *to = w->to;
    if (!at || !to)
        return 1;
    if (bpf_probe_read_user(node, plan.span, (const void *)at)) {
        w->flags |= KERNEL_WALK_FAULT;
        return 1;
    }
    if (at == w->further)
        w->met_further = 1;
    w->at = *(__u64 *)(node + plan.node_next);
    if (node[plan.node_kind] >= plan.kind_hidden) {
        w->flags |= KERNEL_WALK_HIDDEN;
        return 0;
    }
    w->flags &= ~KERNEL_WALK_HIDDEN;
    if (plan.node_may_end >= 0)
        w->may_end = node[plan.node_may_end];
    __u32 n = w->count;
    if (n >= KERNEL_WALK_NODES) {
        w->flags |= KERNEL_WALK_CUT;
        return 1;
    }
    struct kernel_node *k = &to->nodes[n & (KERNEL_WALK_NODES - 1)];
    k->addr = at;
    k->what = *(__u64 *)(node + plan.node_what) & ~plan.what_tags;
    k->where = *(__u64 *)(node + plan.node_where);
    k->mark = mark_of(k->what, &w->flags);
    const __u64 what = k->what, *known = bpf_map_lookup_elem(&known_whats, &what);
    if (k->mark && (!known || *known != k->mark))
        w->flags |= KERNEL_WALK_NEW;
    w->count = n + 1;
    return 0;
}

/* A chain that has just been begun may not be linked to the rest of it yet: what is further down is known all the same,
 * and a sound chain leads there. A first node that has begun would be linked: then it is not true. */
static inline __attribute__((always_inline)) void follow(struct walk *w)
{
    bpf_loop(KERNEL_WALK_NODES * 2, look_at_node, w, 0);
    if (!w->further || w->met_further)
        return;
    struct scratch *to = w->to;
    __u64 begin = to->nodes[0].what + plan.what_begin;
    w->count = w->count && to->nodes[0].where < begin;
    w->flags = 0;
    w->may_end = 0;
    w->at = w->further;
    bpf_loop(KERNEL_WALK_NODES * 2, look_at_node, w, 0);
}

static inline __attribute__((always_inline)) __u32 holds(__u64 record)
{
    __u64 holder = 0;
    __u32 locked = 1;
    if (!plan.holder_at || read_word(&holder, plan.holder_at) || holder != record)
        return 0;
    if (plan.locked_at &&
        bpf_probe_read_user(&locked, sizeof(locked), (const void *)plan.locked_at))
        return 0;
    return locked ? KERNEL_WALK_HOLDS : 0;
}

SEC("perf_event")
int on_timer(struct bpf_perf_event_data *ctx)
{
    struct bpf_pidns_info id;
    if (bpf_get_ns_current_pid_tgid(plan.ns_dev, plan.ns_ino, &id, sizeof(id)) ||
        id.tgid != plan.tgid)
        return 0;
    __u64 now = bpf_ktime_get_ns();
    __u64 record = record_of(id.pid, now);
    if (!record)
        return 0;
    __u32 cpu = bpf_get_smp_processor_id();
    struct scratch *to = bpf_map_lookup_elem(&scratches, &cpu);
    if (!to)
        return 0;
    struct walk w = {.to = to};
    w.at = first_node(record, &w.further);
    if (!w.at)
        return 0;
    follow(&w);
    const struct task_struct *task = (const struct task_struct *)bpf_get_current_task();
    to->head.time = now;
    to->head.record = record;
    to->head.period = ctx->sample_period;
    to->head.ran = BPF_CORE_READ(task, se.sum_exec_runtime);
    to->head.tid = id.pid;
    to->head.flags =
        w.flags | (w.may_end ? KERNEL_WALK_MAY : 0) | (w.at ? KERNEL_WALK_CUT : 0) | holds(record);
    __u32 count = w.count;
    if (count > KERNEL_WALK_NODES)
        return 0;
    to->head.count = count;
    to->head.reserved = 0;
    if (bpf_ringbuf_output(&samples, to, sizeof(to->head) + count * sizeof(to->nodes[0]),
                           w.flags & KERNEL_WALK_NEW ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP))
        __sync_fetch_and_add(&lost, 1);
    return 0;
}
