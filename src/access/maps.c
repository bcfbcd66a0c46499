#include "access/maps.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* About half a million mappings; the kernel's own default limit is 65530. */
#define MAPS_LIMIT (64u << 20)

/* The kernel writes a newline inside a path as \012 and escapes nothing else. */
static void undo_escapes(char *path)
{
    char *to = path;
    for (const char *from = path; *from;) {
        if (!strncmp(from, "\\012", 4)) {
            *to++ = '\n';
            from += 4;
        } else {
            *to++ = *from++;
        }
    }
    *to = '\0';
}

static bool cut_suffix(char *s, const char *suffix)
{
    size_t len = strlen(s), n = strlen(suffix);
    if (len < n || strcmp(s + len - n, suffix) != 0)
        return false;
    s[len - n] = '\0';
    return true;
}

/* One line, without its newline; `line` is changed and kept: the path points into it. */
static bool parse_line(char *line, struct mapping *ret)
{
    struct mapping m = {0};
    char perms[5];
    int path_at = 0;
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*x:%*x %" SCNu64 " %n", &m.start,
               &m.end, perms, &m.offset, &m.inode, &path_at) != 5 ||
        !path_at || m.end <= m.start)
        return false;
    m.read = perms[0] == 'r';
    m.write = perms[1] == 'w';
    m.exec = perms[2] == 'x';
    char *path = line + path_at;
    m.deleted = path[0] == '/' && cut_suffix(path, " (deleted)");
    undo_escapes(path);
    m.path = path;
    *ret = m;
    return true;
}

static int by_start(const void *a, const void *b)
{
    const struct mapping *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

/* A map that changes while it is read may show a mapping twice; keep each stretch of memory once.
 */
static void sort_and_weed(struct maps *maps)
{
    qsort(maps->items, maps->count, sizeof(*maps->items), by_start);
    size_t kept = 0;
    for (size_t i = 0; i < maps->count; i++)
        if (!kept || maps->items[i].start >= maps->items[kept - 1].end)
            maps->items[kept++] = maps->items[i];
    maps->count = kept;
}

/* Takes over `text`. */
static int parse_owned(char *text, struct maps *ret_maps)
{
    size_t lines = 0;
    for (const char *at = text; (at = strchr(at, '\n')); at++)
        lines++;
    struct maps maps = {.text = text, .items = calloc(lines + 1, sizeof(struct mapping))};
    if (!maps.items) {
        free(text);
        return -SCRY_E_NO_MEMORY;
    }
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        if (parse_line(line, &maps.items[maps.count]))
            maps.count++;
    }
    sort_and_weed(&maps);
    *ret_maps = maps;
    return 0;
}

int maps_parse(const char *text, struct maps *ret_maps)
{
    char *copy = strdup(text);
    return copy ? parse_owned(copy, ret_maps) : -SCRY_E_NO_MEMORY;
}

int maps_read(const struct process *process, struct maps *ret_maps, struct error *err)
{
    SCOPED_BUF text;
    buf_init(&text);
    int rc = process_read_proc(process, "maps", MAPS_LIMIT, &text);
    if (rc)
        return error_set(err, rc, "cannot read the memory map of process %d: %s", process->pid,
                         error_sentence(rc));
    if (!text.len)
        return error_set(err, -SCRY_E_GONE, "process %d ended", process->pid);
    char *owned = buf_detach(&text);
    rc = owned ? parse_owned(owned, ret_maps) : -SCRY_E_NO_MEMORY;
    if (rc)
        return error_set(err, rc, "out of memory");
    for (size_t i = 0; i < ret_maps->count; i++)
        ret_maps->items[i].path = process_own_path(process, ret_maps->items[i].path);
    return 0;
}

void maps_done(struct maps *maps)
{
    free(maps->items);
    free(maps->text);
    *maps = (struct maps){0};
}

const struct mapping *maps_find(const struct maps *maps, scry_addr addr)
{
    size_t low = 0, high = maps->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (maps->items[mid].end <= addr)
            low = mid + 1;
        else
            high = mid;
    }
    return low < maps->count && maps->items[low].start <= addr ? &maps->items[low] : NULL;
}
