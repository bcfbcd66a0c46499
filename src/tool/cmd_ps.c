/* scry ps: the Python processes of this host, and whether scry may look into each. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "access/container.h"
#include "access/mem.h"
#include "access/process.h"
#include "access/procfs.h"
#include "access/task.h"
#include "cpython/python.h"
#include "tool/commands.h"
#include "tool/ps.h"
#include "tool/shared_options.h"

struct ps_values {
    pid_t pid;
    bool json;
};

static void rows_done(struct ps_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        free(rows->items[i].command);
        free(rows->items[i].exe);
    }
    free(rows->items);
}

static struct ps_row *rows_add(struct ps_rows *rows)
{
    if (rows->count == rows->cap) {
        size_t cap = rows->cap ? 2 * rows->cap : 16;
        struct ps_row *grown = realloc(rows->items, cap * sizeof(*grown));
        if (!grown)
            return NULL;
        rows->items = grown;
        rows->cap = cap;
    }
    struct ps_row *row = &rows->items[rows->count++];
    *row = (struct ps_row){0};
    return row;
}

/* For a process whose memory map is hidden its name must do: "/usr/bin/python3.11", "[python3]". */
static bool named_python(const char *command, struct py_version *ret_version)
{
    unsigned major = 0, minor = 0;
    int end = 0;
    size_t len = strcspn(command, " ");
    const char *name = command + (command[0] == '[');
    for (const char *at = name; at < command + len; at++)
        if (*at == '/')
            name = at + 1;
    if (strncmp(name, "python", 6) != 0)
        return false;
    const char *rest = name + 6;
    if (sscanf(rest, "%1u.%2u%n", &major, &minor, &end) == 2)
        rest += end;
    else
        rest += strspn(rest, "0123456789");
    rest += strspn(rest, "dmtu-");
    if (rest != command + len && *rest != ']')
        return false;
    *ret_version = (struct py_version){.major = (uint8_t)major, .minor = (uint8_t)minor};
    return true;
}

static void write_version(const struct py_version *v, struct ps_row *row)
{
    if (v->major && v->minor)
        snprintf(row->version, sizeof(row->version), "%u.%u", v->major, v->minor);
}

static void refuse(struct ps_row *row, const char *reason, const struct error *err)
{
    row->access.can_attach = false;
    row->access.reason = reason;
    snprintf(row->access.why, sizeof(row->access.why), "%.500s", error_text(err));
    snprintf(row->access.remedy, sizeof(row->access.remedy), "%.500s", error_hint_text(err));
}

/* Look inside. False: it is no Python after all. */
static bool find_python(const struct process *p, struct ps_row *row, struct error *err)
{
    struct mem *mem = NULL;
    struct python *py = NULL;
    int rc = mem_open_live(p->pid, &mem, err);
    if (!rc)
        rc = python_find(p, mem, &py, err);
    if (!rc)
        py_version_text(py, row->version, sizeof(row->version));
    else if (rc == -SCRY_E_UNSUPPORTED)
        refuse(row, "unsupported", err);
    else if (rc != -SCRY_E_NOT_PYTHON && rc != -SCRY_E_NOT_READY && rc != -SCRY_E_GONE)
        refuse(row, "failed", err);
    python_free(py);
    mem_close(mem);
    return rc != -SCRY_E_NOT_PYTHON && rc != -SCRY_E_GONE && rc != -SCRY_E_NO_PROCESS;
}

static void fill_in(struct ps_row *row, const struct process *p)
{
    struct task_list tasks = {0};
    row->pid = p->pid;
    row->parent = p->parent;
    row->command = strdup(p->command);
    row->exe = strdup(p->exe);
    process_container(p, row->container, sizeof(row->container));
    if (!tasks_read(p, &tasks))
        row->threads = tasks.count;
    tasks_done(&tasks);
}

