#include "engine/stack_table.h"

#include <stdlib.h>

#include "util/table.h"

static size_t home(const struct stack_table *t, const struct stack_node *node)
{
    return hash_mix((uint64_t)node->parent << 32 | node->frame) & (t->slot_cap - 1);
}

static bool grow_nodes(struct stack_table *t)
{
    size_t cap = t->cap ? t->cap * 2 : 256;
    struct stack_node *nodes = realloc(t->nodes, cap * sizeof(*nodes));
    if (!nodes)
        return false;
    t->nodes = nodes;
    t->cap = cap;
    return true;
}

static bool grow_slots(struct stack_table *t)
{
    size_t cap = t->slot_cap ? t->slot_cap * 2 : 512;
    uint32_t *slots = calloc(cap, sizeof(*slots));
    if (!slots)
        return false;
    free(t->slots);
    t->slots = slots;
    t->slot_cap = cap;
    for (size_t i = 1; i < t->count; i++) {
        size_t s = home(t, &t->nodes[i]);
        while (slots[s])
            s = (s + 1) & (cap - 1);
        slots[s] = (uint32_t)i;
    }
    return true;
}

bool stack_table_init(struct stack_table *t)
{
    *t = (struct stack_table){0};
    if (!grow_nodes(t) || !grow_slots(t)) {
        stack_table_done(t);
        return false;
    }
    t->nodes[t->count++] = (struct stack_node){0, 0};
    return true;
}

void stack_table_done(struct stack_table *t)
{
    free(t->nodes);
    free(t->slots);
    *t = (struct stack_table){0};
}

/* Where it is, or where it belongs. */
static size_t find_slot(const struct stack_table *t, const struct stack_node *node)
{
    size_t s = home(t, node);
    for (; t->slots[s]; s = (s + 1) & (t->slot_cap - 1)) {
        const struct stack_node *known = &t->nodes[t->slots[s]];
        if (known->parent == node->parent && known->frame == node->frame)
            break;
    }
    return s;
}

static bool make_room(struct stack_table *t)
{
    return (t->count < t->cap || grow_nodes(t)) &&
           (t->count * 4 < t->slot_cap * 3 || grow_slots(t));
}

uint32_t stack_table_add(struct stack_table *t, uint32_t parent, uint32_t frame, size_t max,
                         bool *ret_new)
{
    struct stack_node node = {.parent = parent, .frame = frame};
    uint32_t known = t->slots[find_slot(t, &node)];
    *ret_new = known == 0;
    if (known)
        return known;
    if (t->count >= max || !make_room(t))
        return STACK_TABLE_FULL;
    t->nodes[t->count] = node;
    t->slots[find_slot(t, &node)] = (uint32_t)t->count;
    return (uint32_t)t->count++;
}
