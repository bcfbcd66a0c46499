/* What is shown by its name: functions, modules, classes, exceptions. */
#include <inttypes.h>
#include <stdio.h>

#include "cpython/repr.h"

static void add_address(struct repr *r, const char *before, scry_addr addr)
{
    char text[64];
    snprintf(text, sizeof(text), "%s0x%" PRIx64 ">", before, addr);
    repr_force(r, text);
}

int repr_function(struct repr *r, const struct remote *obj, const struct repr_type *type)
{
    (void)type;
    const struct layout *l = r->v->layout;
    uint64_t name;
    int rc =
        remote_u64(obj, l->func_qualname != LAYOUT_NONE ? l->func_qualname : l->func_name, &name);
    if (rc != 0)
        return rc;
    repr_add(r, "<function ");
    repr_plain_str(r, name);
    add_address(r, " at ", obj->addr);
    return 0;
}

/* In 2.7 a function does not know its class, but the method does. */
static void add_class_27(struct repr *r, const struct remote *method)
{
    uint64_t class;
    struct repr_type type;
    if (r->v->layout->major != 2 || remote_u64(method, r->v->layout->method_self + 8, &class) < 0 ||
        repr_type_load(r, class, &type) < 0)
        return;
    repr_add(r, type.name);
    repr_add(r, ".");
}

int repr_method(struct repr *r, const struct remote *obj, const struct repr_type *type)
{
    (void)type;
    const struct layout *l = r->v->layout;
    uint64_t function, self, name;
    int32_t name_at = l->func_qualname != LAYOUT_NONE ? l->func_qualname : l->func_name;
    int rc = remote_u64(obj, l->method_func, &function);
    if (rc == 0)
        rc = remote_u64(obj, l->method_self, &self);
    if (rc == 0)
        rc = mem_read_u64(r->v->mem, function + name_at, &name);
    if (rc != 0)
        return rc;
    repr_add(r, self ? "<bound method " : "<unbound method ");
    add_class_27(r, obj);
    repr_plain_str(r, name);
    if (self) {
        repr_add(r, " of ");
        repr_object(r, self);
    }
    repr_force(r, ">");
    return 0;
}

/* len and math.sqrt are functions: bound to nothing or to their module. [].append is a method. */
int repr_builtin(struct repr *r, const struct remote *obj, const struct repr_type *type)
{
    (void)type;
    const struct layout *l = r->v->layout;
    uint64_t definition, name, self;
    char text[128], type_name[REPR_TYPE_NAME];
    int rc = remote_u64(obj, l->cfunc_ml, &definition);
    if (rc == 0)
        rc = remote_u64(obj, l->cfunc_self, &self);
    if (rc == 0)
        rc = mem_read_u64(r->v->mem, definition, &name);
    if (rc == 0)
        rc = mem_read_cstr(r->v->mem, name, text, sizeof(text));
    if (rc != 0)
        return rc;
    bool method = self && py_type_name(r->v, self, type_name, sizeof(type_name)) == 0 &&
                  strcmp(type_name, "module") != 0;
    repr_add(r, method ? "<built-in method " : "<built-in function ");
    repr_add(r, text);
    if (!method) {
        repr_force(r, ">");
        return 0;
    }
    repr_add(r, " of ");
    repr_add(r, type_name);
    add_address(r, " object at ", self);
    return 0;
}

static int generator_name(struct repr *r, const struct remote *obj, uint64_t *ret_name)
{
    const struct layout *l = r->v->layout;
    uint64_t code;
    if (l->gen_qualname != LAYOUT_NONE)
        return remote_u64(obj, l->gen_qualname, ret_name);
    int rc = remote_u64(obj, l->gen_code, &code);
    return rc != 0 ? rc : mem_read_u64(r->v->mem, code + l->co_name, ret_name);
}

int repr_generator(struct repr *r, const struct remote *obj, const struct repr_type *type)
{
    uint64_t name;
    int rc = generator_name(r, obj, &name);
    if (rc != 0)
        return rc;
    repr_add(r, "<");
    repr_add(r, type->name);
    repr_add(r, " object ");
    repr_plain_str(r, name);
    add_address(r, " at ", obj->addr);
    return 0;
}

