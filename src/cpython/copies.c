#include "cpython/copies.h"

#include <stdlib.h>

#include "cpython/layout.h"

#define MAX_PLACES 8192
#define MAX_DATA   (1 << 26)
#define PAGE       4096
#define MERGE_GAP  1024 /* places closer than this are read as one: bytes are cheaper than ranges */
#define MERGE_NEAR 64   /* ... also where they lie on different pages */

void copies_done(struct copies *c)
{
    free(c->ranges);
    free(c->data);
    free(c->places);
    *c = (struct copies){0};
}

void copies_begin(struct copies *c)
{
    c->place_count = 0;
    c->near = 0;
}

void copies_put_near(struct copies *c, scry_addr addr)
{
    c->near = addr;
}

/* One that cannot be noted will not be found, which is noticed. */
void copies_add(struct copies *c, scry_addr addr, size_t len, enum copies_when when)
{
    if (!addr || !len)
        return;
    if (c->place_count == c->place_cap) {
        size_t cap = c->place_cap ? c->place_cap * 2 : 32;
        struct copies_place *grown =
            cap <= MAX_PLACES ? realloc(c->places, cap * sizeof(*grown)) : NULL;
        if (!grown)
            return;
        c->places = grown;
        c->place_cap = cap;
    }
    c->places[c->place_count++] = (struct copies_place){addr, len, when};
}

static bool comes_before(const struct copies_place *x, const struct copies_place *y)
{
    bool x_once = x->when != COPIES_TWICE, y_once = y->when != COPIES_TWICE;
    return x_once != y_once ? y_once : x->addr < y->addr;
}

/* Shell sort: in place, for the C library's allocates, and quick on what is nearly sorted. */
static void sort_places(struct copies_place *places, size_t count)
{
    for (size_t gap = count / 2; gap > 0; gap = gap == 2 ? 1 : gap * 5 / 11) {
        for (size_t i = gap; i < count; i++) {
            struct copies_place moving = places[i];
            size_t k = i;
            for (; k >= gap && comes_before(&moving, &places[k - gap]); k -= gap)
                places[k] = places[k - gap];
            places[k] = moving;
        }
    }
}

/* Neighbours become one range where the gap is small and on pages that are read anyway: the gap
 * must not reach over a page that may not be there. */
static bool joins(const struct copies_range *r, const struct copies_place *place)
{
    scry_addr end = r->addr + r->len;
    return place->addr <= end + MERGE_GAP &&
           (place->addr <= end || (end - 1) / PAGE == place->addr / PAGE ||
            place->addr - end < MERGE_NEAR);
}

static void join_places(struct copies *c)
{
    c->count = 0;
    for (size_t i = 0; i < c->place_count; i++) {
        const struct copies_place *place = &c->places[i];
        struct copies_range *r = c->count ? &c->ranges[c->count - 1] : NULL;
        if (r && r->when == place->when && joins(r, place)) {
            if (place->addr + place->len > r->addr + r->len)
                r->len = (uint32_t)(place->addr + place->len - r->addr);
        } else {
            c->ranges[c->count++] =
                (struct copies_range){place->addr, (uint32_t)place->len, 0, place->when};
        }
    }
}

static bool reserve(struct copies *c)
{
    c->twice_size = c->once_size = c->twice_count = 0;
    for (size_t i = 0; i < c->count; i++) {
        bool twice = c->ranges[i].when == COPIES_TWICE;
        size_t *size = twice ? &c->twice_size : &c->once_size;
        c->twice_count += twice;
        c->ranges[i].at = (uint32_t)*size;
        *size += c->ranges[i].len;
    }
    size_t need = 2 * c->twice_size + c->once_size;
    if (need > MAX_DATA)
        return false;
    if (c->data_cap < need) {
        unsigned char *grown = realloc(c->data, need);
        if (!grown)
            return false;
        c->data = grown;
        c->data_cap = need;
    }
    return true;
}

bool copies_make(struct copies *c)
{
    sort_places(c->places, c->place_count);
    if (c->cap < c->place_count) {
        struct copies_range *grown = realloc(c->ranges, c->place_count * sizeof(*grown));
        if (!grown)
            return false;
        c->ranges = grown;
        c->cap = c->place_count;
    }
    join_places(c);
    if (!reserve(c))
        return false;
    c->nearest = c->twice_count ? c->twice_count - 1 : 0;
    for (size_t i = 0; i < c->twice_count; i++)
        if (c->near - c->ranges[i].addr < c->ranges[i].len)
            c->nearest = i;
    return true;
}

