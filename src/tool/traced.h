/* A process that another program traces: a debugger, strace. */
#ifndef SCRY_TOOL_TRACED_H
#define SCRY_TOOL_TRACED_H

#include <stdio.h>
#include <sys/types.h>

/* Says who traces this process, and what that means; nothing if nobody does. */
void traced_note(FILE *out, const char *tool, pid_t pid);

#endif
