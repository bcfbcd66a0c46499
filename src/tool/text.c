#include "tool/text.h"

#include <string.h>

#include "util/utf8.h"

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
    for (size_t left = strlen(text); left > 0;) {
        size_t len = utf8_length(text, left);
        if (len == 0) {
            buf_addf(to, "\\x%02x", (unsigned char)*text);
            len = 1;
        } else if (must_escape(utf8_decode(text, len))) {
            add_escaped(to, utf8_decode(text, len));
        } else {
            buf_add(to, text, len);
        }
        text += len;
        left -= len;
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
