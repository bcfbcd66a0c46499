/* The module scry._tracer: what the Python side calls. */
#include "hooks.h"
#include "read.h"
#include "write.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

struct tracer tracer;
#ifdef Py_GIL_DISABLED
PyMutex tracer_mutex;
#endif

/* ---- starting ---- */

static int read_patterns(PyObject *list, struct patterns *to)
{
    PyObject *items = PySequence_Fast(list, "patterns are a list");
    if (!items)
        return -1;
    int rc = 0;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items) && rc == 0; i++) {
        const char *text = PyUnicode_AsUTF8(PySequence_Fast_GET_ITEM(items, i));
        if (!text)
            rc = -1;
        else if (!patterns_add(to, text))
            rc = (PyErr_NoMemory(), -1);
    }
    Py_DECREF(items);
    return rc;
}

static void fill_head(const char *command)
{
    struct image_head *h = tracer.image.head;
    h->flags = clock_is_tsc ? IMAGE_TSC : 0;
    h->pid = getpid();
    h->parent = getppid();
    h->start = clock_anchor();
    h->wall_ns = clock_ns(CLOCK_REALTIME);
    h->min_duration = tracer.options.min_duration;
    h->python = PY_VERSION_HEX;
    snprintf(h->command, sizeof(h->command), "%s", command);
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file) {
        if (!fgets(h->boot, sizeof(h->boot), file))
            h->boot[0] = 0;
        fclose(file);
    }
}

/* A hundredth of a second is measured the first time a shortest duration is asked for. */
static uint64_t ticks_of(uint64_t ns)
{
    static double ticks_per_ns;
    if (!ns)
        return 0;
    if (!clock_is_tsc)
        return ns;
    if (ticks_per_ns == 0) {
        struct anchor a = clock_anchor(), b = a;
        while (b.ns - a.ns < 10000000)
            b = clock_anchor();
        ticks_per_ns = (double)(b.ticks - a.ticks) / (double)(b.ns - a.ns);
    }
    return (uint64_t)((double)ns * ticks_per_ns * 0.999);
}

static int open_image(PyObject *path, unsigned long long memory, const char *command)
{
    PyObject *bytes = NULL;
    if (path != Py_None && !PyUnicode_FSConverter(path, &bytes))
        return -1;
    int rc = image_open(&tracer.image, bytes ? PyBytes_AS_STRING(bytes) : NULL, memory);
    Py_XDECREF(bytes);
    if (rc) {
        errno = rc;
        PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, path == Py_None ? NULL : path);
        return -1;
    }
    tracer.generation++;
    __atomic_add_fetch(&tracer.epoch, 1, __ATOMIC_RELAXED);
    tracer.thread_count = 0;
    tracer.lost = 0;
    fill_head(command);
    return 0;
}

static bool needs_full(const struct tracer_options *o, const struct filter *f)
{
    return o->arguments || o->results || o->sparse || o->max_depth || o->min_duration ||
           f->include.count || f->exclude.count || f->ignore_frozen;
}

static void forget_options(void)
{
    filter_done(&tracer.filter);
    Py_CLEAR(tracer.repr);
}

static int read_options(PyObject *args, PyObject *names, PyObject **ret_path,
                        unsigned long long *ret_memory, const char **ret_command)
{
    static char *keywords[] = {
        "path", "memory",      "command",   "include",   "exclude",      "folder",      "own",
        "repr", "c_functions", "arguments", "results",   "exceptions",   "collections", "tasks",
        "left", "sparse",      "frozen",    "max_depth", "min_duration", NULL,
    };
    struct tracer_options *o = &tracer.options;
    PyObject *include, *exclude, *repr;
    const char *folder, *own;
    int c_functions, arguments, results, exceptions, collections, tasks, left, sparse, frozen;
    unsigned long long min_duration;
    unsigned max_depth;
    if (!PyArg_ParseTupleAndKeywords(
            args, names, "$OKsOOssOpppppppppIK", keywords, ret_path, ret_memory, ret_command,
            &include, &exclude, &folder, &own, &repr, &c_functions, &arguments, &results,
            &exceptions, &collections, &tasks, &left, &sparse, &frozen, &max_depth, &min_duration))
        return -1;
    *o = (struct tracer_options){
        .c_functions = c_functions,
        .arguments = arguments,
        .results = results,
        .exceptions = exceptions,
        .collections = collections,
        .tasks = tasks,
        .left = left,
        .sparse = sparse,
        .max_depth = max_depth,
        .min_duration = min_duration,
    };
    tracer.filter.ignore_frozen = !frozen;
    tracer.filter.folder = strdup(folder);
    tracer.filter.own = strdup(own);
    Py_INCREF(repr);
    tracer.repr = repr;
    if (read_patterns(include, &tracer.filter.include) < 0 ||
        read_patterns(exclude, &tracer.filter.exclude) < 0)
        return -1;
    tracer.full = needs_full(o, &tracer.filter);
    tracer.min_ticks = ticks_of(min_duration);
    return 0;
}

