/* The rows of `scry ps`. */
#ifndef SCRY_TOOL_PS_H
#define SCRY_TOOL_PS_H

#include <stdio.h>

#include "access/permission.h"
#include "tool/term.h"
#include "util/types.h"

struct ps_row {
    pid_t pid, parent;
    char version[32]; /* "" = unknown; without the patch release where that is hidden */
    size_t threads;   /* 0 = unknown */
    char container[64];
    char *command;
    char *exe;
    struct diagnosis access; /* beyond the reasons of permission.h: "unsupported", "failed" */
};

struct ps_rows {
    struct ps_row *items;
    size_t count, cap;
};

/* `width`: columns to keep within; 0 = as wide as it takes. */
void ps_text(FILE *out, const struct style *style, int width, const struct ps_rows *rows);
void ps_json(FILE *out, const struct ps_rows *rows);

#endif
