/* Each finder walks the table from its start and stops at the entry that covers the offset. Tables
 * come from the target: every step is bounded by `len`, and lines are kept in 64 bits so that no
 * sum overflows. */
#include "cpython/lines.h"

#define NO_LINE_310 (-128)

struct cursor {
    const unsigned char *at;
    const unsigned char *end;
};

static int32_t sane_line(int64_t line)
{
    return line > 0 && line <= INT32_MAX ? (int32_t)line : 0;
}

static int32_t find_lnotab(const unsigned char *table, size_t len, int64_t line, int64_t offset,
                           bool line_is_signed)
{
    int64_t addr = 0;
    for (size_t i = 0; i + 1 < len; i += 2) {
        addr += table[i];
        if (addr > offset)
            break;
        line += line_is_signed ? (int8_t)table[i + 1] : table[i + 1];
    }
    return sane_line(line);
}

static int32_t find_linetable(const unsigned char *table, size_t len, int64_t line, int64_t offset)
{
    int64_t end = 0;
    for (size_t i = 0; i + 1 < len; i += 2) {
        int8_t delta = (int8_t)table[i + 1];
        if (delta != NO_LINE_310)
            line += delta;
        end += table[i];
        if (offset < end)
            return sane_line(line);
    }
    return 0;
}

static uint64_t read_varint(struct cursor *c)
{
    uint64_t value = 0;
    for (unsigned shift = 0; c->at < c->end && shift < 60; shift += 6) {
        unsigned char byte = *c->at++;
        value |= (uint64_t)(byte & 63) << shift;
        if (!(byte & 64))
            break;
    }
    return value;
}

static int64_t read_signed_varint(struct cursor *c)
{
    uint64_t value = read_varint(c);
    return value & 1 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
}

enum location_kind {
    KIND_ONE_LINE_0 = 10, /* 10, 11, 12: line + 0, 1, 2 */
    KIND_ONE_LINE_2 = 12,
    KIND_NO_COLUMNS = 13,
    KIND_LONG = 14,
};

static int64_t location_line_delta(struct cursor *c, int kind)
{
    if (kind == KIND_NO_COLUMNS || kind == KIND_LONG)
        return read_signed_varint(c);
    if (kind >= KIND_ONE_LINE_0 && kind <= KIND_ONE_LINE_2)
        return kind - KIND_ONE_LINE_0;
    return 0;
}

static int32_t find_location(const unsigned char *table, size_t len, int64_t line, int64_t offset)
{
    struct cursor c = {table, table + len};
    int64_t end = 0;
    while (c.at < c.end) {
        unsigned char first = *c.at++;
        int kind = first >> 3 & 15;
        line += location_line_delta(&c, kind);
        end += 2 * ((first & 7) + 1);
        if (offset < end)
            return sane_line(line);
        /* What is left of the entry has bit 7 clear in each byte; only a first byte has it set. */
        while (c.at < c.end && !(*c.at & 0x80))
            c.at++;
    }
    return 0;
}

int32_t lines_find(enum line_format format, const unsigned char *table, size_t len,
                   int32_t first_line, int32_t offset)
{
    if (offset < 0)
        return sane_line(first_line);
    switch (format) {
    case LINES_LNOTAB_UNSIGNED:
        return find_lnotab(table, len, first_line, offset, false);
    case LINES_LNOTAB:
        return find_lnotab(table, len, first_line, offset, true);
    case LINES_LINETABLE:
        return find_linetable(table, len, first_line, offset);
    case LINES_LOCATIONS:
        return find_location(table, len, first_line, offset);
    }
    return 0;
}
