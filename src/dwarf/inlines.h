/* What debug information says about an instruction: its line, and which functions were inlined
 * there. */
#ifndef SCRY_DWARF_INLINES_H
#define SCRY_DWARF_INLINES_H

#include "dwarf/module.h"

struct debug_info;
/* Finds the binary's debug information, in itself or in a separate file. NULL: out of memory. */
struct debug_info *debug_info_new(const struct modules *m, const struct binary *b);
void debug_info_free(struct debug_info *d);

/* One function at an address, the innermost inlined one first. Strings live as long as the
 * debug_info; NULL or 0 = unknown. */
struct source_place {
    const char *name;    /* plain name */
    const char *linkage; /* mangled name */
    const char *file;
    const char *folder; /* where the compiler ran, for a relative `file` */
    int32_t line;
    int32_t first_line;
};
#define INLINE_MAX 32
/* At most `max` places; 0 when nothing is known. */
size_t debug_info_places(struct debug_info *d, uint64_t addr, struct source_place *places,
                         size_t max);
/* Unwind tables from .debug_frame, NULL if there are none. */
Dwarf_CFI *debug_info_cfi(struct debug_info *d);

#endif
