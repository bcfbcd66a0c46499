/* The repr of any object: what type it has decides who writes it. The types of C are known by name,
 * classes that derive from a built-in one by the type's flags. One budget is shared by all that is
 * nested. */
#include <inttypes.h>
#include <stdio.h>

#include "cpython/repr.h"

#define MAX_PLAIN_CHARS 200
#define CUT             "..."

static int repr_constant(struct repr *r, const struct remote *obj, const struct repr_type *type);
static int repr_instance(struct repr *r, const struct remote *obj, const struct repr_type *type);

static const struct {
    const char *name;
    repr_writer write;
} types_of_c[] = {
    {"NoneType", repr_constant},
    {"NotImplementedType", repr_constant},
    {"async_generator", repr_generator},
    {"bool", repr_bool},
    {"builtin_function_or_method", repr_builtin},
    {"bytearray", repr_bytearray},
    {"complex", repr_complex},
    {"coroutine", repr_generator},
    {"ellipsis", repr_constant},
    {"float", repr_float},
    {"frozenset", repr_set},
    {"function", repr_function},
    {"generator", repr_generator},
    {"instancemethod", repr_method}, /* 2.7 */
    {"method", repr_method},
    {"module", repr_module},
    {"range", repr_range},
    {"set", repr_set},
    {"slice", repr_slice},
    {"xrange", repr_range}, /* 2.7 */
};

/* Types of C outside of the core are often made like classes, but have a module in their name. */
static const struct {
    const char *name;
    repr_writer write;
} types_of_modules[] = {
    {"collections.OrderedDict", repr_ordered_dict},
    {"collections.defaultdict", repr_default_dict},
    {"collections.deque", repr_deque},
    {"datetime.date", repr_date},
    {"datetime.datetime", repr_datetime},
    {"datetime.time", repr_time},
    {"datetime.timedelta", repr_timedelta},
    {"datetime.timezone", repr_timezone},
};

static const struct {
    uint64_t flag;
    repr_writer write;
} families[] = {
    {TYPE_LONG, repr_int},
    {TYPE_LIST, repr_list},
    {TYPE_TUPLE, repr_tuple},
    {TYPE_BYTES, repr_bytes},
    {TYPE_STR, repr_str},
    {TYPE_DICT, repr_dict},
    {TYPE_EXCEPTION, repr_exception},
    {TYPE_TYPE, repr_class},
};

bool repr_is_enum(struct repr *r, const struct remote_type *type)
{
    char meta[32];
    return type->flags & TYPE_HEAP && py_type_name(r->v, type->addr, meta, sizeof(meta)) == 0 &&
           (strcmp(meta, "EnumMeta") == 0 || strcmp(meta, "EnumType") == 0);
}

static repr_writer choose_writer(struct repr *r, const struct repr_type *t)
{
    if (!(t->type.flags & TYPE_HEAP)) {
        for (size_t i = 0; i < ARRAY_LEN(types_of_c); i++)
            if (strcmp(types_of_c[i].name, t->name) == 0)
                return types_of_c[i].write;
        if (strncmp(t->name, "numpy.", 6) == 0)
            return repr_numpy;
    } else if (repr_is_enum(r, &t->type)) {
        return repr_enum;
    }
    for (size_t i = 0; r->v->layout->major == 3 && i < ARRAY_LEN(types_of_modules); i++)
        if (strcmp(types_of_modules[i].name, t->name) == 0)
            return types_of_modules[i].write;
    if (r->v->layout->major == 2 && t->type.flags & TYPE_INT2)
        return repr_int2;
    for (size_t i = 0; i < ARRAY_LEN(families); i++)
        if (t->type.flags & families[i].flag)
            return families[i].write;
    return repr_instance;
}

int repr_type_load(struct repr *r, scry_addr type, struct repr_type *ret_type)
{
    struct repr_type *known = &r->known[type / 16 % REPR_KNOWN_TYPES];
    if (!known->write || known->type.addr != type) {
        struct repr_type fresh;
        int rc = remote_type(r->v, type, &fresh.type);
        if (rc == 0)
            rc = mem_read_cstr(r->v->mem, fresh.type.name, fresh.name, sizeof(fresh.name));
        if (rc != 0)
            return rc;
        fresh.write = choose_writer(r, &fresh);
        *known = fresh;
    }
    *ret_type = *known;
    return 0;
}

