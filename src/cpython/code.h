/* Code objects: read once, kept by address, checked by fingerprint before each use because an
 * address can come back with another code object. */
#ifndef SCRY_CPYTHON_CODE_H
#define SCRY_CPYTHON_CODE_H

#include "cpython/object.h"
#include "util/table.h"

#define CODE_LINES 16 /* a power of two */

struct py_code {
    scry_addr addr;
    uint32_t serial; /* never given out twice in one cache */
    char *filename;  /* as CPython knows it; "?" if unreadable */
    char *name;      /* co_name */
    char *qualname;  /* co_qualname where there is one (3.11+), else the same text as name */
    int32_t first_line;
    int32_t flags;
    uint32_t argcount, posonly_count, kwonly_count; /* argcount includes the positional-only ones */
    uint32_t code_bytes;                            /* length of the bytecode; 0 = unknown */
    unsigned char *line_table;
    size_t line_table_len;
    bool marked;
    /* Lines found lately: looking one up walks the table. */
    struct {
        int32_t offset, line;
    } lines[CODE_LINES];
    bool artificial; /* of CPython's own making, its frames are hidden: shim, init-cleanup */
    scry_addr name_at, filename_at; /* the str objects */
    uint32_t version;               /* co_version; 0 = none */
    uint64_t fingerprint;           /* of what code_places() names */
    uint64_t generation;            /* CPython's count when it was last checked; 0 = never */
    uint64_t kernel_mark;           /* in_kernel.c's; 0 = none yet */
};

/* CPython counts code objects: those that died (3.14+), or those ever made (3.13). As long as the count stays, an
 * address that was a code object's is no other's. From a copy of 8 bytes at is_code_object_generation; 0 = it does
 * not count any more. */
uint64_t code_generation(const struct layout *layout, const void *copy);
/* It was seen to be the same at this count, and nothing can have changed since. */
bool code_is_of(const struct py_code *code, uint64_t generation);

/* What tells a code object from another one at the same address: its own fields, with the number that no other one has
 * (3.12+). Without such a number also the hash that its name carries, because a name can die and leave its address to
 * another; and the text of its file name where that is not a path, for code made at run time. */
#define CODE_PLACES 3
struct code_place {
    scry_addr addr;
    size_t len;
};
size_t code_places(const struct layout *layout, const struct py_code *code,
                   struct code_place places[CODE_PLACES]);
/* Are the copies of those places still what they were? */
bool code_matches(const struct layout *layout, const struct py_code *code,
                  const struct code_place places[CODE_PLACES],
                  const unsigned char *const copies[CODE_PLACES], size_t count);

struct code_cache {
    struct py_view view;
    scry_addr code_type; /* PyCode_Type, learned from the first code object; 0 = not yet */
    uint32_t next_serial;
    struct table by_addr; /* address -> struct py_code * */
    struct py_code **retired;
    size_t retired_count, retired_cap;
    unsigned char *scratch; /* copies of code objects being checked */
    size_t scratch_cap;
};

void code_cache_init(struct code_cache *c, const struct py_view *view);
void code_cache_done(struct code_cache *c);
/* The code objects at these addresses, read with one call; ret_codes[i] is NULL where there is
 * none. What comes back stays valid until code_cache_sweep(). `generation`: CPython's count at a
 * moment when all of these lived, or NULL; those that were checked at the same count need no other check. */
int code_cache_get(struct code_cache *c, const scry_addr *addrs, size_t count,
                   const uint64_t *generation, const struct py_code **ret_codes);
/* The one in the cache, unchecked: for whoever has just seen that it is still the same. NULL =
 * none. */
const struct py_code *code_cache_peek(const struct code_cache *c, scry_addr addr);
/* It was seen to be the same at this generation. */
void code_cache_stamp(struct code_cache *c, scry_addr addr, uint64_t generation);
void code_cache_set_mark(struct code_cache *c, scry_addr addr, uint64_t kernel_mark);
/* The line of the instruction at this byte offset; 0 = none. */
int32_t code_line(const struct py_code *code, enum line_format format, int32_t offset);

/* Free those whose address has been taken by another code object, unless marked; then forget the
 * marks. */
void code_cache_sweep(struct code_cache *c);
void code_cache_mark(const struct py_code *code);

#endif
