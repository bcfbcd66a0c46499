/* What an instance keeps: in a dict of its own, or (3.11+) as values without a dict, whose names
 * are the keys shared by all instances of the class. Where dict and values stand has changed with
 * each version. */
#include "cpython/remote.h"

#define WORD 8
/* Words before the object, where there is no garbage collector header between (free-threaded
 * builds). */
#define BEFORE_NEAR       8
#define BEFORE            24
#define BEFORE_VALUES_311 32

struct storage {
    scry_addr dict;   /* or 0 */
    scry_addr values; /* or 0 */
};

static int word_at(const struct py_view *v, scry_addr addr, scry_addr *ret_word)
{
    return mem_read_u64(v->mem, addr, ret_word);
}

/* A dict pointer at a fixed distance from the start, or from the end of objects of varying size. */
static int by_offset(const struct py_view *v, scry_addr obj, const struct remote_type *type,
                     struct storage *s)
{
    int64_t offset = type->dict_offset;
    if (offset < 0) {
        uint64_t size;
        int rc = word_at(v, obj + v->layout->var_size, &size);
        if (rc != 0)
            return rc;
        uint64_t count = (int64_t)size < 0 ? 0 - size : size;
        if (count > 1ULL << 32 || type->item_size < 0 || type->item_size > 1 << 16 ||
            type->basic_size < 0 || type->basic_size > 1 << 30)
            return -SCRY_E_CORRUPT;
        uint64_t end = (uint64_t)type->basic_size + count * (uint64_t)type->item_size;
        offset += (int64_t)((end + WORD - 1) / WORD * WORD);
    }
    return offset <= 0 ? -SCRY_E_CORRUPT : word_at(v, obj + (uint64_t)offset, &s->dict);
}

static int managed_311(const struct py_view *v, scry_addr obj, struct storage *s)
{
    int rc = word_at(v, obj - BEFORE_VALUES_311, &s->values);
    if (rc == 0 && !s->values)
        rc = word_at(v, obj - BEFORE, &s->dict);
    return rc;
}

/* One word for both; an odd one means values. */
static int managed_312(const struct py_view *v, scry_addr obj, struct storage *s)
{
    uint64_t word;
    int rc = word_at(v, obj - BEFORE, &word);
    if (rc != 0)
        return rc;
    if (word & 1)
        s->values = word + 1;
    else
        s->dict = word;
    return 0;
}

static int managed_313(const struct py_view *v, scry_addr obj, const struct remote_type *type,
                       struct storage *s)
{
    int rc = word_at(v, obj - (v->layout->free_threaded ? BEFORE_NEAR : BEFORE), &s->dict);
    if (rc == 0 && !s->dict && type->flags & TYPE_INLINE_VALUES && type->basic_size > 0)
        s->values = obj + (uint64_t)type->basic_size;
    return rc;
}

static int find_storage(const struct py_view *v, scry_addr obj, const struct remote_type *type,
                        struct storage *s)
{
    *s = (struct storage){0};
    if (v->layout->managed_dict && type->flags & TYPE_MANAGED_DICT) {
        switch (v->layout->managed_dict) {
        case 11:
            return managed_311(v, obj, s);
        case 12:
            return managed_312(v, obj, s);
        default:
            return managed_313(v, obj, type, s);
        }
    }
    return type->dict_offset ? by_offset(v, obj, type, s) : 0;
}

int py_instance_attr(const struct py_view *v, scry_addr obj, const char *name, scry_addr *ret_value)
{
    struct remote r;
    struct remote_type type;
    struct storage s;
    struct dict_cursor c;
    int rc = remote_load(v, obj, &r);
    if (rc == 0)
        rc = remote_type_of(v, &r, &type);
    if (rc == 0)
        rc = find_storage(v, obj, &type, &s);
    if (rc != 0)
        return rc;
    if (s.values && type.cached_keys)
        rc = dict_cursor_init_values(&c, v, type.cached_keys, s.values);
    else if (s.dict)
        rc = dict_cursor_init(&c, v, s.dict);
    else
        return 1;
    return rc != 0 ? rc : dict_cursor_find(&c, name, ret_value);
}
