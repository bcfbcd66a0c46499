/* Python objects made of bytes in fake memory, for any layout: what the readers of cpython/ are
 * tested on. Every test that takes a layout runs on all rows, so an offset used in the wrong place
 * shows somewhere. */
#ifndef SCRY_TESTS_FAKE_PYTHON_H
#define SCRY_TESTS_FAKE_PYTHON_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpython/object.h"

#define FAKE_OBJECT 1024 /* bytes per object, zeroed */
#define FAKE_PAGE   4096

struct fake {
    struct mem *mem;
    const struct layout *l;
    struct py_view v;
    scry_addr next;
    scry_addr pages_end; /* memory comes in whole pages, as in life */
};

static inline struct fake fake_new(const struct layout *l)
{
    struct fake f = {.mem = mem_fake_new(), .l = l, .next = 0x10000, .pages_end = 0x10000};
    f.v = (struct py_view){f.mem, l};
    return f;
}

static inline void fake_done(struct fake *f)
{
    mem_close(f->mem);
}

static inline scry_addr fake_bytes(struct fake *f, const void *data, size_t len)
{
    static const char page[FAKE_PAGE];
    scry_addr addr = f->next;
    f->next += (len + 31) / 16 * 16;
    for (; f->pages_end < f->next; f->pages_end += FAKE_PAGE)
        mem_fake_add(f->mem, f->pages_end, page, FAKE_PAGE);
    if (len)
        mem_fake_add(f->mem, addr, data, len);
    return addr;
}

static inline scry_addr fake_zeros(struct fake *f, size_t len)
{
    void *zeros = calloc(1, len);
    scry_addr addr = fake_bytes(f, zeros, len);
    free(zeros);
    return addr;
}

static inline void fake_u64(struct fake *f, scry_addr addr, uint64_t value)
{
    mem_fake_add(f->mem, addr, &value, sizeof(value));
}

static inline void fake_u32(struct fake *f, scry_addr addr, uint32_t value)
{
    mem_fake_add(f->mem, addr, &value, sizeof(value));
}

static inline void fake_u8(struct fake *f, scry_addr addr, uint8_t value)
{
    mem_fake_add(f->mem, addr, &value, sizeof(value));
}

static inline scry_addr fake_type(struct fake *f, const char *name, uint64_t flags)
{
    scry_addr text = fake_bytes(f, name, strlen(name) + 1);
    scry_addr type = fake_zeros(f, FAKE_OBJECT);
    fake_u64(f, type + f->l->tp_name, text);
    fake_u64(f, type + f->l->tp_flags, flags);
    return type;
}

static inline scry_addr fake_object(struct fake *f, scry_addr type)
{
    scry_addr obj = fake_zeros(f, FAKE_OBJECT);
    fake_u64(f, obj + f->l->ob_type, type);
    return obj;
}

static inline scry_addr fake_instance_of(struct fake *f, const char *name, uint64_t flags)
{
    return fake_object(f, fake_type(f, name, flags));
}

/* A str of `unit` bytes per character (2.7: unicode of 2 or 4). */
static inline scry_addr fake_wide_str(struct fake *f, const void *data, size_t length, int unit)
{
    scry_addr obj = fake_instance_of(f, f->l->major == 2 ? "unicode" : "str", 1UL << 28);
    if (f->l->major == 2) {
        fake_u64(f, obj + f->l->unicode2_length, length);
        char *padded = calloc(length + 1, (size_t)unit);
        memcpy(padded, data, length * (size_t)unit);
        fake_u64(f, obj + f->l->unicode2_data, fake_bytes(f, padded, (length + 1) * (size_t)unit));
        free(padded);
        return obj;
    }
    fake_u64(f, obj + f->l->ascii_length, length);
    fake_u32(f, obj + f->l->ascii_state, ((uint32_t)unit | 8) << f->l->str_kind_shift);
    mem_fake_add(f->mem, obj + f->l->compact_size, data, length * (size_t)unit);
    return obj;
}

/* An ASCII str; in 2.7 its str of bytes. */
static inline scry_addr fake_str(struct fake *f, const char *text)
{
    size_t length = strlen(text);
    scry_addr obj = fake_instance_of(f, "str", f->l->major == 2 ? 1UL << 27 : 1UL << 28);
    if (f->l->major == 2) {
        fake_u64(f, obj + f->l->var_size, length);
        mem_fake_add(f->mem, obj + f->l->str2_data, text, length);
        return obj;
    }
    fake_u64(f, obj + f->l->ascii_length, length);
    fake_u32(f, obj + f->l->ascii_state, (1U | 8 | 16) << f->l->str_kind_shift);
    mem_fake_add(f->mem, obj + f->l->ascii_size, text, length);
    return obj;
}

