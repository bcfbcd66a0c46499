// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Runs in the kernel, in the middle of a thread of the target, when nothing that this thread has can change: by a timer of each CPU, and when
 * a thread that had to wait for a CPU has got one, before it goes on. The program finds the thread's record, follows the chain that begins there and hands over
 * what it met. It knows nothing of Python; what is where stands in the plan, which is constant for the program that is loaded. */
#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "kernel_walk_wire.h"

#define THREADS      4096
#define YOUNG        20000000ULL /* nanoseconds; a thread that has no record may have one any moment */
#define PATIENCE     2 /* a thread that has none is asked for again when it is met so often, then ... */
#define PATIENCE_MAX 512 /* ... twice as often, and so on */
#define PAGE         4096
#define WINDOW_AT    256  /* in scratch.bytes; before it one node alone */
#define BYTES        8192 /* of it: a page, and the node that goes on behind it; a power of 2 */
#define SEEN         512  /* a power of 2 */
#define LONGEST      1000000000ULL
#define IDLE_UNIT    64 /* a power of 2 */

/* The kernel proves a function that anybody might call once, others anew at each call and in each turn of a loop: fifty milliseconds in all. */
#define ONCE __attribute__((noinline))

char terms[] SEC("license") = "Dual MIT/GPL";

const volatile struct kernel_plan plan;

struct sched_entity {
    __u64 sum_exec_runtime;
} __attribute__((preserve_access_index));

struct sched_info {
    unsigned long long run_delay;
} __attribute__((preserve_access_index));

struct thread_struct {
    unsigned long fsbase;
} __attribute__((preserve_access_index));

struct task_struct {
    int pid, tgid;
    struct thread_struct thread;
    struct sched_entity se;
    struct sched_info sched_info;
    __u64 start_time;
} __attribute__((preserve_access_index));

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, KERNEL_WALK_ROOM);
} samples SEC(".maps");

/* Something whose mark was read when its generation was this one. */
struct seen {
    __u64 what, mark, generation;
    __u64 known; /* and somebody knows it */
};

/* A few for programs that a timer may interrupt, which must be free; behind these one for each CPU: what runs by a timer is not interrupted by
 * another. */
struct scratch {
    struct kernel_sample head;
    struct kernel_node nodes[KERNEL_WALK_NODES];
    unsigned char bytes[BYTES + KERNEL_WALK_SPAN];
    __u64 window, window_end; /* addresses that are in `bytes` from WINDOW_AT on */
    __u64 page;               /* of the last node that was not */
    struct seen seen[SEEN];
    __u64 taken;  /* by a program that can be interrupted */
    __u64 ticked; /* when the CPU's timer went off last */
};
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, struct scratch);
    __uint(max_entries, KERNEL_WALK_SPARE + 1); /* kernel_walk.c knows how many CPUs there are */
} scratches SEC(".maps");

/* What is known of a thread. */
struct known {
    __u64 record;     /* 0 = it has none; that is asked ... */
    __u32 left, wait; /* ... when it was met so often again; and so often since it was asked last */
    __u64 head;       /* of its list */
    __u64 delay;      /* how long it has stood in the queue of a CPU so far ... */
    __u64 owed;       /* ... and what of its waiting no sample stands for */
    __u64 waits;      /* both are known */
    __u64 woken;      /* when; 0 = it got a CPU since */
    __u64 woken_with; /* what it had run by then; if it has run since it was awake already */
    __u32 tid;        /* as the target knows it */
};
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __type(key, __u32); /* its number for the kernel itself */
    __type(value, struct known);
    __uint(max_entries, THREADS);
} threads SEC(".maps");

/* What is known. For anything else whoever collects is woken, since it may be gone soon. */
struct known_whats {
    struct kernel_known known[KERNEL_WALK_KNOWN];
};
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __type(key, __u32);
    __type(value, struct known_whats);
    __uint(max_entries, 1);
} known_whats SEC(".maps");

struct kernel_counts counts = {};

