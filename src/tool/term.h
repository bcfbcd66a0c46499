/* What a stream is connected to, and how wide and colourful it may be. */
#ifndef SCRY_TOOL_TERM_H
#define SCRY_TOOL_TERM_H

#include <stdio.h>

#include "util/types.h"

/* NO_COLOR forbids, CLICOLOR_FORCE demands, else a terminal decides (and CLICOLOR=0 and TERM=dumb).
 */
bool term_has_colours(FILE *stream);
/* Does the terminal (TERM) understand more than plain text? */
bool term_moves_cursor(void);
/* Columns of the terminal behind `stream`; `otherwise` when it is none. */
int term_width(FILE *stream, int otherwise);

/* Escape sequences, all "" without colours: print them with %s. */
struct style {
    const char *heading; /* bold yellow */
    const char *literal; /* green */
    const char *number;  /* bold yellow */
    const char *function;
    const char *file;
    const char *dim;
    const char *more; /* it grew: red */
    const char *less; /* it shrank: blue */
    const char *end;
};
const struct style *term_style(bool colours);

#endif