static PyObject *start(PyObject *self, PyObject *args, PyObject *names)
{
    (void)self;
    PyObject *path;
    const char *command;
    unsigned long long memory;
    if (tracer.on) {
        PyErr_SetString(PyExc_RuntimeError, "scry is tracing already: there is one tracer in a "
                                            "process, stop it first");
        return NULL;
    }
    image_close(&tracer.image);
    if (read_options(args, names, &path, &memory, &command) < 0 ||
        open_image(path, memory, command) < 0) {
        forget_options();
        return NULL;
    }
    lanes_reset();
    tasks_forget();
    tracer.active_lanes = 0;
    tracer.paused = false;
    tracer.on = true;
    tracer.forked = false;
    if (hooks_start() < 0) {
        tracer.on = false;
        lanes_close();
        image_close(&tracer.image);
        forget_options();
        return NULL;
    }
    Py_RETURN_NONE;
}

/* ---- stopping ---- */

static bool require_on(void)
{
    if (!tracer.on)
        PyErr_SetString(PyExc_RuntimeError, "scry is not tracing");
    return tracer.on;
}

static PyObject *stop(PyObject *self, PyObject *none_given)
{
    (void)self, (void)none_given;
    if (!require_on())
        return NULL;
    int rc = hooks_stop();
    lanes_name();
    tracer.image.head->end = clock_anchor();
    tracer.image.head->flags |= IMAGE_FINISHED;
    tracer.on = false;
    lanes_close();
    forget_options();
    if (rc < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *pause_tracing(PyObject *self, PyObject *none_given)
{
    (void)self, (void)none_given;
    if (!require_on() || hooks_pause() < 0)
        return NULL;
    Py_RETURN_NONE;
}

#if PY_VERSION_HEX < 0x03090000
static PyFrameObject *PyFrame_GetBack(PyFrameObject *frame)
{
    Py_XINCREF(frame->f_back);
    return frame->f_back;
}

static PyCodeObject *PyFrame_GetCode(PyFrameObject *frame)
{
    Py_INCREF(frame->f_code);
    return frame->f_code;
}
#endif

/* Is a call by this key open in this thread? */
static bool runs(const void *key)
{
    PyFrameObject *frame = PyEval_GetFrame();
    bool found = false;
    Py_XINCREF(frame);
    while (frame && !found) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        found = (const void *)code == key;
        Py_DECREF(code);
        PyFrameObject *back = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = back;
    }
    Py_XDECREF(frame);
    return found;
}

/* What returned in this thread meanwhile is no longer open. */
static PyObject *resume_tracing(PyObject *self, PyObject *none_given)
{
    (void)self, (void)none_given;
    if (!require_on())
        return NULL;
    struct lane *l = lane_here;
    while (l && l->top > l->stack && !runs(l->top->key))
        lane_end_full(l, WORD_END);
    if (hooks_resume() < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* Memory of what was recorded goes back. */
static PyObject *clear(PyObject *self, PyObject *none_given)
{
    (void)self, (void)none_given;
    if (tracer.on) {
        PyErr_SetString(PyExc_RuntimeError, "scry is tracing: stop it first");
        return NULL;
    }
    image_close(&tracer.image);
    Py_RETURN_NONE;
}

static PyObject *is_on(PyObject *self, PyObject *none_given)
{
    (void)self, (void)none_given;
    return PyBool_FromLong(tracer.on);
}

static PyObject *statistics(PyObject *self, PyObject *none_given)
{
    (void)self, (void)none_given;
    unsigned long long dropped = tracer.image.head ? tracer.image.head->dropped : 0;
    return Py_BuildValue("{sOsKsKsIsI}", "on", tracer.on ? Py_True : Py_False, "dropped", dropped,
                         "lost", (unsigned long long)tracer.lost, "slots", tracer.image.slot_count,
                         "lanes", tracer.lane_count);
}

/* ---- sparse ---- */

static PyObject *watch(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *code;
    int on;
    if (!PyArg_ParseTuple(args, "O!p", &PyCode_Type, &code, &on))
        return NULL;
    if (name_mark_sparse((PyCodeObject *)code, on) < 0 || hooks_watch(code, on) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* ---- events from code ---- */

static struct lane *writing_lane(void)
{
    struct lane *l = tracer.on ? lane_enter() : NULL;
    return l && !(tracer.options.sparse && !l->active) ? l : NULL;
}

static uint32_t defined_text(const char *text)
{
    tracer_lock();
    uint32_t number = name_of_text(text);
    tracer_unlock();
    return number & WORD_NUMBER_MAX;
}

/* event(kind, name, json, since): kind is one of data_kind. */
static PyObject *put_event(PyObject *self, PyObject *args)
{
    (void)self;
    int kind;
    const char *name, *json;
    Py_ssize_t bytes;
    unsigned long long since;
    if (!PyArg_ParseTuple(args, "iss#K", &kind, &name, &json, &bytes, &since))
        return NULL;
    struct lane *l = writing_lane();
    if (!l)
        Py_RETURN_FALSE;
    struct {
        uint32_t name, zero;
        uint64_t since;
    } head = {defined_text(name), 0, since};
    if ((size_t)bytes > DATA_BYTES_MAX - 64)
        bytes = 0; /* half of it would be no JSON */
    lane_data(l, (enum data_kind)kind, &head, kind == DATA_SPAN ? sizeof(head) : 4, json,
              (size_t)bytes);
    Py_RETURN_TRUE;
}

static PyObject *ticks(PyObject *self, PyObject *none_given)
{
    (void)self, (void)none_given;
    return PyLong_FromUnsignedLongLong(clock_ticks());
}

/* A callback of gc.callbacks. */
static PyObject *on_collection(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    (void)self;
    static const int key;
    const char *phase = count == 2 && PyUnicode_Check(args[0]) ? PyUnicode_AsUTF8(args[0]) : NULL;
    struct lane *l = phase && tracer.on && tracer.options.collections ? writing_lane() : NULL;
    if (!l)
        Py_RETURN_NONE;
    if (strcmp(phase, "start") == 0) {
        char name[64];
        PyObject *generation = PyMapping_GetItemString(args[1], "generation");
        long which = generation ? PyLong_AsLong(generation) : -1;
        Py_XDECREF(generation);
        PyErr_Clear();
        snprintf(name, sizeof(name), "garbage collection, generation %ld", which);
        lane_begin_full(l, &key, defined_text(name), WORD_BEGIN_GC, &(struct prelude){0});
    } else if (lane_unwind_to(l, &key)) {
        lane_end_full(l, WORD_END);
    }
    Py_RETURN_NONE;
}

/* ---- fork ---- */

/* At once in the child, before any Python: the image is the parent's, and nothing may be written to it. */
static void forked(void)
{
#ifdef Py_GIL_DISABLED
    tracer_mutex = (PyMutex){0}; /* who held it is not there */
#endif
    if (!tracer.on)
        return;
    tracer.forked = true;
    lanes_forked();
}

/* after_fork(path, memory, command): the child's own image; path None: it is not traced. */
static PyObject *after_fork(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *path;
    unsigned long long memory;
    const char *command;
    if (!PyArg_ParseTuple(args, "OKs", &path, &memory, &command))
        return NULL;
    if (!tracer.on || !tracer.forked)
        Py_RETURN_NONE;
    image_close(&tracer.image);
    if (path == Py_None || open_image(path, memory, command) < 0) {
        PyErr_Clear();
        int rc = hooks_stop();
        tracer.on = tracer.forked = false;
        lanes_close();
        forget_options();
        if (rc < 0)
            return NULL;
        Py_RETURN_NONE;
    }
    tasks_forget();
    tracer.forked = false;
    if (lane_here)
        lane_reopen(lane_here);
    Py_RETURN_NONE;
}

/* ---- output ---- */

static PyObject *convert(PyObject *self, PyObject *args, PyObject *names)
{
    (void)self;
    static char *keywords[] = {"paths", "own", "output", "format", "progress", NULL};
    PyObject *paths, *output, *progress;
    const char *format;
    int own;
    if (!PyArg_ParseTupleAndKeywords(args, names, "$OpO&sO", keywords, &paths, &own,
                                     PyUnicode_FSConverter, &output, &format, &progress))
        return NULL;
    PyObject *result = convert_images(paths, own ? &tracer.image : NULL, PyBytes_AS_STRING(output),
                                      format, progress);
    Py_DECREF(output);
    return result;
}

/* ---- the module ---- */

#define WITH_NAMES(function) (PyCFunction)(void (*)(void))(function)

static PyMethodDef methods[] = {
    {"start", WITH_NAMES(start), METH_VARARGS | METH_KEYWORDS, "start(**options): begin to trace"},
    {"stop", stop, METH_NOARGS, "stop(): what was recorded stays until clear() or start()"},
    {"pause", pause_tracing, METH_NOARGS, "pause(): hear nothing until resume()"},
    {"resume", resume_tracing, METH_NOARGS, "resume()"},
    {"clear", clear, METH_NOARGS, "clear(): give back the memory of what was recorded"},
    {"is_on", is_on, METH_NOARGS, "is_on()"},
    {"statistics", statistics, METH_NOARGS, "statistics()"},
    {"watch", watch, METH_VARARGS, "watch(code, on): sparse tracing waits for this code"},
    {"event", put_event, METH_VARARGS, "event(kind, name, json, since)"},
    {"ticks", ticks, METH_NOARGS, "ticks(): now, on the tracer's clock"},
    {"collection", WITH_NAMES(on_collection), METH_FASTCALL, "a callback for gc.callbacks"},
    {"after_fork", after_fork, METH_VARARGS, "after_fork(path, memory, command)"},
    {"convert", WITH_NAMES(convert), METH_VARARGS | METH_KEYWORDS,
     "convert(*, paths, own, output, format, progress): what was recorded as a file"},
    {NULL, NULL, 0, NULL},
};

static int module_exec(PyObject *module)
{
    static bool done;
    if (done) {
        PyErr_SetString(PyExc_ImportError, "scry._tracer can be loaded once in a process");
        return -1;
    }
    tracer.image.fd = -1;
    clock_init();
    if (names_init() < 0 || lane_init() < 0 || hooks_init(module) < 0)
        return -1;
    if (pthread_atfork(NULL, NULL, forked) != 0) {
        PyErr_NoMemory();
        return -1;
    }
    done = true;
    return PyModule_AddIntConstant(module, "HAVE_MONITORING", HAVE_MONITORING) < 0 ||
                   PyModule_AddIntConstant(module, "INSTANT", DATA_INSTANT) < 0 ||
                   PyModule_AddIntConstant(module, "COUNTER", DATA_COUNTER) < 0 ||
                   PyModule_AddIntConstant(module, "SPAN", DATA_SPAN) < 0
               ? -1
               : 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, module_exec},
#if PY_VERSION_HEX >= 0x030c0000
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
#ifdef Py_GIL_DISABLED
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "scry._tracer", .m_doc = "The tracer of scry; use scry.trace.",
    .m_size = 0,           .m_methods = methods,     .m_slots = slots,
};

__attribute__((visibility("default"))) PyMODINIT_FUNC PyInit__tracer(void);
PyMODINIT_FUNC PyInit__tracer(void)
{
    return PyModuleDef_Init(&definition);
}
