/* Where things are inside CPython's structures, as data. 3.13+ publishes its own offsets
 * (debug_offsets.h); for older versions there is one table per minor version. All knowledge about
 * versions lives in this folder: nobody else compares version numbers. */
#ifndef SCRY_CPYTHON_LAYOUT_H
#define SCRY_CPYTHON_LAYOUT_H

#include "util/types.h"

#define LAYOUT_NONE (-1)

enum line_format {
    LINES_LNOTAB_UNSIGNED, /* 2.7: pairs of u8 address, u8 line */
    LINES_LNOTAB,          /* 3.6-3.9: u8 address, i8 line */
    LINES_LINETABLE,       /* 3.10: u8 length, i8 line, -128 = none */
    LINES_LOCATIONS,       /* 3.11+: location table */
};

#define PY_MICRO_UNKNOWN 0xff /* taken for the last release there is */

struct py_version {
    uint8_t major, minor, micro;
    uint8_t level; /* 0xa, 0xb, 0xc pre-releases, 0xf final */
    uint8_t serial;
};

struct layout {
    uint8_t major, minor;
    uint8_t first_micro; /* the row is true from this patch release on */
    bool free_threaded;
    bool debug;

    /* Behaviour that is not an offset. */
    uint8_t instr_unit;     /* bytes per unit of f_lasti: 1 up to 3.9, 2 in 3.10 */
    bool instr_is_previous; /* prev_instr (3.11, 3.12) stands before the running instruction */
    bool tagged_refs;       /* 3.14+: the low bits of stack slots are tags */
    uint8_t str_kind_shift; /* position of `kind` in the string's state word: 2, or 8 in 3.14t+ */
    uint8_t managed_dict; /* how instances keep attributes: 0 tp_dictoffset only, else 11, 12, 13 */
    bool counts_births;   /* is_code_object_generation counts those ever made, in 32 bits */
    enum line_format lines;

#define F(name) int32_t name;
#include "cpython/layout_fields.def"
#undef F
};

/* The row for this version, or NULL. 3.13+: the parts that the target does not publish, where a
 * minor version newer than all rows gets the newest. `debug` (Py_DEBUG) matters up to 3.7: from 3.8
 * on such builds differ in nothing that scry reads. `micro` matters only for 3.7 (a change
 * in 3.7.4). */
const struct layout *layout_for(struct py_version version, bool free_threaded, bool debug);

/* All rows, oldest first; for those that find out the version by trying. */
const struct layout *layout_rows(size_t *ret_count);

#endif
