/* list, tuple, dict, set, range, slice: their items one by one, as long as the budget lasts. */
#include <stdio.h>

#include "cpython/repr.h"

#define WORD           8
#define CHUNK          32
#define MAX_SET_SLOTS  (1 << 20) /* a set that was emptied has many free ones */
#define MAX_ITEMS      (1ULL << 40)
#define SET_ENTRY      16 /* key and hash; in 2.7 the other way round */
#define SET_DUMMY_HASH (-1)

/* Items of an array of pointers. `names` (a tuple, or 0) goes before each: name=item. */
static void add_items(struct repr *r, scry_addr items, uint64_t count, scry_addr names)
{
    uint64_t chunk[CHUNK];
    for (uint64_t i = 0; i < count; i++) {
        if (i > 0)
            repr_force(r, ", ");
        if (!repr_more(r))
            return;
        uint64_t in_chunk = i % CHUNK, wanted = count - i < CHUNK ? count - i : CHUNK;
        if (in_chunk == 0 && mem_read(r->v->mem, items + i * WORD, chunk, wanted * WORD) < 0) {
            repr_force(r, "?");
            return;
        }
        scry_addr name;
        if (names && py_tuple_item(r->v, names, i, &name) == 0) {
            repr_plain_str(r, name);
            repr_force(r, "=");
        }
        repr_object(r, chunk[in_chunk]);
    }
}

int repr_list(struct repr *r, const struct remote *obj, const struct repr_type *type)
{
    (void)type;
    uint64_t count, items;
    int rc = remote_u64(obj, r->v->layout->var_size, &count);
    if (rc == 0)
        rc = remote_u64(obj, r->v->layout->list_item, &items);
    if (rc == 0 && count > MAX_ITEMS)
        rc = -SCRY_E_CORRUPT;
    if (rc != 0)
        return rc;
    repr_force(r, "[");
    add_items(r, items, count, 0);
    repr_force(r, "]");
    return 0;
}

/* The field names of a class made by namedtuple(), or 0. */
static scry_addr field_names(struct repr *r, const struct repr_type *type, uint64_t count)
{
    scry_addr names;
    size_t size;
    if (!(type->type.flags & TYPE_HEAP) || !type->type.dict ||
        py_dict_get_str(r->v, type->type.dict, "_fields", &names) != 0 ||
        py_tuple_size(r->v, names, &size) != 0 || size != count)
        return 0;
    return names;
}

int repr_tuple(struct repr *r, const struct remote *obj, const struct repr_type *type)
{
    uint64_t count;
    int rc = remote_u64(obj, r->v->layout->var_size, &count);
    if (rc == 0 && count > MAX_ITEMS)
        rc = -SCRY_E_CORRUPT;
    if (rc != 0)
        return rc;
    scry_addr names = field_names(r, type, count);
    if (names)
        repr_add(r, type->name);
    repr_force(r, "(");
    add_items(r, obj->addr + r->v->layout->tuple_item, count, names);
    repr_force(r, count == 1 && !names ? ",)" : ")");
    return 0;
}

int repr_dict(struct repr *r, const struct remote *obj, const struct repr_type *type)
{
    (void)type;
    struct dict_cursor cursor;
    scry_addr key, value;
    int rc = dict_cursor_init(&cursor, r->v, obj->addr);
    if (rc != 0)
        return rc;
    repr_force(r, "{");
    for (bool first = true; (rc = dict_cursor_next(&cursor, &key, &value)) > 0; first = false) {
        if (!first)
            repr_force(r, ", ");
        if (!repr_more(r))
            break;
        repr_object(r, key);
        repr_force(r, ": ");
        repr_object(r, value);
    }
    repr_force(r, rc < 0 ? "?}" : "}");
    return 0;
}

struct set_entry {
    uint64_t words[SET_ENTRY / WORD];
};

/* The object in this slot of a set's table; 0 when it is free or was freed. */
static scry_addr set_key(struct repr *r, const struct set_entry *entry)
{
    if (r->v->layout->major != 2)
        return (int64_t)entry->words[1] == SET_DUMMY_HASH ? 0 : entry->words[0];
    struct remote key;
    bool freed = entry->words[1] && remote_load(r->v, entry->words[1], &key) == 0 &&
                 remote_is_str(r->v, &key, "<dummy key>");
    return freed ? 0 : entry->words[1];
}

