#include "names.h"

#include <stdlib.h>
#include <string.h>

struct name {
    char *text, *file; /* file "": not Python */
    int line;
    uint32_t hash;
    uint32_t generation; /* start of the tracer it was defined for last */
    uint32_t flags;      /* as they hold for that start */
    bool coroutine;
};

static struct name *table; /* by number; number 0 is NAME_UNKNOWN */
static uint32_t count, cap;
static uint32_t *buckets; /* open addressing; 0: empty */
static uint32_t bucket_mask;
static Py_ssize_t extra_index = -1;

#if PY_VERSION_HEX < 0x030c0000
#define PyUnstable_Eval_RequestCodeExtraIndex _PyEval_RequestCodeExtraIndex
#define PyUnstable_Code_GetExtra              _PyCode_GetExtra
#define PyUnstable_Code_SetExtra              _PyCode_SetExtra
#endif

#define OWN_MODULE "scry._tracer."

/* What hangs on a code object: its number << 2 | marked << 1 | 1. */
#define EXTRA_SPARSE 2u

/* A code object has gone, and its address may be given to another one. */
static void code_gone(void *extra)
{
    if (extra)
        __atomic_add_fetch(&tracer.epoch, 1, __ATOMIC_RELAXED);
}

int names_init(void)
{
    if (extra_index >= 0)
        return 0;
    extra_index = PyUnstable_Eval_RequestCodeExtraIndex(code_gone);
    if (extra_index < 0) {
        PyErr_SetString(PyExc_RuntimeError,
                        "too many tools have attached data to code objects: no room for scry");
        return -1;
    }
    return 0;
}

/* ---- the table ---- */

static uint32_t hash_of(const char *text, const char *file, int line)
{
    uint32_t h = 2166136261u ^ (uint32_t)line;
    for (const char *p = text; *p; p++)
        h = (h ^ (unsigned char)*p) * 16777619u;
    for (const char *p = file; *p; p++)
        h = (h ^ (unsigned char)*p) * 16777619u;
    return h;
}

static bool grow_buckets(void)
{
    uint32_t size = bucket_mask ? (bucket_mask + 1) * 2 : 1024;
    uint32_t *fresh = calloc(size, sizeof(*fresh));
    if (!fresh)
        return false;
    for (uint32_t n = 1; n < count; n++) {
        uint32_t at = table[n].hash & (size - 1);
        while (fresh[at])
            at = (at + 1) & (size - 1);
        fresh[at] = n;
    }
    free(buckets);
    buckets = fresh;
    bucket_mask = size - 1;
    return true;
}

static bool make_room(void)
{
    if (count == cap) {
        uint32_t more = cap ? cap * 2 : 512;
        struct name *grown = realloc(table, more * sizeof(*grown));
        if (!grown)
            return false;
        table = grown;
        cap = more;
        if (!count)
            table[count++] = (struct name){.text = (char *)"?", .file = (char *)""};
    }
    return (bucket_mask && count < bucket_mask / 2) || grow_buckets();
}

/* The number of this content, new or known; NAME_UNKNOWN when there is no room. */
static uint32_t intern(const char *text, const char *file, int line)
{
    if (!make_room() || count > WORD_NUMBER_MAX)
        return NAME_UNKNOWN;
    uint32_t hash = hash_of(text, file, line);
    uint32_t at = hash & bucket_mask;
    for (; buckets[at]; at = (at + 1) & bucket_mask) {
        const struct name *n = &table[buckets[at]];
        if (n->hash == hash && n->line == line && strcmp(n->text, text) == 0 &&
            strcmp(n->file, file) == 0)
            return buckets[at];
    }
    struct name *n = &table[count];
    *n = (struct name){.text = strdup(text), .file = strdup(file), .line = line, .hash = hash};
    if (!n->text || !n->file) {
        free(n->text);
        free(n->file);
        return NAME_UNKNOWN;
    }
    buckets[at] = count;
    return count++;
}

/* Written into the image of this start, if it was not yet; not by a child that has none of its own, as the image is its
 * parent's. That asks again when it has one. */
static uint32_t define(uint32_t number)
{
    if (number == NAME_UNKNOWN)
        return NAME_UNKNOWN;
    struct name *n = &table[number];
    if (n->generation == tracer.generation)
        return number | n->flags;
    struct definition d = {.kind = DEFINE_NAME, .number = number, .line = n->line};
    if (!tracer.forked && !image_define(&tracer.image, &d, n->text, n->file))
        return NAME_UNKNOWN;
    n->flags = n->coroutine && tracer.options.tasks ? NAME_COROUTINE : 0;
    if (n->file[0] ? filter_excludes(&tracer.filter, n->file)
                   : strncmp(n->text, OWN_MODULE, sizeof(OWN_MODULE) - 1) == 0)
        n->flags |= NAME_EXCLUDED;
    if (!tracer.forked)
        n->generation = tracer.generation;
    return number | n->flags;
}

