/* scry dump: look once and print every thread's stack; with -s for every process of the tree. */
#include <stdlib.h>
#include <string.h>

#include "engine/postmortem.h"
#include "engine/target.h"
#include "tool/commands.h"
#include "tool/dump.h"
#include "tool/selection.h"
#include "tool/shared_options.h"
#include "tool/text.h"
#include "tool/traced.h"
#include "util/table.h"
#include "util/utf8.h"

#define PATIENCE          (SCRY_NSEC_PER_SEC / 2) /* for a Python that is just starting */
#define LOCALS_BUDGET     128                     /* characters per variable for each -l */
#define LOCALS_LEVELS_MAX 100
#define COMMAND_IN_NOTE   80 /* bytes of a command line */
#define TREE_DEPTH_MAX    200

struct dump_values {
    struct pids pids;
    const char *name;
    struct strings threads;
    bool subprocesses, full_filenames, json, nonblocking, native, native_all;
    int locals;
    int blocking;
    const char *core, *exe, *sysroot;
};

/* The process asked for and, with -s, its descendants: parents before their children. */
struct tree_node {
    pid_t pid;
    size_t parent; /* index; own index for the first */
    char *command; /* known once it was looked at */
};
struct tree {
    struct tree_node *nodes;
    size_t count, cap;
    struct table seen; /* pid: a child that changes its parent while we look must not come twice */
};

struct dump {
    const struct invocation *call;
    const struct dump_values *values;
    enum blocking blocking;
    const struct style *style;
    struct json json;
    struct tree tree;
    struct dump_variables_list variables;
    size_t printed;
};

/* ---- the tree ---- */

static int tree_add(struct tree *tree, pid_t pid, size_t parent)
{
    if (tree->count == tree->cap) {
        size_t cap = tree->cap ? tree->cap * 2 : 16;
        struct tree_node *grown = realloc(tree->nodes, cap * sizeof(*grown));
        if (!grown)
            return -SCRY_E_NO_MEMORY;
        tree->nodes = grown;
        tree->cap = cap;
    }
    if (!table_put(&tree->seen, (uint64_t)pid, 1))
        return -SCRY_E_NO_MEMORY;
    tree->nodes[tree->count++] = (struct tree_node){.pid = pid, .parent = parent};
    return 0;
}

static int tree_add_children(struct tree *tree, size_t parent, int depth)
{
    struct pid_list children = {0};
    if (depth >= TREE_DEPTH_MAX || process_children(tree->nodes[parent].pid, &children) < 0)
        return 0; /* gone: it has no children any more */
    int r = 0;
    for (size_t i = 0; i < children.count && r == 0; i++) {
        uint64_t dummy;
        if (table_get(&tree->seen, (uint64_t)children.items[i], &dummy))
            continue;
        r = tree_add(tree, children.items[i], parent);
        if (r == 0)
            r = tree_add_children(tree, tree->count - 1, depth + 1);
    }
    pid_list_done(&children);
    return r;
}

static void tree_done(struct tree *tree)
{
    for (size_t i = 0; i < tree->count; i++)
        free(tree->nodes[i].command);
    free(tree->nodes);
    table_done(&tree->seen);
}

/* The command line, also of a process that runs no Python. */
static void tree_name(struct tree_node *node)
{
    struct process *process;
    if (node->command || process_peek(node->pid, &process, NULL) < 0)
        return;
    node->command = strdup(process->command);
    process_close(process);
}

/* ---- one process ---- */

/* A place for this thread's variables; NULL when memory runs out. A thread may be visited twice:
 * the later visit replaces the earlier. */
static struct dump_variables *variables_slot(struct dump_variables_list *list, scry_addr tstate)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i].tstate == tstate) {
            dump_variables_drop(&list->items[i]);
            return &list->items[i];
        }
    }
    if (list->count == list->cap) {
        size_t cap = list->cap ? list->cap * 2 : 16;
        struct dump_variables *grown = realloc(list->items, cap * sizeof(*grown));
        if (!grown)
            return NULL;
        list->items = grown;
        list->cap = cap;
    }
    struct dump_variables *slot = &list->items[list->count++];
    *slot = (struct dump_variables){.tstate = tstate};
    return slot;
}

/* Runs while the thread stands still: reads the variables of all its frames. What cannot be had is
 * missing from the output; the stacks are still worth printing. */
