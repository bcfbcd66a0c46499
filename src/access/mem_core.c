/* Memory of a process that is no more: stretches of files that are mapped into scry. What the core
 * file holds comes first; where it holds nothing, the files that the process had mapped, which are
 * as they were wherever the process did not write. */
#include "access/mem.h"

#include <stdlib.h>
#include <string.h>

struct piece {
    scry_addr start, end;
    const unsigned char *data;
    size_t there; /* so many bytes of it; the rest is lost */
};

struct pieces {
    struct piece *items; /* by address, without overlap once sorted */
    size_t count, cap;
    bool sorted;
};

struct mem_core {
    struct mem mem;
    struct pieces layers[2]; /* by enum mem_core_layer */
};

static int by_start(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* The piece with this address, or the next above it; NULL if there is none. */
static const struct piece *find(struct pieces *p, scry_addr addr)
{
    if (!p->sorted) {
        if (p->count)
            qsort(p->items, p->count, sizeof(*p->items), by_start);
        p->sorted = true;
    }
    size_t low = 0, high = p->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (p->items[middle].end <= addr)
            low = middle + 1;
        else
            high = middle;
    }
    return low < p->count ? &p->items[low] : NULL;
}

/* As much as one piece gives; 0 = nothing is there. */
static size_t read_some(struct mem_core *m, scry_addr addr, unsigned char *to, size_t len)
{
    const struct piece *limit = NULL;
    for (size_t i = 0; i < ARRAY_LEN(m->layers); i++) {
        const struct piece *p = find(&m->layers[i], addr);
        if (!p || p->start > addr) {
            if (i == 0)
                limit = p;
            continue;
        }
        size_t from = (size_t)(addr - p->start);
        size_t n = from < p->there ? p->there - from : 0;
        if (limit && limit->start - addr < n)
            n = (size_t)(limit->start - addr);
        n = n < len ? n : len;
        if (n)
            memcpy(to, p->data + from, n);
        return n;
    }
    return 0;
}

static bool read_range(struct mem_core *m, const struct mem_range *range)
{
    unsigned char *to = range->to;
    if (range->addr + range->len < range->addr)
        return false;
    for (size_t done = 0; done < range->len;) {
        size_t n = read_some(m, range->addr + done, to + done, range->len - done);
        if (!n)
            return false;
        done += n;
    }
    return true;
}

static int core_readv(struct mem *mem, const struct mem_range *ranges, int count)
{
    for (int i = 0; i < count; i++)
        if (!read_range((struct mem_core *)mem, &ranges[i]))
            return i;
    return count;
}

static void core_close(struct mem *mem)
{
    struct mem_core *m = (struct mem_core *)mem;
    for (size_t i = 0; i < ARRAY_LEN(m->layers); i++)
        free(m->layers[i].items);
    free(m);
}

static const struct mem_ops core_ops = {core_readv, core_close};

struct mem *mem_core_new(void)
{
    struct mem_core *m = calloc(1, sizeof(*m));
    if (!m)
        return NULL;
    m->mem.ops = &core_ops;
    return &m->mem;
}

int mem_core_add(struct mem *core, enum mem_core_layer layer, scry_addr addr, uint64_t len,
                 const void *data, size_t there)
{
    struct pieces *p = &((struct mem_core *)core)->layers[layer];
    if (!len || addr + len < addr)
        return 0;
    if (p->count == p->cap) {
        size_t cap = p->cap ? p->cap * 2 : 64;
        struct piece *grown = realloc(p->items, cap * sizeof(*grown));
        if (!grown)
            return -SCRY_E_NO_MEMORY;
        p->items = grown;
        p->cap = cap;
    }
    p->sorted = false;
    p->items[p->count++] =
        (struct piece){addr, addr + len, data, there < len ? there : (size_t)len};
    return 0;
}