void name_define_again(uint32_t number)
{
    tracer_lock();
    if (number < count)
        define(number);
    tracer_unlock();
}

uint32_t name_of_text(const char *text)
{
    return define(intern(text, "", 0));
}

/* ---- code objects ---- */

static const char *utf8(PyObject *text, const char *otherwise)
{
    const char *s = text && PyUnicode_Check(text) ? PyUnicode_AsUTF8(text) : NULL;
    if (!s)
        PyErr_Clear(); /* lone surrogates, or no memory */
    return s ? s : otherwise;
}

static uint32_t intern_code(PyCodeObject *code)
{
#if PY_VERSION_HEX >= 0x030b0000
    PyObject *name = code->co_qualname;
#else
    PyObject *name = code->co_name;
#endif
    const char *file = utf8(code->co_filename, "?");
    uint32_t number = intern(utf8(name, "?"), file[0] ? file : "?", code->co_firstlineno);
    if (number != NAME_UNKNOWN)
        table[number].coroutine =
            code->co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE);
    return number;
}

static uintptr_t extra_of(PyCodeObject *code)
{
    void *extra = NULL;
    if (PyUnstable_Code_GetExtra((PyObject *)code, extra_index, &extra) < 0)
        PyErr_Clear();
    return (uintptr_t)extra;
}

static uint32_t number_of_code(PyCodeObject *code)
{
    uintptr_t extra = extra_of(code);
    if (extra)
        return (uint32_t)(extra >> 2);
    uint32_t number = intern_code(code);
    extra = (uintptr_t)number << 2 | 1;
    /* Without the mark nobody would tell that the address is free again. */
    if (number && PyUnstable_Code_SetExtra((PyObject *)code, extra_index, (void *)extra) < 0) {
        PyErr_Clear();
        return NAME_UNKNOWN;
    }
    return number;
}

uint32_t name_of_code(PyCodeObject *code)
{
    tracer_lock();
    uint32_t number = define(number_of_code(code));
    if (tracer.options.sparse && (extra_of(code) & EXTRA_SPARSE))
        number = (number & ~(uint32_t)NAME_EXCLUDED) | NAME_SPARSE;
    tracer_unlock();
    return number;
}

int name_mark_sparse(PyCodeObject *code, bool marked)
{
    tracer_lock();
    uint32_t number = number_of_code(code);
    uintptr_t extra = (uintptr_t)number << 2 | 1 | (marked ? EXTRA_SPARSE : 0);
    /* Setting calls code_gone() for the old value, so lanes look again. */
    int rc = number ? PyUnstable_Code_SetExtra((PyObject *)code, extra_index, (void *)extra) : -1;
    __atomic_add_fetch(&tracer.epoch, 1, __ATOMIC_RELAXED);
    tracer_unlock();
    if (rc < 0 && !PyErr_Occurred())
        PyErr_NoMemory();
    return rc;
}

bool name_is_sparse(PyCodeObject *code)
{
    return extra_of(code) & EXTRA_SPARSE;
}

/* ---- functions in C ---- */

/* The class that has the method: `defaultdict.get` is dict's. */
static const char *class_with(PyTypeObject *type, const PyMethodDef *method)
{
    PyObject *mro = type->tp_mro;
    for (Py_ssize_t i = 0; mro && PyTuple_Check(mro) && i < PyTuple_GET_SIZE(mro); i++) {
        PyTypeObject *base = (PyTypeObject *)PyTuple_GET_ITEM(mro, i);
        for (const PyMethodDef *m = base->tp_methods; m && m->ml_name; m++)
            if (m == method)
                return base->tp_name;
    }
    return type->tp_name;
}

static const char *owner_of(const PyMethodDef *method, PyObject *callable)
{
    if (Py_TYPE(callable) == &PyMethodDescr_Type)
        return PyDescr_TYPE(callable)->tp_name;
    PyObject *self = PyCFunction_GET_SELF(callable);
    if (self && !PyModule_Check(self))
        return PyType_Check(self) ? ((PyTypeObject *)self)->tp_name
                                  : class_with(Py_TYPE(self), method);
    return utf8(((PyCFunctionObject *)callable)->m_module, NULL);
}

uint32_t name_of_c(const PyMethodDef *method, PyObject *callable)
{
    char text[512];
    const char *owner = owner_of(method, callable);
    snprintf(text, sizeof(text), "%s%s%s", owner ? owner : "", owner ? "." : "", method->ml_name);
    tracer_lock();
    uint32_t number = define(intern(text, "", 0));
    tracer_unlock();
    return number;
}
