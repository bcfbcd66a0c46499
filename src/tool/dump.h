/* What `dump` prints: one process, as text or as JSON. Both print only; looking is done in
 * cmd_dump.c. */
#ifndef SCRY_TOOL_DUMP_H
#define SCRY_TOOL_DUMP_H

#include <stdio.h>

#include "engine/snapshot.h"
#include "tool/term.h"
#include "util/json.h"

/* The variables of one thread's frames, read while it stood still. */
struct dump_variables {
    scry_addr tstate;
    struct py_locals *frames; /* as many as the thread had frames */
    size_t count;
};
struct dump_variables_list {
    struct dump_variables *items;
    size_t count, cap;
};
void dump_variables_drop(struct dump_variables *variables); /* forget the frames */
void dump_variables_done(struct dump_variables_list *list);

/* How a process whose core file is printed came to its end. */
struct dump_crash {
    const char *core;        /* the file */
    int signal;              /* 0 = none: a copy of a living process */
    const char *signal_name; /* NULL = it has none */
    scry_addr fault;         /* 0 = not known, or no such signal */
    bool has_fault;
    pid_t tid; /* the thread that died: it is printed first */
};

/* A process of the tree: the one asked for, or one of its descendants. */
struct dump_process {
    pid_t pid;
    const char *command;
    const char *exe;
    const char *python; /* "3.11.7", "3.14.2t" */
    const struct dump_process
        *parent; /* NULL for the process asked for; only pid and command are used */
    const struct dump_crash *crash; /* NULL for a live process */
    const struct snapshot *snapshot;
    const struct dump_variables_list *variables; /* NULL = not asked for */
    /* The path to show instead of the full one; NULL = show full paths. */
    const char *(*shorten)(const char *path, void *context);
    void *context;
};

/* py-spy's layout. What scry adds stands in brackets at the end of a thread's line: what it waits
 * for, and whether the stack is unsure. All text from the target is made printable. */
void dump_text(FILE *out, const struct style *style, const struct dump_process *process);

/* The threads as objects in the array that is open in `json`: py-spy's keys in its order, then
 * scry's. */
void dump_json(struct json *json, const struct dump_process *process);

/* Is this the thread that died? */
bool dump_crashed(const struct dump_process *process, const struct thread_state *thread);

/* Variables of frame number `frame` of this thread; NULL if there are none. */
const struct py_locals *dump_variables_of(const struct dump_process *process,
                                          const struct py_thread *thread, size_t frame);

#endif
