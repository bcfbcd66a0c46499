/* A fingerprint is a hash over the pointers and numbers in a code object that tell it from another
 * one at the same address: names, tables, first line, length. They never change while the object
 * lives. */
#include "cpython/code.h"

#include <stdlib.h>

#include "cpython/raw.h"

#define MAX_NAME_CHARS 4096
#define MAX_LINE_TABLE (4 << 20)
#define MAX_CODE_SIZE  512 /* of the struct itself, without the bytecode */
#define BATCH          64

void code_cache_init(struct code_cache *c, const struct py_view *view)
{
    *c = (struct code_cache){.view = *view};
    table_init(&c->by_addr);
}

static void code_free(struct py_code *code)
{
    if (!code)
        return;
    free(code->filename);
    free(code->name);
    free(code->qualname);
    free(code->line_table);
    free(code);
}

void code_cache_sweep(struct code_cache *c)
{
    for (size_t i = 0; i < c->retired_count; i++)
        code_free(c->retired[i]);
    c->retired_count = 0;
}

void code_cache_done(struct code_cache *c)
{
    code_cache_sweep(c);
    for (size_t i = 0; i < c->by_addr.cap; i++)
        if (c->by_addr.slots[i].used)
            code_free((struct py_code *)(uintptr_t)c->by_addr.slots[i].value);
    table_done(&c->by_addr);
    free(c->retired);
    free(c->scratch);
}

static bool retire(struct code_cache *c, struct py_code *code)
{
    if (c->retired_count == c->retired_cap) {
        size_t cap = c->retired_cap ? c->retired_cap * 2 : 16;
        struct py_code **grown = realloc(c->retired, cap * sizeof(*grown));
        if (!grown)
            return false;
        c->retired = grown;
        c->retired_cap = cap;
    }
    c->retired[c->retired_count++] = code;
    return true;
}

static uint64_t fingerprint(const struct layout *l, struct raw r)
{
    const uint64_t parts[] = {
        raw_u64(r, l->co_filename),  raw_u64(r, l->co_name),        raw_u64(r, l->co_qualname),
        raw_u64(r, l->co_linetable), raw_u32(r, l->co_firstlineno), raw_u32(r, l->co_flags),
        raw_u64(r, l->co_code),      raw_u64(r, l->var_size),
    };
    return hash_bytes(parts, sizeof(parts), 0);
}

static bool is_code_type(struct code_cache *c, scry_addr type)
{
    if (type && type == c->code_type)
        return true;
    scry_addr name_at;
    char name[8];
    if (mem_read_u64(c->view.mem, type + (scry_addr)c->view.layout->tp_name, &name_at) < 0 ||
        mem_read_cstr(c->view.mem, name_at, name, sizeof(name)) < 0 || strcmp(name, "code") != 0)
        return false;
    c->code_type = type;
    return true;
}

static char *read_text(const struct py_view *view, scry_addr str)
{
    struct buf text;
    buf_init(&text);
    if (!str || py_str_read(view, str, MAX_NAME_CHARS, &text) < 0) {
        buf_reset(&text);
        buf_add_char(&text, '?');
    }
    return buf_detach(&text);
}

static void read_line_table(const struct py_view *view, scry_addr bytes, struct py_code *code)
{
    struct buf table;
    buf_init(&table);
    if (py_bytes_read(view, bytes, MAX_LINE_TABLE, &table) < 0 || table.failed) {
        buf_done(&table);
        return;
    }
    code->line_table_len = table.len;
    code->line_table = (unsigned char *)buf_detach(&table);
}

static uint32_t bytecode_length(const struct py_view *view, struct raw r)
{
    const struct layout *l = view->layout;
    uint64_t length = 0;
    if (l->co_code_adaptive != LAYOUT_NONE)
        length = raw_u64(r, l->var_size) * 2;
    else if (mem_read_u64(view->mem, raw_u64(r, l->co_code) + (scry_addr)l->var_size, &length) < 0)
        return 0;
    return length <= INT32_MAX ? (uint32_t)length : 0;
}

/* CPython runs specialised calls of __init__ above a frame of its own making; its code object has
 * the same text for file and name. The shim's is named after what it is. */
static bool is_artificial(const struct py_code *code)
{
    return strcmp(code->filename, "<shim>") == 0 ||
           (strcmp(code->filename, "__init__") == 0 && strcmp(code->name, "__init__") == 0);
}