static void add_set_items(struct repr *r, scry_addr table, uint64_t slots, uint64_t used)
{
    struct set_entry chunk[CHUNK];
    uint64_t shown = 0;
    for (uint64_t i = 0; shown < used && i < slots && i < MAX_SET_SLOTS; i++) {
        uint64_t wanted = slots - i < CHUNK ? slots - i : CHUNK;
        if (i % CHUNK == 0 &&
            mem_read(r->v->mem, table + i * SET_ENTRY, chunk, wanted * SET_ENTRY) < 0) {
            repr_force(r, "?");
            return;
        }
        scry_addr key = set_key(r, &chunk[i % CHUNK]);
        if (!key)
            continue;
        if (shown++ > 0)
            repr_force(r, ", ");
        if (!repr_more(r))
            return;
        repr_object(r, key);
    }
}

/* set() and {1, 2}; frozenset() and frozenset({1, 2}); in 2.7 set([1, 2]). */
int repr_set(struct repr *r, const struct remote *obj, const struct repr_type *type)
{
    const struct layout *l = r->v->layout;
    uint64_t used, mask, table;
    int rc = remote_u64(obj, l->set_used, &used);
    if (rc == 0)
        rc = remote_u64(obj, l->set_mask, &mask);
    if (rc == 0)
        rc = remote_u64(obj, l->set_table, &table);
    if (rc == 0 && mask >= MAX_ITEMS)
        rc = -SCRY_E_CORRUPT;
    if (rc != 0)
        return rc;
    bool is_2 = l->major == 2, bare = !is_2 && strcmp(type->name, "set") == 0 && used > 0;
    if (!bare) {
        repr_add(r, type->name);
        repr_force(r, "(");
    }
    if (used > 0 || is_2) {
        repr_force(r, is_2 ? "[" : "{");
        add_set_items(r, table, mask + 1, used);
        repr_force(r, is_2 ? "]" : "}");
    }
    if (!bare)
        repr_force(r, ")");
    return 0;
}

/* 2.7's xrange: C longs start, step, length. */
static int add_xrange(struct repr *r, const struct remote *obj)
{
    int64_t start, step, length;
    int32_t at = r->v->layout->ob_size;
    int rc = remote_i64(obj, at, &start);
    if (rc == 0)
        rc = remote_i64(obj, at + WORD, &step);
    if (rc == 0)
        rc = remote_i64(obj, at + 2 * WORD, &length);
    if (rc != 0)
        return rc;
    int64_t stop = (int64_t)((uint64_t)start + (uint64_t)step * (uint64_t)length);
    char text[80];
    if (start == 0 && step == 1)
        snprintf(text, sizeof(text), "xrange(%lld)", (long long)stop);
    else if (step == 1)
        snprintf(text, sizeof(text), "xrange(%lld, %lld)", (long long)start, (long long)stop);
    else
        snprintf(text, sizeof(text), "xrange(%lld, %lld, %lld)", (long long)start, (long long)stop,
                 (long long)step);
    repr_add(r, text);
    return 0;
}

/* range and slice: three objects in a row after the header. */
static int load_three(struct repr *r, const struct remote *obj, scry_addr three[3])
{
    int rc = 0;
    for (int i = 0; rc == 0 && i < 3; i++)
        rc = remote_u64(obj, r->v->layout->ob_size + i * WORD, &three[i]);
    return rc;
}

static void add_call(struct repr *r, const char *name, const scry_addr *arguments, int count)
{
    repr_add(r, name);
    repr_force(r, "(");
    for (int i = 0; i < count; i++) {
        repr_object(r, arguments[i]);
        repr_force(r, i + 1 < count ? ", " : ")");
    }
}

int repr_range(struct repr *r, const struct remote *obj, const struct repr_type *type)
{
    (void)type;
    scry_addr three[3];
    int64_t step;
    if (r->v->layout->major == 2)
        return add_xrange(r, obj);
    int rc = load_three(r, obj, three);
    if (rc != 0)
        return rc;
    bool short_form = py_long_read(r->v, three[2], &step) == 0 && step == 1;
    add_call(r, "range", three, short_form ? 2 : 3);
    return 0;
}

int repr_slice(struct repr *r, const struct remote *obj, const struct repr_type *type)
{
    (void)type;
    scry_addr three[3];
    int rc = load_three(r, obj, three);
    if (rc == 0)
        add_call(r, "slice", three, 3);
    return rc;
}