void repr_add_len(struct repr *r, const char *text, size_t len)
{
    if (r->left <= 0)
        return;
    if ((int64_t)len <= r->left) {
        buf_add(r->to, text, len);
        r->left -= (int64_t)len;
        return;
    }
    buf_add(r->to, text, (size_t)r->left);
    buf_add_str(r->to, CUT);
    r->left = 0;
}

void repr_add(struct repr *r, const char *text)
{
    repr_add_len(r, text, strlen(text));
}

void repr_force(struct repr *r, const char *text)
{
    buf_add_str(r->to, text);
    r->left -= (int64_t)strlen(text);
}

bool repr_more(struct repr *r)
{
    if (r->left > 0)
        return true;
    buf_add_str(r->to, CUT);
    return false;
}

void repr_plain_str(struct repr *r, scry_addr str)
{
    size_t before = r->to->len;
    if (py_str_read(r->v, str, MAX_PLAIN_CHARS, r->to) < 0)
        buf_add_char(r->to, '?');
    r->left -= (int64_t)(r->to->len - before);
}

/* Classes keep their module in their dict; types of C have it in their name, unless they are built
 * in. */
void repr_type_name(struct repr *r, const struct repr_type *t)
{
    scry_addr module;
    if (t->type.flags & TYPE_HEAP && !strchr(t->name, '.') && t->type.dict &&
        py_dict_get_str(r->v, t->type.dict, "__module__", &module) == 0) {
        size_t before = r->to->len;
        repr_plain_str(r, module);
        if (strcmp(r->to->data + before, "builtins") == 0)
            buf_truncate(r->to, before);
        else
            repr_force(r, ".");
    }
    if (t->type.qualname && !strchr(t->name, '.'))
        repr_plain_str(r, t->type.qualname);
    else
        repr_add(r, t->name);
}

static int repr_constant(struct repr *r, const struct remote *obj, const struct repr_type *type)
{
    (void)obj;
    repr_add(r, type->name[0] == 'e'                  ? "Ellipsis"
                : strcmp(type->name, "NoneType") == 0 ? "None"
                                                      : "NotImplemented");
    return 0;
}

static int repr_instance(struct repr *r, const struct remote *obj, const struct repr_type *type)
{
    char text[40];
    if (repr_dataclass(r, obj, type) == 0)
        return 0;
    repr_add(r, "<");
    repr_type_name(r, type);
    snprintf(text, sizeof(text), " object at 0x%" PRIx64 ">", obj->addr);
    repr_force(r, text);
    return 0;
}

/* What Python writes for a container inside of itself. */
static const char *inside_itself(const struct repr_type *type)
{
    return type->write == repr_list    ? "[...]"
           : type->write == repr_tuple ? "(...)"
           : type->write == repr_dict  ? "{...}"
                                       : CUT;
}

static bool is_ancestor(const struct repr *r, scry_addr obj)
{
    for (int i = 0; i < r->depth; i++)
        if (r->ancestors[i] == obj)
            return true;
    return false;
}

static int write_object(struct repr *r, scry_addr addr)
{
    struct remote obj;
    struct repr_type type;
    uint64_t type_addr;
    int rc = remote_load(r->v, addr, &obj);
    if (rc == 0)
        rc = remote_u64(&obj, r->v->layout->ob_type, &type_addr);
    if (rc == 0)
        rc = repr_type_load(r, type_addr, &type);
    if (rc != 0)
        return rc;
    if (is_ancestor(r, addr)) {
        repr_force(r, inside_itself(&type));
        return 0;
    }
    r->ancestors[r->depth++] = addr;
    rc = type.write(r, &obj, &type);
    if (rc < 0 && type.write != repr_instance)
        rc = repr_instance(r, &obj, &type);
    r->depth--;
    return rc;
}

void repr_object(struct repr *r, scry_addr obj)
{
    if (r->depth == REPR_MAX_DEPTH)
        repr_force(r, CUT);
    else if (write_object(r, obj) < 0)
        repr_force(r, "?");
}

void py_repr(const struct py_view *v, scry_addr obj, size_t budget, struct buf *to)
{
    struct repr r = {.v = v, .to = to, .left = budget < INT32_MAX ? (int64_t)budget : INT32_MAX};
    repr_object(&r, obj);
}
