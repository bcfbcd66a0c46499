/* The commands, one row each; a row stands in the command's own file, cmd_NAME.c. */
#ifndef SCRY_TOOL_COMMANDS_H
#define SCRY_TOOL_COMMANDS_H

#include "tool/options.h"
#include "util/error.h"
#include "util/types.h"

struct command;

/* How the tool was called. */
struct invocation {
    const char *tool; /* what it calls itself: "scry", or "py-spy" when started under that name */
    bool as_py_spy;
    char **argv; /* the whole command line, NULL-terminated */
    const struct command *command;
    struct words words; /* what followed that was no option */
};

enum words_kind {
    WORDS_NONE,    /* takes no words: any is a usage error */
    WORDS_PROGRAM, /* a program to launch and its arguments */
    WORDS_FILES,
    WORDS_COMMAND, /* the name of a command */
    WORDS_CHOICE,  /* one of `word_choices` */
};

struct example {
    const char *what;
    const char *line; /* without the tool's own name: "dump -p 4242" */
};

struct command {
    const char *name;
    char letter;         /* alone it means this command, whatever else begins with it; 0 = none */
    const char *summary; /* one line, without a full stop */
    const char *const *usage; /* what follows "scry NAME ", a line each; ends with NULL */
    const char *description;  /* paragraphs, separated by an empty line */
    const struct option *options;
    const struct example *examples; /* ends with a row whose `line` is NULL; may be NULL */
    enum words_kind words;
    const char *const *word_choices; /* WORDS_CHOICE; ends with NULL */
    size_t values_size;              /* of the struct the options are stored in */
    const void *defaults;            /* what it holds before parsing; NULL = zeros */
    /* The exit status, or a negative error: the caller prints it. */
    int (*run)(const struct invocation *call, const void *values, struct error *err);
};

extern const struct command cmd_completions, cmd_convert, cmd_diff, cmd_dump, cmd_help, cmd_merge,
    cmd_ps, cmd_record, cmd_serve, cmd_top, cmd_trace;

/* In the order help lists them; ends with NULL. */
extern const struct command *const commands[];
/* Options that stand before the command. */
extern const struct option global_options[];

/* By name or unambiguous beginning of it. */
int command_find(const char *name, const struct command **ret_command, struct error *err);

#endif
