/* Before 3.12: the profile function, which each thread has of its own. Sparse tracing sets it while one of the named
 * functions runs (hooks_named.c). */
#include "hooks.h"

#if !HAVE_MONITORING

static PyObject
    *hook_object; /* what threading.setprofile gets, and what a profile function is given */

static int profile(PyObject *object, PyFrameObject *frame, int what, PyObject *arg);

/* ---- events ---- */

static inline PyObject *code_of(PyFrameObject *frame)
{
#if PY_VERSION_HEX >= 0x030b0000
    PyCodeObject *code = PyFrame_GetCode(frame);
    Py_DECREF(code); /* the frame holds it */
    return (PyObject *)code;
#else
    return (PyObject *)frame->f_code;
#endif
}

static void begins(PyObject *code)
{
    struct lane *l = lane_here;
    if (unlikely(!l) && !(l = lane_enter()))
        return;
    uint32_t number = lane_code(l, code);
    if (likely(!tracer.full && !(number & NAME_SPECIAL)))
        lane_begin(l, code, number, WORD_BEGIN);
    else if (!(number & NAME_EXCLUDED))
        begin_python(l, code, number, WORD_BEGIN);
}

static void odd_end(struct lane *l, PyObject *code, unsigned kind)
{
    if (!l && !(l = lane_enter()))
        return;
    uint32_t number = lane_code(l, code);
    if (number & NAME_EXCLUDED)
        return;
    if (lane_unwind_to(l, code))
        lane_end_full(l, kind);
    else if (!tracer.options.sparse)
        lane_left(l, number);
}

static void ends(PyObject *code, PyObject *result)
{
    struct lane *l = lane_here;
    unsigned kind = result ? WORD_END : WORD_END_RAISE;
    if (unlikely(!l || l->top->key != code))
        odd_end(l, code, kind);
    else if (likely(!tracer.full))
        lane_end(l, kind);
    else
        end_python(l, kind, result, NULL);
}

static void c_begins(PyFrameObject *frame, PyObject *callable)
{
    struct lane *l = lane_here;
    if (unlikely(!l) && !(l = lane_enter()))
        return;
    const PyMethodDef *method = method_of(callable);
    if (unlikely(!method))
        return;
    if (unlikely(tracer.full) && (lane_code(l, code_of(frame)) & NAME_EXCLUDED))
        return;
    uint32_t number = lane_c(l, method, callable);
    if (unlikely(number & NAME_EXCLUDED))
        return;
    if (likely(!tracer.full))
        lane_begin(l, method, number, WORD_BEGIN_C);
    else
        lane_begin_full(l, method, number, WORD_BEGIN_C, &(struct prelude){0});
}

static void c_ends(PyObject *callable, unsigned kind)
{
    struct lane *l = lane_here;
    const PyMethodDef *method = method_of(callable);
    if (unlikely(!l || !method))
        return;
    if (unlikely(l->top->key != method) && !lane_unwind_to(l, method))
        return;
    if (likely(!tracer.full))
        lane_end(l, kind);
    else
        lane_end_full(l, kind);
}

static int profile(PyObject *object, PyFrameObject *frame, int what, PyObject *arg)
{
    (void)object;
    switch (what) {
    case PyTrace_CALL:
        begins(code_of(frame));
        break;
    case PyTrace_RETURN:
        ends(code_of(frame), arg);
        break;
    case PyTrace_C_CALL:
        if (tracer.options.c_functions)
            c_begins(frame, arg);
        break;
    case PyTrace_C_RETURN:
        if (tracer.options.c_functions)
            c_ends(arg, WORD_END);
        break;
    case PyTrace_C_EXCEPTION:
        if (tracer.options.c_functions)
            c_ends(arg, WORD_END_RAISE);
        break;
    default:
        break;
    }
    return 0;
}

/* ---- all threads ---- */

