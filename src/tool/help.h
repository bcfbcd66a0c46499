/* Texts made from the tables of commands and options. */
#ifndef SCRY_TOOL_HELP_H
#define SCRY_TOOL_HELP_H

#include <stdio.h>

#include "tool/commands.h"

/* `scry --help` and `scry COMMAND --help`, as wide as the terminal. */
void help_print_tool(FILE *out, const char *tool);
void help_print_command(FILE *out, const char *tool, const struct command *command);
void help_print_version(FILE *out, const struct invocation *call);

/* The manual page, in man(7). */
void man_print(FILE *out);

/* A completion script; -SCRY_E_USAGE for a shell scry cannot write for. */
int completion_print(FILE *out, const char *tool, const char *shell, struct error *err);
extern const char *const completion_shells[];

#endif
