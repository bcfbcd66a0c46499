/* A hash table from a 64-bit key to a 64-bit value, open addressing, no removal of single keys:
 * what scry keys by address or id. Key 0 is a key like any other. */
#ifndef SCRY_UTIL_TABLE_H
#define SCRY_UTIL_TABLE_H

#include "util/types.h"

struct table_slot {
    uint64_t key;
    uint64_t value;
    bool used;
};

struct table {
    struct table_slot *slots;
    size_t count;
    size_t cap; /* 0 or a power of two */
};

void table_init(struct table *t);
void table_done(struct table *t);
void table_reset(struct table *t); /* empty, memory kept */
bool table_get(const struct table *t, uint64_t key, uint64_t *ret_value);
bool table_put(struct table *t, uint64_t key, uint64_t value); /* false: out of memory */

uint64_t hash_mix(uint64_t x);
uint64_t hash_bytes(const void *data, size_t len, uint64_t seed);

/* Byte strings to small consecutive numbers, 0, 1, 2 ... Each distinct string is kept once. */
struct interner {
    struct interned *items;
    size_t count;
    size_t cap;
    uint32_t *slots; /* index + 1, 0 = free */
    size_t slot_cap;
};

struct interned {
    char *data; /* NUL-terminated copy */
    uint32_t len;
    uint64_t hash;
};

#define INTERN_FAILED UINT32_MAX

void interner_init(struct interner *in);
void interner_done(struct interner *in);
/* The number of this string; *ret_new (may be NULL) says whether it was seen for the first time.
 * INTERN_FAILED when memory runs out. */
uint32_t interner_add(struct interner *in, const void *data, size_t len, bool *ret_new);
const char *interner_get(const struct interner *in, uint32_t id, size_t *ret_len);

#endif
