/* Inside cpython/: numbers of any size, and their text. */
#ifndef SCRY_CPYTHON_NUMBER_H
#define SCRY_CPYTHON_NUMBER_H

#include "cpython/remote.h"

#define DIGIT_BITS 30

/* Where the digits of an int are: base 2^30, least significant first, 4 bytes each. */
struct remote_int {
    scry_addr data;
    uint64_t digits;
    bool negative;
};
int remote_int(const struct py_view *v, const struct remote *r, struct remote_int *ret_int);

/* The shortest text that reads back as the same number, as Python writes it: "1.0", "1e+20",
 * "-inf". With `whole` false "1.0" is "1", as inside of a complex. */
#define FLOAT_TEXT 32
void float_text(double value, bool whole, char to[FLOAT_TEXT]);
/* The same for a number that had only `digits` significant decimal digits' worth of bits (float32,
 * float16). */
typedef double (*float_narrow)(double);
void float_text_narrow(double value, float_narrow narrow, char to[FLOAT_TEXT]);
/* IEEE half precision. */
double half_to_double(uint16_t bits);

/* Decimal digits of a magnitude in base 2^30; `digits` is used up. */
void int_text(uint32_t *digits, size_t count, struct buf *to);

#endif