static bool is_long(const struct copies_range *r)
{
    return r->len > COPIES_LONG;
}

int copies_range_count(const struct copies *c, bool warm)
{
    size_t pieces = c->twice_count;
    for (size_t i = 0; i < c->twice_count; i++)
        pieces += is_long(&c->ranges[i]);
    return (int)(c->count - c->twice_count + 2 * pieces + (warm ? c->twice_count : 0));
}

/* From where on it is read by itself. */
static uint32_t top_of(const struct copies_range *r)
{
    return is_long(r) ? r->len - COPIES_TOP : r->len;
}

static int add_first(const struct copies_range *r, unsigned char *copy, struct mem_range *to)
{
    uint32_t top = top_of(r);
    to[0] = (struct mem_range){r->addr, copy + r->at, top};
    if (!is_long(r))
        return 1;
    to[1] = (struct mem_range){r->addr + top, copy + r->at + top, r->len - top};
    return 2;
}

/* Of a long range only the end: the rest would take longer than it saves. */
static int add_warming(const struct copies_range *r, unsigned char *copy, struct mem_range *to)
{
    struct mem_range pieces[2];
    *to = pieces[add_first(r, copy, pieces) - 1];
    return 1;
}

static int add_second(const struct copies_range *r, unsigned char *copy, struct mem_range *to)
{
    struct mem_range pieces[2];
    int count = add_first(r, copy, pieces);
    for (int i = 0; i < count; i++)
        to[i] = pieces[count - 1 - i];
    return count;
}

static int add_once(const struct copies *c, enum copies_when when, struct mem_range *to)
{
    int n = 0;
    unsigned char *once = c->data + 2 * c->twice_size;
    for (size_t i = c->twice_count; i < c->count; i++) {
        const struct copies_range *r = &c->ranges[i];
        if (r->when == when)
            to[n++] = (struct mem_range){r->addr, once + r->at, r->len};
    }
    return n;
}

int copies_ranges(const struct copies *c, bool warm, struct mem_range *to)
{
    int n = 0;
    unsigned char *first = c->data, *second = c->data + c->twice_size;
    const struct copies_range *r = c->ranges;
    for (size_t i = 0; warm && i < c->twice_count; i++)
        n += add_warming(&r[i], first, to + n);
    for (size_t i = 0; i < c->twice_count; i++)
        if (i != c->nearest)
            n += add_first(&r[i], first, to + n);
    if (c->twice_count)
        n += add_first(&r[c->nearest], first, to + n);
    n += add_once(c, COPIES_BETWEEN, to + n);
    if (c->twice_count)
        n += add_second(&r[c->nearest], second, to + n);
    for (size_t i = c->twice_count; i-- > 0;)
        if (i != c->nearest)
            n += add_second(&r[i], second, to + n);
    return n + add_once(c, COPIES_AFTER, to + n);
}

static struct mem_range first_copy(const struct copies *c, size_t i)
{
    const struct copies_range *r = &c->ranges[i];
    unsigned char *to = c->data + (i < c->twice_count ? 0 : 2 * c->twice_size);
    return (struct mem_range){r->addr, to + r->at, r->len};
}

int copies_ranges_once(const struct copies *c, struct mem_range *to)
{
    size_t a = 0, b = c->twice_count, n = 0;
    while (a < c->twice_count || b < c->count) {
        bool take_a =
            a < c->twice_count && (b == c->count || c->ranges[a].addr <= c->ranges[b].addr);
        to[n++] = first_copy(c, take_a ? a++ : b++);
    }
    return (int)n;
}

static const struct copies_range *find_in(const struct copies_range *ranges, size_t count,
                                          scry_addr addr, size_t len)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (ranges[middle].addr <= addr)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low)
        return NULL;
    const struct copies_range *r = &ranges[low - 1];
    return addr - r->addr <= r->len && len <= r->len - (addr - r->addr) ? r : NULL;
}

const struct copies_range *copies_find(const struct copies *c, scry_addr addr, size_t len)
{
    const struct copies_range *r = find_in(c->ranges, c->twice_count, addr, len);
    return r ? r : find_in(c->ranges + c->twice_count, c->count - c->twice_count, addr, len);
}

const unsigned char *copies_first(const struct copies *c, const struct copies_range *r)
{
    return c->data + (r->when == COPIES_TWICE ? 0 : 2 * c->twice_size) + r->at;
}

const unsigned char *copies_second(const struct copies *c, const struct copies_range *r)
{
    return c->data + (r->when == COPIES_TWICE ? c->twice_size : 2 * c->twice_size) + r->at;
}
