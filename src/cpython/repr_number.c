/* bool, int, float, complex, and numpy's scalars. */
#include <math.h>
#include <stdio.h>

#include "cpython/number.h"
#include "cpython/repr.h"

/* About as long as Python itself is willing to convert (4300 decimal digits). */
#define MAX_INT_DIGITS     480
#define DECIMALS_PER_DIGIT 9.0309 /* log10(2^30) */

static int add_int(struct repr *r, const struct remote_int *n, const char *suffix)
{
    uint32_t digits[MAX_INT_DIGITS];
    char text[64];
    if (n->digits > MAX_INT_DIGITS) {
        snprintf(text, sizeof(text), "<int with about %.0f digits>",
                 (double)n->digits * DECIMALS_PER_DIGIT);
        repr_add(r, text);
        return 0;
    }
    int rc = mem_read(r->v->mem, n->data, digits, n->digits * sizeof(digits[0]));
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < n->digits; i++)
        digits[i] &= (1U << DIGIT_BITS) - 1;
    SCOPED_BUF decimal;
    buf_init(&decimal);
    if (n->negative)
        buf_add_char(&decimal, '-');
    int_text(digits, n->digits, &decimal);
    buf_add_str(&decimal, suffix);
    repr_add(r, decimal.data);
    return 0;
}

int repr_int(struct repr *r, const struct remote *obj, const struct repr_type *type)
{
    (void)type;
    struct remote_int n;
    int rc = remote_int(r->v, obj, &n);
    return rc != 0 ? rc : add_int(r, &n, r->v->layout->major == 2 ? "L" : "");
}

int repr_int2(struct repr *r, const struct remote *obj, const struct repr_type *type)
{
    (void)type;
    int64_t value;
    char text[32];
    int rc = remote_i64(obj, r->v->layout->int2_value, &value);
    if (rc != 0)
        return rc;
    snprintf(text, sizeof(text), "%lld", (long long)value);
    repr_add(r, text);
    return 0;
}

int repr_bool(struct repr *r, const struct remote *obj, const struct repr_type *type)
{
    (void)type;
    int64_t value;
    int rc;
    if (r->v->layout->int2_value != LAYOUT_NONE) {
        rc = remote_i64(obj, r->v->layout->int2_value, &value);
    } else {
        struct remote_int n;
        rc = remote_int(r->v, obj, &n);
        value = n.digits != 0;
        /* Up to 3.11 False has no digit; since 3.12 it has the tag of zero: both come as 0 digits.
         */
    }
    if (rc == 0)
        repr_add(r, value ? "True" : "False");
    return rc;
}

static int double_at(const struct remote *obj, int32_t offset, double *ret_value)
{
    uint64_t bits;
    int rc = remote_u64(obj, offset, &bits);
    if (rc == 0)
        memcpy(ret_value, &bits, sizeof(bits));
    return rc;
}

int repr_float(struct repr *r, const struct remote *obj, const struct repr_type *type)
{
    (void)type;
    double value;
    char text[FLOAT_TEXT];
    int rc = double_at(obj, r->v->layout->float_value, &value);
    if (rc != 0)
        return rc;
    float_text(value, true, text);
    repr_add(r, text);
    return 0;
}

static void add_complex(struct repr *r, double real, double imag)
{
    char real_text[FLOAT_TEXT], imag_text[FLOAT_TEXT], text[3 * FLOAT_TEXT];
    float_text(real, false, real_text);
    float_text(imag, false, imag_text);
    if (real == 0 && !signbit(real))
        snprintf(text, sizeof(text), "%sj", imag_text);
    else
        snprintf(text, sizeof(text), "(%s%s%sj)", real_text, imag_text[0] == '-' ? "" : "+",
                 imag_text);
    repr_add(r, text);
}

int repr_complex(struct repr *r, const struct remote *obj, const struct repr_type *type)
{
    (void)type;
    double real, imag;
    int rc = double_at(obj, r->v->layout->ob_size, &real);
    if (rc == 0)
        rc = double_at(obj, r->v->layout->ob_size + (int32_t)sizeof(real), &imag);
    if (rc == 0)
        add_complex(r, real, imag);
    return rc;
}

static double narrow_to_float(double value)
{
    return (float)value;
}

/* Round to half precision: to a multiple of the spacing there, ties to even. */
static double narrow_to_half(double value)
{
    int exponent;
    frexp(value, &exponent);
    int spacing = exponent - 11 > -24 ? exponent - 11 : -24;
    return ldexp(nearbyint(ldexp(value, -spacing)), spacing);
}

enum numpy_kind { NUMPY_BOOL, NUMPY_SIGNED, NUMPY_UNSIGNED, NUMPY_FLOAT };

static const struct numpy_type {
    const char *name;
    enum numpy_kind kind;
    uint8_t size;
} numpy_types[] = {
    {"numpy.bool", NUMPY_BOOL, 1},       {"numpy.bool_", NUMPY_BOOL, 1},
    {"numpy.int8", NUMPY_SIGNED, 1},     {"numpy.uint8", NUMPY_UNSIGNED, 1},
    {"numpy.int16", NUMPY_SIGNED, 2},    {"numpy.uint16", NUMPY_UNSIGNED, 2},
    {"numpy.int32", NUMPY_SIGNED, 4},    {"numpy.uint32", NUMPY_UNSIGNED, 4},
    {"numpy.int64", NUMPY_SIGNED, 8},    {"numpy.uint64", NUMPY_UNSIGNED, 8},
    {"numpy.longlong", NUMPY_SIGNED, 8}, {"numpy.ulonglong", NUMPY_UNSIGNED, 8},
    {"numpy.intc", NUMPY_SIGNED, 4},     {"numpy.uintc", NUMPY_UNSIGNED, 4},
    {"numpy.float16", NUMPY_FLOAT, 2},   {"numpy.float32", NUMPY_FLOAT, 4},
    {"numpy.float64", NUMPY_FLOAT, 8},
};

static void numpy_float_text(uint64_t bits, uint8_t size, char text[FLOAT_TEXT])
{
    double value;
    float single;
    switch (size) {
    case 2:
        float_text_narrow(half_to_double((uint16_t)bits), narrow_to_half, text);
        break;
    case 4:
        memcpy(&single, &bits, sizeof(single));
        float_text_narrow(single, narrow_to_float, text);
        break;
    default:
        memcpy(&value, &bits, sizeof(value));
        float_text(value, true, text);
    }
}

int repr_numpy(struct repr *r, const struct remote *obj, const struct repr_type *type)
{
    const struct numpy_type *t = NULL;
    for (size_t i = 0; i < ARRAY_LEN(numpy_types); i++)
        if (strcmp(numpy_types[i].name, type->name) == 0)
            t = &numpy_types[i];
    size_t at = (size_t)r->v->layout->ob_size;
    if (!t || at + t->size > obj->len)
        return -SCRY_E_READ;
    uint64_t bits = 0;
    char text[FLOAT_TEXT];
    memcpy(&bits, obj->bytes + at, t->size);
    int unused = 64 - 8 * t->size;
    if (t->kind == NUMPY_BOOL)
        snprintf(text, sizeof(text), "%s", bits ? "True" : "False");
    else if (t->kind == NUMPY_SIGNED)
        snprintf(text, sizeof(text), "%lld", (long long)((int64_t)(bits << unused) >> unused));
    else if (t->kind == NUMPY_UNSIGNED)
        snprintf(text, sizeof(text), "%llu", (unsigned long long)bits);
    else
        numpy_float_text(bits, t->size, text);
    repr_add(r, text);
    return 0;
}
