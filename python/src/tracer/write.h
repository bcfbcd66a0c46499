/* Files from what was recorded. */
#ifndef SCRY_TRACER_WRITE_H
#define SCRY_TRACER_WRITE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "out.h"

/* A writer of one format: `new` begins, `finish` ends the file; both false when memory or the disk is used up. */
struct output {
    const char *format;
    struct writer *(*new)(struct out *out, const struct reading *reading);
    bool (*finish)(struct writer *w, const struct read_result *result);
    void (*free)(struct writer *w);
};
extern const struct output output_json, output_perfetto, output_scry;

/* A dict that says how it went, or NULL with an exception. `own` may be NULL. `progress` is called with the share that
 * is done. Other threads run meanwhile. */
PyObject *convert_images(PyObject *paths, const struct image *own, const char *output,
                         const char *format, PyObject *progress);

#endif