/* Set in each thread as PyEval_SetProfile() does in its own. */
static void set_profile_of(PyThreadState *tstate, Py_tracefunc function)
{
#if PY_VERSION_HEX >= 0x03090000
    if (tstate != PyThreadState_Get()) {
        if (_PyEval_SetProfile(tstate, function, function ? hook_object : NULL) < 0)
            PyErr_Clear();
        return;
    }
#else
    if (tstate != PyThreadState_Get()) {
        PyObject *old = tstate->c_profileobj;
        Py_XINCREF(function ? hook_object : NULL);
        tstate->c_profilefunc = function;
        tstate->c_profileobj = function ? hook_object : NULL;
        tstate->use_tracing = function || tstate->c_tracefunc;
        Py_XDECREF(old);
        return;
    }
#endif
    PyEval_SetProfile(function, function ? hook_object : NULL);
}

static void set_profile_everywhere(Py_tracefunc function)
{
    PyInterpreterState *interpreter = PyThreadState_Get()->interp;
    PyThreadState *t = PyInterpreterState_ThreadHead(interpreter);
    for (; t; t = PyThreadState_Next(t))
        if (function || t->c_profilefunc == profile)
            set_profile_of(t, function);
}

/* Called in a new thread, as a profile function in Python would be: the real one takes its place. */
static PyObject *new_thread_hook(PyObject *self, PyObject *args)
{
    (void)self, (void)args;
    if (tracer.on)
        PyEval_SetProfile(profile, hook_object);
    Py_RETURN_NONE;
}

static PyMethodDef new_thread_method = {"_thread_hook", new_thread_hook, METH_VARARGS, NULL};

int hooks_init(PyObject *module)
{
    (void)module;
    hook_object = PyCFunction_New(&new_thread_method, NULL);
    return hook_object ? named_init() : -1;
}

static int threading_setprofile(PyObject *function)
{
    PyObject *threading = PyImport_ImportModule("threading");
    PyObject *done = threading ? PyObject_CallMethod(threading, "setprofile", "O", function) : NULL;
    Py_XDECREF(threading);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static int somebody_else(void)
{
    PyInterpreterState *interpreter = PyThreadState_Get()->interp;
    PyThreadState *t = PyInterpreterState_ThreadHead(interpreter);
    for (; t; t = PyThreadState_Next(t)) {
        if (t->c_profilefunc && t->c_profilefunc != profile) {
            PyErr_SetString(PyExc_RuntimeError,
                            "another profiler is at work in this process (cProfile, "
                            "sys.setprofile, ...): stop it, then start scry's tracer");
            return -1;
        }
    }
    return 0;
}

/* ---- for sparse tracing ---- */

bool profile_here(void)
{
    if (PyThreadState_Get()->c_profilefunc)
        return false;
    PyEval_SetProfile(profile, hook_object);
    return true;
}

void profile_not_here(void)
{
    if (PyThreadState_Get()->c_profilefunc != profile)
        return;
    SAVE_ERROR;
    PyEval_SetProfile(NULL, NULL);
    RESTORE_ERROR;
}

/* ---- starting and stopping ---- */

int hooks_start(void)
{
    if (somebody_else() < 0)
        return -1;
    if (!tracer.options.sparse && threading_setprofile(hook_object) < 0)
        return -1;
    return hooks_resume();
}

int hooks_stop(void)
{
    int rc = hooks_pause();
    if (tracer.options.sparse)
        named_forget_all();
    else if (threading_setprofile(Py_None) < 0)
        rc = -1;
    return rc;
}

int hooks_pause(void)
{
    tracer.paused = true;
    if (tracer.options.sparse)
        named_hear(false);
    set_profile_everywhere(NULL);
    return 0;
}

int hooks_resume(void)
{
    tracer.paused = false;
    if (!tracer.options.sparse) {
        set_profile_everywhere(profile);
        return 0;
    }
    named_hear(true);
    if (lane_here && lane_here->active)
        profile_here(); /* whoever set it when that began unsets it */
    return 0;
}

int hooks_watch(PyObject *code, bool watch)
{
    return named_watch((PyCodeObject *)code, watch);
}

#endif
