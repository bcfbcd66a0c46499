/* Names of C++, Rust and Cython functions as their authors wrote them. */
#ifndef SCRY_DWARF_DEMANGLE_H
#define SCRY_DWARF_DEMANGLE_H

#include "util/types.h"

/* A name as it stands in a symbol table; the answer is the caller's to free, NULL when memory runs
 * out. Parameters are left out; suffixes that compilers add to clones (".isra.0") are taken off. */
char *demangle(const char *symbol);

/* Cython's: "__pyx_pw_6module_5Class_3method" and the like to "method"; NULL if it is none of
 * these. */
char *cython_name(const char *symbol);
/* Is it one of the helpers that Cython puts into every module, of no interest to anybody? */
bool cython_is_helper(const char *symbol);

#endif