static void read_variables(struct python *python, const struct py_thread *thread, void *context)
{
    struct dump *d = context;
    size_t levels = (size_t)d->values->locals;
    if (levels > LOCALS_LEVELS_MAX)
        levels = LOCALS_LEVELS_MAX;
    struct dump_variables *slot = variables_slot(&d->variables, thread->tstate);
    if (slot)
        slot->frames = calloc(thread->frame_count + 1, sizeof(*slot->frames));
    if (!slot || !slot->frames)
        return;
    slot->count = thread->frame_count;
    for (size_t i = 0; i < slot->count; i++) {
        struct py_locals *to = &slot->frames[i];
        if (python_locals(python, &thread->frames[i], levels * LOCALS_BUDGET, to) < 0)
            *to = (struct py_locals){0};
    }
}

static void read_live_variables(struct target *t, const struct py_thread *thread, void *context)
{
    read_variables(t->python, thread, context);
}

static const char *shorten(const char *path, void *context)
{
    return target_short_path(context, path);
}

static void print(struct dump *d, struct target *t, const struct tree_node *node,
                  const struct snapshot *snapshot)
{
    char python[32];
    py_version_text(t->python, python, sizeof(python));
    const struct tree_node *above = &d->tree.nodes[node->parent];
    struct dump_process parent = {.pid = above->pid, .command = above->command ?: "?"};
    SCOPED_BUF exe;
    buf_init(&exe);
    buf_addf(&exe, "%s%s", t->process->exe, t->process->exe_deleted ? " (deleted)" : "");
    struct dump_process process = {
        .pid = node->pid,
        .command = t->process->command,
        .exe = exe.data,
        .python = python,
        .parent = above == node ? NULL : &parent,
        .snapshot = snapshot,
        .variables = d->values->locals ? &d->variables : NULL,
        .shorten = d->values->full_filenames ? NULL : shorten,
        .context = t,
    };
    if (d->values->json) {
        if (d->printed++ == 0)
            json_begin_array(&d->json);
        dump_json(&d->json, &process);
        return;
    }
    if (d->printed++ > 0) {
        fputc('\n', stdout);
        for (int i = term_width(stdout, 80); i > 0; i--)
            fputc('-', stdout);
        fputc('\n', stdout);
    }
    dump_text(stdout, d->style, &process);
}

/* Something could not be had that a stop would have given. */
static bool is_lacking(const struct dump *d, const struct snapshot *s)
{
    for (size_t i = 0; i < s->count && d->blocking != BLOCKING_NEVER; i++) {
        const struct thread_state *t = &s->threads[i];
        if (t->torn || (t->merged && t->merged->state == NATIVE_MISSING))
            return true;
    }
    return false;
}

static int dump_one(struct dump *d, struct tree_node *node, struct error *err)
{
    struct target *t;
    int r = target_open(node->pid, d->tree.count == 1 ? PATIENCE : 0, &t, err);
    if (r < 0)
        return r;
    const struct choice choice = {
        .threads = {d->values->threads.items, d->values->threads.count},
    };
    struct look look = {
        .choice = &choice,
        .blocking = d->blocking,
        .stop_limit = SCRY_NSEC_PER_SEC, /* on a busy machine it may have to wait for a CPU */
        .wait_reasons = true,
        .visit = d->values->locals ? read_live_variables : NULL,
        .visit_context = d,
        .native = d->values->native || d->values->native_all,
        .native_all = d->values->native_all,
    };
    const struct snapshot *snapshot;
    r = target_look(t, &look, &snapshot);
    if (r < 0)
        error_set(err, r, "process %d: %s", node->pid, error_sentence(r));
    else
        print(d, t, node, snapshot);
    if (r == 0 && is_lacking(d, snapshot)) {
        fflush(stdout);
        traced_note(stderr, d->call->tool, node->pid);
    }
    dump_variables_done(&d->variables);
    target_close(t);
    return r;
}

/* On standard error, so that what is read by programs holds stacks only. */
static void note(const struct dump *d, const struct tree_node *node, const struct error *err)
{
    fflush(stdout);
    fprintf(stderr, "%s: note: skipped process %d", d->call->tool, node->pid);
    if (node->command) {
        SCOPED_BUF command;
        buf_init(&command);
        text_add_printable(&command, node->command);
        size_t kept = utf8_prefix(command.data, command.len, COMMAND_IN_NOTE);
        fprintf(stderr, " (%.*s%s)", (int)kept, command.data, kept < command.len ? "..." : "");
    }
    fputs(": ", stderr);
    text_print(stderr, err->code == -SCRY_E_NOT_PYTHON ? "not Python" : error_text(err));
    fputc('\n', stderr);
}

