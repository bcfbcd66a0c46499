/* Memory that exists only here: pages in a hash table, each with one bit per byte that was put
 * there, so that a read one byte past a piece fails just as it would at the end of a mapping. */
#include "access/mem.h"

#include <stdlib.h>
#include <string.h>

#include "util/table.h"

#define PAGE 4096

struct fake_page {
    uint8_t data[PAGE];
    uint8_t there[PAGE / 8];
};

struct mem_fake {
    struct mem mem;
    struct table pages; /* page number -> struct fake_page * */
};

static struct fake_page *find_page(struct mem_fake *f, scry_addr addr)
{
    uint64_t value;
    return table_get(&f->pages, addr / PAGE, &value) ? (struct fake_page *)(uintptr_t)value : NULL;
}

static bool read_range(struct mem_fake *f, const struct mem_range *range)
{
    uint8_t *to = range->to;
    struct fake_page *page = NULL;
    for (size_t i = 0; i < range->len; i++) {
        scry_addr addr = range->addr + i;
        size_t at = addr % PAGE;
        if (addr < range->addr)
            return false;
        if (!page || at == 0)
            page = find_page(f, addr);
        if (!page || !(page->there[at / 8] & 1u << at % 8))
            return false;
        to[i] = page->data[at];
    }
    return true;
}

static int fake_readv(struct mem *mem, const struct mem_range *ranges, int count)
{
    struct mem_fake *f = (struct mem_fake *)mem;
    for (int i = 0; i < count; i++)
        if (!read_range(f, &ranges[i]))
            return i;
    return count;
}

static void fake_close(struct mem *mem)
{
    struct mem_fake *f = (struct mem_fake *)mem;
    for (size_t i = 0; i < f->pages.cap; i++)
        if (f->pages.slots[i].used)
            free((void *)(uintptr_t)f->pages.slots[i].value);
    table_done(&f->pages);
    free(f);
}

static const struct mem_ops fake_ops = {fake_readv, fake_close};

struct mem *mem_fake_new(void)
{
    struct mem_fake *f = calloc(1, sizeof(*f));
    if (!f)
        return NULL;
    f->mem.ops = &fake_ops;
    table_init(&f->pages);
    return &f->mem;
}

static struct fake_page *make_page(struct mem_fake *f, scry_addr addr)
{
    struct fake_page *page = find_page(f, addr);
    if (page)
        return page;
    page = calloc(1, sizeof(*page));
    if (page && !table_put(&f->pages, addr / PAGE, (uintptr_t)page)) {
        free(page);
        return NULL;
    }
    return page;
}

int mem_fake_add(struct mem *fake, scry_addr addr, const void *data, size_t len)
{
    struct mem_fake *f = (struct mem_fake *)fake;
    const uint8_t *from = data;
    for (size_t i = 0; i < len; i++) {
        size_t at = (addr + i) % PAGE;
        struct fake_page *page = make_page(f, addr + i);
        if (!page)
            return -SCRY_E_NO_MEMORY;
        page->data[at] = from[i];
        page->there[at / 8] |= (uint8_t)(1u << at % 8);
    }
    return 0;
}
