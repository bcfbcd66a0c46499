/* libdw tells which rule holds at an address, but not of which function: so the linker's sorted table
 * of functions is searched here, and the entry it leads to is read for the function's length. Of the
 * encodings that exist only those that linkers use are known (relative to the table, or to the place
 * itself); in any other case nothing is said. All of it may be damaged: every offset is checked. */
#include "dwarf/extents.h"

#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_ENCODING 0x3b /* relative to the table, four bytes with a sign */
#define COUNT_ENCODING 0x03 /* four bytes */
#define HEADER_SIZE    12
#define ROW_SIZE       8
#define SIZE_MASK      0x0f
#define BASE_MASK      0x70
#define BASE_PLACE     0x10 /* relative to where it stands */
#define AUGMENTATION   8    /* letters at most */

struct segment {
    uint64_t addr, size;
    const unsigned char *bytes;
};

struct extents {
    struct segment header; /* .eh_frame_hdr */
    struct segment body;   /* the segment that holds .eh_frame */
    uint32_t count;
};

/* ---- bytes ---- */

struct cursor {
    const struct segment *in;
    uint64_t addr;
    bool failed;
};

static void take(struct cursor *c, void *to, size_t size)
{
    uint64_t offset = c->addr - c->in->addr;
    if (c->failed || c->addr < c->in->addr || offset > c->in->size || c->in->size - offset < size) {
        c->failed = true;
        memset(to, 0, size);
        return;
    }
    memcpy(to, c->in->bytes + offset, size);
    c->addr += size;
}

static uint8_t take_u8(struct cursor *c)
{
    uint8_t value;
    take(c, &value, sizeof(value));
    return value;
}

static uint32_t take_u32(struct cursor *c)
{
    uint32_t value;
    take(c, &value, sizeof(value));
    return value;
}

static void skip_leb(struct cursor *c)
{
    while (take_u8(c) & 0x80)
        continue;
}

/* A number of the size and sign that the lower half of the encoding says. */
static uint64_t take_number(struct cursor *c, uint8_t encoding)
{
    union {
        uint16_t u2;
        int16_t s2;
        uint32_t u4;
        int32_t s4;
        uint64_t u8;
    } n = {0};
    switch (encoding & SIZE_MASK) {
    case 0x02:
        take(c, &n.u2, 2);
        return n.u2;
    case 0x0a:
        take(c, &n.s2, 2);
        return (uint64_t)(int64_t)n.s2;
    case 0x03:
        take(c, &n.u4, 4);
        return n.u4;
    case 0x0b:
        take(c, &n.s4, 4);
        return (uint64_t)(int64_t)n.s4;
    case 0x00:
    case 0x04:
    case 0x0c:
        take(c, &n.u8, 8);
        return n.u8;
    default:
        c->failed = true;
        return 0;
    }
}

static uint64_t take_address(struct cursor *c, uint8_t encoding)
{
    uint64_t here = c->addr, value = take_number(c, encoding);
    if ((encoding & BASE_MASK) == BASE_PLACE)
        return here + value;
    c->failed |= (encoding & BASE_MASK) != 0;
    return value;
}

/* ---- the entry of one function ---- */

/* How addresses are written in the entries that belong to this common one. */
static uint8_t encoding_of(const struct extents *e, uint64_t common)
{
    struct cursor c = {&e->body, common, false};
    char letters[AUGMENTATION + 1] = "";
    uint8_t encoding = 0;
    uint32_t length = take_u32(&c), id = take_u32(&c);
    uint8_t version = take_u8(&c);
    c.failed |= length == UINT32_MAX || id != 0;
    for (size_t i = 0; (letters[i] = (char)take_u8(&c)); i++)
        if (i == AUGMENTATION || c.failed)
            return UINT8_MAX;
    skip_leb(&c); /* code and data factors, the register of the return address */
    skip_leb(&c);
    if (version == 1)
        take_u8(&c);
    else
        skip_leb(&c);
    if (letters[0] == 'z')
        skip_leb(&c);
    for (const char *l = letters + (letters[0] == 'z'); *l && !c.failed; l++) {
        if (*l == 'R')
            encoding = take_u8(&c);
        else if (*l == 'L')
            take_u8(&c);
        else if (*l == 'P')
            take_number(&c, take_u8(&c));
        else if (*l != 'S' && *l != 'B')
            return UINT8_MAX;
    }
    return c.failed ? UINT8_MAX : encoding;
}

