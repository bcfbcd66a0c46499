#include "tool/shared_options.h"

#include <stdio.h>

const char *const blocking_choices[] = {
    [BLOCKING_AUTO] = "auto",
    [BLOCKING_ALWAYS] = "always",
    [BLOCKING_NEVER] = "never",
    NULL,
};

int shared_blocking(int chosen, bool nonblocking, enum blocking *ret_blocking, struct error *err)
{
    if (nonblocking && chosen == BLOCKING_ALWAYS) {
        error_set(err, -SCRY_E_USAGE, "--nonblocking and --blocking always contradict each other");
        error_hint(err, "leave one of them out");
        return -SCRY_E_USAGE;
    }
    *ret_blocking = nonblocking ? BLOCKING_NEVER : (enum blocking)chosen;
    return 0;
}

int shared_lines(bool function, bool nolineno, enum line_mode *ret_lines, struct error *err)
{
    if (function && nolineno) {
        error_set(err, -SCRY_E_USAGE, "--function and --nolineno contradict each other");
        error_hint(err, "leave one of them out");
        return -SCRY_E_USAGE;
    }
    *ret_lines = function ? LINES_FUNCTION : nolineno ? LINES_NONE : LINES_EXACT;
    return 0;
}

void shared_note_native(const char *tool, enum blocking blocking)
{
    if (blocking == BLOCKING_NEVER)
        fprintf(stderr,
                "%s: note: a thread that runs has to be stopped for its native frames, so with "
                "--nonblocking only waiting threads show them\n",
                tool);
}
