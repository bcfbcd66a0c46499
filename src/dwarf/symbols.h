/* The functions of a binary by address: from .symtab, or .dynsym where it was stripped; from its
 * separate debug file and from the compressed table that some distributions leave in
 * (.gnu_debugdata), where they have more. */
#ifndef SCRY_DWARF_SYMBOLS_H
#define SCRY_DWARF_SYMBOLS_H

#include "dwarf/module.h"

struct symbol {
    uint64_t addr, size; /* in the file */
    const char *name;    /* as it is in the file */
};

struct symbol_table;
/* Reads them all, once. NULL only when memory runs out. */
struct symbol_table *symbol_table_new(const struct modules *m, const struct binary *b);
void symbol_table_free(struct symbol_table *t);
/* The function this address (in the file) is part of, NULL if none is known. */
const struct symbol *symbol_table_find(const struct symbol_table *t, uint64_t addr);
/* The same for an address in the process; reads the symbols of the binary when they are first needed. */
const struct symbol *symbol_at(const struct modules *m, const struct module *module,
                               scry_addr addr);

#endif