/* Where a module came from, as far as the import system says: a file, or "built-in", "frozen". */
static void add_origin(struct repr *r, scry_addr dict)
{
    scry_addr spec, origin, has_location;
    char type[16];
    if (py_dict_get_str(r->v, dict, "__spec__", &spec) == 0 &&
        py_instance_attr(r->v, spec, "origin", &origin) == 0 &&
        py_instance_attr(r->v, spec, "_set_fileattr", &has_location) == 0 &&
        py_type_name(r->v, origin, type, sizeof(type)) == 0 && strcmp(type, "str") == 0) {
        int64_t located = 0;
        py_long_read(r->v, has_location, &located);
        repr_add(r, located ? " from " : " (");
        if (located)
            repr_object(r, origin);
        else
            repr_plain_str(r, origin);
        repr_force(r, located ? "" : ")");
        return;
    }
    if (py_dict_get_str(r->v, dict, "__file__", &origin) == 0) {
        repr_add(r, " from ");
        repr_object(r, origin);
    }
}

int repr_module(struct repr *r, const struct remote *obj, const struct repr_type *type)
{
    (void)type;
    uint64_t dict, name;
    int rc = remote_u64(obj, r->v->layout->mod_dict, &dict);
    if (rc == 0)
        rc = py_dict_get_str(r->v, dict, "__name__", &name);
    if (rc != 0)
        return -SCRY_E_READ;
    repr_add(r, "<module ");
    repr_object(r, name);
    add_origin(r, dict);
    repr_force(r, ">");
    return 0;
}

int repr_class(struct repr *r, const struct remote *obj, const struct repr_type *type)
{
    (void)type;
    struct repr_type shown;
    int rc = repr_type_load(r, obj->addr, &shown);
    if (rc != 0)
        return rc;
    if (repr_is_enum(r, &shown.type)) {
        repr_add(r, "<enum '");
        repr_add(r, shown.name);
        repr_force(r, "'>");
        return 0;
    }
    bool is_type = r->v->layout->major == 2 && !(shown.type.flags & TYPE_HEAP);
    repr_add(r, is_type ? "<type '" : "<class '");
    repr_type_name(r, &shown);
    repr_force(r, "'>");
    return 0;
}

/* ValueError('text'): the last part of the type's name, and its arguments. Up to 3.6 a single
 * argument was followed by a comma, like a tuple. */
int repr_exception(struct repr *r, const struct remote *obj, const struct repr_type *type)
{
    const struct layout *l = r->v->layout;
    uint64_t args;
    size_t count;
    int rc = remote_u64(obj, l->exc_args, &args);
    if (rc == 0)
        rc = py_tuple_size(r->v, args, &count);
    if (rc != 0)
        return rc;
    const char *dot = strrchr(type->name, '.');
    repr_add(r, dot ? dot + 1 : type->name);
    repr_force(r, "(");
    for (size_t i = 0; i < count; i++) {
        scry_addr item;
        if (i > 0)
            repr_force(r, ", ");
        if (!repr_more(r))
            break;
        if (py_tuple_item(r->v, args, i, &item) < 0)
            repr_force(r, "?");
        else
            repr_object(r, item);
    }
    bool comma = count == 1 && (l->major == 2 || l->minor < 7);
    repr_force(r, comma ? ",)" : ")");
    return 0;
}

/* <Colour.RED: 1>. A combination of flags has no name of its own in older versions. */
int repr_enum(struct repr *r, const struct remote *obj, const struct repr_type *type)
{
    scry_addr name, value;
    char kind[8];
    if (py_instance_attr(r->v, obj->addr, "_name_", &name) != 0 ||
        py_instance_attr(r->v, obj->addr, "_value_", &value) != 0)
        return -SCRY_E_READ;
    repr_add(r, "<");
    repr_add(r, type->name);
    if (py_type_name(r->v, name, kind, sizeof(kind)) == 0 && strcmp(kind, "str") == 0) {
        repr_add(r, ".");
        repr_plain_str(r, name);
    }
    repr_add(r, ": ");
    repr_object(r, value);
    repr_force(r, ">");
    return 0;
}
