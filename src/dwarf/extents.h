/* Where the functions of a binary begin and end, as its unwind tables have it: all that is known of
 * them once the symbols have been stripped. */
#ifndef SCRY_DWARF_EXTENTS_H
#define SCRY_DWARF_EXTENTS_H

#include "binary/elf.h"

struct extents;
/* Finds the table that the linker sorted (.eh_frame_hdr). NULL when there is none that can be used. */
struct extents *extents_new(struct elf_file *elf);
void extents_free(struct extents *e);
/* The start of the function that holds this address (both in the file). False when no table covers
 * the address. */
bool extents_find(const struct extents *e, uint64_t addr, uint64_t *ret_start);

#endif
