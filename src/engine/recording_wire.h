/* What the writer and the reader of a recording share: the numbers of docs/format.md, and limits
 * that the writer keeps and the reader holds against the file. Private to recording*.c. */
#ifndef SCRY_ENGINE_RECORDING_WIRE_H
#define SCRY_ENGINE_RECORDING_WIRE_H

#include "util/types.h"

/* Like PNG's: a byte no text begins with, and line ends that a transfer in text mode would spoil.
 */
#define WIRE_MAGIC       "\x89SCRY\r\n\x1a"
#define WIRE_MAGIC_SIZE  8
#define WIRE_VERSION     1
#define WIRE_HEADER_SIZE (WIRE_MAGIC_SIZE + 4)

/* type u8, coding u8, zero u16, stored length u32, raw length u32, crc32 u32; little endian. */
#define WIRE_BLOCK_HEADER 16
#define WIRE_CRC_OFFSET   12
enum wire_block {
    WIRE_INFO = 'I',
    WIRE_DATA = 'D',
    WIRE_END = 'E',
};
#define WIRE_MAY_SKIP 0x20 /* a type in lower case may be passed over by who does not know it */
enum wire_coding {
    WIRE_STORED = 0,
    WIRE_ZSTD = 1,
};

enum wire_record {
    WIRE_STRING = 1,
    WIRE_PROCESS = 2,
    WIRE_THREAD = 3,
    WIRE_THREAD_NAME = 4,
    WIRE_FRAME = 5,
    WIRE_STACK = 6,
    WIRE_OPTIONAL = 0x40, /* with this bit: may be passed over */
    WIRE_SAMPLE = 0x80,
};
/* What a sample record spells out; what it leaves out is as before. */
enum wire_sample {
    WIRE_HAS_TIME = 1,
    WIRE_HAS_STACK = 2,
    WIRE_HAS_WEIGHT = 4,
    WIRE_HAS_FLAGS = 8,
    WIRE_MICROSECONDS = 16, /* time and weight of this sample are in these, not in nanoseconds */
    WIRE_SAMPLE_BITS = 31,
};

#define WIRE_MAX_BLOCK     (1u << 20) /* raw bytes in one block */
#define WIRE_MAX_STRING    65535u
#define WIRE_MAX_TEXT      (512u << 20) /* bytes of all strings together */
#define WIRE_MAX_STRINGS   (1u << 22)
#define WIRE_MAX_FRAMES    (1u << 22)
#define WIRE_MAX_STACKS    (1u << 24)
#define WIRE_MAX_THREADS   (1u << 20)
#define WIRE_MAX_PROCESSES (1u << 18)
#define WIRE_MAX_TIME      (1ULL << 62) /* so that a time and a start add up without overflow */

/* What a sample's missing fields refer to. One per thread, all zero before its first sample. */
struct wire_last {
    scry_nsec time;
    uint32_t stack;
    uint32_t flags;
};

static inline uint64_t wire_zigzag(int64_t v)
{
    return (uint64_t)v << 1 ^ (uint64_t)(v >> 63);
}

static inline int64_t wire_unzigzag(uint64_t v)
{
    return (int64_t)(v >> 1 ^ (0 - (v & 1)));
}

#define WIRE_MAX_VARINT 10
/* Returns the number of bytes put. */
static inline size_t wire_put_varint(unsigned char *to, uint64_t v)
{
    size_t n = 0;
    for (; v >= 0x80; v >>= 7)
        to[n++] = (unsigned char)(v | 0x80);
    to[n++] = (unsigned char)v;
    return n;
}

static inline void wire_put_u32(unsigned char *to, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(v >> 8 * i);
}

static inline uint32_t wire_get_u32(const unsigned char *from)
{
    return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

#endif
