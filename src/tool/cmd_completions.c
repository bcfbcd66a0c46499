#include <stdio.h>

#include "tool/commands.h"
#include "tool/help.h"

static int run(const struct invocation *call, const void *values, struct error *err)
{
    (void)values;
    if (call->words.count != 1) {
        error_set(err, -SCRY_E_USAGE, "completions needs the name of one shell");
        error_hint(err, "for example: %s completions bash", call->tool);
        return -SCRY_E_USAGE;
    }
    return completion_print(stdout, call->tool, call->words.items[0], err);
}

static const struct option options[] = {
    OPTION_HELP,
    OPTIONS_END,
};

static const struct example examples[] = {
    {"For bash:", "completions bash > ~/.local/share/bash-completion/completions/scry"},
    {"For fish:", "completions fish > ~/.config/fish/completions/scry.fish"},
    {"For zsh, in a folder named in $fpath:", "completions zsh > ~/.zfunc/_scry"},
    {NULL, NULL},
};

const struct command cmd_completions = {
    .name = "completions",
    .summary = "Print the script that makes a shell complete scry's commands and options",
    .usage = (const char *const[]){"SHELL", NULL},
    .options = options,
    .examples = examples,
    .words = WORDS_CHOICE,
    .word_choices = completion_shells,
    .run = run,
};