static int dump_tree(struct dump *d, struct error *err)
{
    struct error first = {0};
    for (size_t i = 0; i < d->tree.count; i++) {
        struct tree_node *node = &d->tree.nodes[i];
        struct error why = {0};
        tree_name(node);
        int r = dump_one(d, node, &why);
        if (r == 0)
            continue;
        why.code = r;
        if (i == 0)
            first = why;
        if (r == -SCRY_E_NO_MEMORY || d->tree.count == 1)
            break;
        note(d, node, &why);
    }
    if (d->printed == 0) {
        *err = first;
        return first.code;
    }
    if (d->values->json) {
        json_end_array(&d->json);
        fputc('\n', stdout);
    }
    return 0;
}

/* The processes that were asked for, each with its descendants if those are. */
static int plant(struct dump *d, struct error *err)
{
    struct pid_list pids = {0};
    const struct dump_values *v = d->values;
    int r = selection_find(&v->pids, v->name, &pids, err);
    for (size_t i = 0; i < pids.count && r == 0; i++) {
        uint64_t dummy;
        if (table_get(&d->tree.seen, (uint64_t)pids.items[i], &dummy))
            continue;
        r = tree_add(&d->tree, pids.items[i], d->tree.count);
        if (r == 0 && v->subprocesses)
            r = tree_add_children(&d->tree, d->tree.count - 1, 0);
    }
    pid_list_done(&pids);
    return r;
}

/* ---- a core file ---- */

static const char *shorten_core(const char *path, void *context)
{
    return postmortem_short_path(context, path);
}

static void print_core(struct dump *d, struct postmortem *p, const struct snapshot *snapshot)
{
    const struct core *core = &p->core;
    char python[32];
    py_version_text(p->python, python, sizeof(python));
    struct dump_crash crash = {
        .core = d->values->core,
        .signal = core_died(core) ? core->signal : 0,
        .signal_name = core_died(core) ? core_signal_name(core->signal) : NULL,
        .fault = core->fault,
        .has_fault = core_died(core) && core->has_fault,
        .tid = core->thread_count ? core->threads[0].tid : 0,
    };
    struct dump_process process = {
        .pid = core->pid,
        .command = p->command.data,
        .exe = p->exe,
        .python = python,
        .crash = &crash,
        .snapshot = snapshot,
        .variables = d->values->locals ? &d->variables : NULL,
        .shorten = d->values->full_filenames ? NULL : shorten_core,
        .context = p,
    };
    if (!d->values->json) {
        dump_text(stdout, d->style, &process);
        return;
    }
    json_begin_array(&d->json);
    dump_json(&d->json, &process);
    json_end_array(&d->json);
    fputc('\n', stdout);
}

static int dump_core(struct dump *d, struct error *err)
{
    const struct dump_values *v = d->values;
    if (v->subprocesses) {
        error_set(err, -SCRY_E_USAGE,
                  "a core file is of one process: --subprocesses means nothing");
        error_hint(err, "leave --subprocesses out");
        return -SCRY_E_USAGE;
    }
    struct postmortem *p;
    struct postmortem_options options = {.core = v->core,
                                         .exe = v->exe,
                                         .sysroot = v->sysroot,
                                         .native = v->native,
                                         .native_all = v->native_all};
    int r = postmortem_open(&options, &p, err);
    if (r < 0)
        return r;
    const struct snapshot *snapshot;
    r = postmortem_look(p, v->locals ? read_variables : NULL, d, &snapshot);
    if (r < 0) {
        error_set(err, r, "the threads of Python cannot be read from '%.500s'%s", v->core,
                  p->core.missing ? ": it is cut off" : "");
        error_hint(err, "copy the file again; /proc/PID/coredump_filter says what a core holds");
    } else {
        if (p->warning[0]) {
            fprintf(stderr, "%s: note: ", d->call->tool);
            text_print(stderr, p->warning);
            fputc('\n', stderr);
        }
        print_core(d, p, snapshot);
    }
    dump_variables_done(&d->variables);
    postmortem_close(p);
    return r;
}

