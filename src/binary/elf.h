/* An ELF file of the target: where its segments, sections and symbols are. Addresses are those in
 * the file; add the load bias to get addresses in the process. */
#ifndef SCRY_BINARY_ELF_H
#define SCRY_BINARY_ELF_H

#include "access/maps.h"

struct elf_file;

struct elf_place {
    uint64_t addr;
    uint64_t size;
};

/* Takes over the descriptor, also on failure. 64-bit ELF of this machine's kind only. */
int elf_open(int fd, struct elf_file **ret_elf);
/* The same from a copy in memory, which must stay where it is until the close. */
int elf_open_memory(void *image, size_t len, struct elf_file **ret_elf);
void elf_close(struct elf_file *elf);

/* libelf's own handle, for libdw; lives as long as the file does. */
struct Elf;
struct Elf *elf_handle(struct elf_file *elf);
/* The build id as lower-case hexadecimal digits; "" when it has none. */
#define ELF_BUILD_ID_MAX 129
void elf_build_id(struct elf_file *elf, char to[ELF_BUILD_ID_MAX]);

/* A section by name, e.g. ".PyRuntime". */
bool elf_section(struct elf_file *elf, const char *name, struct elf_place *ret);
/* A defined symbol by name, in .dynsym, then .symtab. */
bool elf_symbol(struct elf_file *elf, const char *name, struct elf_place *ret);
/* The address in the process minus the address in the file, given that this part of the file is
 * mapped there. False when no segment covers it. */
bool elf_bias(struct elf_file *elf, const struct mapping *m, uint64_t *ret_bias);

#endif
