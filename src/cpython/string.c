/* str (3.x), str and unicode (2.7), bytes. */
#include "cpython/remote.h"

#define MAX_LENGTH (1ULL << 40) /* beyond it is no string but garbage */
#define CHUNK      1024         /* bytes decoded at a time */

/* 2.7's unicode has 2 or 4 bytes per character, by a build option that shows only in the text: read
 * as 4-byte characters, two ASCII letters of 2 bytes are far out of range. */
static int wide_or_narrow(const struct py_view *v, struct remote_str *s)
{
    uint32_t words[CHUNK / 4];
    uint64_t count = s->length / 2 < ARRAY_LEN(words) ? s->length / 2 : ARRAY_LEN(words);
    int rc = mem_read(v->mem, s->data, words, count * 4);
    if (rc != 0)
        return rc;
    s->unit = 4;
    for (uint64_t i = 0; i < count; i++)
        if (words[i] > 0x10ffff)
            s->unit = 2;
    /* One character and its terminator look alike in both, if it is an ordinary one. */
    if (s->length == 1)
        s->unit = 2;
    s->is_utf16 = s->unit == 2;
    return 0;
}

static int locate_2(const struct py_view *v, const struct remote *r, struct remote_str *s)
{
    const struct layout *l = v->layout;
    struct remote_type type;
    int rc = remote_type_of(v, r, &type);
    if (rc != 0)
        return rc;
    if (type.flags & TYPE_BYTES) {
        s->is_bytes = true;
        s->unit = 1;
        s->data = r->addr + l->str2_data;
        return remote_u64(r, l->var_size, &s->length);
    }
    if (!(type.flags & TYPE_STR))
        return -SCRY_E_CORRUPT;
    rc = remote_u64(r, l->unicode2_length, &s->length);
    if (rc == 0)
        rc = remote_u64(r, l->unicode2_data, &s->data);
    if (rc != 0)
        return rc;
    return s->length > MAX_LENGTH ? -SCRY_E_CORRUPT : wide_or_narrow(v, s);
}

static int locate_3(const struct py_view *v, const struct remote *r, struct remote_str *s)
{
    const struct layout *l = v->layout;
    uint32_t state;
    int rc = remote_u32(r, l->ascii_state, &state);
    if (rc == 0)
        rc = remote_u64(r, l->ascii_length, &s->length);
    if (rc != 0)
        return rc;
    state >>= l->str_kind_shift;
    bool compact = state & 8, ascii = state & 16;
    s->unit = state & 7;
    if (s->unit != 1 && s->unit != 2 && s->unit != 4)
        return -SCRY_E_CORRUPT;
    if (!compact)
        return remote_u64(r, l->unicode_data, &s->data);
    s->data = r->addr + (ascii ? l->ascii_size : l->compact_size);
    return 0;
}

int remote_str(const struct py_view *v, const struct remote *r, struct remote_str *ret_str)
{
    struct remote_str s = {0};
    int rc = v->layout->major == 2 ? locate_2(v, r, &s) : locate_3(v, r, &s);
    if (rc == 0 && s.length > MAX_LENGTH)
        rc = -SCRY_E_CORRUPT;
    if (rc == 0)
        *ret_str = s;
    return rc;
}

static uint32_t unit_at(const unsigned char *bytes, uint8_t unit, size_t index)
{
    uint16_t two;
    uint32_t four;
    switch (unit) {
    case 1:
        return bytes[index];
    case 2:
        memcpy(&two, bytes + index * 2, sizeof(two));
        return two;
    default:
        memcpy(&four, bytes + index * 4, sizeof(four));
        return four;
    }
}

/* Puts surrogate pairs of a narrow build together. */
struct pairing {
    bool wanted;
    uint32_t high; /* first half of a pair, waiting */
    remote_char_callback callback;
    void *context;
};

