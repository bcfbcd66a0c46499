/* Reading UTF-8 that may be broken: file names and process titles are bytes, whatever they claim.
 */
#ifndef SCRY_UTIL_UTF8_H
#define SCRY_UTIL_UTF8_H

#include "util/buf.h"
#include "util/utf8_length.h"

/* The code point of a sequence whose length utf8_length() gave. */
uint32_t utf8_decode(const void *s, size_t length);

/* How much of `s` to keep to stay within `max` bytes without cutting a character in two. */
size_t utf8_prefix(const char *s, size_t len, size_t max);

bool utf8_valid(const void *s, size_t len);

/* Append `s`, each byte that begins no valid sequence replaced by U+FFFD. */
void utf8_clean(struct buf *to, const void *s, size_t len);

#endif
