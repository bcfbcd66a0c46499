#include "dwarf/symbols.h"

#include <gelf.h>
#include <libelf.h>
#include <lzma.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SYMBOLS   (1u << 22)
#define MAX_DEBUGDATA (64u << 20) /* unpacked */
#define LZMA_MEMORY   (256u << 20)

struct entry {
    struct symbol symbol;
    uint64_t room; /* for one without a size */
    uint8_t rank;  /* of several names for one place the lowest wins */
};

struct symbol_table {
    struct entry *items; /* by address, no two at the same */
    size_t count, cap;
    struct elf_file *debug; /* separate files whose names are in use */
    struct elf_file *unpacked;
    void *unpacked_image;
    bool failed;
};

static void add(struct symbol_table *t, const struct entry *entry)
{
    if (t->count == t->cap) {
        size_t cap = t->cap ? t->cap * 2 : 1024;
        struct entry *grown = cap <= MAX_SYMBOLS ? realloc(t->items, cap * sizeof(*grown)) : NULL;
        if (!grown) {
            t->failed = true;
            return;
        }
        t->items = grown;
        t->cap = cap;
    }
    t->items[t->count++] = *entry;
}

/* Names made for everybody go before local ones, and both before weak aliases. */
static uint8_t rank_of(const GElf_Sym *s)
{
    switch (GELF_ST_BIND(s->st_info)) {
    case STB_GLOBAL:
        return 0;
    case STB_LOCAL:
        return 1;
    default:
        return 2;
    }
}

static bool is_function(const GElf_Sym *s)
{
    unsigned type = GELF_ST_TYPE(s->st_info);
    return s->st_shndx != SHN_UNDEF && s->st_value &&
           (type == STT_FUNC || type == STT_GNU_IFUNC ||
            (type == STT_NOTYPE && GELF_ST_BIND(s->st_info) == STB_GLOBAL));
}

/* What a symbol without a size can cover at most: to the end of its section. */
static uint64_t room_of(Elf *elf, const GElf_Sym *s)
{
    GElf_Shdr header;
    Elf_Scn *section = s->st_shndx < SHN_LORESERVE ? elf_getscn(elf, s->st_shndx) : NULL;
    if (!section || !gelf_getshdr(section, &header) || s->st_value < header.sh_addr ||
        s->st_value - header.sh_addr >= header.sh_size)
        return 0;
    return header.sh_size - (s->st_value - header.sh_addr);
}

static void read_section(struct symbol_table *t, Elf *elf, Elf_Scn *section,
                         const GElf_Shdr *header)
{
    Elf_Data *data = elf_getdata(section, NULL);
    if (!data || !header->sh_entsize)
        return;
    size_t count = data->d_size / header->sh_entsize;
    for (size_t i = 0; i < count && i < MAX_SYMBOLS && !t->failed; i++) {
        GElf_Sym symbol;
        if (!gelf_getsym(data, (int)i, &symbol) || !is_function(&symbol))
            continue;
        const char *name = elf_strptr(elf, header->sh_link, symbol.st_name);
        if (name && *name && *name != '$')
            add(t, &(struct entry){.symbol = {symbol.st_value, symbol.st_size, name},
                                   .rank = rank_of(&symbol),
                                   .room = symbol.st_size ? 0 : room_of(elf, &symbol)});
    }
}

static bool read_tables(struct symbol_table *t, struct elf_file *file, GElf_Word type)
{
    size_t before = t->count;
    Elf *elf = elf_handle(file);
    for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
        GElf_Shdr header;
        if (gelf_getshdr(section, &header) && header.sh_type == type)
            read_section(t, elf, section, &header);
    }
    return t->count > before;
}

/* ---- .gnu_debugdata ---- */

static Elf_Data *section_data(Elf *elf, const char *name)
{
    size_t names;
    if (elf_getshdrstrndx(elf, &names) != 0)
        return NULL;
    for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
        GElf_Shdr header;
        const char *its_name =
            gelf_getshdr(section, &header) ? elf_strptr(elf, names, header.sh_name) : NULL;
        if (its_name && strcmp(its_name, name) == 0)
            return elf_rawdata(section, NULL);
    }
    return NULL;
}

