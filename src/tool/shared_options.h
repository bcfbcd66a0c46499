/* Options that several commands have, so that they are called and explained the same everywhere. */
#ifndef SCRY_TOOL_SHARED_OPTIONS_H
#define SCRY_TOOL_SHARED_OPTIONS_H

#include "engine/target.h"
#include "format/format.h"
#include "tool/options.h"

#define OPTION_PID(type, member)                                                                   \
    {                                                                                              \
        .letter = 'p', .name = "pid", .argument = "PID", .kind = OPT_PID,                          \
        .offset = offsetof(type, member), .group = "Target",                                       \
        .help = "The process to look into; decimal, or hexadecimal with 0x"                        \
    }
#define OPTION_PIDS(type, member)                                                                  \
    {                                                                                              \
        .letter = 'p', .name = "pid", .argument = "PID", .kind = OPT_PIDS,                         \
        .offset = offsetof(type, member), .group = "Target",                                       \
        .help = "The process to look into; decimal, or hexadecimal with 0x; may be given "         \
                "several times"                                                                    \
    }
#define OPTION_NAME(type, member)                                                                  \
    {                                                                                              \
        .name = "name", .argument = "PATTERN", .kind = OPT_STRING,                                 \
        .offset = offsetof(type, member), .group = "Target",                                       \
        .help = "All Python processes whose command line has this text, or matches it where it "   \
                "has * or ?"                                                                       \
    }
#define OPTION_THREAD(type, member)                                                                \
    {                                                                                              \
        .name = "thread", .argument = "NAME", .kind = OPT_STRINGS,                                 \
        .offset = offsetof(type, member), .group = "Target",                                       \
        .help = "Only threads of this name, a pattern with * and ? if wanted, or of this number; " \
                "may be given several times"                                                       \
    }
#define OPTION_SUBPROCESSES(type, member, sentence)                                                \
    {                                                                                              \
        .letter = 's', .name = "subprocesses", .kind = OPT_FLAG, .offset = offsetof(type, member), \
        .group = "Target", .help = (sentence)                                                      \
    }
#define OPTION_BLOCKING(type, member)                                                              \
    {                                                                                              \
        .name = "blocking", .argument = "WHEN", .kind = OPT_CHOICE,                                \
        .offset = offsetof(type, member), .group = "Target", .choices = blocking_choices,          \
        .help = "When a thread is stopped for the microseconds it is read: auto stops it only "    \
                "when its stack cannot be proved otherwise; always stops the whole process for "   \
                "each look, as a reference"                                                        \
    }
#define OPTION_NONBLOCKING(type, member)                                                           \
    {                                                                                              \
        .name = "nonblocking", .kind = OPT_FLAG, .offset = offsetof(type, member),                 \
        .group = "Target",                                                                         \
        .help = "Never stop a thread, like --blocking never; stacks read while they changed are "  \
                "marked as unsure"                                                                 \
    }
#define OPTION_RATE(type, member)                                                                  \
    {                                                                                              \
        .letter = 'r', .name = "rate", .argument = "RATE", .kind = OPT_RATE,                       \
        .offset = offsetof(type, member), .group = "Sampling",                                     \
        .help = "Samples per second, 0.01 to 1000000; 100 if not given"                            \
    }
#define OPTION_PARTIAL(type, member)                                                               \
    {                                                                                              \
        .name = "partial", .kind = OPT_FLAG, .offset = offsetof(type, member), .group = "Input",   \
        .help = "Take what can be read of a recording that is cut off or damaged"                  \
    }
#define OPTION_FULL_FILENAMES(type, member)                                                        \
    {                                                                                              \
        .name = "full-filenames", .kind = OPT_FLAG, .offset = offsetof(type, member),              \
        .group = "Output", .help = "Show whole paths, not only the part from the package on"       \
    }
#define OPTION_FORMAT(type, member)                                                                \
    {                                                                                              \
        .letter = 'f', .name = "format", .argument = "FORMAT", .kind = OPT_FORMAT,                 \
        .offset = offsetof(type, member), .group = "Output",                                       \
        .help = "What to write, flamegraph if not given"                                           \
    }
#define OPTION_THREADS(type, member)                                                               \
    {                                                                                              \
        .letter = 't', .name = "threads", .kind = OPT_FLAG, .offset = offsetof(type, member),      \
        .group = "Output", .help = "Keep threads apart, each under a frame of its own"             \
    }
#define OPTION_FUNCTION(type, member)                                                              \
    {                                                                                              \
        .letter = 'F', .name = "function", .kind = OPT_FLAG, .offset = offsetof(type, member),     \
        .group = "Output",                                                                         \
        .help = "Add up by function: show the line of the def instead of the line being executed"  \
    }
#define OPTION_NOLINENO(type, member)                                                              \
    {                                                                                              \
        .name = "nolineno", .kind = OPT_FLAG, .offset = offsetof(type, member), .group = "Output", \
        .help = "Leave line numbers out"                                                           \
    }
#define OPTION_MARK_TORN(type, member)                                                             \
    {                                                                                              \
        .name = "mark-torn", .kind = OPT_FLAG, .offset = offsetof(type, member),                   \
        .group = "Output",                                                                         \
        .help = "Put a frame [torn] on top of stacks that were read while they changed, in "       \
                "flamegraph and raw"                                                               \
    }
#define OPTION_NO_SOURCE(type, member)                                                             \
    {                                                                                              \
        .name = "no-source", .kind = OPT_FLAG, .offset = offsetof(type, member),                   \
        .group = "Output", .help = "Do not put source files into an html report"                   \
    }
#define OPTION_NATIVE(type, member)                                                                \
    {                                                                                              \
        .letter = 'n', .name = "native", .kind = OPT_FLAG, .offset = offsetof(type, member),       \
        .group = "Target",                                                                         \
        .help = "Show functions of C, C++, Rust and Cython code too, each where it was called; "   \
                "with --nonblocking only for threads that wait"                                    \
    }
#define OPTION_NATIVE_ALL(type, member)                                                            \
    {                                                                                              \
        .name = "native-all", .kind = OPT_FLAG, .offset = offsetof(type, member),                  \
        .group = "Target",                                                                         \
        .help = "Like --native, and show the functions of the interpreter itself that only lead "  \
                "from one call to the next"                                                        \
    }

/* In the order of enum blocking. */
extern const char *const blocking_choices[];

/* Bring --blocking and --nonblocking together. */
int shared_blocking(int chosen, bool nonblocking, enum blocking *ret_blocking, struct error *err);

/* Say what --native does not do in this mode of blocking, if anything. */
void shared_note_native(const char *tool, enum blocking blocking);

/* Bring --function and --nolineno together. */
int shared_lines(bool function, bool nolineno, enum line_mode *ret_lines, struct error *err);

#endif
