/* A growable byte buffer, always NUL-terminated. When memory runs out it stops growing and `failed`
 * stays set: callers check once, at the end. */
#ifndef SCRY_UTIL_BUF_H
#define SCRY_UTIL_BUF_H

#include "util/types.h"

struct buf {
    char *data; /* "" while nothing was added */
    size_t len; /* without the NUL */
    size_t cap;
    bool failed;
};

void buf_init(struct buf *b);
void buf_done(struct buf *b);
void buf_reset(struct buf *b); /* length 0, memory kept */
bool buf_reserve(struct buf *b, size_t more);
void buf_add(struct buf *b, const void *data, size_t len);
void buf_add_str(struct buf *b, const char *s);
void buf_add_char(struct buf *b, char c);
void buf_addf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_add_utf8(struct buf *b, uint32_t code_point); /* surrogates and beyond become U+FFFD */
void buf_truncate(struct buf *b, size_t len);
char *buf_detach(struct buf *b); /* the caller frees it; NULL when failed */

#define SCOPED_BUF __attribute__((cleanup(buf_done))) struct buf

#endif
