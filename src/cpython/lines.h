/* Line tables, in the four shapes CPython has had. */
#ifndef SCRY_CPYTHON_LINES_H
#define SCRY_CPYTHON_LINES_H

#include "cpython/layout.h"

/* The line of the instruction at byte `offset`; 0 when the table gives it no line or makes no
 * sense. An offset below 0 means "not started": the first line. */
int32_t lines_find(enum line_format format, const unsigned char *table, size_t len,
                   int32_t first_line, int32_t offset);

#endif
