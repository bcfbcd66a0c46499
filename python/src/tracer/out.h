/* Bytes on their way to a file. */
#ifndef SCRY_TRACER_OUT_H
#define SCRY_TRACER_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "read.h"

#define OUT_SIZE (1u << 18)

struct out {
    int fd;
    int error; /* errno of the first write that failed */
    size_t used;
    uint64_t total;
    char data[OUT_SIZE];
};

bool out_flush(struct out *o);

/* At least `bytes` bytes to write to; NULL when writing has failed. At most OUT_SIZE. */
static inline char *out_room(struct out *o, size_t bytes)
{
    if (o->used + bytes > OUT_SIZE && !out_flush(o))
        return NULL;
    return o->data + o->used;
}

static inline bool out_put(struct out *o, const void *data, size_t bytes)
{
    char *to = out_room(o, bytes);
    if (!to)
        return false;
    memcpy(to, data, bytes);
    o->used += bytes;
    return true;
}

/* Returns where it ended. */
static inline char *put_varint(char *to, uint64_t v)
{
    while (v >= 0x80) {
        *to++ = (char)(v | 0x80);
        v >>= 7;
    }
    *to++ = (char)v;
    return to;
}

/* A growing buffer. */
struct bytes {
    char *data;
    size_t used, cap;
    bool failed;
};
char *bytes_room(struct bytes *b, size_t more); /* NULL: no memory */
void bytes_put(struct bytes *b, const void *data, size_t count);
/* As the inside of a JSON string; what is not UTF-8 becomes U+FFFD. */
void bytes_put_json(struct bytes *b, struct text text);
/* Without what is not UTF-8. */
void bytes_put_utf8(struct bytes *b, struct text text);
void bytes_put_number(struct bytes *b, uint64_t number);

/* "f (/a.py:3)", "builtins.len"; for JSON escaped. */
void bytes_put_name(struct bytes *b, const struct read_image *image, const struct call *call,
                    bool json);

#endif
