/* What `diff` prints, as a table for people and as JSON for programs. */
#ifndef SCRY_TOOL_DIFF_H
#define SCRY_TOOL_DIFF_H

#include <stdio.h>

#include "format/diff.h"
#include "tool/term.h"

struct diff_report {
    const struct diff *diff;
    const struct diff_options *options;
    const struct diff_function *functions; /* greatest change first */
    size_t count;
    size_t limit; /* of functions shown in the table; 0 = all */
    int width;    /* of the terminal; 0 = no limit */
    const struct style *style;
};

void diff_print_text(const struct diff_report *report, FILE *out);
void diff_print_json(const struct diff_report *report, FILE *out);

#endif
