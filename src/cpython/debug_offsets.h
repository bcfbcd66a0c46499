/* The offsets that CPython 3.13+ publishes about itself at the start of _PyRuntime
 * (_Py_DebugOffsets). Patch releases, debug builds and free-threaded builds need no table of ours
 * this way. */
#ifndef SCRY_CPYTHON_DEBUG_OFFSETS_H
#define SCRY_CPYTHON_DEBUG_OFFSETS_H

#include "access/mem.h"
#include "cpython/layout.h"

#define DEBUG_OFFSETS_COOKIE "xdebugpy" /* the first 8 bytes, without NUL */

/* Read and check what is published at `runtime` and lay it over the row for that version.
 * -SCRY_E_CORRUPT when there is no table of offsets there or it contradicts itself,
 * -SCRY_E_UNSUPPORTED for a version whose table has an unknown shape, otherwise what mem_read()
 * says. The results are written only on success. */
int debug_offsets_read(struct mem *mem, scry_addr runtime, struct layout *ret_layout,
                       struct py_version *ret_version, bool *ret_free_threaded, struct error *err);

/* PY_VERSION_HEX taken apart. */
struct py_version debug_offsets_version(uint64_t hex);

#endif
