/* Options as rows of a table. Parsing, help, man page and completions are all made from the rows,
 * so that none of them can say something the others do not. A row also says where in the command's
 * own struct its value goes, so that a command never sees the command line, only values that have
 * been checked. */
#ifndef SCRY_TOOL_OPTIONS_H
#define SCRY_TOOL_OPTIONS_H

#include "util/error.h"
#include "util/types.h"

enum option_kind {
    OPT_FLAG,        /* bool */
    OPT_COUNT,       /* int: how often it was given */
    OPT_STRING,      /* const char * */
    OPT_FILE,        /* const char *: a path; completions offer files */
    OPT_PID,         /* pid_t: decimal, or hexadecimal with 0x */
    OPT_PIDS,        /* struct pids: may be given several times */
    OPT_STRINGS,     /* struct strings: may be given several times */
    OPT_SIGNAL,      /* int: "USR2", "SIGUSR2", "RTMIN+1" */
    OPT_RATE,        /* double: per second */
    OPT_PERCENT,     /* double: a share, 0.01 for "1" and for "1%" */
    OPT_DURATION,    /* scry_nsec: seconds, fractions allowed; 0 for "unlimited" */
    OPT_NUMBER,      /* uint32_t: 0 to NUMBER_MAX */
    OPT_CHOICE,      /* int: index into `choices` */
    OPT_FORMAT,      /* const struct format * */
    OPT_HELP,        /* options_parse() returns OPTIONS_HELP at once */
    OPT_VERSION,     /* the same with OPTIONS_VERSION */
    OPT_UNAVAILABLE, /* py-spy has it and scry has not: `help` is the sentence the user gets */
};

#define REPEATS_MAX 1100
struct pids {
    pid_t items[REPEATS_MAX];
    size_t count;
};
struct strings {
    const char *items[REPEATS_MAX]; /* the command line's own */
    size_t count;
};

struct option {
    const char *name;     /* without the dashes; never NULL but in the last row */
    const char *argument; /* what help calls the value; NULL for OPT_FLAG, OPT_COUNT and the like */
    size_t offset;        /* of the value in the command's struct */
    const char *group;    /* heading in help */
    const char *help;     /* a sentence without a full stop */
    const char *const *choices; /* OPT_CHOICE; ends with NULL */
    enum option_kind kind;
    char letter; /* 0 = none */
    bool hidden; /* parsed, but not in help, man page and completions */
};

#define OPTION_HELP                                                                                \
    {                                                                                              \
        .letter = 'h', .name = "help", .kind = OPT_HELP, .group = "General",                       \
        .help = "Print this help and exit"                                                         \
    }
#define OPTIONS_END                                                                                \
    {                                                                                              \
        .name = NULL                                                                               \
    }

#define RATE_MIN             0.01
#define RATE_MAX             1000000.0
#define PERCENT_MIN          0.01
#define PERCENT_MAX          100.0
#define NUMBER_MAX           1000000000
#define PID_LIMIT            4194304 /* the kernel's own: PID_MAX_LIMIT */
#define DURATION_MAX_SECONDS 1.0e9   /* 31 years */

/* The words that are no options, in their order. */
struct words {
    char **items; /* NULL-terminated; the strings are argv's */
    int count;
};
void words_done(struct words *words);

enum options_result {
    OPTIONS_OK = 0,
    OPTIONS_HELP = 1,
    OPTIONS_VERSION = 2,
};

/* Parse `args` (without the program's and the command's name) into `values`. With `stop_at_word`
 * the first word ends the options: it and all that follow are words. Negative on a usage error,
 * with the sentence in `err`. */
int options_parse(const struct option *options, char **args, bool stop_at_word, void *values,
                  struct words *ret_words, struct error *err);

bool option_takes_value(const struct option *option);
bool option_repeats(const struct option *option);
/* Shown to users: not hidden, and not merely there to explain its absence. */
bool option_visible(const struct option *option);
/* The words its value is chosen from; 0 when it is free. */
size_t option_choices(const struct option *option, const char **ret_names, size_t max);
#define CHOICES_MAX 16

#endif
