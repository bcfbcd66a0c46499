/* sys.modules["threading"]._active is {thread id: Thread}; a Thread keeps its name in one
 * attribute. */
#include "cpython/remote.h"

#define MAX_THREADS    65536
#define MAX_NAME_CHARS 256

struct visit {
    const struct py_view *v;
    const char *attribute;
    struct buf name;
    py_thread_name_callback callback;
    void *context;
};

/* One thread's trouble is its own: an entry that cannot be read is passed over. */
static int visit_thread(scry_addr key, scry_addr thread, void *context)
{
    struct visit *visit = context;
    int64_t id;
    scry_addr name;
    if (py_long_read(visit->v, key, &id) != 0 ||
        py_instance_attr(visit->v, thread, visit->attribute, &name) != 0)
        return 0;
    buf_reset(&visit->name);
    if (py_str_read(visit->v, name, MAX_NAME_CHARS, &visit->name) == 0)
        visit->callback((uint64_t)id, visit->name.data, visit->context);
    return 0;
}

int py_thread_names(const struct py_view *v, scry_addr interp, py_thread_name_callback callback,
                    void *context)
{
    scry_addr modules, threading, dict, active;
    int rc = mem_read_u64(v->mem, interp + v->layout->is_modules, &modules);
    if (rc == 0 && !modules)
        return 1; /* very early, or very late */
    if (rc == 0)
        rc = py_dict_get_str(v, modules, "threading", &threading);
    if (rc == 0)
        rc = mem_read_u64(v->mem, threading + v->layout->mod_dict, &dict);
    if (rc == 0)
        rc = py_dict_get_str(v, dict, "_active", &active);
    if (rc != 0)
        return rc;
    struct visit visit = {
        .v = v,
        .attribute = v->layout->major == 2 ? "_Thread__name" : "_name",
        .callback = callback,
        .context = context,
    };
    buf_init(&visit.name);
    rc = py_dict_each(v, active, MAX_THREADS, visit_thread, &visit);
    buf_done(&visit.name);
    return rc;
}
