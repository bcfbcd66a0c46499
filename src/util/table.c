#include "util/table.h"

#include <stdlib.h>
#include <string.h>

uint64_t hash_mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93ULL;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93ULL;
    x ^= x >> 32;
    return x;
}

uint64_t hash_bytes(const void *data, size_t len, uint64_t seed)
{
    const unsigned char *p = data;
    uint64_t h = seed ^ (len * 0x9e3779b97f4a7c15ULL);
    while (len >= 8) {
        uint64_t w;
        memcpy(&w, p, 8);
        h = hash_mix(h ^ w);
        p += 8;
        len -= 8;
    }
    uint64_t tail = 0;
    memcpy(&tail, p, len);
    return hash_mix(h ^ tail);
}

void table_init(struct table *t)
{
    *t = (struct table){0};
}

void table_done(struct table *t)
{
    if (!t)
        return;
    free(t->slots);
    table_init(t);
}

void table_reset(struct table *t)
{
    if (t->cap)
        memset(t->slots, 0, t->cap * sizeof(*t->slots));
    t->count = 0;
}

static struct table_slot *find_slot(struct table_slot *slots, size_t cap, uint64_t key)
{
    size_t i = hash_mix(key) & (cap - 1);
    while (slots[i].used && slots[i].key != key)
        i = (i + 1) & (cap - 1);
    return &slots[i];
}

bool table_get(const struct table *t, uint64_t key, uint64_t *ret_value)
{
    if (!t->cap)
        return false;
    const struct table_slot *slot = find_slot(t->slots, t->cap, key);
    if (!slot->used)
        return false;
    *ret_value = slot->value;
    return true;
}

static bool grow(struct table *t)
{
    size_t cap = t->cap ? t->cap * 2 : 64;
    struct table_slot *slots = calloc(cap, sizeof(*slots));
    if (!slots)
        return false;
    for (size_t i = 0; i < t->cap; i++)
        if (t->slots[i].used)
            *find_slot(slots, cap, t->slots[i].key) = t->slots[i];
    free(t->slots);
    t->slots = slots;
    t->cap = cap;
    return true;
}

bool table_put(struct table *t, uint64_t key, uint64_t value)
{
    if ((t->count + 1) * 4 > t->cap * 3 && !grow(t))
        return false;
    struct table_slot *slot = find_slot(t->slots, t->cap, key);
    if (!slot->used)
        t->count++;
    *slot = (struct table_slot){.key = key, .value = value, .used = true};
    return true;
}

void interner_init(struct interner *in)
{
    *in = (struct interner){0};
}

void interner_done(struct interner *in)
{
    if (!in)
        return;
    for (size_t i = 0; i < in->count; i++)
        free(in->items[i].data);
    free(in->items);
    free(in->slots);
    interner_init(in);
}

static bool interner_grow(struct interner *in)
{
    if (in->count == in->cap) {
        size_t cap = in->cap ? in->cap * 2 : 64;
        struct interned *items = realloc(in->items, cap * sizeof(*items));
        if (!items)
            return false;
        in->items = items;
        in->cap = cap;
    }
    if ((in->count + 1) * 2 <= in->slot_cap)
        return true;
    size_t cap = in->slot_cap ? in->slot_cap * 2 : 128;
    uint32_t *slots = calloc(cap, sizeof(*slots));
    if (!slots)
        return false;
    for (size_t i = 0; i < in->count; i++) {
        size_t s = in->items[i].hash & (cap - 1);
        while (slots[s])
            s = (s + 1) & (cap - 1);
        slots[s] = (uint32_t)i + 1;
    }
    free(in->slots);
    in->slots = slots;
    in->slot_cap = cap;
    return true;
}

uint32_t interner_add(struct interner *in, const void *data, size_t len, bool *ret_new)
{
    if (ret_new)
        *ret_new = false;
    if (len >= UINT32_MAX || in->count >= INTERN_FAILED - 1)
        return INTERN_FAILED;
    if (!interner_grow(in))
        return INTERN_FAILED;
    uint64_t hash = hash_bytes(data, len, 0);
    size_t s = hash & (in->slot_cap - 1);
    for (; in->slots[s]; s = (s + 1) & (in->slot_cap - 1)) {
        const struct interned *item = &in->items[in->slots[s] - 1];
        if (item->hash == hash && item->len == len && memcmp(item->data, data, len) == 0)
            return in->slots[s] - 1;
    }
    char *copy = malloc(len + 1);
    if (!copy)
        return INTERN_FAILED;
    memcpy(copy, data, len);
    copy[len] = '\0';
    in->items[in->count] = (struct interned){.data = copy, .len = (uint32_t)len, .hash = hash};
    in->slots[s] = (uint32_t)++in->count;
    if (ret_new)
        *ret_new = true;
    return (uint32_t)in->count - 1;
}

const char *interner_get(const struct interner *in, uint32_t id, size_t *ret_len)
{
    if (id >= in->count)
        return NULL;
    if (ret_len)
        *ret_len = in->items[id].len;
    return in->items[id].data;
}
