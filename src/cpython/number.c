/* int, in the three shapes it has had: 2.7's int, a signed count of 30-bit digits, and a tag with
 * the sign in its low bits (3.12+). */
#include "cpython/number.h"

#define MAX_DIGITS    (1ULL << 32) /* beyond it is no int but garbage */
#define SIGN_MASK     3
#define SIGN_NEGATIVE 2
#define TAG_SHIFT     3

static int from_size(const struct py_view *v, const struct remote *r, struct remote_int *n)
{
    int64_t size;
    int rc = remote_i64(r, v->layout->var_size, &size);
    if (rc != 0)
        return rc;
    n->negative = size < 0;
    n->digits = size < 0 ? 0 - (uint64_t)size : (uint64_t)size;
    return 0;
}

static int from_tag(const struct py_view *v, const struct remote *r, struct remote_int *n)
{
    uint64_t tag;
    int rc = remote_u64(r, v->layout->long_tag, &tag);
    if (rc != 0)
        return rc;
    n->negative = (tag & SIGN_MASK) == SIGN_NEGATIVE;
    n->digits = (tag & SIGN_MASK) == 1 ? 0 : tag >> TAG_SHIFT;
    return 0;
}

int remote_int(const struct py_view *v, const struct remote *r, struct remote_int *ret_int)
{
    struct remote_int n = {.data = r->addr + v->layout->long_digit};
    int rc = v->layout->long_tag == LAYOUT_NONE ? from_size(v, r, &n) : from_tag(v, r, &n);
    if (rc == 0 && n.digits > MAX_DIGITS)
        rc = -SCRY_E_CORRUPT;
    if (rc == 0)
        *ret_int = n;
    return rc;
}

static int read_small(const struct py_view *v, const struct remote_int *n, int64_t *ret_value)
{
    uint32_t digits[3];
    unsigned __int128 value = 0;
    if (n->digits > ARRAY_LEN(digits))
        return -SCRY_E_CORRUPT;
    int rc = mem_read(v->mem, n->data, digits, n->digits * sizeof(digits[0]));
    if (rc != 0)
        return rc;
    for (size_t i = n->digits; i-- > 0;)
        value = value << DIGIT_BITS | (digits[i] & ((1U << DIGIT_BITS) - 1));
    unsigned __int128 limit = (unsigned __int128)INT64_MAX + (n->negative ? 1 : 0);
    if (value > limit)
        return -SCRY_E_CORRUPT;
    *ret_value = n->negative ? (int64_t)(0 - (uint64_t)value) : (int64_t)value;
    return 0;
}

int py_long_read(const struct py_view *v, scry_addr obj, int64_t *ret_value)
{
    struct remote r;
    struct remote_int n;
    int rc = remote_load(v, obj, &r);
    if (rc == 0 && v->layout->int2_value != LAYOUT_NONE) {
        struct remote_type type;
        rc = remote_type_of(v, &r, &type);
        if (rc == 0 && type.flags & TYPE_INT2)
            return remote_i64(&r, v->layout->int2_value, ret_value);
    }
    if (rc == 0)
        rc = remote_int(v, &r, &n);
    return rc != 0 ? rc : read_small(v, &n, ret_value);
}
