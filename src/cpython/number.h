/* Inside cpython/: numbers of any size, and their text. */
#ifndef SCRY_CPYTHON_NUMBER_H
#define SCRY_CPYTHON_NUMBER_H

#include "cpython/remote.h"

/* Where the digits of an int are: base 2^30, least significant first, 4 bytes each. */
struct remote_int {
    scry_addr data;
    uint64_t digits;
    bool negative;
};
int remote_int(const struct py_view *v, const struct remote *r, struct remote_int *ret_int);

#endif
