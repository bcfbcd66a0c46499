/* scry trace: every call of a program, by the tracer of the Python package.
 *
 * The tracer runs inside the program, so it must be there for the very Python the program runs on. This command finds
 * that Python and the package, and hands over to `python -m scry.trace`, which runs the program, waits, and makes the
 * trace. If that Python does not have the package, the one that came with this binary is used, and its compiled part
 * is built on the way. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "access/launch.h"
#include "tool/commands.h"
#include "tool/shared_options.h"
#include "util/limits.h"

struct trace_values {
    pid_t pid;
    scry_nsec duration;
    const char *output, *module, *recover;
    const char *memory, *min_duration, *include, *exclude, *sparse;
    uint32_t entries, depth;
    bool stream, quiet, no_children;
    bool ignore_c, ignore_frozen, ignore_stdlib;
    bool args, returns, no_exceptions, no_gc, no_async;
};

/* What the interpreter runs: the package's folder is its first argument, empty when it has one of its own. The
 * present folder is not to be searched: it may hold a module that is called like one of the library. */
#define NO_PRESENT_FOLDER "import sys; sys.path[:] = [p for p in sys.path if p]; "
static const char boot[] =
    NO_PRESENT_FOLDER "folder = sys.argv.pop(1); folder and sys.path.insert(0, folder); "
                      "from scry.trace.__main__ import main; sys.exit(main(sys.argv[1:]))";
/* 0: it has the package; 3: it is older than the tracer; 4: it has not. */
static const char probe[] = NO_PRESENT_FOLDER
    "sys.version_info < (3, 8) and sys.exit(3); import importlib.util as u; s = "
    "u.find_spec('scry'); "
    "sys.exit(0 if s and s.submodule_search_locations and u.find_spec('scry.trace') else 4)";

/* ---- which Python ---- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_python(const char *word)
{
    return strncmp(base_name(word), "python", 6) == 0;
}

/* The first line of a script, "#!/usr/bin/env python3 -u": the word that names a Python, in `line`; or NULL. */
static char *python_of_script(const char *path, char *line, size_t size)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return NULL;
    bool got = fgets(line, (int)size, file) && strncmp(line, "#!", 2) == 0;
    fclose(file);
    if (!got)
        return NULL;
    char *rest = line + 2, *word;
    while ((word = strtok_r(rest, " \t\n", &rest)))
        if (is_python(word))
            return word;
    return NULL;
}

/* Where the shell would find a program; "" if nowhere. */
static void find_in_path(const char *name, char *found, size_t size)
{
    const char *path = getenv("PATH");
    found[0] = 0;
    if (strchr(name, '/')) {
        snprintf(found, size, "%s", name);
        return;
    }
    while (path && *path) {
        size_t len = strcspn(path, ":");
        snprintf(found, size, "%.*s/%s", (int)len, path, name);
        if (access(found, X_OK) == 0)
            return;
        path += len + (path[len] == ':');
    }
    found[0] = 0;
}

/* That of the program's first word, or the usual one. */
static void python_for_program(const char *word, char *ret_python, size_t size)
{
    char script[PATH_MAX], line[512];
    if (is_python(word)) {
        snprintf(ret_python, size, "%s", word);
        return;
    }
    find_in_path(word, script, sizeof(script));
    const char *named = script[0] ? python_of_script(script, line, sizeof(line)) : NULL;
    snprintf(ret_python, size, "%s", named ? named : "python3");
}

static int python_of_process(pid_t pid, char *ret_python, size_t size, struct error *err)
{
    char link[64];
    snprintf(link, sizeof(link), "/proc/%d/exe", pid);
    ssize_t n = readlink(link, ret_python, size - 1);
    if (n < 0)
        return errno == ENOENT || errno == ESRCH
                   ? error_set(err, -SCRY_E_NO_PROCESS, "there is no process %d", pid)
                   : error_set(err, -SCRY_E_PERMISSION, "cannot see what process %d runs: %s", pid,
                               strerror(errno));
    ret_python[n] = 0;
    if (!is_python(ret_python)) {
        error_set(err, -SCRY_E_NOT_PYTHON, "process %d runs '%s', which is not Python", pid,
                  ret_python);
        return -SCRY_E_NOT_PYTHON;
    }
    struct stat here, there;
    if (stat(link, &there) == 0 && stat(ret_python, &here) == 0 && here.st_ino == there.st_ino &&
        here.st_dev == there.st_dev)
        return 0;
    error_set(err, -SCRY_E_UNSUPPORTED, "process %d runs in a container or another root", pid);
    error_hint(err, "run `python -m scry.trace -p PID` in there");
    return -SCRY_E_UNSUPPORTED;
}

