/* Types of the standard library that programs keep in variables all the time: dates, OrderedDict,
 * defaultdict, deque, and classes made with @dataclass. Their structures are not in CPython's
 * headers but have kept their shape since 3.6. */
#include <inttypes.h>
#include <stdio.h>

#include "cpython/repr.h"

#define WORD 8

/* A mapping with its class's name around it. */
static int add_pairs(struct repr *r, scry_addr dict)
{
    struct dict_cursor cursor;
    scry_addr key, value;
    int rc = dict_cursor_init(&cursor, r->v, dict);
    if (rc != 0)
        return rc;
    repr_force(r, "[");
    for (bool first = true; (rc = dict_cursor_next(&cursor, &key, &value)) > 0; first = false) {
        if (!first)
            repr_force(r, ", ");
        if (!repr_more(r))
            break;
        repr_force(r, "(");
        repr_object(r, key);
        repr_force(r, ", ");
        repr_object(r, value);
        repr_force(r, ")");
    }
    repr_force(r, rc < 0 ? "?]" : "]");
    return 0;
}

int repr_ordered_dict(struct repr *r, const struct remote *obj, const struct repr_type *type)
{
    uint64_t used;
    const struct layout *l = r->v->layout;
    int rc = remote_u64(obj, l->dict_used, &used);
    if (rc != 0)
        return rc;
    repr_add(r, "OrderedDict(");
    if (used > 0)
        rc = l->major == 3 && l->minor >= 12 ? repr_dict(r, obj, type) : add_pairs(r, obj->addr);
    repr_force(r, rc < 0 ? "?)" : ")");
    return 0;
}

int repr_default_dict(struct repr *r, const struct remote *obj, const struct repr_type *type)
{
    uint64_t factory;
    int rc = mem_read_u64(r->v->mem, obj->addr + r->v->layout->dict_size, &factory);
    if (rc != 0)
        return rc;
    repr_add(r, "defaultdict(");
    if (factory)
        repr_object(r, factory);
    else
        repr_add(r, "None");
    repr_force(r, ", ");
    rc = repr_dict(r, obj, type);
    repr_force(r, rc < 0 ? "?)" : ")");
    return 0;
}

/* A deque is a chain of blocks; the first and the last are partly used. */
#define DEQUE_BLOCK     64
#define DEQUE_DATA      WORD /* after the link to the left */
#define DEQUE_RIGHT     (DEQUE_DATA + DEQUE_BLOCK * WORD)
#define DEQUE_MAX_ITEMS (1ULL << 40)

static void add_deque_items(struct repr *r, scry_addr block, uint64_t index, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++, index++) {
        scry_addr item;
        if (i > 0)
            repr_force(r, ", ");
        if (!repr_more(r))
            return;
        if (index == DEQUE_BLOCK) {
            index = 0;
            if (mem_read_u64(r->v->mem, block + DEQUE_RIGHT, &block) < 0)
                block = 0;
        }
        if (mem_read_u64(r->v->mem, block + DEQUE_DATA + index * WORD, &item) < 0) {
            repr_force(r, "?");
            return;
        }
        repr_object(r, item);
    }
}

int repr_deque(struct repr *r, const struct remote *obj, const struct repr_type *type)
{
    (void)type;
    int32_t at = r->v->layout->var_size + WORD;
    uint64_t count, block, index;
    int64_t max;
    int rc = remote_u64(obj, r->v->layout->var_size, &count);
    if (rc == 0)
        rc = remote_u64(obj, at, &block);
    if (rc == 0)
        rc = remote_u64(obj, at + 2 * WORD, &index);
    if (rc == 0)
        rc = remote_i64(obj, at + 5 * WORD, &max);
    if (rc == 0 && (count > DEQUE_MAX_ITEMS || index > DEQUE_BLOCK))
        rc = -SCRY_E_CORRUPT;
    if (rc != 0)
        return rc;
    char text[40] = "])";
    repr_add(r, "deque([");
    add_deque_items(r, block, index, count);
    if (max >= 0)
        snprintf(text, sizeof(text), "], maxlen=%" PRId64 ")", max);
    repr_force(r, text);
    return 0;
}

