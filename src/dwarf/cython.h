/* The C files that Cython writes say in comments which line of the .pyx each part comes from. */
#ifndef SCRY_DWARF_CYTHON_H
#define SCRY_DWARF_CYTHON_H

#include "dwarf/module.h"

struct cython_place {
    const char *file; /* lives as long as the sources */
    int32_t line;
};

struct cython_sources;
/* The modules must outlive it. */
struct cython_sources *cython_sources_new(const struct modules *modules);
void cython_sources_free(struct cython_sources *s);
/* The place in the .pyx for this line of a generated file (a path in the target's view); false if
 * the file is not there or not Cython's. Files are read once. */
bool cython_sources_find(struct cython_sources *s, const char *file, int32_t line,
                         struct cython_place *ret);

#endif