static struct py_code *read_code(struct code_cache *c, scry_addr addr, struct raw r)
{
    const struct layout *l = c->view.layout;
    struct py_code *code = calloc(1, sizeof(*code));
    if (!code)
        return NULL;
    code->addr = addr;
    code->serial = c->next_serial++;
    code->fingerprint = fingerprint(l, r);
    code->filename = read_text(&c->view, raw_u64(r, l->co_filename));
    code->name = read_text(&c->view, raw_u64(r, l->co_name));
    scry_addr qualname = raw_u64(r, l->co_qualname);
    if (code->name)
        code->qualname = qualname ? read_text(&c->view, qualname) : strdup(code->name);
    if (!code->filename || !code->name || !code->qualname) {
        code_free(code);
        return NULL;
    }
    code->first_line = (int32_t)raw_u32(r, l->co_firstlineno);
    code->flags = (int32_t)raw_u32(r, l->co_flags);
    code->argcount = raw_u32(r, l->co_argcount);
    code->posonly_count = raw_u32(r, l->co_posonlyargcount);
    code->kwonly_count = raw_u32(r, l->co_kwonlyargcount);
    code->code_bytes = bytecode_length(&c->view, r);
    read_line_table(&c->view, raw_u64(r, l->co_linetable), code);
    code->artificial = is_artificial(code);
    return code;
}

static const struct py_code *check_code(struct code_cache *c, scry_addr addr, struct raw r)
{
    uint64_t value;
    struct py_code *known = NULL;
    if (table_get(&c->by_addr, addr, &value)) {
        known = (struct py_code *)(uintptr_t)value;
        if (known->fingerprint == fingerprint(c->view.layout, r))
            return known;
    }
    if (!is_code_type(c, raw_u64(r, c->view.layout->ob_type)))
        return NULL;
    struct py_code *fresh = read_code(c, addr, r);
    if (!fresh)
        return NULL;
    if ((known && !retire(c, known)) || !table_put(&c->by_addr, addr, (uintptr_t)fresh)) {
        code_free(fresh);
        return NULL;
    }
    return fresh;
}

const struct py_code *code_cache_peek(const struct code_cache *c, scry_addr addr)
{
    uint64_t value;
    return table_get(&c->by_addr, addr, &value) ? (const struct py_code *)(uintptr_t)value : NULL;
}

uint64_t code_fingerprint(const struct layout *layout, const void *copy, size_t len)
{
    return fingerprint(layout, (struct raw){copy, len});
}

static bool reserve_scratch(struct code_cache *c, size_t size)
{
    if (c->scratch_cap >= size)
        return true;
    unsigned char *grown = realloc(c->scratch, size);
    if (!grown)
        return false;
    c->scratch = grown;
    c->scratch_cap = size;
    return true;
}

/* A batch that meets an address that cannot be read goes on behind it. */
static int get_batch(struct code_cache *c, const scry_addr *addrs, size_t count,
                     const struct py_code **ret_codes)
{
    size_t size = (size_t)c->view.layout->co_size;
    if (size > MAX_CODE_SIZE)
        size = MAX_CODE_SIZE;
    if (!reserve_scratch(c, size * BATCH))
        return -SCRY_E_NO_MEMORY;
    struct mem_range ranges[BATCH];
    for (size_t i = 0; i < count; i++)
        ranges[i] = (struct mem_range){addrs[i], c->scratch + i * size, size};
    for (size_t done = 0; done < count;) {
        int got = mem_readv(c->view.mem, ranges + done, (int)(count - done));
        if (got < 0)
            return got;
        for (size_t i = done; i < done + (size_t)got; i++)
            ret_codes[i] = check_code(c, addrs[i], (struct raw){ranges[i].to, size});
        done += (size_t)got;
        if (done < count)
            ret_codes[done++] = NULL;
    }
    return 0;
}

int code_cache_get(struct code_cache *c, const scry_addr *addrs, size_t count,
                   const struct py_code **ret_codes)
{
    for (size_t i = 0; i < count; i += BATCH) {
        size_t n = count - i < BATCH ? count - i : BATCH;
        int r = get_batch(c, addrs + i, n, ret_codes + i);
        if (r < 0)
            return r;
    }
    return 0;
}