static int run(const struct invocation *call, const void *values, struct error *err)
{
    const struct dump_values *v = values;
    struct dump d = {.call = call, .values = v, .style = term_style(term_has_colours(stdout))};
    json_init(&d.json, stdout, 2);
    if (v->core)
        return dump_core(&d, err);
    if (v->exe || v->sysroot) {
        error_set(err, -SCRY_E_USAGE, "--%s is for a core file", v->exe ? "exe" : "sysroot");
        error_hint(err, "name the core file with --core FILE, or leave it out");
        return -SCRY_E_USAGE;
    }
    if (!v->pids.count && !v->name) {
        error_set(err, -SCRY_E_USAGE, "dump needs to know which process to look into");
        error_hint(err,
                   "name it with -p PID; list the Python processes of this host with: scry ps");
        return -SCRY_E_USAGE;
    }
    int r = shared_blocking(v->blocking, v->nonblocking, &d.blocking, err);
    if (r < 0)
        return r;
    if (v->native || v->native_all)
        shared_note_native(call->tool, d.blocking);
    table_init(&d.tree.seen);
    r = plant(&d, err);
    if (r == 0)
        r = dump_tree(&d, err);
    tree_done(&d.tree);
    return r;
}

static const struct option options[] = {
    OPTION_PIDS(struct dump_values, pids),
    OPTION_NAME(struct dump_values, name),
    OPTION_THREAD(struct dump_values, threads),
    {
        .letter = 'c',
        .name = "core",
        .argument = "FILE",
        .kind = OPT_FILE,
        .offset = offsetof(struct dump_values, core),
        .group = "Target",
        .help = "Read a core file instead: what the kernel or gcore wrote, also compressed "
                "with gzip or zstd",
    },
    {
        .name = "exe",
        .argument = "PATH",
        .kind = OPT_FILE,
        .offset = offsetof(struct dump_values, exe),
        .group = "Target",
        .help = "With --core: the program it is of, if that is not where it was",
    },
    {
        .name = "sysroot",
        .argument = "DIR",
        .kind = OPT_FILE,
        .offset = offsetof(struct dump_values, sysroot),
        .group = "Target",
        .help = "With --core: a folder with the files of the machine it is of, as they lay below /",
    },
    OPTION_SUBPROCESSES(struct dump_values, subprocesses,
                        "Print the descendants of the process too, each process once"),
    OPTION_BLOCKING(struct dump_values, blocking),
    OPTION_NONBLOCKING(struct dump_values, nonblocking),
    {
        .letter = 'l',
        .name = "locals",
        .kind = OPT_COUNT,
        .offset = offsetof(struct dump_values, locals),
        .group = "Output",
        .help =
            "Show the arguments and variables of each frame; each further -l allows another 128 "
            "characters per variable",
    },
    {
        .letter = 'j',
        .name = "json",
        .kind = OPT_FLAG,
        .offset = offsetof(struct dump_values, json),
        .group = "Output",
        .help = "Print JSON: an array of threads",
    },
    OPTION_FULL_FILENAMES(struct dump_values, full_filenames),
    OPTION_NATIVE(struct dump_values, native),
    OPTION_NATIVE_ALL(struct dump_values, native_all),
    OPTION_HELP,
    OPTIONS_END,
};

static const struct example examples[] = {
    {"What does the program do right now?", "dump -p 4242"},
    {"With the values of its variables:", "dump -p 4242 --locals"},
    {"What did a program do when it crashed?", "dump --core core.4242 --locals"},
    {"The whole process tree, for another program to read:", "dump -s --json -p 4242"},
    {NULL, NULL},
};

const struct command cmd_dump = {
    .name = "dump",
    .letter = 'd',
    .summary = "Print what every thread of a Python process does right now",
    .usage = (const char *const[]){"[OPTIONS] -p PID", "[OPTIONS] --core FILE", NULL},
    .description =
        "Prints the stack of every thread, innermost call first. A thread is idle, active, or "
        "active+gil when it holds the interpreter lock. In brackets stands what an idle thread "
        "waits "
        "for.\n\n"
        "Of a core file the thread that died comes first. What is not in the file, code and "
        "constants, is read from the program and its libraries, if they are still the same.",
    .options = options,
    .examples = examples,
    .values_size = sizeof(struct dump_values),
    .run = run,
};