/* An int (2.7: long) from its digits in base 2^30. */
static inline scry_addr fake_long(struct fake *f, bool negative, const uint32_t *digits,
                                  size_t count)
{
    scry_addr obj = fake_instance_of(f, f->l->major == 2 ? "long" : "int", 1UL << 24);
    if (f->l->long_tag != LAYOUT_NONE)
        fake_u64(f, obj + f->l->long_tag, count << 3 | (count == 0 ? 1 : negative ? 2 : 0));
    else
        fake_u64(f, obj + f->l->var_size, negative ? 0 - (uint64_t)count : count);
    if (count)
        mem_fake_add(f->mem, obj + f->l->long_digit, digits, count * sizeof(*digits));
    return obj;
}

static inline scry_addr fake_int(struct fake *f, int64_t value)
{
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    uint32_t digits[3];
    size_t count = 0;
    for (; rest; rest >>= 30)
        digits[count++] = rest & 0x3fffffff;
    return fake_long(f, value < 0, digits, count);
}

static inline scry_addr fake_tuple(struct fake *f, const scry_addr *items, size_t count)
{
    scry_addr obj = fake_instance_of(f, "tuple", 1UL << 26);
    fake_u64(f, obj + f->l->var_size, count);
    for (size_t i = 0; i < count; i++)
        fake_u64(f, obj + f->l->tuple_item + i * 8, items[i]);
    return obj;
}

static inline scry_addr fake_list(struct fake *f, const scry_addr *items, size_t count)
{
    scry_addr obj = fake_instance_of(f, "list", 1UL << 25);
    fake_u64(f, obj + f->l->var_size, count);
    fake_u64(f, obj + f->l->list_item, fake_bytes(f, items, count * 8));
    return obj;
}

/* The keys of a dict, 3.x: `str_keys` chooses the entries without hashes that 3.11+ has. With
 * `values` NULL the entries have keys only, for a split table. */
static inline scry_addr fake_keys(struct fake *f, const scry_addr *keys, const scry_addr *values,
                                  size_t count, bool str_keys)
{
    unsigned log2 = 3;
    while ((1UL << log2) < count)
        log2++;
    bool since_311 = f->l->dk_size == LAYOUT_NONE;
    size_t width = log2 < 8 ? 1 : log2 < 16 ? 2 : 4;
    if (!since_311)
        width = (1UL << log2) <= 0xff ? 1 : (1UL << log2) <= 0xffff ? 2 : 4;
    size_t entry = since_311 && str_keys ? 16 : 24;
    scry_addr obj = fake_zeros(f, (size_t)f->l->dk_indices + (width << log2) + (entry << log2));
    if (since_311) {
        fake_u8(f, obj + f->l->dk_log2_size, (uint8_t)log2);
        fake_u8(f, obj + f->l->dk_log2_index_bytes,
                (uint8_t)(log2 + (width == 1   ? 0
                                  : width == 2 ? 1
                                               : 2)));
        fake_u8(f, obj + f->l->dk_kind, str_keys);
    } else {
        fake_u64(f, obj + f->l->dk_size, 1UL << log2);
    }
    fake_u64(f, obj + f->l->dk_nentries, count);
    for (size_t i = 0; i < count; i++) {
        scry_addr at =
            obj + (uint64_t)f->l->dk_indices + (width << log2) + i * entry + (entry - 16);
        fake_u64(f, at, keys[i]);
        fake_u64(f, at + 8, values ? values[i] : 0);
    }
    return obj;
}

static inline scry_addr fake_dict(struct fake *f, const scry_addr *keys, const scry_addr *values,
                                  size_t count, bool str_keys)
{
    scry_addr obj = fake_instance_of(f, "dict", 1UL << 29);
    fake_u64(f, obj + f->l->dict_used, count);
    if (f->l->dict_table == LAYOUT_NONE) {
        fake_u64(f, obj + f->l->dict_keys, fake_keys(f, keys, values, count, str_keys));
        return obj;
    }
    uint64_t slots = 8;
    while (slots < count)
        slots *= 2;
    scry_addr table = fake_zeros(f, slots * 24);
    for (size_t i = 0; i < count; i++) {
        fake_u64(f, table + i * 24 + 8, keys[i]);
        fake_u64(f, table + i * 24 + 16, values[i]);
    }
    fake_u64(f, obj + f->l->dict_mask, slots - 1);
    fake_u64(f, obj + f->l->dict_table, table);
    return obj;
}

/* Runs a test on every row of layouts. */
#define FOR_EACH_LAYOUT(l)                                                                         \
    size_t layout_count_;                                                                          \
    const struct layout *layouts_ = layout_rows(&layout_count_);                                   \
    for (const struct layout *l = layouts_; l < layouts_ + layout_count_; l++)

#endif
