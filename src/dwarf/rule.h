/* How to get from a frame to its caller: what the tables of a binary say about one instruction,
 * compiled into something small. Nearly every rule is "the caller's stack pointer is a register
 * plus a number, and these registers were saved so far below it"; the rest (signal frames, linkage
 * tables) keeps its DWARF expressions.
 *
 * Rules are applied to a copy of the stack, never to the thread itself. Both are hostile: whatever
 * they hold, applying a rule is bounded and touches nothing but the copy. */
#ifndef SCRY_DWARF_RULE_H
#define SCRY_DWARF_RULE_H

#include <elfutils/libdw.h>

#include "access/registers.h"

#define RULE_SAVED_MAX 8

enum rule_kind {
    RULE_NONE, /* the tables say nothing about this place */
    RULE_END,  /* there is no caller: the outermost frame */
    RULE_SIMPLE,
    RULE_SLOW, /* by `frame` */
};

struct rule {
    uint8_t kind;
    bool
        signal; /* this frame was put there by the kernel: its caller was interrupted, did not call */
    uint8_t base; /* register */
    uint8_t saved_count;
    int32_t offset; /* the CFA, which is the caller's stack pointer, is base + offset */
    uint64_t lost;  /* bit n: the caller's register n cannot be had */
    uint8_t saved[RULE_SAVED_MAX];
    int32_t saved_at[RULE_SAVED_MAX]; /* from the CFA */
    Dwarf_Frame *frame;               /* RULE_SLOW: owned by whoever keeps the rule */
};

/* The part of a thread's stack that was copied while it stood still. */
struct stack_copy {
    scry_addr start;
    size_t len;
    const unsigned char *data;
};

enum rule_result {
    RULE_OK,
    RULE_OUTERMOST,
    RULE_OUT_OF_COPY,    /* what is needed lies beyond the copy */
    RULE_NEEDS_REGISTER, /* what is needed was in a register that is not known */
    RULE_BROKEN,         /* the tables make no sense here */
};

/* Takes over `frame` (libdw's answer for one address) if the rule is slow, frees it otherwise. */
void rule_compile(Dwarf_Frame *frame, struct rule *ret);
void rule_done(struct rule *rule);

/* Turn a frame's registers into its caller's. On anything but RULE_OK they are unchanged. */
enum rule_result rule_apply(const struct rule *rule, const struct stack_copy *stack,
                            struct registers *r);
/* For code without tables that keeps frame pointers. */
enum rule_result rule_apply_frame_pointer(const struct stack_copy *stack, struct registers *r);

/* A DWARF expression over these registers and this stack; `cfa` may be 0 when it is not known yet. */
enum rule_result rule_evaluate(const Dwarf_Op *ops, size_t count, const struct registers *r,
                               scry_addr cfa, const struct stack_copy *stack, uint64_t *ret_value);

bool stack_copy_u64(const struct stack_copy *stack, scry_addr addr, uint64_t *ret_value);

#endif
