/* Paths as py-spy shows them. Whether a folder is a package is asked once per folder. */
#include <string.h>
#include <unistd.h>

#include "engine/short_path.h"
#include "engine/target_private.h"

void short_paths_done(struct short_paths *p)
{
    interner_done(&p->paths);
    table_done(&p->skip);
    table_done(&p->folder_is_package);
}

static bool folder_is_package(struct short_paths *p, const char *path, size_t len)
{
    uint64_t known;
    uint64_t key = hash_bytes(path, len, 1);
    if (table_get(&p->folder_is_package, key, &known))
        return known;
    SCOPED_BUF init;
    buf_init(&init);
    buf_add(&init, path, len);
    buf_add_str(&init, "/__init__.py");
    int fd = init.failed ? -1 : p->open_file(init.data, p->context);
    if (fd >= 0)
        close(fd);
    table_put(&p->folder_is_package, key, fd >= 0);
    return fd >= 0;
}

static size_t count_to_leave_out(struct short_paths *p, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (path[0] != '/' || !slash)
        return 0;
    while (slash > path && folder_is_package(p, path, (size_t)(slash - path))) {
        const char *up = slash - 1;
        while (up > path && *up != '/')
            up--;
        slash = up;
    }
    return (size_t)(slash - path) + 1;
}

const char *short_path(struct short_paths *p, const char *path)
{
    bool fresh;
    uint64_t skip = 0;
    uint32_t id = interner_add(&p->paths, path, strlen(path), &fresh);
    if (id == INTERN_FAILED)
        return path;
    if (fresh) {
        skip = count_to_leave_out(p, path);
        table_put(&p->skip, id, skip);
    } else {
        table_get(&p->skip, id, &skip);
    }
    return path + skip;
}

static int open_in_process(const char *path, void *context)
{
    return process_open_path(context, path);
}

const char *target_short_path(struct target *t, const char *path)
{
    struct short_paths *p = &t->private->short_paths;
    p->open_file = open_in_process;
    p->context = t->process;
    return short_path(p, path);
}