static int deliver(struct pairing *p, uint32_t c)
{
    if (!p->wanted)
        return p->callback(c, p->context);
    uint32_t high = p->high;
    p->high = 0;
    if (high && c >= 0xdc00 && c <= 0xdfff)
        return p->callback(0x10000 + ((high - 0xd800) << 10) + (c - 0xdc00), p->context);
    int rc = high ? p->callback(high, p->context) : 0;
    if (rc != 0)
        return rc;
    if (c >= 0xd800 && c <= 0xdbff) {
        p->high = c;
        return 0;
    }
    return p->callback(c, p->context);
}

int remote_str_each(const struct py_view *v, const struct remote_str *s, uint64_t max,
                    remote_char_callback callback, void *context)
{
    unsigned char bytes[CHUNK];
    struct pairing pairing = {.wanted = s->is_utf16, .callback = callback, .context = context};
    uint64_t total = s->length < max ? s->length : max;
    for (uint64_t done = 0; done < total;) {
        size_t count = CHUNK / s->unit;
        if (count > total - done)
            count = total - done;
        int rc = mem_read(v->mem, s->data + done * s->unit, bytes, count * s->unit);
        for (size_t i = 0; rc == 0 && i < count; i++)
            rc = deliver(&pairing, unit_at(bytes, s->unit, i));
        if (rc != 0)
            return rc;
        done += count;
    }
    return pairing.high ? callback(pairing.high, context) : 0;
}

static int add_character(uint32_t character, void *context)
{
    buf_add_utf8(context, character);
    return 0;
}

/* How many bytes of well-formed UTF-8 stand here: 1 to 4, or 0. */
static size_t utf8_length(const unsigned char *s, size_t len)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t need = s[0] < 0x80   ? 1
                  : s[0] < 0xc2 ? 0
                  : s[0] < 0xe0 ? 2
                  : s[0] < 0xf0 ? 3
                  : s[0] < 0xf5 ? 4
                                : 0;
    if (need <= 1 || need > len)
        return need <= 1 ? need : 0;
    uint32_t c = s[0] & (0x7f >> need);
    for (size_t i = 1; i < need; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (s[i] & 0x3f);
    }
    return c < smallest[need] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff) ? 0 : need;
}

/* 2.7's str as text: what is not UTF-8 becomes U+FFFD. */
static int add_bytes_as_text(const struct py_view *v, const struct remote_str *s, size_t max,
                             struct buf *to)
{
    struct buf bytes;
    buf_init(&bytes);
    size_t len = s->length < max ? s->length : max;
    int rc =
        buf_reserve(&bytes, len) ? mem_read(v->mem, s->data, bytes.data, len) : -SCRY_E_NO_MEMORY;
    for (size_t i = 0; rc == 0 && i < len;) {
        const unsigned char *at = (const unsigned char *)bytes.data + i;
        size_t n = utf8_length(at, len - i);
        if (n)
            buf_add(to, at, n);
        else
            buf_add_utf8(to, 0xfffd);
        i += n ? n : 1;
    }
    buf_done(&bytes);
    return rc;
}

int py_str_read(const struct py_view *v, scry_addr str, size_t max_chars, struct buf *to)
{
    struct remote r;
    struct remote_str s;
    size_t before = to->len;
    int rc = remote_load(v, str, &r);
    if (rc == 0)
        rc = remote_str(v, &r, &s);
    if (rc == 0)
        rc = s.is_bytes ? add_bytes_as_text(v, &s, max_chars, to)
                        : remote_str_each(v, &s, max_chars, add_character, to);
    if (rc == 0 && to->failed)
        rc = -SCRY_E_NO_MEMORY;
    if (rc < 0)
        buf_truncate(to, before);
    return rc;
}

int py_bytes_read(const struct py_view *v, scry_addr bytes, size_t max, struct buf *to)
{
    uint64_t size;
    int rc = mem_read_u64(v->mem, bytes + v->layout->var_size, &size);
    if (rc != 0)
        return rc;
    if (size > max)
        return -SCRY_E_CORRUPT;
    if (!buf_reserve(to, size))
        return -SCRY_E_NO_MEMORY;
    rc = mem_read(v->mem, bytes + v->layout->bytes_data, to->data + to->len, size);
    if (rc == 0)
        to->len += size;
    to->data[to->len] = '\0';
    return rc;
}
