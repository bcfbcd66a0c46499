#include "format/path.h"

#include <stdlib.h>
#include <string.h>

#define MAX_ANCESTORS 64 /* in a damaged file parents may run in a circle */

bool path_push(struct path *p, uint32_t item)
{
    if (p->count == p->cap) {
        size_t cap = p->cap ? p->cap * 2 : 256;
        uint32_t *grown = reallocarray(p->items, cap, sizeof(*grown));
        if (!grown)
            return false;
        p->items = grown;
        p->cap = cap;
    }
    p->items[p->count++] = item;
    return true;
}

bool path_read(struct path *p, const struct recording *r, uint32_t stack)
{
    p->count = 0;
    for (uint32_t parent, frame; stack != REC_EMPTY_STACK; stack = parent) {
        recording_stack(r, stack, &parent, &frame);
        if (!path_push(p, frame))
            return false;
    }
    return true;
}

static bool is_process(const struct recording *r, uint32_t process, int32_t pid, const char *host)
{
    const struct rec_process *p = recording_process(r, process);
    return p->pid == pid && strcmp(p->host, host) == 0;
}

static uint32_t parent_of(const struct recording *r, uint32_t process)
{
    int32_t pid = recording_process(r, process)->parent;
    const char *host = recording_process(r, process)->host;
    if (pid <= 0)
        return UINT32_MAX;
    /* The nearest one noted before it: pids come again, and merged files may share them. */
    for (uint32_t i = process; i-- > 0;)
        if (is_process(r, i, pid, host))
            return i;
    for (uint32_t i = process + 1; i < recording_process_count(r); i++)
        if (is_process(r, i, pid, host))
            return i;
    return UINT32_MAX;
}

bool path_ancestry(struct path *p, const struct recording *r, uint32_t process)
{
    p->count = 0;
    while (process != UINT32_MAX && p->count < MAX_ANCESTORS) {
        if (!path_push(p, process))
            return false;
        process = parent_of(r, process);
    }
    for (size_t i = 0, j = p->count; i + 1 < j--; i++) {
        uint32_t swapped = p->items[i];
        p->items[i] = p->items[j];
        p->items[j] = swapped;
    }
    return true;
}

void path_done(struct path *p)
{
    free(p->items);
    *p = (struct path){0};
}
