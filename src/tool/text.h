/* Text for people: made safe to print, and broken into lines. */
#ifndef SCRY_TOOL_TEXT_H
#define SCRY_TOOL_TEXT_H

#include <stdio.h>

#include "util/buf.h"

/* Append `text` so that it stays on its line and cannot control a terminal: control characters,
 * invalid UTF-8 and characters that reorder or hide text become escapes like \n, \x1b, \u202e.
 * Names and command lines come from the target and may hold anything. */
void text_add_printable(struct buf *to, const char *text);
/* The same, straight to a stream. */
void text_print(FILE *out, const char *text);

/* Print words broken at `width`, each new line indented by `indent`. `column` is where the cursor
 * stands. Ends with a newline. A newline in `text` starts a new line. */
void text_wrap(FILE *out, const char *text, int column, int indent, int width);

#endif
