/* What tells one build of a file from another: the note the linker put there. */
#ifndef SCRY_BINARY_BUILD_ID_H
#define SCRY_BINARY_BUILD_ID_H

#include "access/mem.h"

#define BUILD_ID_MAX 64

struct build_id {
    size_t len; /* 0 = none, or not to be had */
    unsigned char bytes[BUILD_ID_MAX];
};

/* Of an ELF image that begins at `base` in this memory, as it was mapped. */
struct build_id build_id_in_memory(struct mem *mem, scry_addr base);
/* Of a file as it lies on disk. */
struct build_id build_id_in_file(const void *data, size_t size);
/* Only where both are known can they differ. */
bool build_id_differ(const struct build_id *a, const struct build_id *b);

#endif
