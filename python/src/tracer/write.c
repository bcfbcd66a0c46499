#include "write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static const struct output *const outputs[] = {&output_json, &output_perfetto, &output_scry};

static const struct output *find_output(const char *format)
{
    for (size_t i = 0; i < sizeof(outputs) / sizeof(outputs[0]); i++)
        if (strcmp(outputs[i]->format, format) == 0)
            return outputs[i];
    PyErr_Format(PyExc_ValueError, "there is no format '%s'", format);
    return NULL;
}

struct asked {
    PyObject *progress;
    bool raised; /* the exception waits for the end of the reading */
};

static bool ask(void *context, double share)
{
    struct asked *asked = context;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *done = NULL;
    if (PyErr_CheckSignals() == 0)
        done = PyObject_CallFunction(asked->progress, "d", share);
    asked->raised |= !done;
    Py_XDECREF(done);
    PyGILState_Release(state);
    return !asked->raised;
}

/* Files that are no images are counted, not fatal: a program may have been killed before it wrote the first byte. */
static int add_files(struct reading *r, PyObject *paths, unsigned *ret_unreadable)
{
    PyObject *items = PySequence_Fast(paths, "paths are a list");
    if (!items)
        return -1;
    int rc = 0;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items) && !rc; i++) {
        PyObject *bytes = NULL;
        if (!PyUnicode_FSConverter(PySequence_Fast_GET_ITEM(items, i), &bytes)) {
            rc = -1;
            break;
        }
        int failed = reading_add_file(r, PyBytes_AS_STRING(bytes));
        Py_DECREF(bytes);
        if (failed == ENOMEM)
            rc = (PyErr_NoMemory(), -1);
        else if (failed)
            ++*ret_unreadable;
    }
    Py_DECREF(items);
    return rc;
}

struct job {
    const struct output *output;
    struct reading *reading;
    struct out *out;
    struct writer *writer;
    struct read_result result;
    struct asked asked;
};

static bool run(struct job *job)
{
    bool ok;
    Py_BEGIN_ALLOW_THREADS job->writer = job->output->new (job->out, job->reading);
    ok = job->writer && reading_run(job->reading, job->writer, ask, &job->asked, &job->result) &&
         job->output->finish(job->writer, &job->result) && out_flush(job->out);
    job->output->free(job->writer);
    Py_END_ALLOW_THREADS return ok;
}

static PyObject *report(const struct job *job, unsigned unreadable)
{
    const struct read_result *r = &job->result;
    return Py_BuildValue("{sKsKsKsKsIsIsIsI}", "calls", (unsigned long long)r->calls, "dropped",
                         (unsigned long long)r->dropped, "duration_ns",
                         (unsigned long long)r->duration, "bytes",
                         (unsigned long long)job->out->total, "processes", r->images, "damaged",
                         r->damaged, "unfinished", r->unfinished, "unreadable", unreadable);
}

static PyObject *convert_to(struct job *job, PyObject *paths, const struct image *own,
                            const char *path)
{
    unsigned unreadable = 0;
    int rc = own && own->head ? reading_add_own(job->reading, own) : 0;
    if (rc)
        return PyErr_NoMemory();
    if (add_files(job->reading, paths, &unreadable) < 0)
        return NULL;
    job->out->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (job->out->fd < 0)
        return PyErr_SetFromErrnoWithFilename(PyExc_OSError, path);
    bool ok = run(job);
    if (close(job->out->fd) < 0 && !job->out->error)
        job->out->error = errno;
    if (job->asked.raised)
        return NULL;
    if (job->out->error) {
        errno = job->out->error;
        return PyErr_SetFromErrnoWithFilename(PyExc_OSError, path);
    }
    return ok ? report(job, unreadable) : PyErr_NoMemory();
}

PyObject *convert_images(PyObject *paths, const struct image *own, const char *path,
                         const char *format, PyObject *progress)
{
    struct job job = {.output = find_output(format), .asked.progress = progress};
    if (!job.output)
        return NULL;
    job.reading = reading_new();
    job.out = calloc(1, sizeof(*job.out));
    PyObject *result =
        job.reading && job.out ? convert_to(&job, paths, own, path) : PyErr_NoMemory();
    reading_free(job.reading);
    free(job.out);
    return result;
}
