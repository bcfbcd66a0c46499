/* str and bytes in quotes, by Python's rules. */
#include <stdio.h>

#include "cpython/repr.h"

/* What str.isprintable() denies: controls, formats, separators but the space, surrogates, private
 * use, and whole planes that are not assigned. Single unassigned characters are shown as they are.
 */
static bool printable(uint32_t c)
{
    static const struct {
        uint32_t first, last;
    } hidden[] = {
        {0x00, 0x1f},       {0x7f, 0xa0},       {0xad, 0xad},       {0x600, 0x605},
        {0x61c, 0x61c},     {0x6dd, 0x6dd},     {0x70f, 0x70f},     {0x8e2, 0x8e2},
        {0x1680, 0x1680},   {0x180e, 0x180e},   {0x2000, 0x200f},   {0x2028, 0x202f},
        {0x205f, 0x206f},   {0x3000, 0x3000},   {0xd800, 0xf8ff},   {0xfeff, 0xfeff},
        {0xfff0, 0xfffb},   {0xfffe, 0xffff},   {0x110bd, 0x110bd}, {0x110cd, 0x110cd},
        {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe00ff}, {0xe01f0, UINT32_MAX},
    };
    for (size_t i = 0; i < ARRAY_LEN(hidden); i++)
        if (c >= hidden[i].first && c <= hidden[i].last)
            return false;
    return true;
}

/* One character between quotes; how many characters it became. */
static int64_t add_escaped(struct buf *to, uint32_t c, char quote, bool ascii_only)
{
    char text[16] = {'\\', 0};
    if (c == (uint32_t)quote || c == '\\')
        text[1] = (char)c;
    else if (c == '\n' || c == '\r' || c == '\t')
        text[1] = c == '\n' ? 'n' : c == '\r' ? 'r' : 't';
    else if (c >= 0x20 && c < 0x7f)
        text[0] = (char)c;
    else if (!ascii_only && printable(c)) {
        buf_add_utf8(to, c);
        return 1;
    } else if (c <= 0xff)
        snprintf(text, sizeof(text), "\\x%02x", c);
    else if (c <= 0xffff)
        snprintf(text, sizeof(text), "\\u%04x", c);
    else
        snprintf(text, sizeof(text), "\\U%08x", c);
    buf_add_str(to, text);
    return (int64_t)strlen(text);
}

/* `characters` as they are to be shown, `cut` when there were more. */
static void add_quoted(struct repr *r, const uint32_t *characters, size_t count, bool cut,
                       bool ascii_only)
{
    bool has_single = false, has_double = false;
    for (size_t i = 0; i < count; i++) {
        has_single = has_single || characters[i] == '\'';
        has_double = has_double || characters[i] == '"';
    }
    char quote = has_single && !has_double ? '"' : '\'';
    buf_add_char(r->to, quote);
    r->left -= 2;
    size_t shown = 0;
    for (; shown < count && (r->left > 0 || shown == 0); shown++)
        r->left -= add_escaped(r->to, characters[shown], quote, ascii_only);
    buf_add_char(r->to, quote);
    if (cut || shown < count) {
        buf_add_str(r->to, "...");
        r->left = 0;
    }
}

static int collect(uint32_t character, void *context)
{
    buf_add(context, &character, sizeof(character));
    return 0;
}

/* One character more than there is room for shows that there are more. */
static uint64_t room(const struct repr *r)
{
    return r->left > 0 ? (uint64_t)r->left + 1 : 1;
}

int repr_str(struct repr *r, const struct remote *obj, const struct repr_type *type)
{
    (void)type;
    struct remote_str s;
    SCOPED_BUF text;
    buf_init(&text);
    int rc = remote_str(r->v, obj, &s);
    if (rc == 0)
        rc = remote_str_each(r->v, &s, room(r), collect, &text);
    if (rc != 0)
        return rc;
    bool is_2 = r->v->layout->major == 2;
    if (is_2 && !s.is_bytes)
        repr_force(r, "u");
    add_quoted(r, (const uint32_t *)(const void *)text.data, text.len / sizeof(uint32_t),
               s.length > room(r), is_2);
    return 0;
}

static int add_bytes(struct repr *r, scry_addr data, uint64_t size)
{
    uint64_t shown = size < room(r) ? size : room(r);
    struct remote_str s = {.data = data, .length = shown, .unit = 1};
    SCOPED_BUF text;
    buf_init(&text);
    int rc = remote_str_each(r->v, &s, shown, collect, &text);
    if (rc != 0)
        return rc;
    repr_force(r, "b");
    add_quoted(r, (const uint32_t *)(const void *)text.data, text.len / sizeof(uint32_t),
               size > shown, true);
    return 0;
}

int repr_bytes(struct repr *r, const struct remote *obj, const struct repr_type *type)
{
    if (r->v->layout->major == 2)
        return repr_str(r, obj, type);
    uint64_t size;
    int rc = remote_u64(obj, r->v->layout->var_size, &size);
    return rc != 0 ? rc : add_bytes(r, obj->addr + r->v->layout->bytes_data, size);
}

int repr_bytearray(struct repr *r, const struct remote *obj, const struct repr_type *type)
{
    (void)type;
    uint64_t size, start;
    int rc = remote_u64(obj, r->v->layout->var_size, &size);
    if (rc == 0)
        rc = remote_u64(obj, r->v->layout->bytearray_start, &start);
    if (rc != 0)
        return rc;
    size_t before = r->to->len;
    repr_add(r, "bytearray(");
    rc = add_bytes(r, start, size);
    if (rc < 0)
        buf_truncate(r->to, before);
    else
        repr_force(r, ")");
    return rc;
}
