/* Symbols of an ELF file as it lies in the target's memory: for files that can no longer be opened.
 * Only what the dynamic linker itself needs is there, which is enough to find exported names. */
#ifndef SCRY_BINARY_IMAGE_H
#define SCRY_BINARY_IMAGE_H

#include "access/mem.h"
#include "binary/elf.h"

struct image {
    struct mem *mem;
    uint64_t bias;
    scry_addr symbols; /* DT_SYMTAB */
    scry_addr strings; /* DT_STRTAB */
    scry_addr hash;    /* DT_GNU_HASH */
};

/* `base` is where the file's first byte is mapped. */
int image_open(struct mem *mem, scry_addr base, struct image *ret_image);
/* An exported, defined symbol; its address is the one in the process. */
bool image_symbol(const struct image *image, const char *name, struct elf_place *ret);

#endif
