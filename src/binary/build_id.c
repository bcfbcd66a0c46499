#include "binary/build_id.h"

#include <elf.h>
#include <string.h>

#define SEGMENTS_MAX 64
#define NOTES_MAX    4096

static struct build_id id_in_notes(const unsigned char *notes, size_t size)
{
    struct build_id id = {0};
    while (size >= sizeof(Elf64_Nhdr)) {
        Elf64_Nhdr header;
        memcpy(&header, notes, sizeof(header));
        size_t name = ((size_t)header.n_namesz + 3) & ~(size_t)3;
        size_t text = ((size_t)header.n_descsz + 3) & ~(size_t)3;
        size_t left = size - sizeof(header);
        if (name > left || text > left - name || header.n_descsz > left - name)
            break;
        const unsigned char *at = notes + sizeof(header);
        if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 && memcmp(at, "GNU", 4) == 0 &&
            header.n_descsz <= BUILD_ID_MAX) {
            id.len = header.n_descsz;
            memcpy(id.bytes, at + name, id.len);
            break;
        }
        notes += sizeof(header) + name + text;
        size -= sizeof(header) + name + text;
    }
    return id;
}

static bool is_elf(const Elf64_Ehdr *header)
{
    return memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
           header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_phentsize == sizeof(Elf64_Phdr) &&
           header->e_phnum <= SEGMENTS_MAX;
}

struct build_id build_id_in_memory(struct mem *mem, scry_addr base)
{
    struct build_id id = {0};
    Elf64_Ehdr header;
    Elf64_Phdr segments[SEGMENTS_MAX];
    if (mem_read(mem, base, &header, sizeof(header)) < 0 || !is_elf(&header) ||
        mem_read(mem, base + header.e_phoff, segments, header.e_phnum * sizeof(segments[0])) < 0)
        return id;
    for (int i = 0; i < header.e_phnum && !id.len; i++) {
        unsigned char notes[NOTES_MAX];
        const Elf64_Phdr *s = &segments[i];
        /* The first mapping begins with the file, so offsets are distances from its start. */
        if (s->p_type == PT_NOTE && s->p_filesz <= sizeof(notes) &&
            mem_read(mem, base + s->p_offset, notes, s->p_filesz) == 0)
            id = id_in_notes(notes, s->p_filesz);
    }
    return id;
}

struct build_id build_id_in_file(const void *data, size_t size)
{
    struct build_id id = {0};
    Elf64_Ehdr header;
    if (size < sizeof(header))
        return id;
    memcpy(&header, data, sizeof(header));
    if (!is_elf(&header) || header.e_phoff > size ||
        size - header.e_phoff < header.e_phnum * sizeof(Elf64_Phdr))
        return id;
    for (int i = 0; i < header.e_phnum && !id.len; i++) {
        Elf64_Phdr s;
        memcpy(&s, (const unsigned char *)data + header.e_phoff + (size_t)i * sizeof(s), sizeof(s));
        if (s.p_type == PT_NOTE && s.p_offset <= size && s.p_filesz <= size - s.p_offset)
            id = id_in_notes((const unsigned char *)data + s.p_offset, s.p_filesz);
    }
    return id;
}

bool build_id_differ(const struct build_id *a, const struct build_id *b)
{
    return a->len && b->len && (a->len != b->len || memcmp(a->bytes, b->bytes, a->len) != 0);
}