/* -SCRY_E_NOT_PYTHON for what does not belong into the list. */
static int look(const struct process *p, struct ps_row *row, struct error *err)
{
    struct py_version version = {0};
    permission_diagnose(p->pid, &row->access);
    bool likely = python_likely(p, &version);
    if (!likely && !row->access.can_attach)
        likely = named_python(p->command, &version);
    write_version(&version, row);
    if (!likely || (row->access.can_attach && !find_python(p, row, err)))
        return error_set(err, -SCRY_E_NOT_PYTHON, "process %d does not run CPython", p->pid);
    fill_in(row, p);
    return 0;
}

/* A dead Python is worth a line: people look for it. */
static bool is_dead_python(pid_t pid, struct ps_row *row)
{
    char path[64], text[PROC_STAT_MAX];
    struct proc_stat stat;
    struct py_version version;
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    if (procfs_read_small(AT_FDCWD, path, text, sizeof(text)) <= 0 ||
        proc_stat_parse(text, &stat) || !named_python(stat.comm, &version))
        return false;
    permission_diagnose(pid, &row->access);
    row->pid = pid;
    row->parent = stat.parent;
    write_version(&version, row);
    if (asprintf(&row->command, "[%s]", stat.comm) < 0)
        row->command = NULL;
    return row->command && !row->access.can_attach;
}

static void add_if_python(struct ps_rows *rows, pid_t pid)
{
    struct process *p = NULL;
    struct error err = {0};
    struct ps_row row = {0};
    bool wanted = false;
    int rc = process_peek(pid, &p, &err);
    if (!rc)
        wanted = !look(p, &row, &err);
    else if (rc == -SCRY_E_ZOMBIE)
        wanted = is_dead_python(pid, &row);
    process_close(p);
    struct ps_row *to = wanted ? rows_add(rows) : NULL;
    if (to) {
        *to = row;
    } else {
        free(row.command);
        free(row.exe);
    }
}

/* One process, asked for by its pid: what is in the way is an error. */
static int add_one(struct ps_rows *rows, pid_t pid, struct error *err)
{
    struct process *p;
    int rc = process_open(pid, &p, err);
    if (rc)
        return rc;
    struct ps_row *row = rows_add(rows);
    rc = row ? look(p, row, err) : -SCRY_E_NO_MEMORY;
    process_close(p);
    if (!rc && !row->access.can_attach)
        rc = permission_error(pid, err) ?: err->code;
    return rc;
}

static int add_all(struct ps_rows *rows, struct error *err)
{
    struct pid_list pids;
    int rc = process_list(&pids);
    if (rc)
        return error_set(err, rc, "cannot list the processes in /proc: %s", error_sentence(rc));
    for (size_t i = 0; i < pids.count; i++)
        add_if_python(rows, pids.items[i]);
    pid_list_done(&pids);
    return 0;
}

static int run(const struct invocation *call, const void *values, struct error *err)
{
    (void)call;
    const struct ps_values *v = values;
    struct ps_rows rows = {0};
    int rc = v->pid ? add_one(&rows, v->pid, err) : add_all(&rows, err);
    if (!rc && v->json)
        ps_json(stdout, &rows);
    else if (!rc)
        ps_text(stdout, term_style(term_has_colours(stdout)), term_width(stdout, 0), &rows);
    rows_done(&rows);
    return rc;
}

static const struct option options[] = {
    OPTION_PID(struct ps_values, pid),
    {
        .letter = 'j',
        .name = "json",
        .kind = OPT_FLAG,
        .offset = offsetof(struct ps_values, json),
        .group = "Output",
        .help = "Print JSON: an array of processes",
    },
    OPTION_HELP,
    OPTIONS_END,
};

static const struct example examples[] = {
    {"What can I look into?", "ps"},
    {"Why can I not look into this one?", "ps -p 4242"},
    {NULL, NULL},
};

const struct command cmd_ps = {
    .name = "ps",
    .summary = "List the Python processes of this host, and whether scry can look into them",
    .usage = (const char *const[]){"[OPTIONS]", "[OPTIONS] -p PID", NULL},
    .description =
        "Lists each process that runs CPython, with its version, its threads, the container "
        "it lives in, and under ATTACH whether scry may look into it. Where it may not, "
        "the reason follows below the table, with what helps.",
    .options = options,
    .examples = examples,
    .values_size = sizeof(struct ps_values),
    .run = run,
};
