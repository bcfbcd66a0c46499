/* The readers of Python objects against arbitrary memory. Whatever it holds, reading ends, and a repr is
 * about as long as asked for.
 *
 * The first byte chooses the layout. The rest is the memory, in words, where two values of the highest byte
 * have a meaning, so that mutations make objects and not only noise: TYPE is a pointer to a type that scry
 * knows, HERE a pointer into this memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpython/object.h"
#include "cpython/python.h"

#define BASE      0x100000
#define TYPES     0x10000
#define TYPE_SIZE 0x800
#define MAX_WORDS 4096
#define BUDGET    200
#define MOST_TEXT (BUDGET + 2000) /* names and closing brackets come on top */
#define TYPE      0xa1
#define HERE      0xb2

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct {
    const char *name;
    uint64_t flags;
} types[] = {
    {"int", 1UL << 24},
    {"list", 1UL << 25},
    {"tuple", 1UL << 26},
    {"bytes", 1UL << 27},
    {"str", 1UL << 28},
    {"dict", 1UL << 29},
    {"ValueError", 1UL << 30},
    {"type", 1UL << 31},
    {"Point", 1UL << 9 | 1UL << 26},
    {"Thread", 1UL << 9 | 1UL << 4 | 1UL << 2},
    {"Old", 1UL << 9},
    {"bool", 1UL << 24},
    {"cell", 0},
    {"set", 0},
    {"float", 0},
    {"complex", 0},
    {"range", 0},
    {"slice", 0},
    {"bytearray", 0},
    {"function", 0},
    {"method", 0},
    {"module", 0},
    {"generator", 0},
    {"builtin_function_or_method", 0},
    {"numpy.float16", 0},
    {"collections.deque", 0},
    {"collections.OrderedDict", 1UL << 29},
    {"collections.defaultdict", 1UL << 29},
    {"datetime.datetime", 0},
    {"datetime.timedelta", 0},
    {"datetime.timezone", 0},
};

static void put_u64(struct mem *mem, scry_addr addr, uint64_t value)
{
    mem_fake_add(mem, addr, &value, sizeof(value));
}

static void add_types(struct mem *mem, const struct layout *l)
{
    static const char zeros[TYPE_SIZE];
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        scry_addr type = TYPES + i * TYPE_SIZE, name = type + TYPE_SIZE - 64;
        mem_fake_add(mem, type, zeros, sizeof(zeros));
        mem_fake_add(mem, name, types[i].name, strlen(types[i].name));
        put_u64(mem, type + (uint64_t)l->tp_name, name);
        put_u64(mem, type + (uint64_t)l->tp_flags, types[i].flags);
        put_u64(mem, type + (uint64_t)l->tp_basicsize, 64);
        put_u64(mem, type + (uint64_t)l->tp_dict, BASE + 64);
        if (l->ht_cached_keys != LAYOUT_NONE)
            put_u64(mem, type + (uint64_t)l->ht_cached_keys, BASE + 128);
    }
}

static uint64_t meant(uint64_t word)
{
    switch (word >> 56) {
    case TYPE:
        return TYPES + (word & 0xff) % ARRAY_LEN(types) * TYPE_SIZE;
    case HERE:
        return BASE + (word & 0xffff) % MAX_WORDS * 8;
    default:
        return word;
    }
}

static int ignore_entry(scry_addr key, scry_addr value, void *context)
{
    (void)key;
    (void)value;
    (void)context;
    return 0;
}

static void ignore_name(uint64_t thread_id, const char *name, void *context)
{
    (void)thread_id;
    (void)name;
    (void)context;
}

static void read_all(const struct py_view *v, size_t words)
{
    struct buf text;
    buf_init(&text);
    for (size_t i = 0; i < words && i < 64; i++) {
        scry_addr at = BASE + i * 8, value;
        buf_reset(&text);
        py_repr(v, at, BUDGET, &text);
        if (text.len == 0 || text.len > MOST_TEXT) {
            fprintf(stderr, "a repr of %zu bytes: %s\n", text.len, text.data);
            abort();
        }
        py_dict_each(v, at, 1000, ignore_entry, NULL);
        py_instance_attr(v, at, "_name", &value);
    }
    py_thread_names(v, BASE, ignore_name, NULL);
    buf_done(&text);
}

static void read_locals(const struct layout *l, struct mem *mem)
{
    struct python py = {.layout = *l};
    py.view = (struct py_view){mem, &py.layout};
    struct py_code code = {.addr = BASE, .argcount = 2, .flags = 0xc};
    struct py_frame frame = {.addr = BASE + 256, .code = &code};
    struct py_locals locals;
    if (python_locals(&py, &frame, BUDGET, &locals) == 0)
        py_locals_done(&locals);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint64_t words[MAX_WORDS];
    size_t rows, count = size / sizeof(words[0]);
    const struct layout *layouts = layout_rows(&rows);
    if (size == 0 || count == 0 || count > MAX_WORDS)
        return 0;
    const struct layout *l = &layouts[data[0] % rows];
    memcpy(words, data + 1, (size - 1) / 8 * 8);
    count = (size - 1) / 8;
    for (size_t i = 0; i < count; i++)
        words[i] = meant(words[i]);
    struct mem *mem = mem_fake_new();
    if (!mem)
        return 0;
    add_types(mem, l);
    if (count)
        mem_fake_add(mem, BASE, words, count * sizeof(words[0]));
    struct py_view v = {mem, l};
    read_all(&v, count);
    read_locals(l, mem);
    mem_close(mem);
    return 0;
}
