/* Code objects: read once, kept by address, checked by fingerprint before each use because an address can
 * come back with another code object. */
#ifndef SCRY_CPYTHON_CODE_H
#define SCRY_CPYTHON_CODE_H

#include "cpython/object.h"
#include "util/table.h"

struct py_code {
    scry_addr addr;
    char *filename;  /* as CPython knows it; "" if unreadable */
    char *name;      /* co_name */
    char *qualname;  /* co_qualname where there is one (3.11+), else the same text as name */
    int32_t first_line;
    int32_t flags;
    uint32_t argcount, posonly_count, kwonly_count; /* co_argcount includes positional-only ones */
    uint32_t code_units; /* length of the bytecode in bytes / instr unit */
    unsigned char *line_table;
    size_t line_table_len;
    bool artificial; /* a frame of CPython's own making, to be hidden: shim, init-cleanup */
    uint64_t fingerprint;
};

struct code_cache {
    struct py_view view;
    struct table by_addr; /* address -> struct py_code * */
    struct py_code **retired;
    size_t retired_count, retired_cap;
};

void code_cache_init(struct code_cache *c, const struct py_view *view);
void code_cache_done(struct code_cache *c);
/* The code object at this address. It stays valid until code_cache_sweep(). */
int code_cache_get(struct code_cache *c, scry_addr addr, const struct py_code **ret_code);
/* Free the ones whose address has been taken by another code object. */
void code_cache_sweep(struct code_cache *c);

/* The line for an instruction offset in bytes from the start of the bytecode; 0 when there is none. */
int32_t code_line(const struct py_code *code, enum line_format format, int32_t offset);

#endif
