/* See code_places() for what makes a fingerprint. None of it changes while the object lives. */
#include "cpython/code.h"

#include <stdlib.h>

#include "cpython/lines.h"
#include "cpython/raw.h"

#define MAX_NAME_CHARS 4096
#define MAX_LINE_TABLE (4 << 20)
#define MAX_CODE_SIZE  512 /* of the struct itself, without the bytecode */
#define BATCH          64
#define READ_TRIES     3   /* of an object that is replaced while it is read */
#define TEXT_AHEAD     192 /* of a name, with its head: enough for most */
#define TABLE_AHEAD    512
#define PAGE           4096

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
    size_t kept = 0;
    for (size_t i = 0; i < c->retired_count; i++) {
        struct py_code *code = c->retired[i];
        if (code->marked)
            c->retired[kept++] = code;
        else
            code_free(code);
    }
    for (size_t i = 0; i < kept; i++)
        c->retired[i]->marked = false;
    c->retired_count = kept;
}

void code_cache_done(struct code_cache *c)
{
    for (size_t i = 0; i < c->retired_count; i++)
        code_free(c->retired[i]);
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

static uint64_t header_hash(const struct layout *l, struct raw r)
{
    const uint64_t parts[] = {
        raw_u64(r, l->co_filename),  raw_u64(r, l->co_name),        raw_u64(r, l->co_qualname),
        raw_u64(r, l->co_linetable), raw_u32(r, l->co_firstlineno), raw_u32(r, l->co_flags),
        raw_u64(r, l->co_code),      raw_u64(r, l->var_size),       raw_u32(r, l->co_version),
    };
    return hash_bytes(parts, sizeof(parts), 0);
}

static size_t header_size(const struct layout *l)
{
    return l->co_size < MAX_CODE_SIZE ? (size_t)l->co_size : MAX_CODE_SIZE;
}

/* The head of a str object up to its hash: type, length, hash. */
static size_t str_head(const struct layout *l)
{
    return (size_t)(l->ascii_state == LAYOUT_NONE ? l->var_size + 16 : l->ascii_state);
}

/* The same, and the text behind it where that stands at a known place. */
static size_t file_name_head(const struct layout *l, const struct py_code *code)
{
    size_t len = strlen(code->filename);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)code->filename[i] >= 0x80 || l->ascii_size == LAYOUT_NONE)
            return str_head(l);
    return (size_t)l->ascii_size + (len < 64 ? len : 64);
}

size_t code_places(const struct layout *l, const struct py_code *code,
                   struct code_place places[CODE_PLACES])
{
    size_t n = 0;
    places[n++] = (struct code_place){code->addr, header_size(l)};
    if (code->version)
        return n;
    places[n++] = (struct code_place){code->name_at, str_head(l)};
    if (code->filename[0] != '/')
        places[n++] = (struct code_place){code->filename_at, file_name_head(l, code)};
    return n;
}

static uint64_t fingerprint(const struct layout *l, const struct code_place *places,
                            const unsigned char *const *copies, size_t count)
{
    uint64_t hash = header_hash(l, (struct raw){copies[0], places[0].len});
    /* A reference count moves, so it is left out. */
    for (size_t i = 1; i < count; i++)
        hash = hash_bytes(copies[i] + l->ob_size, places[i].len - (size_t)l->ob_size, hash);
    return hash;
}

