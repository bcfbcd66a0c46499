/* Recordings made by hand, with the right checksums around whatever one likes. */
#ifndef SCRY_FUZZ_RECORDING_BLOCKS_H
#define SCRY_FUZZ_RECORDING_BLOCKS_H

#include <zlib.h>

#include "engine/recording_wire.h"
#include "util/buf.h"

static inline void add_u32(struct buf *b, uint32_t v)
{
    unsigned char bytes[4];
    wire_put_u32(bytes, v);
    buf_add(b, bytes, 4);
}

/* A block that says of its `len` bytes that they are `raw_len` in plain. */
static inline void add_block(struct buf *b, char type, char coding, const void *data, uint32_t len,
                             uint32_t raw_len)
{
    size_t start = b->len;
    buf_add_char(b, type);
    buf_add_char(b, coding);
    buf_add(b, "\0", 2);
    add_u32(b, len);
    add_u32(b, raw_len);
    uint32_t crc = (uint32_t)crc32(0, (const unsigned char *)b->data + start, WIRE_CRC_OFFSET);
    if (len)
        crc = (uint32_t)crc32(crc, data, len);
    add_u32(b, crc);
    buf_add(b, data, len);
}

static inline void add_header(struct buf *b)
{
    buf_add(b, WIRE_MAGIC, WIRE_MAGIC_SIZE);
    add_u32(b, WIRE_VERSION);
}

/* Magic, version and an info block of no information. */
static inline void add_start(struct buf *b)
{
    add_header(b);
    add_block(b, WIRE_INFO, WIRE_STORED, "\0\0\0\0\0", 5, 5);
}

#endif
