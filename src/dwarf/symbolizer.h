/* From an address in a process to the functions it is in, as a person reads them. Each address is
 * looked up once. */
#ifndef SCRY_DWARF_SYMBOLIZER_H
#define SCRY_DWARF_SYMBOLIZER_H

#include "dwarf/module.h"
#include "util/table.h"

/* One function at one place. Lives as long as the symbolizer. */
struct native_code {
    uint32_t serial;    /* never given out twice by one symbolizer */
    char *name;         /* demangled; "libfoo.so+0x1f20", by its start, when there is none */
    char *symbol;       /* of the function it is compiled into, as in the file; "" if unknown */
    char *file;         /* source file; "" if unknown */
    const char *module; /* the binary's path; "[unknown]" */
    int32_t line;       /* 0 = unknown */
    int32_t first_line;
    bool inlined;             /* into the function that `next` describes */
    bool helper;              /* of no interest by itself: made by Cython for its own use */
    struct native_code *next; /* that function, NULL for one that was really called */
    uint8_t role;             /* for the user of the symbolizer; 0 at first */
};

/* The file to show: the source, else the binary; without folders unless `full`. */
const char *native_code_file(const struct native_code *code, bool full);

struct symbolizer {
    struct modules *modules; /* the caller's */
    struct table by_addr;    /* address -> index in codes */
    struct native_code **codes;
    size_t count, cap;
    uint64_t generation;
    uint32_t next_serial;
    struct cython_sources *cython;
};

void symbolizer_init(struct symbolizer *s, struct modules *modules);
void symbolizer_done(struct symbolizer *s);
/* The functions at this address, the innermost first; `exact` as in struct native_frame. NULL when
 * memory runs out. */
struct native_code *symbolizer_find(struct symbolizer *s, scry_addr pc, bool exact);

#endif
