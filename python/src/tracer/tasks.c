/* Which asyncio task runs. Tasks are told apart by weak references: an address comes back, a reference does not. */
#include "hooks.h"

static PyObject *numbers; /* weak reference -> number */
static uint32_t next_number;
#define PURGE_AT 1024
static Py_ssize_t purge_at = PURGE_AT;

void tasks_forget(void)
{
    Py_CLEAR(numbers);
    next_number = 0;
    purge_at = PURGE_AT;
}

static PyObject *call_no_arguments(PyObject *module, const char *name)
{
    PyObject *function = PyObject_GetAttrString(module, name);
    PyObject *result = function ? PyObject_CallObject(function, NULL) : NULL;
    Py_XDECREF(function);
    return result;
}

/* New reference, or NULL without an exception. */
static PyObject *current_task(void)
{
    PyObject *modules = PyImport_GetModuleDict();
    PyObject *module = modules ? PyDict_GetItemString(modules, "_asyncio") : NULL;
    PyObject *task = NULL;
    if (!module)
        return NULL;
#if PY_VERSION_HEX >= 0x030c0000
    task = call_no_arguments(module, "current_task");
#else
    PyObject *loop = call_no_arguments(module, "_get_running_loop");
    PyObject *tasks = PyObject_GetAttrString(module, "_current_tasks");
    if (loop && tasks && PyDict_Check(tasks)) {
        task = PyDict_GetItemWithError(tasks, loop);
        Py_XINCREF(task);
    }
    Py_XDECREF(loop);
    Py_XDECREF(tasks);
#endif
    PyErr_Clear(); /* no loop runs here */
    if (task == Py_None)
        Py_CLEAR(task);
    return task;
}

/* Those whose tasks are gone. */
static void purge(void)
{
    PyObject *keys = PyDict_Keys(numbers);
    for (Py_ssize_t i = 0; keys && i < PyList_GET_SIZE(keys); i++) {
        PyObject *key = PyList_GET_ITEM(keys, i);
        PyObject *task = PyObject_CallObject(key, NULL);
        if (task == Py_None)
            PyDict_DelItem(numbers, key);
        Py_XDECREF(task);
    }
    Py_XDECREF(keys);
    purge_at = PyDict_Size(numbers) * 2 + PURGE_AT;
}

static uint32_t define_task(PyObject *task, PyObject *reference)
{
    uint32_t number = __atomic_add_fetch(&next_number, 1, __ATOMIC_RELAXED) & WORD_NUMBER_MAX;
    PyObject *value = PyLong_FromUnsignedLong(number);
    if (value)
        PyDict_SetItem(numbers, reference, value);
    Py_XDECREF(value);
    PyObject *name = PyObject_CallMethod(task, "get_name", NULL);
    const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    struct definition d = {.kind = DEFINE_TASK, .number = number};
    tracer_lock();
    if (!tracer.forked) /* else the image is the parent's */
        image_define(&tracer.image, &d, text ? text : "Task", NULL);
    tracer_unlock();
    Py_XDECREF(name);
    return number;
}

uint32_t task_number(void)
{
    PyObject *task = current_task();
    if (!task)
        return 0;
    uint32_t number = 0;
    if (!numbers)
        numbers = PyDict_New();
    PyObject *reference = PyWeakref_NewRef(task, NULL);
    if (numbers && reference) {
        PyObject *known = PyDict_GetItemWithError(numbers, reference);
        if (known) {
            number = (uint32_t)PyLong_AsUnsignedLong(known);
        } else {
            if (PyDict_Size(numbers) >= purge_at)
                purge();
            number = define_task(task, reference);
        }
    }
    Py_XDECREF(reference);
    Py_DECREF(task);
    PyErr_Clear();
    return number;
}
