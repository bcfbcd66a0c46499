/* Decimal text of floats and of ints of any size. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cpython/number.h"

#define MOST_DIGITS    17 /* are always enough for a double */
#define SMALL_EXPONENT (-4)
#define LARGE_EXPONENT 16

/* A decimal number d.ddd x 10^exponent. */
struct decimal {
    char digits[MOST_DIGITS + 1];
    int count;
    int exponent;
};

static double as_is(double value)
{
    return value;
}

static double decimal_value(const struct decimal *d)
{
    char text[64];
    snprintf(text, sizeof(text), "%se%d", d->digits, d->exponent - (d->count - 1));
    return strtod(text, NULL);
}

/* `value` > 0 rounded to so many digits. */
static void decimal_round(double value, int count, struct decimal *d)
{
    char text[64];
    snprintf(text, sizeof(text), "%.*e", count - 1, value);
    /* d.ddde+XX, where the point is the locale's and not there for one digit. */
    d->count = 0;
    const char *at = text;
    for (; *at && *at != 'e'; at++)
        if (*at >= '0' && *at <= '9' && d->count < MOST_DIGITS)
            d->digits[d->count++] = *at;
    d->digits[d->count] = '\0';
    d->exponent = *at ? atoi(at + 1) : 0;
}

/* One more in the last place. Next to a power of two the nearest text may lie outside of what reads
 * back while the next one up still does. */
static void decimal_increment(struct decimal *d)
{
    int i = d->count - 1;
    while (i >= 0 && d->digits[i] == '9')
        d->digits[i--] = '0';
    if (i >= 0) {
        d->digits[i]++;
        return;
    }
    d->digits[0] = '1';
    d->exponent++;
}

static void decimal_shortest(double value, float_narrow narrow, struct decimal *d)
{
    for (int count = 1; count <= MOST_DIGITS; count++) {
        decimal_round(value, count, d);
        if (narrow(decimal_value(d)) == value)
            break;
        struct decimal up = *d;
        decimal_increment(&up);
        if (narrow(decimal_value(&up)) == value) {
            *d = up;
            break;
        }
    }
    while (d->count > 1 && d->digits[d->count - 1] == '0')
        d->digits[--d->count] = '\0';
}

static void add_exponent(const struct decimal *d, char *to, size_t cap)
{
    const char *rest = d->digits + 1;
    snprintf(to, cap, "%c%s%se%c%02d", d->digits[0], *rest ? "." : "", rest,
             d->exponent < 0 ? '-' : '+', abs(d->exponent));
}

static void add_positional(const struct decimal *d, bool whole, char *to, size_t cap)
{
    if (d->exponent < 0) {
        snprintf(to, cap, "0.%.*s%s", -d->exponent - 1, "0000", d->digits);
    } else if (d->exponent + 1 >= d->count) {
        snprintf(to, cap, "%s%.*s%s", d->digits, d->exponent + 1 - d->count, "0000000000000000",
                 whole ? ".0" : "");
    } else {
        snprintf(to, cap, "%.*s.%s", d->exponent + 1, d->digits, d->digits + d->exponent + 1);
    }
}

static void write_float(double value, bool whole, float_narrow narrow, char to[FLOAT_TEXT])
{
    if (isnan(value)) {
        snprintf(to, FLOAT_TEXT, "nan");
        return;
    }
    bool negative = signbit(value);
    char *at = to;
    size_t cap = FLOAT_TEXT;
    if (negative) {
        *at++ = '-';
        cap--;
        value = -value;
    }
    struct decimal d = {.digits = "0", .count = 1};
    if (isinf(value)) {
        snprintf(at, cap, "inf");
        return;
    }
    if (value != 0)
        decimal_shortest(value, narrow, &d);
    if (d.exponent < SMALL_EXPONENT || d.exponent >= LARGE_EXPONENT)
        add_exponent(&d, at, cap);
    else
        add_positional(&d, whole, at, cap);
}

void float_text(double value, bool whole, char to[FLOAT_TEXT])
{
    write_float(value, whole, as_is, to);
}

void float_text_narrow(double value, float_narrow narrow, char to[FLOAT_TEXT])
{
    write_float(value, true, narrow, to);
}

double half_to_double(uint16_t bits)
{
    int exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
    double value;
    if (exponent == 0x1f)
        value = fraction ? NAN : INFINITY;
    else if (exponent == 0)
        value = ldexp(fraction, -24);
    else
        value = ldexp(fraction + 0x400, exponent - 25);
    return bits & 0x8000 ? -value : value;
}

/* Nine decimal digits at a time, least significant first. */
#define PIECE 1000000000U

static uint32_t divide(uint32_t *digits, size_t count)
{
    uint64_t rest = 0;
    for (size_t i = count; i-- > 0;) {
        uint64_t part = rest << DIGIT_BITS | digits[i];
        digits[i] = (uint32_t)(part / PIECE);
        rest = part % PIECE;
    }
    return (uint32_t)rest;
}

void int_text(uint32_t *digits, size_t count, struct buf *to)
{
    struct buf pieces; /* uint32_t each */
    buf_init(&pieces);
    while (count > 0 && digits[count - 1] == 0)
        count--;
    while (count > 0) {
        uint32_t piece = divide(digits, count);
        buf_add(&pieces, &piece, sizeof(piece));
        while (count > 0 && digits[count - 1] == 0)
            count--;
    }
    size_t left = pieces.len / sizeof(uint32_t);
    if (left == 0)
        buf_add_char(to, '0');
    for (bool first = true; left-- > 0; first = false) {
        uint32_t piece;
        memcpy(&piece, pieces.data + left * sizeof(piece), sizeof(piece));
        buf_addf(to, first ? "%u" : "%09u", piece);
    }
    buf_done(&pieces);
}
