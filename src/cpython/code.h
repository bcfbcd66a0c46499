/* Code objects: read once, kept by address, checked by fingerprint before each use because an
 * address can come back with another code object. */
#ifndef SCRY_CPYTHON_CODE_H
#define SCRY_CPYTHON_CODE_H

#include "cpython/object.h"
#include "util/table.h"

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
    bool artificial; /* of CPython's own making, its frames are hidden: shim, init-cleanup */
    uint64_t fingerprint;
};

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
 * none. What comes back stays valid until code_cache_sweep(). */
int code_cache_get(struct code_cache *c, const scry_addr *addrs, size_t count,
                   const struct py_code **ret_codes);
/* The one in the cache, unchecked: for whoever has just seen that it is still the same. NULL =
 * none. */
const struct py_code *code_cache_peek(const struct code_cache *c, scry_addr addr);
/* The fingerprint of a copied code object. */
uint64_t code_fingerprint(const struct layout *layout, const void *copy, size_t len);
/* Free the ones whose address has been taken by another code object. */
void code_cache_sweep(struct code_cache *c);

#endif
