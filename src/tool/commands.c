#include "tool/commands.h"

#include <string.h>

#include "tool/values.h"
#include "util/buf.h"

const struct command *const commands[] = {
    &cmd_dump,  &cmd_record, &cmd_trace, &cmd_top,         &cmd_convert, &cmd_diff,
    &cmd_merge, &cmd_ps,     &cmd_serve, &cmd_completions, &cmd_help,    NULL,
};

#define COMMANDS_MAX 32

const struct option global_options[] = {
    OPTION_HELP,
    {
        .letter = 'V',
        .name = "version",
        .kind = OPT_VERSION,
        .group = "General",
        .help = "Print the version and exit",
    },
    OPTIONS_END,
};

static int unknown_command(const char *name, struct error *err)
{
    const char *names[COMMANDS_MAX + 1];
    size_t count = 0;
    SCOPED_BUF list;
    buf_init(&list);
    for (size_t i = 0; commands[i] && count < COMMANDS_MAX; i++) {
        buf_addf(&list, "%s%s", i ? ", " : "", commands[i]->name);
        names[count++] = commands[i]->name;
    }
    names[count] = NULL;

    const char *near = nearest_name(name, names);
    error_set(err, -SCRY_E_USAGE, "unknown command '%s'", name);
    if (near)
        error_hint(err, "did you mean %s? the commands are: %s", near, list.data);
    else
        error_hint(err, "the commands are: %s", list.data);
    return -SCRY_E_USAGE;
}

int command_find(const char *name, const struct command **ret_command, struct error *err)
{
    size_t len = strlen(name);
    const struct command *found = NULL, *second = NULL;
    for (size_t i = 0; commands[i]; i++) {
        const struct command *c = commands[i];
        if (strcmp(c->name, name) == 0 || (len == 1 && c->letter == name[0])) {
            *ret_command = c;
            return 0;
        }
        if (len > 0 && strncmp(c->name, name, len) == 0) {
            second = found;
            found = c;
        }
    }
    if (!found)
        return unknown_command(name, err);
    if (second) {
        error_set(err, -SCRY_E_USAGE, "'%s' is the beginning of several commands", name);
        error_hint(err, "write out %s or %s", second->name, found->name);
        return -SCRY_E_USAGE;
    }
    *ret_command = found;
    return 0;
}
