/* From 3.12 on: callbacks of sys.monitoring. Each is an object with a vectorcall of its own, so that the interpreter
 * gets to the function without the checks a built-in function passes through.
 *
 * Each hook exists twice: the short way for the usual options, and the full one. */
#include "hooks.h"

#if HAVE_MONITORING

#include <structmember.h>

#define TOOL_NAME "scry"
/* Events nobody wanted that cost about as much as turning them off and on again, outside of sparse tracing's functions. */
#define GATED_LIMIT 200u

struct hook {
    PyObject_HEAD vectorcallfunc call;
};

static int tool = -1;
static PyObject *set_events, *set_local_events, *restart, *disable;
static struct monitoring_events { /* as bits; see hooks_init() */
    unsigned start, resume, returned, yielded, call, unwind, thrown, c_return, c_raise, raise;
} event;
static unsigned all_events;      /* for this start */
static unsigned events_now;      /* that are on */
static uint32_t disabled_places; /* by a pause: they are to be heard again when it is over */

/* The functions that these places are in: while they are few, they alone are changed back, by hear_again(). */
#define DEAF_MOST 16u
static struct deaf {
    PyObject *codes[DEAF_MOST];
    uint32_t count;
    bool more; /* than there is room for */
} deaf;

/* How many events of a pause are ignored one by one before they are turned off. Turning them on again makes the interpreter
 * go through the code of functions, some nanoseconds for each instruction: what that takes here is measured, and a pause pays
 * it when it has ignored events for as long. Pauses resemble one another: after such a one the next few do not wait. */
#define EVENT_NS       16u /* an ignored one */
#define PLACE_NS       80u /* a place that was turned off, when it is next come by */
#define PATIENCE_LEAST 16u
#define PATIENCE_FIRST 256u
#define PATIENCE_MOST  8192u
#define ALIKE          15u
static struct patience {
    uint32_t limit; /* of this pause */
    uint32_t worth; /* events that cost as much as turning them on again */
    uint32_t last;  /* by the last measurement alone */
    uint32_t alike; /* pauses yet to come that are taken to be long */
} patience = {.worth = PATIENCE_FIRST, .last = PATIENCE_FIRST};

/* ---- turning events on and off ---- */

static int call_set_events(unsigned mask)
{
    PyObject *arguments[] = {PyLong_FromLong(tool), PyLong_FromUnsignedLong(mask)};
    PyObject *done = PyObject_Vectorcall(set_events, arguments, 2, NULL);
    Py_XDECREF(arguments[0]);
    Py_XDECREF(arguments[1]);
    Py_XDECREF(done);
    events_now = done ? mask : events_now;
    return done ? 0 : -1;
}

