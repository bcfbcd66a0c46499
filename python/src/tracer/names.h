/* Names of what is called, each known by a number: code objects, functions in C, what users name themselves. The
 * table lives as long as the process; it grows with what is distinct by name, file and line, so that code which is
 * made again and again does not make it grow. */
#ifndef SCRY_TRACER_NAMES_H
#define SCRY_TRACER_NAMES_H

#include "tracer.h"

/* Above the number, in what the lookups return. */
enum name_flags {
    NAME_EXCLUDED = 1 << 24,  /* by the filter */
    NAME_COROUTINE = 1 << 25, /* may be the outermost call of a task's step */
    NAME_SPARSE = 1 << 26,    /* one of those that sparse tracing waits for */
};
#define NAME_SPECIAL 0xff000000u
#define NAME_UNKNOWN 0u /* number of what could not get one */

int names_init(void); /* 0, or -1 with an exception */

/* The number and flags, defined in the image of this start. Slow: lanes remember. */
uint32_t name_of_code(PyCodeObject *code);
uint32_t name_of_c(const PyMethodDef *method, PyObject *callable);
uint32_t name_of_text(const char *text);
/* Of a name that got its number in another image: a child's calls that began in its parent. */
void name_define_again(uint32_t number);

/* Marks code objects for sparse tracing, or takes the marks away again. -1 with an exception. */
int name_mark_sparse(PyCodeObject *code, bool marked);
bool name_is_sparse(PyCodeObject *code);

#endif
