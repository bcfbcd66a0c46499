/* A module that calls a Python function many times, through two functions of its own. */
#include <Python.h>
#include <signal.h>

static PyObject *call_once(PyObject *function, int i)
{
    volatile double work = 0;
    for (int k = 0; k < 200; k++)
        work += k * i;
    return PyObject_CallFunction(function, "i", i);
}

static PyObject *call_many(PyObject *self, PyObject *args)
{
    PyObject *function;
    int count;
    (void)self;
    if (!PyArg_ParseTuple(args, "Oi", &function, &count))
        return NULL;
    for (int i = 0; i < count; i++) {
        PyObject *result = call_once(function, i);
        if (!result)
            return NULL;
        Py_DECREF(result);
    }
    Py_RETURN_NONE;
}

static PyObject *signal_function;

static void on_signal(int number)
{
    for (int i = 0; i < 20; i++)
        Py_XDECREF(call_once(signal_function, number + i));
}

/* The handler runs in this very thread, which holds the GIL. */
static PyObject *in_signal(PyObject *self, PyObject *args)
{
    int count;
    (void)self;
    if (!PyArg_ParseTuple(args, "Oi", &signal_function, &count))
        return NULL;
    signal(SIGUSR2, on_signal);
    for (int i = 0; i < count; i++)
        raise(SIGUSR2);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"call_many", call_many, METH_VARARGS, NULL},
                                {"in_signal", in_signal, METH_VARARGS, NULL},
                                {NULL, NULL, 0, NULL}};

#if PY_MAJOR_VERSION < 3
PyMODINIT_FUNC initscry_native(void)
{
    Py_InitModule("scry_native", methods);
}
#else
static struct PyModuleDef module = {
    .m_base = PyModuleDef_HEAD_INIT, .m_name = "scry_native", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit_scry_native(void)
{
    return PyModule_Create(&module);
}
#endif
