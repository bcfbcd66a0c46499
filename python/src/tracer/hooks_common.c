#include "hooks.h"

PyObject *value_text(PyObject *value)
{
    PyObject *text = NULL;
#if PY_VERSION_HEX >= 0x03090000
    text = PyObject_CallOneArg(tracer.repr, value);
#else
    text = PyObject_CallFunctionObjArgs(tracer.repr, value, NULL);
#endif
    if (text && !PyUnicode_Check(text))
        Py_CLEAR(text);
    PyErr_Clear();
    return text;
}

/* The frame that is being entered or left: hooks run on top of it. */
static PyObject *current_frame(void)
{
    PyFrameObject *frame = PyEval_GetFrame();
    Py_XINCREF(frame);
    return (PyObject *)frame;
}

/* {"a": "1", "b": "'x'"} as JSON text, made by tracer.repr, which takes a frame as well. */
static PyObject *arguments_text(void)
{
    PyObject *frame = current_frame();
    PyObject *text = frame ? value_text(frame) : NULL;
    Py_XDECREF(frame);
    return text;
}

void begin_python(struct lane *l, PyObject *code, uint32_t number, unsigned kind)
{
    struct prelude prelude = {0};
    PyObject *text = NULL;
    SAVE_ERROR;
    if (tracer.options.arguments && kind == WORD_BEGIN && (text = arguments_text())) {
        Py_ssize_t bytes;
        prelude.args = PyUnicode_AsUTF8AndSize(text, &bytes);
        prelude.args_bytes = prelude.args ? (size_t)bytes : 0;
    }
    /* The outermost coroutine on the stack is what the event loop steps. */
    if ((number & NAME_COROUTINE) && !(l->top->number & NAME_COROUTINE))
        prelude.task = task_number();
    PyErr_Clear();
    RESTORE_ERROR;
    lane_begin_full(l, code, number, kind, &prelude);
    Py_XDECREF(text);
}

static void put_text(struct lane *l, enum data_kind kind, PyObject *text)
{
    Py_ssize_t bytes;
    const char *s = text ? PyUnicode_AsUTF8AndSize(text, &bytes) : NULL;
    if (s)
        lane_data(l, kind, NULL, 0, s, (size_t)bytes);
    else
        PyErr_Clear();
}

void end_python(struct lane *l, unsigned kind, PyObject *result, PyObject *exception)
{
    bool written = l->top->kind != 0;
    if (written && result && tracer.options.results) {
        SAVE_ERROR;
        PyObject *text = value_text(result);
        put_text(l, DATA_RESULT, text);
        Py_XDECREF(text);
        RESTORE_ERROR;
    }
    if (written && exception) {
        const char *name = Py_TYPE(exception)->tp_name;
        lane_data(l, DATA_EXCEPTION, NULL, 0, name, strnlen(name, 200));
    }
    lane_end_full(l, kind);
}