static inline __attribute__((always_inline)) long read_word(__u64 *to, __u64 at)
{
    return bpf_probe_read_user(to, sizeof(*to), (const void *)at);
}

/* ---- the thread's record ---- */

struct search {
    __u64 at, found;
    __u64 key;
    __u64 bare; /* one without a chain */
    __u32 list;
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
    if (!at) {
        __u32 list = s->list;
        if (list >= KERNEL_WALK_HEADS || !plan.heads[list])
            return 1;
        s->list = list + 1;
        return read_word(&s->at, plan.heads[list]) != 0;
    }
    if (read_word(&key, at + plan.record_key))
        return 1;
    /* The record of a thread that is about to be started may bear the id of the one that starts it. */
    if (key == s->key) {
        s->bare = at;
        if (first_node(at, &further)) {
            s->found = at;
            return 1;
        }
    }
    return read_word(&s->at, at + plan.record_next) != 0;
}

/* Fills in record and head. False: there is none now, but one that will be it soon. */
ONCE int find_record(__u64 key, struct known *to)
{
    struct search s = {.key = key};
    if (!to)
        return 0;
    bpf_loop(KERNEL_WALK_RECORDS, look_at_record, &s, 0);
    to->record = s.found;
    to->head = plan.heads[(s.list - 1) & (KERNEL_WALK_HEADS - 1)];
    return s.found || !s.bare;
}

static inline __attribute__((always_inline)) __u64 began_at(void)
{
    const struct task_struct *task = (const struct task_struct *)bpf_get_current_task();
    return BPF_CORE_READ(task, start_time);
}

static inline __attribute__((always_inline)) int is_target(struct bpf_pidns_info *id)
{
    return !bpf_get_ns_current_pid_tgid(plan.ns_dev, plan.ns_ino, id, sizeof(*id)) &&
           id->tgid == plan.tgid;
}

/* By which the thread that runs can be told from others in its record. */
static inline __attribute__((always_inline)) __u64 own_key(__u32 tid)
{
    const struct task_struct *task = (const struct task_struct *)bpf_get_current_task();
    return plan.key_is_pointer ? BPF_CORE_READ(task, thread.fsbase) : tid;
}

/* Looks for the record of the thread that runs, and remembers what it found; NULL = none. A thread that has none most likely never will. */
ONCE int meet_thread(__u32 tid, __u32 waited)
{
    struct bpf_pidns_info id;
    if (!is_target(&id))
        return 0;
    __u32 wait = waited < PATIENCE_MAX ? waited * 2 : PATIENCE_MAX;
    struct known fresh = {.tid = id.pid, .left = wait, .wait = wait};
    if (!find_record(own_key(id.pid), &fresh) ||
        (!fresh.record && bpf_ktime_get_ns() - began_at() < YOUNG))
        return 0; /* it may have one any moment */
    bpf_map_update_elem(&threads, &tid, &fresh, BPF_ANY);
    return fresh.record != 0;
}

/* Of the thread that runs; NULL = it has no record. */
static inline __attribute__((always_inline)) struct known *thread_of(__u32 tid)
{
    __u64 key = 0;
    struct known *k = bpf_map_lookup_elem(&threads, &tid);
    if (k && k->record && !read_word(&key, k->record + plan.record_key) && key == own_key(k->tid))
        return k;
    __u32 waited = PATIENCE;
    if (k && !k->record) {
        waited = k->wait;
        if (k->left) {
            k->left--;
            return 0;
        }
    }
    return meet_thread(tid, waited) ? bpf_map_lookup_elem(&threads, &tid) : 0;
}

/* ---- its chain ---- */

struct walk {
    __u64 at, further;
    struct scratch *to;
    __u64 generation;
    __u32 room; /* the number of `to` */
    __u32 count, flags;
    __u32 met_further, may_end;
};

static inline __attribute__((always_inline)) __u64 read_mark(__u64 what, __u32 *flags)
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
        if (i < plan.mark_words)
            mark = kernel_mark_mix(mark, words[i]);
    if (read_word(&deep, words[plan.mark_deep & (KERNEL_WALK_MARK_WORDS - 1)] + plan.mark_deep_at))
        *flags |= KERNEL_WALK_FAULT;
    return kernel_mark_mix(mark, deep);
}

