#include "dwarf/inlines.h"

#include <dwarf.h>
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_UNITS   (1u << 20)
#define MAX_RANGES  (1u << 22)
#define MAX_INLINED 32
#define MAX_DEPTH   64

/* Which compilation unit covers an address. Not every compiler writes such a table. */
struct unit_range {
    uint64_t start, end;
    Dwarf_Off unit;
};

struct debug_info {
    struct elf_file *file; /* the separate file; NULL when the binary has it all */
    Dwarf *dwarf;
    struct elf_file *shared_file; /* what dwz moved into a file of its own */
    Dwarf *shared;
    struct unit_range *ranges; /* by start */
    size_t count, cap;
};

/* ---- which unit ---- */

static bool add_range(struct debug_info *d, uint64_t start, uint64_t end, Dwarf_Off unit)
{
    if (start >= end || !start)
        return true;
    if (d->count == d->cap) {
        size_t cap = d->cap ? d->cap * 2 : 256;
        struct unit_range *grown =
            cap <= MAX_RANGES ? realloc(d->ranges, cap * sizeof(*grown)) : NULL;
        if (!grown)
            return false;
        d->ranges = grown;
        d->cap = cap;
    }
    d->ranges[d->count++] = (struct unit_range){start, end, unit};
    return true;
}

static int by_start(const void *a, const void *b)
{
    const struct unit_range *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

static void index_units(struct debug_info *d)
{
    Dwarf_CU *cu = NULL;
    Dwarf_Die die;
    uint8_t type;
    for (size_t n = 0;
         n < MAX_UNITS && dwarf_get_units(d->dwarf, cu, &cu, NULL, &type, &die, NULL) == 0; n++) {
        Dwarf_Addr base, start, end;
        if (type != DW_UT_compile)
            continue;
        for (ptrdiff_t at = 0; (at = dwarf_ranges(&die, at, &base, &start, &end)) > 0;)
            if (!add_range(d, start, end, dwarf_dieoffset(&die)))
                return;
    }
    if (d->count)
        qsort(d->ranges, d->count, sizeof(*d->ranges), by_start);
}

static bool find_unit(struct debug_info *d, uint64_t addr, Dwarf_Die *ret)
{
    size_t low = 0, high = d->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (d->ranges[mid].start <= addr)
            low = mid + 1;
        else
            high = mid;
    }
    return low && addr < d->ranges[low - 1].end &&
           dwarf_offdie(d->dwarf, d->ranges[low - 1].unit, ret);
}

/* ---- opening ---- */

static void open_shared(const struct modules *m, struct debug_info *d)
{
    const char *name;
    const void *id;
    ssize_t id_len = dwelf_dwarf_gnu_debugaltlink(d->dwarf, &name, &id);
    if (id_len <= 0)
        return;
    char build_id[ELF_BUILD_ID_MAX] = "", own[ELF_BUILD_ID_MAX];
    for (ssize_t i = 0; i < id_len && 2 * i + 2 < ELF_BUILD_ID_MAX; i++)
        snprintf(build_id + 2 * i, 3, "%02x", ((const unsigned char *)id)[i]);
    char path[4096];
    const char *tail = strstr(name, ".dwz/");
    snprintf(path, sizeof(path), "%s%s", name[0] == '/' ? "" : "/usr/lib/debug/",
             name[0] == '/' || !tail ? name : tail);
    d->shared_file = modules_open_elf(m, path);
    if (!d->shared_file)
        return;
    elf_build_id(d->shared_file, own);
    if (strcmp(own, build_id) == 0)
        d->shared = dwarf_begin_elf(elf_handle(d->shared_file), DWARF_C_READ, NULL);
    if (d->shared)
        dwarf_setalt(d->dwarf, d->shared);
}

static bool has_units(Dwarf *dwarf)
{
    Dwarf_CU *cu = NULL;
    return dwarf && dwarf_get_units(dwarf, NULL, &cu, NULL, NULL, NULL, NULL) == 0;
}

struct debug_info *debug_info_new(const struct modules *m, const struct binary *b)
{
    struct debug_info *d = calloc(1, sizeof(*d));
    if (!d || !b->elf)
        return d;
    d->dwarf = dwarf_begin_elf(elf_handle(b->elf), DWARF_C_READ, NULL);
    if (!has_units(d->dwarf) && (d->file = binary_open_debug(m, b))) {
        dwarf_end(d->dwarf);
        d->dwarf = dwarf_begin_elf(elf_handle(d->file), DWARF_C_READ, NULL);
    }
    if (!d->dwarf)
        return d;
    open_shared(m, d);
    index_units(d);
    return d;
}

void debug_info_free(struct debug_info *d)
{
    if (!d)
        return;
    dwarf_end(d->dwarf);
    dwarf_end(d->shared);
    elf_close(d->file);
    elf_close(d->shared_file);
    free(d->ranges);
    free(d);
}