/* Dates and times are packed bytes behind the hash and the flag that says whether there is a time
 * zone. */
#define PACKED_ZONED 8
#define PACKED_DATA  9

struct packed {
    const unsigned char *data;
    bool zoned;
};

static int load_packed(struct repr *r, const struct remote *obj, size_t size, struct packed *p)
{
    size_t at = (size_t)r->v->layout->ob_size;
    if (at + PACKED_DATA + size > obj->len)
        return -SCRY_E_READ;
    p->zoned = obj->bytes[at + PACKED_ZONED] != 0;
    p->data = obj->bytes + at + PACKED_DATA;
    return 0;
}

/* hour, minute[, second[, microsecond]] */
static void add_clock(struct repr *r, const unsigned char *t)
{
    char text[64];
    unsigned micro = (unsigned)t[3] << 16 | (unsigned)t[4] << 8 | t[5];
    int len = snprintf(text, sizeof(text), "%u, %u", t[0], t[1]);
    if (t[2] || micro)
        len += snprintf(text + len, sizeof(text) - (size_t)len, ", %u", t[2]);
    if (micro)
        snprintf(text + len, sizeof(text) - (size_t)len, ", %u", micro);
    repr_add(r, text);
}

/* fold and time zone; `end` is where the packed bytes end, counted from the object's start. */
static void add_zone(struct repr *r, const struct remote *obj, bool zoned, int32_t end)
{
    const struct layout *l = r->v->layout;
    uint64_t zone;
    if (l->major == 3 && (size_t)end < obj->len && obj->bytes[end] == 1)
        repr_add(r, ", fold=1");
    if (zoned && remote_u64(obj, (end + 1 + WORD - 1) / WORD * WORD, &zone) == 0) {
        repr_add(r, ", tzinfo=");
        repr_object(r, zone);
    }
    repr_force(r, ")");
}

static void add_date(struct repr *r, const char *name, const unsigned char *d)
{
    char text[32];
    snprintf(text, sizeof(text), "(%u, %u, %u", (unsigned)d[0] << 8 | d[1], d[2], d[3]);
    repr_add(r, name);
    repr_add(r, text);
}

int repr_date(struct repr *r, const struct remote *obj, const struct repr_type *type)
{
    struct packed p;
    int rc = load_packed(r, obj, 4, &p);
    if (rc != 0)
        return rc;
    add_date(r, type->name, p.data);
    repr_force(r, ")");
    return 0;
}

int repr_datetime(struct repr *r, const struct remote *obj, const struct repr_type *type)
{
    struct packed p;
    int rc = load_packed(r, obj, 10, &p);
    if (rc != 0)
        return rc;
    add_date(r, type->name, p.data);
    repr_add(r, ", ");
    add_clock(r, p.data + 4);
    add_zone(r, obj, p.zoned, r->v->layout->ob_size + PACKED_DATA + 10);
    return 0;
}

int repr_time(struct repr *r, const struct remote *obj, const struct repr_type *type)
{
    struct packed p;
    int rc = load_packed(r, obj, 6, &p);
    if (rc != 0)
        return rc;
    repr_add(r, type->name);
    repr_add(r, "(");
    add_clock(r, p.data);
    add_zone(r, obj, p.zoned, r->v->layout->ob_size + PACKED_DATA + 6);
    return 0;
}

/* Since 3.7 the parts that are not 0, by name; before, all up to the last that is not. */
int repr_timedelta(struct repr *r, const struct remote *obj, const struct repr_type *type)
{
    static const char *const names[] = {"days", "seconds", "microseconds"};
    const struct layout *l = r->v->layout;
    bool named = l->major == 3 && l->minor >= 7;
    uint32_t parts[3];
    int rc = 0, last = 0;
    for (int i = 0; rc == 0 && i < 3; i++) {
        rc = remote_u32(obj, l->ob_size + WORD + 4 * i, &parts[i]);
        if (rc == 0 && parts[i])
            last = i;
    }
    if (rc != 0)
        return rc;
    char text[128];
    size_t len = (size_t)snprintf(text, sizeof(text), "%s(", type->name);
    size_t start = len < sizeof(text) ? len : sizeof(text) - 1;
    len = start;
    for (int i = 0; i <= last && len < sizeof(text); i++) {
        if (named && !parts[i] && !(i == last && len == start))
            continue;
        bool bare = !named || !parts[i];
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s%s%d", len > start ? ", " : "",
                                bare ? "" : names[i], bare ? "" : "=", (int32_t)parts[i]);
    }
    repr_add(r, text);
    repr_force(r, ")");
    return 0;
}

