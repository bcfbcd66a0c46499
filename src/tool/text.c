#include "tool/text.h"

#include <string.h>

/* Decode one character of UTF-8. Its length, or 0 when the bytes are not valid. */
static size_t decode(const unsigned char *s, uint32_t *ret_code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t len = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    if (len == 0 || s[0] > 0xf4)
        return 0;
    uint32_t code = len == 1 ? s[0] : s[0] & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (s[i] & 0x3f);
    }
    if (code < least[len] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        return 0;
    *ret_code = code;
    return len;
}

/* Characters that a terminal acts on, or that make text look like what it is not. */
static bool must_escape(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x00ad || c == 0x061c ||
           (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2060 && c <= 0x206f) || c == 0xfeff || (c >= 0xfff9 && c <= 0xfffb) ||
           (c >= 0xe0000 && c <= 0xe007f);
}

static void add_escaped(struct buf *to, uint32_t c)
{
    if (c == '\n')
        buf_add_str(to, "\\n");
    else if (c == '\r')
        buf_add_str(to, "\\r");
    else if (c == '\t')
        buf_add_str(to, "\\t");
    else if (c < 0x100)
        buf_addf(to, "\\x%02x", c);
    else if (c < 0x10000)
        buf_addf(to, "\\u%04x", c);
    else
        buf_addf(to, "\\U%08x", c);
}

void text_add_printable(struct buf *to, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    while (*s) {
        uint32_t code;
        size_t len = decode(s, &code);
        if (len == 0) {
            buf_addf(to, "\\x%02x", *s++);
            continue;
        }
        if (must_escape(code))
            add_escaped(to, code);
        else
            buf_add(to, s, len);
        s += len;
    }
}

void text_print(FILE *out, const char *text)
{
    SCOPED_BUF safe;
    buf_init(&safe);
    text_add_printable(&safe, text);
    fwrite(safe.data, 1, safe.len, out);
}

static int columns(const char *s, size_t len)
{
    int n = 0;
    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)s[i] & 0xc0) != 0x80;
    return n;
}

void text_wrap(FILE *out, const char *text, int column, int indent, int width)
{
    bool fresh = true; /* nothing on this line yet that needs a blank after it */
    while (*text) {
        if (*text == '\n' || *text == ' ') {
            if (*text == '\n') {
                fputc('\n', out);
                column = 0;
                fresh = true;
            }
            text++;
            continue;
        }
        size_t len = strcspn(text, " \n");
        int wide = columns(text, len);
        if (!fresh && column + 1 + wide > width) {
            fputc('\n', out);
            column = 0;
            fresh = true;
        }
        if (fresh && column < indent) {
            fprintf(out, "%*s", indent - column, "");
            column = indent;
        }
        if (!fresh)
            fputc(' ', out);
        fwrite(text, 1, len, out);
        column += wide + !fresh;
        fresh = false;
        text += len;
    }
    fputc('\n', out);
}