/* Unpacks into *ret_image, which the caller frees; 0 when it cannot be. */
static size_t unpack(const Elf_Data *packed, unsigned char **ret_image)
{
    size_t cap = packed->d_size * 4 + 65536, len = 0;
    *ret_image = NULL;
    for (; cap <= MAX_DEBUGDATA; cap *= 2) {
        uint64_t limit = LZMA_MEMORY;
        size_t in = 0;
        unsigned char *grown = realloc(*ret_image, cap);
        if (!grown)
            return 0;
        *ret_image = grown;
        len = 0;
        lzma_ret r = lzma_stream_buffer_decode(&limit, 0, NULL, packed->d_buf, &in, packed->d_size,
                                               grown, &len, cap);
        if (r == LZMA_OK)
            return len;
        if (r != LZMA_BUF_ERROR)
            return 0;
    }
    return 0;
}

static void read_debugdata(struct symbol_table *t, struct elf_file *file)
{
    Elf_Data *packed = section_data(elf_handle(file), ".gnu_debugdata");
    if (!packed || !packed->d_buf || !packed->d_size || packed->d_size > MAX_DEBUGDATA / 4)
        return;
    unsigned char *image;
    size_t len = unpack(packed, &image);
    t->unpacked_image = image;
    if (len && elf_open_memory(image, len, &t->unpacked) == 0)
        read_tables(t, t->unpacked, SHT_SYMTAB);
}

/* ---- the table ---- */

static int by_address(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->symbol.addr != y->symbol.addr)
        return x->symbol.addr < y->symbol.addr ? -1 : 1;
    if (!x->symbol.size != !y->symbol.size)
        return x->symbol.size ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank - y->rank;
    return strcmp(x->symbol.name, y->symbol.name);
}

static void sort_and_weed(struct symbol_table *t)
{
    if (!t->count)
        return;
    qsort(t->items, t->count, sizeof(*t->items), by_address);
    size_t kept = 1;
    for (size_t i = 1; i < t->count; i++)
        if (t->items[i].symbol.addr != t->items[kept - 1].symbol.addr)
            t->items[kept++] = t->items[i];
    t->count = kept;
}

struct symbol_table *symbol_table_new(const struct modules *m, const struct binary *b)
{
    struct symbol_table *t = calloc(1, sizeof(*t));
    if (!t || !b->elf)
        return t;
    if (!read_tables(t, b->elf, SHT_SYMTAB)) {
        t->debug = binary_open_debug(m, b);
        if (!t->debug || !read_tables(t, t->debug, SHT_SYMTAB))
            read_debugdata(t, b->elf);
    }
    read_tables(t, b->elf, SHT_DYNSYM);
    sort_and_weed(t);
    return t;
}

void symbol_table_free(struct symbol_table *t)
{
    if (!t)
        return;
    free(t->items);
    elf_close(t->debug);
    elf_close(t->unpacked);
    free(t->unpacked_image);
    free(t);
}

const struct symbol *symbol_table_find(const struct symbol_table *t, uint64_t addr)
{
    size_t low = 0, high = t->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (t->items[mid].symbol.addr <= addr)
            low = mid + 1;
        else
            high = mid;
    }
    /* A function may lie inside another's range (hand-written code); the nearest one that covers
     * the address counts. One without a size reaches to the next. */
    for (size_t i = low, tries = 0; i-- > 0 && tries < 8; tries++) {
        const struct symbol *s = &t->items[i].symbol;
        if (s->size ? addr - s->addr < s->size : tries == 0 && addr - s->addr < t->items[i].room)
            return s;
    }
    return NULL;
}

const struct symbol *symbol_at(const struct modules *m, const struct module *module, scry_addr addr)
{
    if (!module || !module->has_bias)
        return NULL;
    struct binary *b = module->binary;
    if (!b->symbols)
        b->symbols = symbol_table_new(m, b);
    return b->symbols ? symbol_table_find(b->symbols, addr - module->bias) : NULL;
}
