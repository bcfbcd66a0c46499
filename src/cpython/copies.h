/* Copies of places in a thread's memory, made by one vectored read: what may change is read twice, with
 * everything else read once in between, or after all of it. */
#ifndef SCRY_CPYTHON_COPIES_H
#define SCRY_CPYTHON_COPIES_H

#include "access/mem.h"

/* The end of a data stack longer than LONG is read by itself, TOP bytes of it: there the innermost frames come and go,
 * and its two copies should follow each other closely. */
#define COPIES_LONG 6144
#define COPIES_TOP  2048

enum copies_when {
    COPIES_TWICE,
    COPIES_BETWEEN, /* once, between the two */
    COPIES_AFTER,   /* once, when all else has been read: what only ever grows, and has not */
};

struct copies_place {
    scry_addr addr;
    size_t len;
    enum copies_when when;
};

struct copies_range {
    scry_addr addr;
    uint32_t len;
    uint32_t at; /* in each copy */
    enum copies_when when;
};

struct copies {
    struct copies_range *ranges; /* those read twice before those read once, each by address */
    size_t count, cap;
    size_t twice_count;
    size_t
        nearest; /* of those read twice: the last of the first copy and the first of the second */
    size_t twice_size, once_size;
    unsigned char *data; /* first copy, second copy, once */
    size_t data_cap;
    struct copies_place *places; /* before they are made into ranges */
    size_t place_count, place_cap;
    scry_addr near;
};

void copies_done(struct copies *c);

/* What to read: begin, add places in any order, make ranges of them. */
void copies_begin(struct copies *c);
void copies_add(struct copies *c, scry_addr addr, size_t len, enum copies_when when);
/* Whose two copies are to follow each other most closely. */
void copies_put_near(struct copies *c, scry_addr addr);
bool copies_make(struct copies *c);

/* The ranges for the read. The second copy is read backwards: what lies next to the things read in between is read
 * right before and right after them. `warm`: what is read twice (of what is long, the end) is read once more before
 * that, for nothing but to bring it near, so that the two copies follow each other faster. */
int copies_range_count(const struct copies *c, bool warm);
int copies_ranges(const struct copies *c, bool warm, struct mem_range *to);

/* All of them once, in the order of addresses, into the first copy. */
int copies_ranges_once(const struct copies *c, struct mem_range *to);

/* The range that holds [addr, addr+len), NULL where that was not read. */
const struct copies_range *copies_find(const struct copies *c, scry_addr addr, size_t len);
/* Where its copy begins. What was read once has one for both. */
const unsigned char *copies_first(const struct copies *c, const struct copies_range *r);
const unsigned char *copies_second(const struct copies *c, const struct copies_range *r);

#endif
