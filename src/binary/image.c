#include "binary/image.h"

#include <elf.h>
#include <string.h>

#define MAX_SEGMENTS 64
#define MAX_DYNAMIC  512
#define MAX_CHAIN    4096
#define MAX_BUCKETS  (1u << 24)

static int read_segments(struct mem *mem, scry_addr base, Elf64_Phdr *segments, int *ret_count)
{
    Elf64_Ehdr header;
    int r = mem_read(mem, base, &header, sizeof(header));
    if (r < 0)
        return r;
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum > MAX_SEGMENTS)
        return -SCRY_E_BAD_FILE;
    *ret_count = header.e_phnum;
    return mem_read(mem, base + header.e_phoff, segments, header.e_phnum * sizeof(Elf64_Phdr));
}

/* The dynamic linker has made most of these absolute; the rest is still relative to the file. */
static scry_addr absolute(const struct image *image, scry_addr base, uint64_t value)
{
    return value && value < base ? value + image->bias : value;
}

static int read_dynamic(struct image *image, scry_addr base, scry_addr at, uint64_t size)
{
    Elf64_Dyn entries[MAX_DYNAMIC];
    size_t count = size / sizeof(entries[0]);
    if (count > MAX_DYNAMIC)
        count = MAX_DYNAMIC;
    int r = mem_read(image->mem, at, entries, count * sizeof(entries[0]));
    if (r < 0)
        return r;
    for (size_t i = 0; i < count && entries[i].d_tag != DT_NULL; i++) {
        scry_addr value = absolute(image, base, entries[i].d_un.d_ptr);
        if (entries[i].d_tag == DT_SYMTAB)
            image->symbols = value;
        else if (entries[i].d_tag == DT_STRTAB)
            image->strings = value;
        else if (entries[i].d_tag == DT_GNU_HASH)
            image->hash = value;
    }
    return image->symbols && image->strings && image->hash ? 0 : -SCRY_E_BAD_FILE;
}

int image_open(struct mem *mem, scry_addr base, struct image *ret_image)
{
    Elf64_Phdr segments[MAX_SEGMENTS];
    int count;
    int r = read_segments(mem, base, segments, &count);
    if (r < 0)
        return r;
    struct image image = {.mem = mem};
    const Elf64_Phdr *first = NULL, *dynamic = NULL;
    for (int i = 0; i < count; i++) {
        if (segments[i].p_type == PT_LOAD && !first)
            first = &segments[i];
        if (segments[i].p_type == PT_DYNAMIC)
            dynamic = &segments[i];
    }
    if (!first || !dynamic)
        return -SCRY_E_BAD_FILE;
    image.bias = base - (first->p_vaddr - first->p_offset);
    r = read_dynamic(&image, base, dynamic->p_vaddr + image.bias, dynamic->p_memsz);
    if (r == 0)
        *ret_image = image;
    return r;
}

static uint32_t gnu_hash(const char *name)
{
    uint32_t h = 5381;
    for (const unsigned char *s = (const unsigned char *)name; *s; s++)
        h = h * 33 + *s;
    return h;
}

static bool symbol_is(const struct image *image, uint32_t index, const char *name,
                      struct elf_place *ret)
{
    Elf64_Sym symbol;
    char its_name[128];
    if (mem_read(image->mem, image->symbols + (scry_addr)index * sizeof(symbol), &symbol,
                 sizeof(symbol)) < 0 ||
        symbol.st_shndx == SHN_UNDEF ||
        mem_read_cstr(image->mem, image->strings + symbol.st_name, its_name, sizeof(its_name)) <
            0 ||
        strcmp(its_name, name) != 0)
        return false;
    *ret = (struct elf_place){symbol.st_value + image->bias, symbol.st_size};
    return true;
}

bool image_symbol(const struct image *image, const char *name, struct elf_place *ret)
{
    uint32_t header[4]; /* buckets, first symbol, filter words, filter shift */
    if (mem_read(image->mem, image->hash, header, sizeof(header)) < 0 || !header[0] ||
        header[0] > MAX_BUCKETS || header[2] > MAX_BUCKETS)
        return false;
    scry_addr buckets = image->hash + sizeof(header) + 8ULL * header[2];
    scry_addr chains = buckets + 4ULL * header[0];
    uint32_t wanted = gnu_hash(name), index;
    if (mem_read_u32(image->mem, buckets + 4ULL * (wanted % header[0]), &index) < 0 ||
        index < header[1])
        return false;
    for (int i = 0; i < MAX_CHAIN; i++, index++) {
        uint32_t hash;
        if (mem_read_u32(image->mem, chains + 4ULL * (index - header[1]), &hash) < 0)
            return false;
        if ((hash | 1) == (wanted | 1) && symbol_is(image, index, name, ret))
            return true;
        if (hash & 1)
            return false;
    }
    return false;
}