bool code_matches(const struct layout *l, const struct py_code *code,
                  const struct code_place places[CODE_PLACES],
                  const unsigned char *const copies[CODE_PLACES], size_t count)
{
    return fingerprint(l, places, copies, count) == code->fingerprint;
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

/* Read last: if the object died while its names were read, something else is there now, and the names are not its
 * names. False then: `head` is what they were read by. */
static bool take_fingerprint(struct code_cache *c, struct py_code *code, struct raw head)
{
    unsigned char buffers[CODE_PLACES][MAX_CODE_SIZE];
    const unsigned char *copies[CODE_PLACES];
    struct code_place places[CODE_PLACES];
    size_t count = code_places(c->view.layout, code, places);
    struct mem_range ranges[CODE_PLACES];
    for (size_t i = 0; i < count; i++) {
        copies[i] = buffers[i];
        ranges[i] = (struct mem_range){places[i].addr, buffers[i], places[i].len};
    }
    if (mem_readv(c->view.mem, ranges, (int)count) < (int)count)
        return true; /* without a fingerprint it is read anew each time */
    code->fingerprint = fingerprint(c->view.layout, places, copies, count);
    return header_hash(c->view.layout, (struct raw){copies[0], places[0].len}) ==
           header_hash(c->view.layout, head);
}

/* Its names and its table of lines, read together: what begins on a page can be read to the end of that page. */
struct code_parts {
    struct mem_ahead ahead;
    struct mem_range ranges[4];
    unsigned char copies[3 * TEXT_AHEAD + TABLE_AHEAD];
};

static void read_parts(struct code_cache *c, struct code_parts *p, struct raw head)
{
    const struct layout *l = c->view.layout;
    const struct {
        int32_t field;
        size_t len;
    } parts[] = {{l->co_filename, TEXT_AHEAD},
                 {l->co_name, TEXT_AHEAD},
                 {l->co_qualname, TEXT_AHEAD},
                 {l->co_linetable, TABLE_AHEAD}};
    unsigned char *to = p->copies;
    int n = 0;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        scry_addr addr = raw_u64(head, parts[i].field);
        size_t room = PAGE - (size_t)(addr % PAGE);
        int k = n;
        if (!addr)
            continue;
        for (; k > 0 && p->ranges[k - 1].addr > addr; k--)
            p->ranges[k] = p->ranges[k - 1];
        p->ranges[k] = (struct mem_range){addr, to, room < parts[i].len ? room : parts[i].len};
        to += parts[i].len;
        n++;
    }
    mem_ahead_init(&p->ahead, c->view.mem);
    mem_ahead_begin(&p->ahead, p->ranges, n);
}

/* NULL also if the object was replaced meanwhile. */
static struct py_code *read_code(struct code_cache *c, scry_addr addr, struct raw r)
{
    const struct layout *l = c->view.layout;
    struct py_code *code = calloc(1, sizeof(*code));
    if (!code)
        return NULL;
    struct code_parts parts;
    read_parts(c, &parts, r);
    const struct py_view view = {.mem = &parts.ahead.mem, .layout = l};
    code->addr = addr;
    code->serial = c->next_serial++;
    code->filename_at = raw_u64(r, l->co_filename);
    code->name_at = raw_u64(r, l->co_name);
    code->filename = read_text(&view, raw_u64(r, l->co_filename));
    code->name = read_text(&view, raw_u64(r, l->co_name));
    scry_addr qualname = raw_u64(r, l->co_qualname);
    if (code->name)
        code->qualname = qualname ? read_text(&view, qualname) : strdup(code->name);
    if (!code->filename || !code->name || !code->qualname) {
        code_free(code);
        return NULL;
    }
    code->first_line = (int32_t)raw_u32(r, l->co_firstlineno);
    code->flags = (int32_t)raw_u32(r, l->co_flags);
    code->argcount = raw_u32(r, l->co_argcount);
    code->posonly_count = raw_u32(r, l->co_posonlyargcount);
    code->kwonly_count = raw_u32(r, l->co_kwonlyargcount);
    code->code_bytes = bytecode_length(&view, r);
    code->version = raw_u32(r, l->co_version);
    read_line_table(&view, raw_u64(r, l->co_linetable), code);
    if (!take_fingerprint(c, code, r)) {
        code_free(code);
        return NULL;
    }
    for (size_t i = 0; i < CODE_LINES; i++)
        code->lines[i].offset = INT32_MIN;
    code->artificial = is_artificial(code);
    return code;
}

