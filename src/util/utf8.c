#include "util/utf8.h"

uint32_t utf8_decode(const void *text, size_t length)
{
    static const unsigned char lead_bits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    const unsigned char *s = text;
    uint32_t c = s[0] & lead_bits[length];
    for (size_t i = 1; i < length; i++)
        c = c << 6 | (s[i] & 0x3f);
    return c;
}

size_t utf8_prefix(const char *s, size_t len, size_t max)
{
    if (len <= max)
        return len;
    size_t cut = max;
    while (cut > 0 && max - cut < 3 && ((unsigned char)s[cut] & 0xc0) == 0x80)
        cut--;
    /* Not UTF-8 to begin with: there is no character to keep whole. */
    return ((unsigned char)s[cut] & 0xc0) == 0x80 ? max : cut;
}

bool utf8_valid(const void *s, size_t len)
{
    const unsigned char *p = s;
    while (len > 0) {
        size_t n = utf8_length(p, len);
        if (n == 0)
            return false;
        p += n;
        len -= n;
    }
    return true;
}

void utf8_clean(struct buf *to, const void *s, size_t len)
{
    const unsigned char *p = s;
    while (len > 0) {
        size_t n = utf8_length(p, len);
        if (n)
            buf_add(to, p, n);
        else
            buf_add_utf8(to, 0xfffd);
        p += n ? n : 1;
        len -= n ? n : 1;
    }
}