static inline __attribute__((always_inline)) int is_known(__u64 what, __u64 mark)
{
    const __u32 zero = 0, place = kernel_known_place(what);
    const struct known_whats *all = bpf_map_lookup_elem(&known_whats, &zero);
    if (!all)
        return 0;
    const struct kernel_known *a = &all->known[place], *b = &all->known[place ^ 1];
    return (a->what == what && a->mark == mark) || (b->what == what && b->mark == mark);
}

/* Where no thing has died since its mark was read, that need not be read again. Returns flags. */
ONCE int mark_node(__u32 room, __u32 n, __u64 what, __u64 generation)
{
    struct scratch *to = bpf_map_lookup_elem(&scratches, &room);
    if (!to)
        return 0;
    struct seen *s = &to->seen[kernel_known_place(what) & (SEEN - 1)];
    int same = s->what == what;
    __u32 flags = 0;
    __u64 mark = s->mark;
    if (!same || !generation || s->generation != generation) {
        mark = read_mark(what, &flags);
        same = same && mark == s->mark;
        s->what = what;
        s->mark = mark;
        s->generation = generation;
        if (!same)
            s->known = 0;
    }
    if (mark && !s->known) {
        s->known = is_known(what, mark);
        if (!s->known)
            flags |= KERNEL_WALK_NEW;
    }
    to->nodes[n & (KERNEL_WALK_NODES - 1)].mark = mark;
    return flags;
}

/* Where in scratch.bytes the node is; nodes lie side by side most often, callers first: the second one on a page has all of it
 * before it read at once. Below 0: it cannot be read. */
ONCE int bytes_of(__u32 room, __u64 at)
{
    struct scratch *to = bpf_map_lookup_elem(&scratches, &room);
    if (!to)
        return -1;
    if (at >= to->window && at + plan.span <= to->window_end)
        return (int)(at - to->window) + WINDOW_AT;
    __u64 page = at & ~(__u64)(PAGE - 1);
    if (page != to->page) {
        to->page = page;
        return bpf_probe_read_user(to->bytes, plan.span, (const void *)at) ? -1 : 0;
    }
    __u32 before = at & (PAGE - 1);
    if (bpf_probe_read_user(to->bytes + WINDOW_AT, before + plan.span, (const void *)page))
        return -1;
    to->window = page;
    to->window_end = at + plan.span;
    return (int)before + WINDOW_AT;
}

/* A chain that has just been begun may not be linked to the rest of it yet: what is further down is known all the same,
 * and a sound chain leads there. A first node that has begun would be linked: then it is not true. Returns 0 if there is more to follow. */
static inline __attribute__((always_inline)) long go_further(struct walk *w, struct scratch *to)
{
    if (!w->further || w->met_further)
        return 1;
    __u64 begin = to->nodes[0].what + plan.what_begin;
    w->count = w->count && to->nodes[0].where < begin;
    w->flags = 0;
    w->may_end = 0;
    w->at = w->further;
    w->met_further = 1;
    return 0;
}

