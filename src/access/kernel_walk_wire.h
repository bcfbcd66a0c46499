/* What kernel_walk.c and its program in the kernel (kernel_walk.bpf.c) have in common; compiled for both. */
#ifndef SCRY_ACCESS_KERNEL_WALK_WIRE_H
#define SCRY_ACCESS_KERNEL_WALK_WIRE_H

#include <linux/types.h>

#define KERNEL_WALK_NODES   2048 /* the longest chain that is followed; a power of 2 */
#define KERNEL_WALK_SPAN    160  /* bytes of a node that can be looked at */
#define KERNEL_WALK_HEADS   4
#define KERNEL_WALK_RECORDS 4096      /* looked at when a thread's own is looked for */
#define KERNEL_WALK_ROOM    (1 << 20) /* bytes, for samples that wait to be collected; a power of 2 */
#define KERNEL_WALK_SPARE   4         /* rooms to work in that are no CPU's own; a power of 2 */
#define KERNEL_WALK_NONE    (-1)
#define KERNEL_WALK_KNOWN   8192 /* things that can be known at a time, about; a power of 2 */

/* What to follow. Offsets are KERNEL_WALK_NONE where there is nothing of the kind. */
struct kernel_plan {
    /* The pid namespace whose thread ids the target knows. */
    __u64 ns_dev, ns_ino;
    __u32 tgid; /* in it */
    /* Threads that wait for a CPU count as well: one that began after `begun` (CLOCK_MONOTONIC) from its beginning on. 0 = they do not. */
    __u64 wait_period, begun;
    /* Records, one for each thread, in lists: where the pointers to their first ones stand (0 = no more lists), the
     * pointer to the next record, and the word that is the thread's id, or its thread pointer (x86-64). */
    __s32 record_next, record_key;
    __u32 key_is_pointer;
    __u64 heads[KERNEL_WALK_HEADS];
    /* The pointer to a thread's first node stands in its record; or in what the pointer there points at, with a pointer to
     * another such thing behind it, which points at a node further down the chain. */
    __s32 record_first, first_via;
    /* In a node: the next one, what it is of, which place in that (so many bits), of which kind it is (a byte), whether it is where a chain may
     * end (a byte). `span` bytes of a node have all of these. */
    __s32 node_next, node_what, node_where, node_kind, node_may_end;
    __u32 span;
    __u64 where_bits;
    __u32 kind_hidden; /* nodes of this kind or a later one are followed but not told of */
    __u64 what_tags;   /* bits of node_what that are no part of the address */
    __s32 what_begin;  /* places begin so far behind `what`; one before that has not begun */
    /* What tells one thing that a node is of from another at the same address: a number in it; or where it has none, `mark_words` words from
     * mark_at on (KERNEL_WALK_MARK_WORDS at most), the word of which mark_deep counts being a pointer to something whose word at mark_deep_at is taken, too. */
    __s32 mark_number, mark_at, mark_deep, mark_deep_at;
    __u32 mark_words;
    /* A count, so far from the head of a thread's list, of `generation_size` bytes: while it stays the same, no address becomes another thing's. */
    __s32 generation;
    __u32 generation_size; /* 4 or 8; 0 = there is none */
    /* An address that holds the record of the thread that has the lock, and one that says (an int) whether anybody has
     * it; 0 = unknown. */
    __u64 holder_at, locked_at;
};

#define KERNEL_WALK_MARK_WORDS 4

#define KERNEL_WALK_FAULT  1u /* something could not be read */
#define KERNEL_WALK_CUT    2u /* the chain is longer than can be followed */
#define KERNEL_WALK_HIDDEN 4u /* it ends in a hidden node */
#define KERNEL_WALK_MAY    8u /* it ends in a node where it may */
#define KERNEL_WALK_HOLDS  16u
#define KERNEL_WALK_NEW    32u /* it has something that nobody has said to know */
#define KERNEL_WALK_WAITED                                                                         \
    64u /* the thread waited for a CPU with this stack, and has just got one */

struct kernel_node {
    __u64 addr, what, where, mark;
};

/* What comes back; followed by `count` nodes. */
struct kernel_sample {
    __u64 time;   /* CLOCK_MONOTONIC */
    __u64 record; /* the thread's */
    __u64 period; /* the time it stands for */
    __u64 ran;    /* on a CPU, since the thread began, as of the last tick */
    __u32 tid;    /* in the namespace */
    __u32 flags;
    __u32 count;
    __u32 took; /* nanoseconds of the thread's time to find out */
};

/* What the program shares with whoever loaded it. */
struct kernel_counts {
    __u64 lost;    /* samples there was no room for */
    __u64 process; /* the target, by its number for the kernel itself; 0 = not met yet */
    __u64
        idle; /* how often, about, threads without a record were woken or got a CPU: that was looked at for nothing */
};

/* What is known, by address: a thing stands in the place of its address or in the one beside it (place ^ 1). */
struct kernel_known {
    __u64 what, mark;
};

static inline __attribute__((always_inline)) __u32 kernel_known_place(__u64 what)
{
    return (__u32)((what >> 4) * 0x9e3779b97f4a7c15ULL >> 40) & (KERNEL_WALK_KNOWN - 1);
}

/* Both must come to the same. */
static inline __attribute__((always_inline)) __u64 kernel_mark_mix(__u64 mark, __u64 word)
{
    mark ^= word;
    mark *= 0x9e3779b97f4a7c15ULL;
    return mark ^ (mark >> 29);
}

#endif
