/* Stacks as a tree, each a frame on top of another stack, with consecutive numbers from 0, the
 * empty stack. A deep program has millions of them, so a stack costs 16 to 24 bytes and no more. */
#ifndef SCRY_ENGINE_STACK_TABLE_H
#define SCRY_ENGINE_STACK_TABLE_H

#include "util/types.h"

struct stack_node {
    uint32_t parent, frame;
};

struct stack_table {
    struct stack_node *nodes; /* by number; the one of the empty stack means nothing */
    size_t count, cap;
    uint32_t *slots; /* numbers, 0 = free */
    size_t slot_cap; /* a power of two */
};

/* Holds the empty stack. False: out of memory. */
bool stack_table_init(struct stack_table *t);
void stack_table_done(struct stack_table *t); /* harmless on zeroed memory */

#define STACK_TABLE_FULL UINT32_MAX
/* The number of `frame` on top of `parent`; *ret_new says whether it was seen for the first time.
 * STACK_TABLE_FULL if it is new and there are `max` already, or memory runs out. */
uint32_t stack_table_add(struct stack_table *t, uint32_t parent, uint32_t frame, size_t max,
                         bool *ret_new);

#endif