/* timezone.utc has no offset and no name. */
int repr_timezone(struct repr *r, const struct remote *obj, const struct repr_type *type)
{
    const struct layout *l = r->v->layout;
    uint64_t offset, name, days_and_seconds;
    uint32_t micro;
    int rc = remote_u64(obj, l->ob_size, &offset);
    if (rc == 0)
        rc = remote_u64(obj, l->ob_size + WORD, &name);
    if (rc == 0)
        rc = mem_read_u64(r->v->mem, offset + (uint64_t)l->ob_size + WORD, &days_and_seconds);
    if (rc == 0)
        rc = mem_read_u32(r->v->mem, offset + (uint64_t)l->ob_size + WORD + WORD, &micro);
    if (rc != 0)
        return rc;
    repr_add(r, type->name);
    if (!name && !days_and_seconds && !micro) {
        repr_add(r, ".utc");
        return 0;
    }
    repr_force(r, "(");
    repr_object(r, offset);
    if (name) {
        repr_force(r, ", ");
        repr_object(r, name);
    }
    repr_force(r, ")");
    return 0;
}

/* A dataclasses.Field keeps its attributes in slots, which stand in alphabetical order: ..., name,
 * repr, type. False for repr means that the field is not to be shown. */
static bool field_is_shown(struct repr *r, scry_addr field)
{
    struct remote obj;
    struct remote_type type;
    scry_addr wanted;
    int64_t value;
    if (remote_load(r->v, field, &obj) < 0 || remote_type_of(r->v, &obj, &type) < 0 ||
        type.basic_size < WORD + WORD || type.basic_size > REMOTE_WINDOW ||
        remote_u64(&obj, (int32_t)type.basic_size - 2 * WORD, &wanted) < 0)
        return true;
    return py_long_read(r->v, wanted, &value) != 0 || value != 0;
}

static int add_fields(struct repr *r, scry_addr obj, struct dict_cursor *fields)
{
    scry_addr name, field, value;
    int shown = 0;
    while (dict_cursor_next(fields, &name, &field) > 0) {
        SCOPED_BUF text;
        buf_init(&text);
        if (py_str_read(r->v, name, 100, &text) < 0 || !field_is_shown(r, field) ||
            py_instance_attr(r->v, obj, text.data, &value) != 0)
            continue;
        if (shown++ > 0)
            repr_force(r, ", ");
        if (!repr_more(r))
            break;
        repr_add(r, text.data);
        repr_force(r, "=");
        repr_object(r, value);
    }
    return shown;
}

/* Name(field=value, ...); an error, and nothing written, for classes of other kinds and for those
 * that keep their fields in slots. */
int repr_dataclass(struct repr *r, const struct remote *obj, const struct repr_type *type)
{
    scry_addr fields;
    struct dict_cursor cursor;
    if (!(type->type.flags & TYPE_HEAP) || !type->type.dict ||
        py_dict_get_str(r->v, type->type.dict, "__dataclass_fields__", &fields) != 0 ||
        dict_cursor_init(&cursor, r->v, fields) < 0)
        return -SCRY_E_READ;
    size_t before = r->to->len;
    int64_t left = r->left;
    repr_plain_str(r, type->type.qualname);
    repr_force(r, "(");
    if (add_fields(r, obj->addr, &cursor) == 0) {
        buf_truncate(r->to, before);
        r->left = left;
        return -SCRY_E_READ;
    }
    repr_force(r, ")");
    return 0;
}
