/* The binaries a process runs code of: which file an address belongs to, and what that file offers.
 * Files are opened through the target's own root, when they are first needed, and kept.
 *
 * A module is one executable mapping; several may share one file. Memory handed out lives as long
 * as the list: what was unloaded is forgotten by address, not freed. */
#ifndef SCRY_DWARF_MODULE_H
#define SCRY_DWARF_MODULE_H

#include <elfutils/libdw.h>

#include "access/maps.h"
#include "access/mem.h"
#include "binary/elf.h"

struct debug_info;   /* inlines.h */
struct extents;      /* extents.h */
struct symbol_table; /* symbols.h */

/* A binary; one that cannot be opened has no `elf` and is still known by its path. */
struct binary {
    char *path; /* in the target's view; "[vdso]" */
    uint64_t inode;
    bool opened; /* or tried to be */
    struct elf_file *elf;
    void *image; /* what `elf` was made from where there is no file */
    Dwarf_CFI *eh_frame;
    /* made when first asked for */
    struct symbol_table *symbols;
    struct debug_info *debug;
    struct extents *extents;
    bool extents_tried;
};

struct module {
    scry_addr start, end;
    uint64_t offset;
    struct binary *binary; /* NULL: memory without a file, code made at run time */
    uint64_t bias;         /* address in the process minus address in the file */
    bool bias_tried, has_bias;
};

/* A process that is no more: what was mapped, and where its files are now. Paths are in its view;
 * both functions return a descriptor, or -1. */
struct modules_source {
    const struct maps *maps;
    int (*open_mapping)(const struct mapping *m, void *context);
    int (*open_path)(const char *path, void *context);
    void *context;
};

struct modules {
    const struct process *process; /* the caller's; NULL where there is a source */
    struct modules_source source;
    struct mem *mem;      /* the caller's */
    struct module *items; /* by address */
    size_t count;
    struct binary **binaries;
    size_t binary_count, binary_cap;
    uint64_t generation; /* changes when an address may belong to another file than before */
    struct maps maps;    /* as last read */
    scry_nsec read_at;
};

void modules_init(struct modules *m, const struct process *process, struct mem *mem);
/* The source's maps must outlive it. */
void modules_init_from(struct modules *m, const struct modules_source *source, struct mem *mem);
void modules_done(struct modules *m);
/* Look at the memory map again. Returns 0 or -SCRY_E_GONE, -SCRY_E_PERMISSION, -SCRY_E_NO_MEMORY. */
int modules_refresh(struct modules *m, scry_nsec now);
/* The module that holds this code, its file opened; NULL if none. */
const struct module *modules_find(struct modules *m, scry_addr addr);

/* A file of debug information that belongs to this binary, opened; NULL if there is none. */
struct elf_file *binary_open_debug(const struct modules *m, const struct binary *b);
/* Any file of the target's, by a path in its view. A descriptor, or negative. */
int modules_open_path(const struct modules *m, const char *path);
struct elf_file *modules_open_elf(const struct modules *m, const char *path);

#endif
