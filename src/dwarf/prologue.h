/* How to leave a function that has no unwind tables, by its own instructions: what it put onto the
 * stack when it began, or what it still takes off before it returns. Such functions are written by
 * hand (the kernels of OpenBLAS, of OpenSSL), and those begin and end plainly; whatever else is met
 * there ends the reading, and the frame is left to frame pointers. */
#ifndef SCRY_DWARF_PROLOGUE_H
#define SCRY_DWARF_PROLOGUE_H

#include "dwarf/rule.h"

/* As many bytes of a function are of use: from its start, and from the instruction it is at. */
#define PROLOGUE_BYTES 256

struct code_bytes {
    const unsigned char *data;
    size_t len;
};

/* The rule at an instruction, given what was executed before it since the function began (NULL if it
 * is not known where), and what comes next (nothing, if that is not to be looked at). False when it
 * cannot be told. */
bool prologue_rule(struct code_bytes before, struct code_bytes next, struct rule *ret);

#endif