Dwarf_CFI *debug_info_cfi(struct debug_info *d)
{
    return d->dwarf ? dwarf_getcfi(d->dwarf) : NULL;
}

/* ---- asking ---- */

static const char *text_of(Dwarf_Die *die, unsigned attribute)
{
    Dwarf_Attribute memory;
    return dwarf_formstring(dwarf_attr_integrate(die, attribute, &memory));
}

static int32_t number_of(Dwarf_Die *die, unsigned attribute)
{
    Dwarf_Attribute memory;
    Dwarf_Word value;
    return dwarf_formudata(dwarf_attr_integrate(die, attribute, &memory), &value) == 0 &&
                   value < INT32_MAX
               ? (int32_t)value
               : 0;
}

static bool is_function(Dwarf_Die *die)
{
    int tag = dwarf_tag(die);
    return tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine ||
           tag == DW_TAG_entry_point;
}

static void describe(Dwarf_Die *function, struct source_place *place)
{
    const char *linkage = text_of(function, DW_AT_linkage_name);
    place->linkage = linkage ? linkage : text_of(function, DW_AT_MIPS_linkage_name);
    place->name = text_of(function, DW_AT_name);
    place->first_line = number_of(function, DW_AT_decl_line);
}

static const char *file_by_number(Dwarf_Die *unit, uint64_t number)
{
    Dwarf_Files *files;
    size_t count;
    return dwarf_getsrcfiles(unit, &files, &count) == 0 && number < count
               ? dwarf_filesrc(files, number, NULL, NULL)
               : NULL;
}

/* Where the inlined function was called from is where its caller stands. */
static void call_site(Dwarf_Die *unit, Dwarf_Die *inlined, const char **ret_file, int32_t *ret_line)
{
    Dwarf_Attribute memory;
    Dwarf_Word file;
    *ret_line = number_of(inlined, DW_AT_call_line);
    *ret_file = dwarf_formudata(dwarf_attr(inlined, DW_AT_call_file, &memory), &file) == 0
                    ? file_by_number(unit, file)
                    : NULL;
}

/* The functions that an address lies in, outermost first. (dwarf_getscopes() finds nothing where an
 * inlined function was written in another unit, as after link-time optimisation.) */
struct chain {
    Dwarf_Die functions[MAX_INLINED];
    size_t count;
};

static bool may_hold_functions(int tag)
{
    return tag == DW_TAG_namespace || tag == DW_TAG_module || tag == DW_TAG_class_type ||
           tag == DW_TAG_structure_type;
}

static bool is_scope(int tag)
{
    return tag == DW_TAG_lexical_block || tag == DW_TAG_try_block || tag == DW_TAG_catch_block;
}

static bool descend(Dwarf_Die *parent, uint64_t addr, int depth, struct chain *chain)
{
    Dwarf_Die child;
    if (depth > MAX_DEPTH || dwarf_child(parent, &child) != 0)
        return false;
    do {
        int tag = dwarf_tag(&child);
        bool function = is_function(&child);
        if (may_hold_functions(tag) && descend(&child, addr, depth + 1, chain))
            return true;
        if ((!function && !is_scope(tag)) || dwarf_haspc(&child, addr) <= 0)
            continue;
        if (function && chain->count < MAX_INLINED)
            chain->functions[chain->count++] = child;
        descend(&child, addr, depth + 1, chain);
        return true;
    } while (dwarf_siblingof(&child, &child) == 0);
    return false;
}

static size_t collect(Dwarf_Die *unit, struct chain *chain, const char *file, int32_t line,
                      struct source_place *places, size_t max)
{
    size_t n = 0;
    const char *folder = text_of(unit, DW_AT_comp_dir);
    for (size_t i = chain->count; i-- > 0 && n < max;) {
        Dwarf_Die *function = &chain->functions[i];
        places[n] = (struct source_place){.file = file, .line = line, .folder = folder};
        describe(function, &places[n++]);
        if (dwarf_tag(function) != DW_TAG_inlined_subroutine)
            break;
        call_site(unit, function, &file, &line);
    }
    return n;
}

size_t debug_info_places(struct debug_info *d, uint64_t addr, struct source_place *places,
                         size_t max)
{
    Dwarf_Die unit;
    struct chain chain = {.count = 0};
    if (!d->dwarf || !find_unit(d, addr, &unit))
        return 0;
    const char *file = NULL;
    int line = 0;
    Dwarf_Line *found = dwarf_getsrc_die(&unit, addr);
    if (found) {
        file = dwarf_linesrc(found, NULL, NULL);
        dwarf_lineno(found, &line);
    }
    descend(&unit, addr, 0, &chain);
    size_t n = collect(&unit, &chain, file, line, places, max);
    if (!n && file && max) {
        places[0] = (struct source_place){
            .file = file, .line = line, .folder = text_of(&unit, DW_AT_comp_dir)};
        n = 1;
    }
    return n;
}