/* ---- the package ---- */

static bool is_package(const char *folder)
{
    char file[PATH_MAX];
    return snprintf(file, sizeof(file), "%s/scry/trace/__main__.py", folder) < (int)sizeof(file) &&
           access(file, R_OK) == 0;
}

/* The one that came with this binary: beside the build folder, or in share/ where it is installed. */
static bool own_package(char *ret_folder, size_t size)
{
    static const char *const places[] = {"../python", "../share/scry/python"};
    char exe[PATH_MAX], folder[PATH_MAX + 64], real[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    if (n <= 0)
        return false;
    exe[n] = 0;
    *strrchr(exe, '/') = 0;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        snprintf(folder, sizeof(folder), "%s/%s", exe, places[i]);
        if (realpath(folder, real) && is_package(real)) {
            snprintf(ret_folder, size, "%s", real);
            return true;
        }
    }
    return false;
}

/* Asks the interpreter. Whatever it prints is not for the user. */
static int ask(const char *python, const char *question, struct error *err)
{
    struct launch l;
    char *argv[] = {(char *)python, "-c", (char *)question, NULL};
    int r = launch_program(&l, argv, err);
    if (r < 0)
        return r;
    int status;
    while (waitpid(l.pid, &status, 0) < 0)
        if (errno != EINTR)
            return error_set(err, -SCRY_E_LAUNCH, "cannot wait for '%s': %s", python,
                             strerror(errno));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* "" when the interpreter has the package itself. */
static int find_package(const char *python, char *ret_folder, size_t size, struct error *err)
{
    int answer = ask(python, probe, err);
    if (answer < 0)
        return answer;
    ret_folder[0] = 0;
    if (answer == 0)
        return 0;
    if (answer == 3) {
        error_set(err, -SCRY_E_UNSUPPORTED, "'%s' is older than Python 3.8, which the tracer needs",
                  python);
        error_hint(err, "sample it instead: scry record");
        return -SCRY_E_UNSUPPORTED;
    }
    if (answer == 4 && own_package(ret_folder, size))
        return 0;
    error_set(err, -SCRY_E_LAUNCH, "'%s' has no package scry, whose tracer is needed", python);
    error_hint(err, "install it there: %s -m pip install scry", python);
    return -SCRY_E_LAUNCH;
}

/* ---- handing over ---- */

struct arguments {
    char **items;
    size_t count;
};

static void push(struct arguments *a, const char *word)
{
    a->items[a->count++] = (char *)word;
}

/* The options as they were given, then the program. */
static bool collect(const struct invocation *call, const struct trace_values *v, const char *python,
                    const char *folder, struct arguments *a)
{
    size_t given = 0, words = (size_t)call->words.count;
    while (call->argv[given])
        given++;
    a->items = calloc(given + 12, sizeof(*a->items));
    if (!a->items)
        return false;
    push(a, python);
    push(a, "-c");
    push(a, boot);
    push(a, folder);
    push(a, "--build");
    size_t first = 1;
    while (first < given && call->argv[first][0] == '-')
        first++;
    for (size_t i = first + 1; i < given - words; i++) {
        const char *word = call->argv[i];
        bool is_module = v->module && (strcmp(word, "-m") == 0 || strcmp(word, "--module") == 0);
        if (is_module)
            i++;
        else if (strcmp(word, "--") != 0 && !(v->module && strncmp(word, "--module=", 9) == 0) &&
                 !(v->module && strncmp(word, "-m", 2) == 0))
            push(a, word);
    }
    if (v->pid || v->recover)
        return true;
    push(a, "--");
    if (v->module) {
        push(a, "-m");
        push(a, v->module);
    }
    for (size_t i = 0; i < words; i++)
        push(a, call->words.items[i]);
    return true;
}

static int check(const struct invocation *call, const struct trace_values *v, struct error *err)
{
    bool program = call->words.count > 0 || v->module;
    if (v->recover && (v->pid || program)) {
        error_set(err, -SCRY_E_USAGE, "--recover makes the trace of a program that has ended");
        error_hint(err, "leave the process or the program out");
    } else if (!v->pid && !program && !v->recover) {
        error_set(err, -SCRY_E_USAGE, "trace needs to know what to trace");
        error_hint(err, "give a program: %s trace -- python app.py", call->tool);
    } else if (v->pid && program) {
        error_set(err, -SCRY_E_USAGE, "trace was given both a process, %d, and a program", v->pid);
        error_hint(err, "leave one of them out");
    } else if (v->duration && !v->pid) {
        error_set(err, -SCRY_E_USAGE, "--duration is for a process that is attached to with --pid");
        error_hint(err, "a program that is launched is traced until it ends");
    } else {
        return 0;
    }
    return -SCRY_E_USAGE;
}

static int run(const struct invocation *call, const void *values, struct error *err)
{
    const struct trace_values *v = values;
    char python[PATH_MAX], folder[PATH_MAX];
    int r = check(call, v, err);
    if (r < 0)
        return r;
    if (v->pid)
        r = python_of_process(v->pid, python, sizeof(python), err);
    else
        python_for_program(call->words.count && !v->module ? call->words.items[0] : "python3",
                           python, sizeof(python));
    if (r == 0)
        r = find_package(python, folder, sizeof(folder), err);
    if (r < 0)
        return r;
    struct arguments a = {0};
    if (!collect(call, v, python, folder, &a))
        return error_set(err, -SCRY_E_NO_MEMORY, "out of memory");
    fflush(NULL);
    limits_restore_files();
    execvp(python, a.items);
    r = error_set(err, -SCRY_E_LAUNCH, "cannot run '%s': %s", python, strerror(errno));
    free(a.items);
    return r;
}

#define ROW(option_kind, option_name, value, member, option_group, sentence)                       \
    {                                                                                              \
        .name = (option_name), .argument = (value), .kind = (option_kind),                         \
        .offset = offsetof(struct trace_values, member), .group = (option_group),                  \
        .help = (sentence)                                                                         \
    }

static const struct option options[] = {
    OPTION_PID(struct trace_values, pid),
    {
        .letter = 'd',
        .name = "duration",
        .argument = "SECONDS",
        .kind = OPT_DURATION,
        .offset = offsetof(struct trace_values, duration),
        .group = "Target",
        .help = "With --pid: how long to trace; until Ctrl-C if not given",
    },
    {
        .letter = 'm',
        .name = "module",
        .argument = "MODULE",
        .kind = OPT_STRING,
        .offset = offsetof(struct trace_values, module),
        .group = "Target",
        .help = "Run a module as `python3 -m` does; its arguments follow after --",
    },
    ROW(OPT_STRING, "recover", "FOLDER", recover, "Target",
        "Make the trace of what a program that streamed left there when it died: FILE.parts-PID"),
    ROW(OPT_FLAG, "no-children", NULL, no_children, "Target",
        "Do not follow processes that the program forks or starts"),
    {
        .letter = 'o',
        .name = "output",
        .argument = "FILE",
        .kind = OPT_FILE,
        .offset = offsetof(struct trace_values, output),
        .group = "Output",
        .help = "Where to write; the end of the name says the format: .json, .json.gz, .pftrace "
                "(Perfetto), .scry or .html; scry-trace.json if not given, .pftrace if large",
    },
    {
        .letter = 'q',
        .name = "quiet",
        .kind = OPT_FLAG,
        .offset = offsetof(struct trace_values, quiet),
        .group = "Output",
        .help = "Say nothing but errors",
    },
    ROW(OPT_STRING, "memory", "SIZE", memory, "Recording",
        "Memory for the events of each process, for example 64M or 2G (default 128M); when it is "
        "used up the oldest are dropped, and counted"),
    ROW(OPT_NUMBER, "entries", "N", entries, "Recording", "The same as a number of calls"),
    ROW(OPT_FLAG, "stream", NULL, stream, "Recording",
        "Keep everything, in files beside the output"),
    ROW(OPT_FLAG, "log-args", NULL, args, "Recording", "Record arguments, as short texts"),
    ROW(OPT_FLAG, "log-returns", NULL, returns, "Recording",
        "Record return values, as short texts"),
    ROW(OPT_FLAG, "no-exceptions", NULL, no_exceptions, "Recording",
        "Do not mark where exceptions are raised (marked on Python 3.12 and later)"),
    ROW(OPT_FLAG, "no-gc", NULL, no_gc, "Recording", "Do not record garbage collections"),
    ROW(OPT_FLAG, "no-async", NULL, no_async, "Recording",
        "Do not give each asyncio task a track of its own"),
    ROW(OPT_FLAG, "ignore-c-function", NULL, ignore_c, "Filters",
        "Leave out functions written in C"),
    ROW(OPT_FLAG, "ignore-frozen", NULL, ignore_frozen, "Filters",
        "Leave out frozen modules, the import system among them"),
    ROW(OPT_FLAG, "ignore-stdlib", NULL, ignore_stdlib, "Filters",
        "Leave out the standard library"),
    ROW(OPT_STRING, "include-files", "PATH", include, "Filters",
        "Record only functions in this file or folder, or whose path matches this pattern; several "
        "are separated by commas"),
    ROW(OPT_STRING, "exclude-files", "PATH", exclude, "Filters",
        "Leave out functions in this file or folder; several are separated by commas"),
    ROW(OPT_NUMBER, "max-stack-depth", "N", depth, "Filters", "Leave out what is deeper"),
    ROW(OPT_STRING, "min-duration", "TIME", min_duration, "Filters",
        "Leave out calls that are shorter, for example 5us or 0.2ms"),
    ROW(OPT_STRING, "trace-sparse", "NAME", sparse, "Filters",
        "Record only while this function runs, named like package.module.Class.method; several are "
        "separated by commas"),
    OPTION_HELP,
    OPTIONS_END,
};

static const struct example examples[] = {
    {"Every call of a program, for https://ui.perfetto.dev:", "trace -o run.json -- python app.py"},
    {"Its own code only, and what takes at least 10 µs:",
     "trace --ignore-stdlib --exclude-files site-packages --min-duration 10us -- python app.py"},
    {"Only while orders are priced:",
     "trace --trace-sparse shop.orders.Order.price -- python -m shop"},
    {"As a recording, for a flame graph:", "trace -o run.scry -- python app.py"},
    {"A process that runs already, for five seconds (Python 3.14 and later):",
     "trace -p 4242 -d 5 -o run.pftrace"},
    {NULL, NULL},
};

const struct command cmd_trace = {
    .name = "trace",
    .summary = "Record every call of a program, in order and with its duration",
    .usage = (const char *const[]){"[OPTIONS] [--] PROGRAM [ARGUMENT...]", "[OPTIONS] -m MODULE",
                                   "[OPTIONS] -p PID", "[-o FILE] --recover FOLDER", NULL},
    .description =
        "Runs a Python program with a tracer inside of it, and writes a trace: every call of a "
        "function in Python or in C, threads, asyncio tasks, garbage collections, exceptions, and "
        "processes that it starts. There is a trace also when the program is killed or crashes.\n\n"
        "The tracer is part of the Python package scry. Where the program's Python does not have "
        "it, the one that came with this program is built for it, which needs a C compiler and "
        "that Python's headers.\n\n"
        "To see where the time goes in a program that must not be slowed down, use record.",
    .options = options,
    .examples = examples,
    .words = WORDS_PROGRAM,
    .values_size = sizeof(struct trace_values),
    .run = run,
};
