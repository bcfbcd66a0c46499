/* Before 3.12: sparse tracing. The profile function is set in a thread while a named function runs there. To see one
 * start, the cheapest way that will do is taken:
 *
 * N1  Functions are called through their vectorcall, and that of a named one is ours. 3.11 asks for it only where the
 *     type is not exactly `function`: there they get a type of their own for the while. Other code pays nothing. (A
 *     debug build of 3.11 insists on that type: there all goes by N3, which does not see subscripts once they are
 *     specialised.)
 * N2  Generators and coroutines run when somebody steps them. While one that a named function made is alive, the
 *     interpreter's function that evaluates frames is ours, which all calls in Python pay for.
 * N3  So it is while a named function is not there yet, because its module is about to be run, and for functions
 *     inside of functions, as each call of the outer one makes another. */
#include "hooks.h"

#if !HAVE_MONITORING

#if PY_VERSION_HEX >= 0x030b0000
#define Py_BUILD_CORE 1
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE
typedef struct _PyInterpreterFrame *eval_frame_type;
#elif PY_VERSION_HEX >= 0x03090000
typedef PyFrameObject *eval_frame_type;
#else
#define Py_BUILD_CORE 1
#include <internal/pycore_pystate.h>
#undef Py_BUILD_CORE
typedef PyFrameObject *eval_frame_type;
#endif

#if PY_VERSION_HEX >= 0x030b0000 && defined(Py_DEBUG)
#define OWN_CALLS 0
#else
#define OWN_CALLS 1
#endif

#define STEPPED (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)

struct named { /* code that is waited for */
    PyCodeObject *code;
    PyObject *functions; /* a list: those that are called our way */
    Py_ssize_t
        references; /* to code without a function, when it was last looked at; 0: it has one */
};

static struct named *all;
static size_t count;
static bool hearing;    /* the tracer runs and is not paused */
static PyObject *alive; /* N2: weak references by their addresses */
static PyObject *gone;  /* their callback */
static _PyFrameEvalFunction usual_eval;
static bool evaluates; /* the function that evaluates frames is ours */

/* ---- N1 ---- */

static void follow(PyObject *generator);

static PyObject *named_call(PyObject *function, PyObject *const *args, size_t flags,
                            PyObject *names)
{
    PyCodeObject *code = (PyCodeObject *)((PyFunctionObject *)function)->func_code;
    bool stepped = code->co_flags & STEPPED;
    bool outermost = hearing && !stepped && profile_here();
    PyObject *result = _PyFunction_Vectorcall(function, args, flags, names);
    if (outermost)
        profile_not_here();
    if (stepped && result)
        follow(result);
    return result;
}

#if PY_VERSION_HEX >= 0x030b0000
/* As for functions of the usual type, which pickle knows by their type alone. */
static PyObject *reduce(PyObject *function, PyObject *nothing)
{
    (void)nothing;
    return PyObject_GetAttrString(function, "__qualname__");
}

