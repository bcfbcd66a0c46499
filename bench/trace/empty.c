/* An empty hook: what any tracer pays before it does anything. */
#include <Python.h>
#include <frameobject.h>

static PyObject *nothing(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    (void)self, (void)args, (void)count;
    Py_RETURN_NONE;
}

static int profile(PyObject *object, PyFrameObject *frame, int what, PyObject *arg)
{
    (void)object, (void)frame, (void)what, (void)arg;
    return 0;
}

static PyObject *on(PyObject *self, PyObject *none)
{
    (void)self, (void)none;
    PyEval_SetProfile(profile, NULL);
    Py_RETURN_NONE;
}

static PyObject *off(PyObject *self, PyObject *none)
{
    (void)self, (void)none;
    PyEval_SetProfile(NULL, NULL);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"nothing", (PyCFunction)(void (*)(void))nothing, METH_FASTCALL, NULL},
    {"on", on, METH_NOARGS, NULL},
    {"off", off, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "empty", NULL, -1, methods};

PyMODINIT_FUNC PyInit_empty(void)
{
    return PyModule_Create(&module);
}