static int call_set_local_events(PyObject *code, unsigned mask)
{
    PyObject *arguments[] = {PyLong_FromLong(tool), code, PyLong_FromUnsignedLong(mask)};
    PyObject *done = PyObject_Vectorcall(set_local_events, arguments, 3, NULL);
    Py_XDECREF(arguments[0]);
    Py_XDECREF(arguments[2]);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* What sparse tracing always needs to hear, as it cannot be asked for in single functions. */
static unsigned sparse_events(void)
{
    return event.unwind | event.thrown;
}

static void everywhere(bool on)
{
    if (tracer.everywhere == on)
        return;
    tracer.everywhere = on;
    tracer.gated = 0;
    if (call_set_events(on ? all_events : sparse_events()) < 0)
        PyErr_Clear();
}

/* A named function has become active in a lane where none was, or the last one has ended. */
static void lane_activated(void)
{
    tracer_lock();
    tracer.active_lanes++;
    tracer_unlock();
    everywhere(true);
}

static void lane_deactivated(void)
{
    tracer_lock();
    tracer.active_lanes--;
    tracer.gated = 0;
    tracer_unlock();
}

/* An event while no named function is active in this lane. Turning events off and on again costs some microseconds:
 * worth it only when there is more to ignore than that. */
static PyObject *gated(void)
{
    if (tracer.active_lanes == 0 && ++tracer.gated > GATED_LIMIT)
        everywhere(false);
    return none();
}

static PyObject *disabled(void)
{
    Py_INCREF(disable);
    return disable;
}

#ifndef Py_GIL_DISABLED
static void deaf_add(PyObject *code)
{
    for (uint32_t i = deaf.count; i > 0; i--) {
        if (deaf.codes[i - 1] == code)
            return;
    }
    if (deaf.count == DEAF_MOST) {
        deaf.more = true;
        return;
    }
    Py_INCREF(code);
    deaf.codes[deaf.count++] = code;
}
#endif

/* The end of a function may run code, which may pause. */
static void deaf_forget(void)
{
    struct deaf old = deaf;
    deaf.count = 0;
    deaf.more = false;
    for (uint32_t i = 0; i < old.count; i++)
        Py_DECREF(old.codes[i]);
}

/* An event while the tracer is paused. A short pause costs what its events do. In a long one each place is told not to
 * tell again, until hooks_resume() lets all of them. `code`: that the place is in; NULL if the event has none. */
static __attribute__((noinline)) PyObject *unheard(PyObject *code)
{
    if (!events_now || ++tracer.gated <= patience.limit)
        return none();
    if (patience.limit > PATIENCE_LEAST)
        patience.alike = ALIKE;
#ifdef Py_GIL_DISABLED
    /* Another thread may resume before this answer arrives, and the place would stay disabled. */
    (void)code;
    if (call_set_events(0) < 0)
        PyErr_Clear();
    return none();
#else
    if (!code)
        return none();
    disabled_places++;
    deaf_add(code);
    return disabled();
#endif
}

static inline bool paused(void)
{
    return unlikely(__atomic_load_n(&tracer.paused, __ATOMIC_RELAXED));
}

/* ---- Python calls ---- */

/* `once`: the event has a place in the code and can be disabled there; the interpreter takes offence otherwise. */
static inline __attribute__((always_inline)) PyObject *begins(PyObject *const *args, unsigned kind,
                                                              const bool full, const bool once)
{
    struct lane *l = lane_here;
    if (paused())
        return unheard(once ? args[0] : NULL);
    if (unlikely(!l) && !(l = lane_enter()))
        return none();
    PyObject *code = args[0];
    uint32_t number = lane_code(l, code);
    if (!full && likely(!(number & NAME_SPECIAL))) {
        lane_begin(l, code, number, kind);
        return none();
    }
    if (number & NAME_EXCLUDED)
        return once ? disabled() : none();
    if (full && tracer.options.sparse && !l->active) {
        if (!(number & NAME_SPARSE))
            return gated();
        lane_activated();
    }
    begin_python(l, code, number, kind);
    return none();
}

/* The call that ends is not the one on top: some beginnings were not seen, or some ends. */
static __attribute__((noinline)) PyObject *odd_end(struct lane *l, PyObject *code, unsigned kind,
                                                   bool may_disable)
{
    if (!l && !(l = lane_enter()))
        return none();
    uint32_t number = lane_code(l, code);
    if (number & NAME_EXCLUDED)
        return may_disable ? disabled() : none();
    if (lane_unwind_to(l, code)) {
        bool was_active = l->active;
        lane_end_full(l, kind);
        if (was_active && !l->active)
            lane_deactivated();
    } else if (!tracer.options.sparse) {
        lane_left(l, number);
    } else if (!l->active) {
        return gated();
    }
    return none();
}

static inline __attribute__((always_inline)) PyObject *
ends(PyObject *const *args, unsigned kind, PyObject *result, PyObject *exception, const bool full)
{
    struct lane *l = lane_here;
    PyObject *code = args[0];
    if (paused())
        return unheard(kind != WORD_END_RAISE ? code : NULL);
    if (unlikely(!l || l->top->key != code))
        return odd_end(l, code, kind, kind != WORD_END_RAISE);
    if (!full) {
        lane_end(l, kind);
        return none();
    }
    bool was_active = l->active;
    end_python(l, kind, result, exception);
    if (was_active && !l->active)
        lane_deactivated();
    return none();
}

/* ---- calls of functions in C ---- */

static inline __attribute__((always_inline)) PyObject *calls(PyObject *const *args, const bool full)
{
    PyObject *callable = args[2];
    bool python = Py_TYPE(callable) == &PyFunction_Type; /* told about when it starts */
    if (paused())
        return unheard(args[0]);
    if (!full && python)
        return none();
    struct lane *l = lane_here;
    if (unlikely(!l) && !(l = lane_enter()))
        return none();
    if (full) {
        /* Also where Python is called: such a place in excluded code need not be heard of again. */
        if (lane_code(l, args[0]) & NAME_EXCLUDED)
            return disabled();
        if (tracer.options.sparse && !l->active)
            return gated();
        if (python)
            return none();
    }
    const PyMethodDef *method = method_of(callable);
    if (!method)
        return none();
    uint32_t number = lane_c(l, method, callable);
    if (number & NAME_EXCLUDED)
        return none();
    if (full)
        lane_begin_full(l, method, number, WORD_BEGIN_C, &(struct prelude){0});
    else
        lane_begin(l, method, number, WORD_BEGIN_C);
    return none();
}

static inline __attribute__((always_inline)) PyObject *c_ends(PyObject *const *args, unsigned kind,
                                                              const bool full)
{
    struct lane *l = lane_here;
    const PyMethodDef *method = method_of(args[2]);
    if (paused())
        return unheard(NULL);
    if (unlikely(!l || !method))
        return none();
    if (unlikely(l->top->key != method) && !lane_unwind_to(l, method))
        return none();
    if (full)
        lane_end_full(l, kind);
    else
        lane_end(l, kind);
    return none();
}

/* The event comes again in each frame that an exception passes through, with one more entry in its traceback. An address
 * alone says nothing: it may be a new exception's. */
static bool on_its_way(const struct lane *l, PyObject *exception)
{
    if (exception != l->raised || !PyExceptionInstance_Check(exception))
        return false;
    PyObject *trace = ((PyBaseExceptionObject *)exception)->traceback;
    return trace && PyTraceBack_Check(trace) && ((PyTracebackObject *)trace)->tb_next;
}

static PyObject *on_raise(PyObject *self, PyObject *const *args, size_t count, PyObject *names)
{
    (void)self, (void)count, (void)names;
    struct lane *l = lane_here ? lane_here : lane_enter();
    if (paused())
        return unheard(NULL);
    if (!l || (tracer.options.sparse && !l->active) || (lane_code(l, args[0]) & NAME_EXCLUDED))
        return none();
    if (on_its_way(l, args[2]))
        return none();
    l->raised = args[2];
    const char *name = Py_TYPE(args[2])->tp_name;
    lane_data(l, DATA_RAISED, NULL, 0, name, strnlen(name, 200));
    return none();
}

/* ---- the hooks themselves ---- */

#define HOOK(name, expression)                                                                     \
    static PyObject *name(PyObject *self, PyObject *const *args, size_t count, PyObject *names)    \
    {                                                                                              \
        (void)self, (void)count, (void)names;                                                      \
        return expression;                                                                         \
    }

HOOK(on_start, begins(args, WORD_BEGIN, false, true))
HOOK(on_resume, begins(args, WORD_RESUME, false, true))
HOOK(on_throw, begins(args, WORD_RESUME, false, false))
HOOK(on_return, ends(args, WORD_END, NULL, NULL, false))
HOOK(on_yield, ends(args, WORD_END_YIELD, NULL, NULL, false))
HOOK(on_call, calls(args, false))
HOOK(on_c_return, c_ends(args, WORD_END, false))
HOOK(on_c_raise, c_ends(args, WORD_END_RAISE, false))
HOOK(full_start, begins(args, WORD_BEGIN, true, true))
HOOK(full_resume, begins(args, WORD_RESUME, true, true))
HOOK(full_throw, begins(args, WORD_RESUME, true, false))
HOOK(full_return, ends(args, WORD_END, args[2], NULL, true))
HOOK(full_yield, ends(args, WORD_END_YIELD, args[2], NULL, true))
HOOK(full_call, calls(args, true))
HOOK(full_c_return, c_ends(args, WORD_END, true))
HOOK(full_c_raise, c_ends(args, WORD_END_RAISE, true))
/* Exceptions are rare: one way is enough. */
HOOK(on_unwind, ends(args, WORD_END_RAISE, NULL, args[2], true))

static const struct row {
    const char *name;
    vectorcallfunc quick, full;
    unsigned *bit;
} rows[] = {
    {"PY_START", on_start, full_start, &event.start},
    {"PY_RESUME", on_resume, full_resume, &event.resume},
    {"PY_THROW", on_throw, full_throw, &event.thrown},
    {"PY_RETURN", on_return, full_return, &event.returned},
    {"PY_YIELD", on_yield, full_yield, &event.yielded},
    {"PY_UNWIND", on_unwind, on_unwind, &event.unwind},
    {"CALL", on_call, full_call, &event.call},
    {"C_RETURN", on_c_return, full_c_return, &event.c_return},
    {"C_RAISE", on_c_raise, full_c_raise, &event.c_raise},
    {"RAISE", on_raise, on_raise, &event.raise},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static PyMemberDef hook_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(struct hook, call), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};
static PyType_Slot hook_slots[] = {
    {Py_tp_members, hook_members},
    {Py_tp_call, PyVectorcall_Call},
    {0, NULL},
};
static PyType_Spec hook_spec = {
    .name = "scry._tracer.Hook",
    .basicsize = sizeof(struct hook),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = hook_slots,
};

static PyObject *hooks[ROWS][2]; /* quick, full */
static PyObject *monitoring;

static PyObject *new_hook(PyTypeObject *type, vectorcallfunc call)
{
    struct hook *h = PyObject_New(struct hook, type);
    if (h)
        h->call = call;
    return (PyObject *)h;
}

static int read_event(PyObject *events, const struct row *row)
{
    PyObject *bit = PyObject_GetAttrString(events, row->name);
    if (!bit)
        return -1;
    *row->bit = (unsigned)PyLong_AsUnsignedLong(bit);
    Py_DECREF(bit);
    return PyErr_Occurred() ? -1 : 0;
}

int hooks_init(PyObject *module)
{
    (void)module;
    monitoring = PySys_GetObject("monitoring");
    PyObject *type = PyType_FromSpec(&hook_spec);
    PyObject *events = monitoring ? PyObject_GetAttrString(monitoring, "events") : NULL;
    if (!type || !events)
        return -1;
    Py_INCREF(monitoring);
    set_events = PyObject_GetAttrString(monitoring, "set_events");
    set_local_events = PyObject_GetAttrString(monitoring, "set_local_events");
    restart = PyObject_GetAttrString(monitoring, "restart_events");
    disable = PyObject_GetAttrString(monitoring, "DISABLE");
    int rc = set_events && set_local_events && restart && disable ? 0 : -1;
    for (size_t i = 0; i < ROWS && rc == 0; i++) {
        hooks[i][0] = new_hook((PyTypeObject *)type, rows[i].quick);
        hooks[i][1] = new_hook((PyTypeObject *)type, rows[i].full);
        rc = hooks[i][0] && hooks[i][1] ? read_event(events, &rows[i]) : -1;
    }
    Py_DECREF(events);
    Py_DECREF(type);
    return rc;
}

/* ---- starting and stopping ---- */

static int use_tool(void)
{
    static const int free_ids[] = {4, 3}; /* those no kind of tool is told to use */
    for (size_t i = 0; i < 2; i++) {
        PyObject *done =
            PyObject_CallMethod(monitoring, "use_tool_id", "is", free_ids[i], TOOL_NAME);
        if (done) {
            Py_DECREF(done);
            tool = free_ids[i];
            return 0;
        }
        if (!PyErr_ExceptionMatches(PyExc_ValueError))
            return -1;
        PyErr_Clear();
    }
    PyErr_SetString(PyExc_RuntimeError,
                    "other tools hold both free places of sys.monitoring (3 and 4): stop one of "
                    "them, then start scry's tracer");
    return -1;
}

static int register_hooks(bool set)
{
    for (size_t i = 0; i < ROWS; i++) {
        PyObject *hook = set ? hooks[i][tracer.full] : Py_None;
        PyObject *old =
            PyObject_CallMethod(monitoring, "register_callback", "iIO", tool, *rows[i].bit, hook);
        if (!old)
            return -1;
        Py_DECREF(old);
    }
    return 0;
}

static void choose_events(void)
{
    const struct tracer_options *o = &tracer.options;
    all_events =
        event.start | event.resume | event.thrown | event.returned | event.yielded | event.unwind;
    if (o->c_functions)
        all_events |= event.call; /* those for its end come with it */
    if (o->exceptions)
        all_events |= event.raise;
}

static int restart_events(void)
{
    PyObject *done = PyObject_CallNoArgs(restart);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static unsigned wanted_events(void)
{
    return tracer.everywhere ? all_events : sparse_events();
}

int hooks_start(void)
{
    if (use_tool() < 0)
        return -1;
    choose_events();
    disabled_places = 0;
    tracer.everywhere = !tracer.options.sparse;
    if (register_hooks(true) == 0 && restart_events() == 0 && call_set_events(wanted_events()) == 0)
        return 0;
    SAVE_ERROR;
    if (hooks_stop() < 0)
        PyErr_Clear();
    RESTORE_ERROR;
    return -1;
}

int hooks_stop(void)
{
    int rc = call_set_events(0);
    deaf_forget();
    if (register_hooks(false) < 0)
        rc = -1;
    PyObject *done = PyObject_CallMethod(monitoring, "free_tool_id", "i", tool);
    Py_XDECREF(done);
    tool = -1;
    return done ? rc : -1;
}

/* Makes the interpreter set all places of one function anew, as a restart does for each, and at once: it may be running. It
 * does so when the function's events change and the function was last set before the last restart. There was one in
 * hooks_start(), and version 0 is older. The events change to one that is on everywhere, and back: nothing else comes of it. */
static int set_anew(PyObject *code)
{
#if PY_VERSION_HEX < 0x03100000 /* what later ones do is not known */
    ((PyCodeObject *)code)->_co_instrumentation_version = 0;
    return call_set_local_events(code, event.start) < 0 ? -1 : call_set_local_events(code, 0);
#else
    (void)code;
    return -1;
#endif
}

/* A restart goes through every function on every stack, and through all others when they are next called. */
static int hear_again(void)
{
    if (deaf.more || tracer.options.sparse) /* functions have events of their own there */
        return restart_events();
    for (uint32_t i = 0; i < deaf.count; i++) {
        if (set_anew(deaf.codes[i]) < 0) {
            PyErr_Clear();
            return restart_events();
        }
    }
    return 0;
}

/* Events were turned on again, at this cost. Of two times the cheaper one counts: something may have come between. */
static void patience_learn(uint64_t ns)
{
    uint64_t events = ns / EVENT_NS;
    uint32_t now = events > PATIENCE_MOST ? PATIENCE_MOST : (uint32_t)events;
    patience.worth = now < patience.last ? now : patience.last;
    patience.last = now;
    if (patience.limit > PATIENCE_LEAST && patience.limit < patience.worth)
        patience.alike = 0; /* it was not that long */
}

/* A pause was heard to its end. What was measured long ago may be wrong by now, and is believed a little less each time that
 * it kept us listening. */
static void patience_doubt(void)
{
    if (patience.worth > PATIENCE_LEAST && tracer.gated > patience.worth / 2)
        patience.worth -= patience.worth / 256 + 1;
}

static uint32_t patience_now(void)
{
    if (patience.alike == 0)
        return patience.worth > PATIENCE_LEAST ? patience.worth : PATIENCE_LEAST;
    patience.alike--;
    return PATIENCE_LEAST;
}

int hooks_pause(void)
{
    tracer.gated = 0;
    patience.limit = patience_now();
    __atomic_store_n(&tracer.paused, true, __ATOMIC_RELAXED);
    return 0;
}

int hooks_resume(void)
{
    int rc = 0;
    unsigned wanted = wanted_events();
    __atomic_store_n(&tracer.paused, false, __ATOMIC_RELAXED);
    if (disabled_places || events_now != wanted) {
        uint64_t since = clock_ns(CLOCK_MONOTONIC);
        if (events_now != wanted)
            rc = call_set_events(wanted);
        if (rc == 0 && disabled_places)
            rc = hear_again();
        patience_learn(clock_ns(CLOCK_MONOTONIC) - since + (uint64_t)disabled_places * PLACE_NS);
    } else {
        patience_doubt();
    }
    disabled_places = 0;
    tracer.gated = 0;
    if (deaf.count)
        deaf_forget();
    return rc;
}

int hooks_watch(PyObject *code, bool watch)
{
    unsigned local = event.start | event.resume | event.returned | event.yielded |
                     (tracer.options.c_functions ? event.call : 0);
    return call_set_local_events(code, watch ? local : 0);
}

#endif