static long look_at_node(__u32 i, struct walk *w)
{
    __u64 at = w->at;
    struct scratch *to = w->to;
    if (!to)
        return 1;
    if (!at)
        return go_further(w, to);
    int offset = bytes_of(w->room, at);
    if (offset < 0) {
        w->flags |= KERNEL_WALK_FAULT;
        return go_further(w, to);
    }
    const unsigned char *node = to->bytes + (offset & (BYTES - 1));
    if (at == w->further)
        w->met_further = 1;
    w->at = *(__u64 *)(node + plan.node_next);
    if (plan.node_kind >= 0 && node[plan.node_kind] >= plan.kind_hidden) {
        w->flags |= KERNEL_WALK_HIDDEN;
        return 0;
    }
    w->flags &= ~KERNEL_WALK_HIDDEN;
    if (plan.node_may_end >= 0)
        w->may_end = node[plan.node_may_end];
    __u32 n = w->count;
    if (n >= KERNEL_WALK_NODES) {
        w->flags |= KERNEL_WALK_CUT;
        return go_further(w, to);
    }
    struct kernel_node *k = &to->nodes[n & (KERNEL_WALK_NODES - 1)];
    const __u64 what = *(__u64 *)(node + plan.node_what) & ~plan.what_tags;
    k->addr = at;
    k->what = what;
    k->where = *(__u64 *)(node + plan.node_where) & plan.where_bits;
    w->flags |= mark_node(w->room, n, what, w->generation);
    w->count = n + 1;
    return 0;
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

static inline __attribute__((always_inline)) __u64 generation_of(__u64 head)
{
    __u64 generation = 0;
    __u32 low = 0;
    const void *at = (const void *)(head + plan.generation);
    if (plan.generation_size == sizeof(low))
        return bpf_probe_read_user(&low, sizeof(low), at) ? 0 : low;
    if (plan.generation_size == sizeof(generation))
        return bpf_probe_read_user(&generation, sizeof(generation), at) ? 0 : generation + 1;
    return 0;
}

/* What a sample is of, and stands for. */
struct subject {
    __u64 record, head;
    __u64 now, period;
    __u32 tid, flags;
};

/* At the thread that runs. */
ONCE int look(__u32 room, struct subject *of)
{
    struct scratch *to = bpf_map_lookup_elem(&scratches, &room);
    if (!of || !to)
        return 0;
    __u64 record = of->record;
    struct walk w = {.to = to, .room = room};
    w.at = first_node(record, &w.further);
    if (!w.at)
        return 0;
    w.generation = generation_of(of->head);
    to->window = to->window_end = 0;
    to->page = 1; /* none */
    bpf_loop(KERNEL_WALK_NODES * 4, look_at_node, &w, 0);
    const struct task_struct *task = (const struct task_struct *)bpf_get_current_task();
    to->head.time = of->now;
    to->head.record = record;
    to->head.period = of->period;
    to->head.ran = BPF_CORE_READ(task, se.sum_exec_runtime);
    to->head.tid = of->tid;
    to->head.flags = w.flags | of->flags | (w.may_end ? KERNEL_WALK_MAY : 0) |
                     (w.at ? KERNEL_WALK_CUT : 0) | holds(record);
    __u32 count = w.count;
    if (count > KERNEL_WALK_NODES)
        return 0;
    to->head.count = count;
    to->head.took = bpf_ktime_get_ns() - of->now;
    if (bpf_ringbuf_output(&samples, to, sizeof(to->head) + count * sizeof(to->nodes[0]),
                           w.flags & KERNEL_WALK_NEW ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP))
        __sync_fetch_and_add(&counts.lost, 1);
    return 0;
}

/* The time since this CPU's timer last went off, which may have been late or set anew; one that is far too long is nobody's. */
static inline __attribute__((always_inline)) __u64 time_since(struct scratch *cpu, __u64 now,
                                                              __u64 period)
{
    __u64 since = now - cpu->ticked, longest = period * 10 > LONGEST ? period * 10 : LONGEST;
    cpu->ticked = now;
    return since > longest ? period : since;
}

/* Whether the target runs; which process that is, for the kernel itself, is found out by its number for whoever started scry. */
static inline __attribute__((always_inline)) int target_runs(__u64 pid_tgid)
{
    struct bpf_pidns_info id;
    if (!counts.process && is_target(&id))
        counts.process = pid_tgid >> 32;
    return counts.process && counts.process == pid_tgid >> 32;
}

SEC("perf_event")
int on_timer(struct bpf_perf_event_data *ctx)
{
    __u64 now = bpf_ktime_get_ns(), pid_tgid = bpf_get_current_pid_tgid();
    __u32 room = KERNEL_WALK_SPARE + bpf_get_smp_processor_id();
    struct scratch *cpu = bpf_map_lookup_elem(&scratches, &room);
    __u64 since = cpu ? time_since(cpu, now, ctx->sample_period) : 0;
    if (!since || !target_runs(pid_tgid))
        return 0;
    const struct known *k = thread_of(pid_tgid);
    if (!k)
        return 0;
    struct subject of = {k->record, k->head, now, since, k->tid};
    return look(room, &of);
}

/* ---- those who wait for a CPU ---- */

/* Seldom, or the CPUs would be in each other's way. */
static inline __attribute__((always_inline)) void count_idle(void)
{
    if (!(bpf_get_prandom_u32() & (IDLE_UNIT - 1)))
        __sync_fetch_and_add(&counts.idle, IDLE_UNIT);
}

/* A thread that was woken waits from then on, although the kernel counts only from when it stands in the queue of a CPU: one that was
 * idle has to take notice first, which takes long on a virtual machine. */
SEC("raw_tp/sched_waking")
int on_waking(struct bpf_raw_tracepoint_args *ctx)
{
    const struct task_struct *task = (const struct task_struct *)ctx->args[0];
    __u32 ids[2]; /* pid and tgid stand side by side */
    if (!counts.process || bpf_core_read(ids, sizeof(ids), &task->pid) || ids[1] != counts.process)
        return 0;
    __u32 tid = ids[0];
    struct known *k = bpf_map_lookup_elem(&threads, &tid);
    if (!k || !k->record) {
        count_idle();
        return 0;
    }
    k->woken_with = BPF_CORE_READ(task, se.sum_exec_runtime);
    k->woken = bpf_ktime_get_ns();
    return 0;
}

/* How long the thread that has just got a CPU had waited for it, having stood in a queue for `queued` of that. */
static inline __attribute__((always_inline)) __u64
time_waited(struct known *k, const struct task_struct *task, __u64 now, __u64 queued)
{
    __u64 woken = k->woken;
    k->woken = 0;
    if (!woken || k->woken_with != BPF_CORE_READ(task, se.sum_exec_runtime))
        return queued;
    return now - woken > queued ? now - woken : queued;
}

/* How much of the time it has waited a sample is to stand for now: for each thread, one in each period of that. */
static inline __attribute__((always_inline)) __u64 owed_by(struct known *k, __u64 now)
{
    const struct task_struct *task = (const struct task_struct *)bpf_get_current_task();
    __u64 delay = BPF_CORE_READ(task, sched_info.run_delay);
    if (!k->waits || delay < k->delay) { /* or another thread with the number of one that ended */
        k->waits = 1;
        k->woken = 0;
        k->delay = began_at() > plan.begun ? 0 : delay;
        k->owed = bpf_get_prandom_u32() * plan.wait_period >> 32;
    }
    __u64 owed = k->owed + time_waited(k, task, now, delay - k->delay), whole;
    k->delay = delay;
    whole = owed / plan.wait_period * plan.wait_period;
    k->owed = owed - whole;
    return whole;
}

/* A thread has got a CPU and is still in the kernel: its stack is the one it has waited with. */
SEC("raw_tp/sched_exit_tp")
int on_switch(void *ctx)
{
    __u64 pid_tgid = bpf_get_current_pid_tgid();
    if (!plan.wait_period || !counts.process || pid_tgid >> 32 != counts.process)
        return 0;
    struct known *k = thread_of(pid_tgid);
    if (!k) {
        count_idle();
        return 0;
    }
    __u64 now = bpf_ktime_get_ns(), owed = owed_by(k, now);
    if (!owed)
        return 0;
    __u32 spare = bpf_get_smp_processor_id() & (KERNEL_WALK_SPARE - 1);
    struct scratch *to = bpf_map_lookup_elem(&scratches, &spare);
    if (!to)
        return 0;
    if (__sync_val_compare_and_swap(&to->taken, 0, 1)) {
        k->owed += owed;
        return 0;
    }
    struct subject of = {k->record, k->head, now, owed, k->tid, KERNEL_WALK_WAITED};
    look(spare, &of);
    to->taken = 0;
    return 0;
}
