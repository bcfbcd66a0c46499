#include <stdio.h>

#include "tool/commands.h"
#include "tool/help.h"

struct help_values {
    bool man;
};

static int run(const struct invocation *call, const void *values, struct error *err)
{
    const struct help_values *v = values;
    if (v->man) {
        man_print(stdout);
        return 0;
    }
    if (call->words.count == 0) {
        help_print_tool(stdout, call->tool);
        return 0;
    }
    if (call->words.count > 1) {
        error_set(err, -SCRY_E_USAGE, "help was asked for %d commands", call->words.count);
        error_hint(err, "name one: %s help %s", call->tool, call->words.items[0]);
        return -SCRY_E_USAGE;
    }
    const struct command *command;
    int r = command_find(call->words.items[0], &command, err);
    if (r < 0)
        return r;
    help_print_command(stdout, call->tool, command);
    return 0;
}

static const struct option options[] = {
    {
        .name = "man",
        .kind = OPT_FLAG,
        .offset = offsetof(struct help_values, man),
        .group = "General",
        .help = "Print the manual page of all commands, to be piped into man -l -",
    },
    OPTION_HELP,
    OPTIONS_END,
};

const struct command cmd_help = {
    .name = "help",
    .summary = "Explain a command",
    .usage = (const char *const[]){"[COMMAND]", "--man", NULL},
    .options = options,
    .words = WORDS_COMMAND,
    .values_size = sizeof(struct help_values),
    .run = run,
};
