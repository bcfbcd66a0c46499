#include "tool/selection.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cpython/python.h"
#include "util/buf.h"

static bool add(struct pid_list *list, pid_t pid)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i] == pid)
            return true;
    if (list->count == list->cap) {
        size_t cap = list->cap ? list->cap * 2 : 16;
        pid_t *grown = realloc(list->items, cap * sizeof(*grown));
        if (!grown)
            return false;
        list->items = grown;
        list->cap = cap;
    }
    list->items[list->count++] = pid;
    return true;
}

/* A pattern is looked for anywhere, like a text. */
static bool says(const char *command, const char *name)
{
    SCOPED_BUF pattern;
    buf_init(&pattern);
    buf_addf(&pattern, "*%s*", name);
    return strstr(command, name) || (!pattern.failed && fnmatch(pattern.data, command, 0) == 0);
}

static bool is_meant(pid_t pid, const char *name)
{
    struct process *process;
    struct py_version version;
    if (pid == getpid() || process_open(pid, &process, NULL) < 0)
        return false;
    bool meant = says(process->command, name) && python_likely(process, &version);
    process_close(process);
    return meant;
}

static int add_named(struct pid_list *list, const char *name, struct error *err)
{
    struct pid_list all = {0};
    size_t before = list->count;
    if (process_list(&all) < 0)
        return error_set(err, -SCRY_E_IO, "the processes of this host cannot be listed");
    bool enough = true;
    for (size_t i = 0; i < all.count && enough; i++)
        if (is_meant(all.items[i], name))
            enough = add(list, all.items[i]);
    pid_list_done(&all);
    if (!enough)
        return error_set(err, -SCRY_E_NO_MEMORY, "out of memory");
    if (list->count > before)
        return 0;
    error_set(err, -SCRY_E_NO_PROCESS,
              "no Python process that scry may look into has '%s' in its command line", name);
    error_hint(err, "list the Python processes of this host with: scry ps");
    return -SCRY_E_NO_PROCESS;
}

int selection_find(const struct pids *pids, const char *name, struct pid_list *ret_list,
                   struct error *err)
{
    struct pid_list list = {0};
    int r = 0;
    for (size_t i = 0; i < pids->count && r == 0; i++)
        if (!add(&list, pids->items[i]))
            r = error_set(err, -SCRY_E_NO_MEMORY, "out of memory");
    if (r == 0 && name)
        r = add_named(&list, name, err);
    if (r < 0)
        pid_list_done(&list);
    else
        *ret_list = list;
    return r;
}
