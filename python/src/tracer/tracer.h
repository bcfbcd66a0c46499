/* The tracer of this process: at most one runs at a time. Everything here is used with the GIL held; in builds
 * without one, under tracer_lock(). */
#ifndef SCRY_TRACER_TRACER_H
#define SCRY_TRACER_TRACER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <frameobject.h>

#include <stdbool.h>

#include "clock.h"
#include "filter.h"
#include "image.h"

#define HAVE_MONITORING (PY_VERSION_HEX >= 0x030c0000)

struct tracer_options {
    bool c_functions; /* record calls of functions written in C */
    bool arguments, results;
    bool exceptions;       /* where they were raised; needs monitoring */
    bool collections;      /* garbage collections */
    bool tasks;            /* asyncio tasks as tracks of their own */
    bool left;             /* calls that were open before the start are recorded when they end */
    bool sparse;           /* only while one of the named functions is active */
    uint32_t max_depth;    /* 0: without a limit */
    uint64_t min_duration; /* ns */
};

struct tracer {
    bool on;
    bool paused;         /* events are ignored; if they still come, they are soon turned off */
    bool forked;         /* this is a child that has not yet got an image of its own */
    uint32_t generation; /* counts starts: what was defined before is to be defined again */
    uint32_t epoch;      /* changes when what lanes remember about addresses may be wrong */
    struct tracer_options options;
    uint64_t min_ticks; /* min_duration, a little less than exactly: the reader decides */
    bool full;          /* some option needs more than the short way through the hooks */
    struct filter filter;
    struct image image;
    struct lane *lanes; /* all there are, also of threads that have ended */
    uint32_t lane_count;
    uint32_t thread_count;
    uint64_t lost;  /* calls for which there was no room at all */
    PyObject *repr; /* makes the text of a value */
    uint32_t gated; /* events that came since nobody wants them any more */
    /* Sparse tracing. */
    uint32_t active_lanes; /* in which a named function runs */
    bool everywhere;       /* events are on in all code */
};
extern struct tracer tracer;

#ifdef Py_GIL_DISABLED
extern PyMutex tracer_mutex;
static inline void tracer_lock(void)
{
    PyMutex_Lock(&tracer_mutex);
}
static inline void tracer_unlock(void)
{
    PyMutex_Unlock(&tracer_mutex);
}
#else
static inline void tracer_lock(void)
{
}
static inline void tracer_unlock(void)
{
}
#endif

/* An exception may be on its way when a hook is called. */
#if PY_VERSION_HEX >= 0x030c0000
#define SAVE_ERROR    PyObject *saved = PyErr_GetRaisedException()
#define RESTORE_ERROR PyErr_SetRaisedException(saved)
#else
#define SAVE_ERROR                                                                                 \
    PyObject *saved, *saved_value, *saved_trace;                                                   \
    PyErr_Fetch(&saved, &saved_value, &saved_trace)
#define RESTORE_ERROR PyErr_Restore(saved, saved_value, saved_trace)
#endif

static inline PyObject *none(void)
{
#if PY_VERSION_HEX >= 0x030c0000
    return Py_None; /* immortal */
#else
    Py_RETURN_NONE;
#endif
}

#endif