static const struct py_code *replace_code(struct code_cache *c, scry_addr addr,
                                          struct py_code *known)
{
    unsigned char copy[MAX_CODE_SIZE];
    struct raw r = {copy, header_size(c->view.layout)};
    struct py_code *fresh = NULL;
    for (int i = 0; i < READ_TRIES && !fresh; i++) {
        if (mem_read(c->view.mem, addr, copy, r.len) < 0 ||
            !is_code_type(c, raw_u64(r, c->view.layout->ob_type)))
            return NULL;
        fresh = read_code(c, addr, r);
    }
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

uint64_t code_generation(const struct layout *l, const void *copy)
{
    uint64_t count;
    memcpy(&count, copy, sizeof(count));
    return l->counts_births ? (uint32_t)count : count;
}

bool code_is_of(const struct py_code *code, uint64_t generation)
{
    return generation && code->generation == generation;
}

/* Where the count is not at a place that CPython publishes, it is believed only if it is one: numbers are given out in
 * order, and this one's was. */
void code_cache_stamp(struct code_cache *c, scry_addr addr, uint64_t generation)
{
    uint64_t value;
    if (!table_get(&c->by_addr, addr, &value))
        return;
    struct py_code *code = (struct py_code *)(uintptr_t)value;
    if (!c->view.layout->counts_births || (code->version && code->version < generation))
        code->generation = generation;
}

void code_cache_set_mark(struct code_cache *c, scry_addr addr, uint64_t kernel_mark)
{
    uint64_t value;
    if (table_get(&c->by_addr, addr, &value))
        ((struct py_code *)(uintptr_t)value)->kernel_mark = kernel_mark;
}

int32_t code_line(const struct py_code *code, enum line_format format, int32_t offset)
{
    /* The cache is not part of what the code is. */
    struct py_code *c = (struct py_code *)(uintptr_t)code;
    size_t slot = (size_t)(uint32_t)offset / 2 % CODE_LINES;
    if (c->lines[slot].offset != offset) {
        c->lines[slot].line =
            lines_find(format, c->line_table, c->line_table_len, c->first_line, offset);
        c->lines[slot].offset = offset;
    }
    return c->lines[slot].line;
}

void code_cache_mark(const struct py_code *code)
{
    ((struct py_code *)(uintptr_t)code)->marked = true;
}

/* One code object of a batch: where its copies begin among the ranges. */
struct batch_item {
    struct py_code *known; /* NULL: not in the cache */
    struct code_place places[CODE_PLACES];
    int count;
    bool sure; /* it is the same, and need not be looked at */
};

static bool item_matches(const struct layout *l, const struct batch_item *item,
                         const struct mem_range *ranges)
{
    const unsigned char *copies[CODE_PLACES];
    for (int i = 0; i < item->count; i++)
        copies[i] = ranges[i].to;
    return code_matches(l, item->known, item->places, copies, (size_t)item->count);
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

/* Known ones are compared, all with one read; the others, and those that changed, are read anew. */
static int get_batch(struct code_cache *c, const scry_addr *addrs, size_t count,
                     const uint64_t *generation, const struct py_code **ret_codes)
{
    const size_t room = MAX_CODE_SIZE;
    struct batch_item items[BATCH];
    struct mem_range ranges[BATCH * CODE_PLACES];
    int n = 0;
    if (!reserve_scratch(c, room * BATCH * CODE_PLACES))
        return -SCRY_E_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        items[i] = (struct batch_item){.known = (struct py_code *)code_cache_peek(c, addrs[i])};
        items[i].sure = items[i].known && generation && code_is_of(items[i].known, *generation);
        if (!items[i].known || items[i].sure)
            continue;
        items[i].count = (int)code_places(c->view.layout, items[i].known, items[i].places);
        for (int k = 0; k < items[i].count; k++, n++)
            ranges[n] = (struct mem_range){items[i].places[k].addr, c->scratch + room * (size_t)n,
                                           items[i].places[k].len};
    }
    int got = n ? mem_readv(c->view.mem, ranges, n) : 0;
    if (got < 0)
        return got;
    int at = 0;
    for (size_t i = 0; i < count; i++) {
        bool same = items[i].sure || (items[i].known && at + items[i].count <= got &&
                                      item_matches(c->view.layout, &items[i], ranges + at));
        /* A recursive function stands in a batch more than once and is read anew only once. */
        const struct py_code *now = code_cache_peek(c, addrs[i]);
        if (same || now != items[i].known)
            ret_codes[i] = now;
        else
            ret_codes[i] = replace_code(c, addrs[i], items[i].known);
        at += items[i].count;
    }
    return 0;
}

int code_cache_get(struct code_cache *c, const scry_addr *addrs, size_t count,
                   const uint64_t *generation, const struct py_code **ret_codes)
{
    for (size_t i = 0; i < count; i += BATCH) {
        size_t n = count - i < BATCH ? count - i : BATCH;
        int r = get_batch(c, addrs + i, n, generation, ret_codes + i);
        if (r < 0)
            return r;
    }
    return 0;
}
