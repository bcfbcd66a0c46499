#include "util/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char empty[1];

void buf_init(struct buf *b)
{
    *b = (struct buf){.data = empty};
}

void buf_done(struct buf *b)
{
    if (!b)
        return;
    if (b->cap)
        free(b->data);
    buf_init(b);
}

void buf_reset(struct buf *b)
{
    b->len = 0;
    b->failed = false;
    if (b->cap)
        b->data[0] = '\0';
}

bool buf_reserve(struct buf *b, size_t more)
{
    if (b->failed)
        return false;
    size_t need;
    if (__builtin_add_overflow(b->len, more, &need) || __builtin_add_overflow(need, 1, &need))
        goto fail;
    if (need <= b->cap)
        return true;
    size_t cap = b->cap ? b->cap : 64;
    while (cap < need) {
        if (cap > SIZE_MAX / 2)
            goto fail;
        cap *= 2;
    }
    char *grown = realloc(b->cap ? b->data : NULL, cap);
    if (!grown)
        goto fail;
    if (!b->cap)
        grown[0] = '\0';
    b->data = grown;
    b->cap = cap;
    return true;
fail:
    b->failed = true;
    return false;
}

void buf_add(struct buf *b, const void *data, size_t len)
{
    if (!len || !buf_reserve(b, len))
        return;
    memcpy(b->data + b->len, data, len);
    b->len += len;
    b->data[b->len] = '\0';
}

void buf_add_str(struct buf *b, const char *s)
{
    buf_add(b, s, strlen(s));
}

void buf_add_char(struct buf *b, char c)
{
    buf_add(b, &c, 1);
}

void buf_addf(struct buf *b, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int need = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (need <= 0 || !buf_reserve(b, (size_t)need))
        return;
    va_start(args, format);
    vsnprintf(b->data + b->len, (size_t)need + 1, format, args);
    va_end(args);
    b->len += (size_t)need;
}

void buf_add_utf8(struct buf *b, uint32_t c)
{
    char s[4];
    if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
        c = 0xfffd;
    if (c < 0x80) {
        buf_add_char(b, (char)c);
    } else if (c < 0x800) {
        s[0] = (char)(0xc0 | c >> 6);
        s[1] = (char)(0x80 | (c & 0x3f));
        buf_add(b, s, 2);
    } else if (c < 0x10000) {
        s[0] = (char)(0xe0 | c >> 12);
        s[1] = (char)(0x80 | (c >> 6 & 0x3f));
        s[2] = (char)(0x80 | (c & 0x3f));
        buf_add(b, s, 3);
    } else {
        s[0] = (char)(0xf0 | c >> 18);
        s[1] = (char)(0x80 | (c >> 12 & 0x3f));
        s[2] = (char)(0x80 | (c >> 6 & 0x3f));
        s[3] = (char)(0x80 | (c & 0x3f));
        buf_add(b, s, 4);
    }
}

void buf_truncate(struct buf *b, size_t len)
{
    if (len < b->len) {
        b->len = len;
        b->data[len] = '\0';
    }
}

char *buf_detach(struct buf *b)
{
    char *data = NULL;
    if (!b->failed)
        data = b->cap ? b->data : strdup("");
    else if (b->cap)
        free(b->data);
    buf_init(b);
    return data;
}
