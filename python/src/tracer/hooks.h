/* How the interpreter tells of calls: sys.monitoring from 3.12 on, a profile function before. */
#ifndef SCRY_TRACER_HOOKS_H
#define SCRY_TRACER_HOOKS_H

#include "lane.h"

/* All return 0, or -1 with an exception set. */
int hooks_init(PyObject *module);
int hooks_start(
    void); /* take hold of the interpreter's way of telling; clear error if somebody else has it */
int hooks_stop(void);
int hooks_pause(void); /* quick: keep the hold, but hear nothing */
int hooks_resume(void);
/* Sparse tracing: listen to these code objects, or no longer. */
int hooks_watch(PyObject *code, bool watch);

/* ---- what both ways share (hooks_common.c) ---- */

/* The method behind a function in C as hooks see it; NULL for other callables. */
static inline const PyMethodDef *method_of(PyObject *callable)
{
    if (PyCFunction_Check(callable))
        return ((PyCFunctionObject *)callable)->m_ml;
    if (Py_TYPE(callable) == &PyMethodDescr_Type)
        return ((PyMethodDescrObject *)callable)->d_method;
    return NULL;
}

static inline uint32_t lane_c(struct lane *l, const PyMethodDef *method, PyObject *callable)
{
    const struct known *k = lane_known(l, method);
    if (likely(k->key == method && k->epoch == __atomic_load_n(&tracer.epoch, __ATOMIC_RELAXED)))
        return k->number;
    return lane_name_c(l, method, callable);
}

/* A Python call begins, by the longer way. `frame` may be NULL: then the current one is asked for. */
void begin_python(struct lane *l, PyObject *code, uint32_t number, unsigned kind);
/* The innermost call ends with a result or an exception, either may be NULL. */
void end_python(struct lane *l, unsigned kind, PyObject *result, PyObject *exception);
/* Text of a value by tracer.repr; NULL if it failed. */
PyObject *value_text(PyObject *value);

#if !HAVE_MONITORING
/* Before 3.12. Set the profile function in this thread; false: there is one. And unset it, if it is ours. */
bool profile_here(void);
void profile_not_here(void);
/* Of sparse tracing (hooks_named.c). `hear`: named functions are to be heard of, or not for a while. */
int named_init(void);
void named_hear(bool on);
int named_watch(PyCodeObject *code, bool watch);
void named_forget_all(void);
#endif

/* Of asyncio (tasks.c): the number of the task that runs in this thread, defined; 0: none. */
uint32_t task_number(void);
void tasks_forget(void);

#endif