static PyMethodDef named_methods[] = {
    {"__reduce__", reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyTypeObject named_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "function",
    .tp_methods = named_methods,
};

static int make_type(void)
{
    const PyTypeObject *usual = &PyFunction_Type;
    named_type.tp_base = &PyFunction_Type;
    named_type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_METHOD_DESCRIPTOR |
                          Py_TPFLAGS_HAVE_VECTORCALL;
    named_type.tp_basicsize = usual->tp_basicsize;
    named_type.tp_vectorcall_offset = usual->tp_vectorcall_offset;
    named_type.tp_call = usual->tp_call;
    named_type.tp_traverse = usual->tp_traverse;
    named_type.tp_clear = usual->tp_clear;
    named_type.tp_dealloc = usual->tp_dealloc;
    named_type.tp_descr_get = usual->tp_descr_get;
    return PyType_Ready(&named_type);
}

static void set_type(PyFunctionObject *function, PyTypeObject *type)
{
    function->func_version = 0; /* places that know it by its version look again */
    Py_SET_TYPE(function, type);
}
#else
#define named_type PyFunction_Type
static int make_type(void)
{
    return 0;
}

static void set_type(PyFunctionObject *function, PyTypeObject *type)
{
    (void)function, (void)type;
}
#endif

/* In a list: the functions with this code that are called the usual way. NULL: an exception is set. */
static PyObject *functions_of(PyCodeObject *code)
{
    PyObject *gc = PyImport_ImportModule("gc");
    PyObject *all_of_them = gc ? PyObject_CallMethod(gc, "get_referrers", "O", code) : NULL;
    PyObject *found = all_of_them ? PyList_New(0) : NULL;
    for (Py_ssize_t i = 0; found && i < PyList_GET_SIZE(all_of_them); i++) {
        PyFunctionObject *f = (PyFunctionObject *)PyList_GET_ITEM(all_of_them, i);
        if (Py_TYPE(f) == &PyFunction_Type && f->func_code == (PyObject *)code &&
            f->vectorcall == _PyFunction_Vectorcall && PyList_Append(found, (PyObject *)f) < 0)
            Py_CLEAR(found);
    }
    Py_XDECREF(all_of_them);
    Py_XDECREF(gc);
    return found;
}

static void set_calls(const struct named *n, bool ours)
{
    for (Py_ssize_t i = 0; OWN_CALLS && n->functions && i < PyList_GET_SIZE(n->functions); i++) {
        PyFunctionObject *f = (PyFunctionObject *)PyList_GET_ITEM(n->functions, i);
        f->vectorcall = ours ? named_call : _PyFunction_Vectorcall;
        set_type(f, ours ? &named_type : &PyFunction_Type);
    }
}

/* ---- frames ---- */

#if PY_VERSION_HEX >= 0x03090000
#define EVAL_PARAMETERS PyThreadState *tstate, eval_frame_type frame, int thrown
#define EVAL_ARGUMENTS  tstate, frame, thrown
#else
#define EVAL_PARAMETERS eval_frame_type frame, int thrown
#define EVAL_ARGUMENTS  frame, thrown
#endif

static void meet(void);

static PyObject *eval_named(EVAL_PARAMETERS)
{
    meet();
    bool outermost = unlikely(name_is_sparse(frame->f_code)) && hearing && profile_here();
    PyObject *result = usual_eval(EVAL_ARGUMENTS);
    if (outermost)
        profile_not_here();
    return result;
}

static void set_eval(bool ours)
{
    PyInterpreterState *interpreter = PyThreadState_Get()->interp;
#if PY_VERSION_HEX >= 0x03090000
    _PyFrameEvalFunction now = _PyInterpreterState_GetEvalFrameFunc(interpreter);
#else
    _PyFrameEvalFunction now = interpreter->eval_frame;
#endif
    if (ours)
        usual_eval = now;
    else if (now != eval_named)
        return; /* somebody took our place, and goes on to us */
    evaluates = ours;
#if PY_VERSION_HEX >= 0x03090000
    _PyInterpreterState_SetEvalFrameFunc(interpreter, ours ? eval_named : usual_eval);
#else
    interpreter->eval_frame = ours ? eval_named : usual_eval;
#endif
}

static bool needs_eval(const struct named *n)
{
    return !OWN_CALLS || n->references || (n->code->co_flags & CO_NESTED);
}

static void update_eval(void)
{
    bool wanted = alive && PyDict_Size(alive) > 0;
    for (size_t i = 0; i < count && !wanted; i++)
        wanted = needs_eval(&all[i]);
    wanted = wanted && hearing;
    if (wanted != evaluates)
        set_eval(wanted);
}

/* ---- N2 ---- */

static void follow(PyObject *generator)
{
    PyObject *reference = PyWeakref_NewRef(generator, gone);
    PyObject *key = reference ? PyLong_FromVoidPtr(reference) : NULL;
    if (!key || PyDict_SetItem(alive, key, reference) < 0)
        PyErr_Clear(); /* no memory: this one is not seen */
    Py_XDECREF(key);
    Py_XDECREF(reference);
    update_eval();
}

static PyObject *on_gone(PyObject *self, PyObject *reference)
{
    (void)self;
    PyObject *key = PyLong_FromVoidPtr(reference);
    if (!key || PyDict_DelItem(alive, key) < 0)
        PyErr_Clear();
    Py_XDECREF(key);
    update_eval();
    Py_RETURN_NONE;
}

static bool was_made_by(PyObject *object, PyCodeObject *code)
{
    PyTypeObject *type = Py_TYPE(object);
    const char *name = type == &PyGen_Type        ? "gi_code"
                       : type == &PyCoro_Type     ? "cr_code"
                       : type == &PyAsyncGen_Type ? "ag_code"
                                                  : NULL;
    PyObject *its_code = name ? PyObject_GetAttrString(object, name) : NULL;
    Py_XDECREF(its_code);
    PyErr_Clear();
    return its_code == (PyObject *)code;
}

/* Generators of this code that are there already. */
static int follow_existing(PyCodeObject *code)
{
    PyObject *gc = PyImport_ImportModule("gc");
    PyObject *objects = gc ? PyObject_CallMethod(gc, "get_objects", NULL) : NULL;
    for (Py_ssize_t i = 0; objects && i < PyList_GET_SIZE(objects); i++)
        if (was_made_by(PyList_GET_ITEM(objects, i), code))
            follow(PyList_GET_ITEM(objects, i));
    Py_XDECREF(objects);
    Py_XDECREF(gc);
    return objects ? 0 : -1;
}

/* ---- N3 ---- */

static struct named *find(const PyCodeObject *code)
{
    for (size_t i = 0; i < count; i++)
        if (all[i].code == code)
            return &all[i];
    return NULL;
}

static void found(struct named *n, PyObject *functions)
{
    Py_XDECREF(n->functions);
    Py_INCREF(functions);
    n->functions = functions;
    n->references = 0;
    set_calls(n, true);
    update_eval();
}

/* A function refers to its code: with more references than before there may be one. While it is looked for others may
 * run, and name more or fewer. */
static void look_again(struct named *n)
{
    PyCodeObject *code = n->code;
    Py_ssize_t before = n->references;
    n->references = Py_REFCNT(code);
    if (n->references <= before)
        return;
    SAVE_ERROR;
    Py_INCREF(code);
    PyObject *functions = functions_of(code);
    n = find(code);
    if (n && functions && PyList_GET_SIZE(functions))
        found(n, functions);
    Py_DECREF(code);
    Py_XDECREF(functions);
    PyErr_Clear();
    RESTORE_ERROR;
}

/* Looking is audited, and who audits may be written in Python: that is not looked at in turn. */
static void meet(void)
{
    static bool looking;
    for (size_t i = 0; i < count && !looking; i++) {
        if (all[i].references && Py_REFCNT(all[i].code) != all[i].references) {
            looking = true;
            look_again(&all[i]);
            looking = false;
        }
    }
}

/* ---- what hooks_profile.c calls ---- */

static PyMethodDef gone_method = {"_generator_gone", on_gone, METH_O, NULL};

int named_init(void)
{
    alive = PyDict_New();
    gone = PyCFunction_New(&gone_method, NULL);
    return alive && gone ? make_type() : -1;
}

void named_hear(bool on)
{
    hearing = on;
    update_eval();
}

static void forget(struct named *n)
{
    struct named gone_one = *n;
    *n = all[--count];
    set_calls(&gone_one, false);
    Py_CLEAR(gone_one.functions);
    Py_CLEAR(gone_one.code);
}

static int remember(PyCodeObject *code)
{
    struct named n = {.functions = functions_of(code)};
    struct named *grown = n.functions ? realloc(all, (count + 1) * sizeof(*all)) : NULL;
    if (!grown) {
        if (n.functions)
            PyErr_NoMemory();
        Py_XDECREF(n.functions);
        return -1;
    }
    all = grown;
    Py_INCREF(code);
    n.code = code;
    n.references = PyList_GET_SIZE(n.functions) ? 0 : Py_REFCNT(code);
    all[count++] = n;
    set_calls(&n, true);
    return code->co_flags & STEPPED ? follow_existing(code) : 0;
}

int named_watch(PyCodeObject *code, bool watch)
{
    struct named *n = find(code);
    int rc = 0;
    if (watch && !n)
        rc = remember(code);
    else if (!watch && n)
        forget(n);
    update_eval();
    return rc;
}

void named_forget_all(void)
{
    while (count)
        forget(&all[count - 1]);
    PyDict_Clear(alive);
    named_hear(false);
}

#endif
