/* How long a UTF-8 character is. A header of its own that needs nothing else: the tracer's extension is built without the
 * rest of src/, wherever it lies. */
#ifndef SCRY_UTIL_UTF8_LENGTH_H
#define SCRY_UTIL_UTF8_LENGTH_H

#include <stddef.h>

/* Length in bytes of the valid sequence at the start of `text`, of which `left` (> 0) bytes are there;
 * 0 if there is none. */
static inline size_t utf8_length(const void *text, size_t left)
{
    const unsigned char *s = text;
    if (s[0] < 0x80)
        return 1;
    size_t n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4 || n > left)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

#endif
