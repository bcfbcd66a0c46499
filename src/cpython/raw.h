/* Fields out of a copied structure. A field the version does not have, or one beyond the copy,
 * reads as 0. */
#ifndef SCRY_CPYTHON_RAW_H
#define SCRY_CPYTHON_RAW_H

#include <string.h>

#include "util/types.h"

struct raw {
    const unsigned char *data;
    size_t len;
};

static inline uint64_t raw_u64(struct raw r, int32_t offset)
{
    uint64_t value = 0;
    if (offset >= 0 && (size_t)offset + sizeof(value) <= r.len)
        memcpy(&value, r.data + offset, sizeof(value));
    return value;
}

static inline uint32_t raw_u32(struct raw r, int32_t offset)
{
    uint32_t value = 0;
    if (offset >= 0 && (size_t)offset + sizeof(value) <= r.len)
        memcpy(&value, r.data + offset, sizeof(value));
    return value;
}

static inline uint8_t raw_u8(struct raw r, int32_t offset)
{
    return offset >= 0 && (size_t)offset < r.len ? r.data[offset] : 0;
}

#endif