static bool read_entry(const struct extents *e, uint64_t at, uint64_t *ret_start,
                       uint64_t *ret_size)
{
    struct cursor c = {&e->body, at, false};
    uint32_t length = take_u32(&c);
    uint64_t place = c.addr;
    uint32_t distance = take_u32(&c);
    if (c.failed || length == UINT32_MAX || !distance)
        return false;
    uint8_t encoding = encoding_of(e, place - distance);
    if (encoding == UINT8_MAX)
        return false;
    *ret_start = take_address(&c, encoding);
    *ret_size = take_number(&c, encoding);
    return !c.failed;
}

/* ---- the sorted table ---- */

/* What the file holds of a segment. */
static bool read_segment(Elf *elf, const GElf_Phdr *p, struct segment *ret)
{
    Elf_Data *data = elf_getdata_rawchunk(elf, (int64_t)p->p_offset, p->p_filesz, ELF_T_BYTE);
    if (!data || !data->d_buf)
        return false;
    *ret = (struct segment){.addr = p->p_vaddr, .size = data->d_size, .bytes = data->d_buf};
    return true;
}

static bool find_header(struct extents *e, Elf *elf, size_t segments)
{
    GElf_Phdr p;
    for (size_t i = 0; i < segments; i++)
        if (gelf_getphdr(elf, (int)i, &p) && p.p_type == PT_GNU_EH_FRAME)
            return p.p_filesz >= HEADER_SIZE && read_segment(elf, &p, &e->header);
    return false;
}

static bool find_body(struct extents *e, Elf *elf, size_t segments, uint64_t addr)
{
    GElf_Phdr p;
    for (size_t i = 0; i < segments; i++)
        if (gelf_getphdr(elf, (int)i, &p) && p.p_type == PT_LOAD && addr >= p.p_vaddr &&
            addr - p.p_vaddr < p.p_filesz)
            return read_segment(elf, &p, &e->body);
    return false;
}

static bool open_tables(struct extents *e, Elf *elf)
{
    size_t segments;
    if (elf_getphdrnum(elf, &segments) != 0 || !find_header(e, elf, segments))
        return false;
    struct cursor c = {&e->header, e->header.addr, false};
    uint8_t version = take_u8(&c), body = take_u8(&c), count = take_u8(&c), table = take_u8(&c);
    if (version != 1 || count != COUNT_ENCODING || table != TABLE_ENCODING)
        return false;
    uint64_t addr = take_address(&c, body);
    e->count = take_u32(&c);
    if (c.failed || c.addr != e->header.addr + HEADER_SIZE || !e->count ||
        e->count > (e->header.size - HEADER_SIZE) / ROW_SIZE)
        return false;
    return find_body(e, elf, segments, addr);
}

struct extents *extents_new(struct elf_file *elf)
{
    struct extents *e = calloc(1, sizeof(*e));
    if (e && !open_tables(e, elf_handle(elf))) {
        free(e);
        e = NULL;
    }
    return e;
}

void extents_free(struct extents *e)
{
    free(e);
}

/* One half of a row: the function's start, or the place of its entry. */
static uint64_t half(const struct extents *e, size_t row, size_t offset)
{
    int32_t distance;
    memcpy(&distance, e->header.bytes + HEADER_SIZE + row * ROW_SIZE + offset, sizeof(distance));
    return e->header.addr + (uint64_t)(int64_t)distance;
}

bool extents_find(const struct extents *e, uint64_t addr, uint64_t *ret_start)
{
    size_t low = 0, high = e->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (half(e, mid, 0) <= addr)
            low = mid + 1;
        else
            high = mid;
    }
    uint64_t start, size;
    if (!low || !read_entry(e, half(e, low - 1, 4), &start, &size) || addr < start ||
        addr - start >= size)
        return false;
    *ret_start = start;
    return true;
}
