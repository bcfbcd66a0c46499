/* Reads ahead. Walking a stack is a row of small reads, each of which says where the next one goes; most of them go where
 * they went the last time. For as long as a thread stands still all those places can be read by one system call
 * beforehand, and the walk then finds them here. What is not here is read as ever. */
#include "access/mem.h"

#include <stdlib.h>
#include <string.h>

#define BATCH 64

/* The last range that begins at or before the address, if it holds all of what is wanted. */
static const struct mem_range *find(const struct mem_ahead *m, const struct mem_range *wanted)
{
    int low = 0, high = m->count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (m->ranges[middle].addr <= wanted->addr)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low)
        return NULL;
    const struct mem_range *r = &m->ranges[low - 1];
    size_t into = (size_t)(wanted->addr - r->addr);
    return into <= r->len && wanted->len <= r->len - into ? r : NULL;
}

/* At most BATCH ranges; returns how many of them were read in full before the first that was not. */
static int read_batch(struct mem_ahead *m, const struct mem_range *ranges, int count)
{
    struct mem_range missing[BATCH];
    int places[BATCH], n = 0;
    for (int i = 0; i < count; i++) {
        const struct mem_range *r = find(m, &ranges[i]);
        if (r) {
            memcpy(ranges[i].to, (const char *)r->to + (ranges[i].addr - r->addr), ranges[i].len);
        } else {
            places[n] = i;
            missing[n++] = ranges[i];
        }
    }
    if (!n)
        return count;
    int got = mem_readv(m->under, missing, n);
    return got == n ? count : got < 0 ? got : places[got];
}

static int ahead_readv(struct mem *mem, const struct mem_range *ranges, int count)
{
    struct mem_ahead *m = (struct mem_ahead *)mem;
    if (!m->count)
        return mem_readv(m->under, ranges, count);
    for (int done = 0; done < count; done += BATCH) {
        int n = count - done < BATCH ? count - done : BATCH;
        int got = read_batch(m, ranges + done, n);
        if (got < n)
            return got < 0 ? got : done + got;
    }
    return count;
}

static void ahead_close(struct mem *mem)
{
    mem_close(((struct mem_ahead *)mem)->under);
    free(mem);
}

static const struct mem_ops ahead_ops = {ahead_readv, ahead_close};

void mem_ahead_init(struct mem_ahead *m, struct mem *under)
{
    *m = (struct mem_ahead){.mem.ops = &ahead_ops, .under = under};
}

struct mem_ahead *mem_ahead_new(struct mem *under)
{
    struct mem_ahead *m = malloc(sizeof(*m));
    if (m)
        mem_ahead_init(m, under);
    return m;
}

bool mem_ahead_begin(struct mem_ahead *m, const struct mem_range *ranges, int count)
{
    int got = mem_readv(m->under, ranges, count);
    m->ranges = ranges;
    m->count = got < 0 ? 0 : got;
    return got == count;
}

void mem_ahead_end(struct mem_ahead *m)
{
    m->count = 0;
    m->ranges = NULL;
}
