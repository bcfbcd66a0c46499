#include "binary/elf.h"

#include <elf.h>
#include <gelf.h>
#include <libelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/error.h"

struct elf_file {
    int fd;
    Elf *elf;
};

#if defined(__x86_64__)
#define OUR_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OUR_MACHINE EM_AARCH64
#else
#error "scry runs on x86-64 and aarch64"
#endif

static bool is_ours(Elf *elf)
{
    GElf_Ehdr header;
    return elf_kind(elf) == ELF_K_ELF && gelf_getclass(elf) == ELFCLASS64 &&
           gelf_getehdr(elf, &header) && header.e_machine == OUR_MACHINE &&
           (header.e_type == ET_EXEC || header.e_type == ET_DYN);
}

static int take_over(struct elf_file *file, struct elf_file **ret_elf)
{
    if (!file->elf || !is_ours(file->elf)) {
        elf_close(file);
        return -SCRY_E_BAD_FILE;
    }
    *ret_elf = file;
    return 0;
}

int elf_open(int fd, struct elf_file **ret_elf)
{
    elf_version(EV_CURRENT);
    struct elf_file *file = malloc(sizeof(*file));
    if (!file) {
        close(fd);
        return -SCRY_E_NO_MEMORY;
    }
    *file = (struct elf_file){.fd = fd, .elf = elf_begin(fd, ELF_C_READ_MMAP, NULL)};
    return take_over(file, ret_elf);
}

int elf_open_memory(void *image, size_t len, struct elf_file **ret_elf)
{
    elf_version(EV_CURRENT);
    struct elf_file *file = malloc(sizeof(*file));
    if (!file)
        return -SCRY_E_NO_MEMORY;
    *file = (struct elf_file){.fd = -1, .elf = elf_memory(image, len)};
    return take_over(file, ret_elf);
}

struct Elf *elf_handle(struct elf_file *elf)
{
    return elf->elf;
}

static bool take_build_id(Elf_Data *notes, char to[ELF_BUILD_ID_MAX])
{
    GElf_Nhdr note;
    size_t name, body;
    for (size_t at = 0; notes && (at = gelf_getnote(notes, at, &note, &name, &body)) > 0;) {
        const unsigned char *bytes = notes->d_buf;
        if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 ||
            memcmp(bytes + name, "GNU", 4) != 0 || 2 * note.n_descsz + 1 > ELF_BUILD_ID_MAX)
            continue;
        for (size_t i = 0; i < note.n_descsz; i++)
            snprintf(to + 2 * i, 3, "%02x", bytes[body + i]);
        return true;
    }
    return false;
}

void elf_build_id(struct elf_file *elf, char to[ELF_BUILD_ID_MAX])
{
    to[0] = '\0';
    for (Elf_Scn *section = NULL; (section = elf_nextscn(elf->elf, section));) {
        GElf_Shdr header;
        if (gelf_getshdr(section, &header) && header.sh_type == SHT_NOTE &&
            take_build_id(elf_getdata(section, NULL), to))
            return;
    }
}

void elf_close(struct elf_file *elf)
{
    if (!elf)
        return;
    if (elf->elf)
        elf_end(elf->elf);
    if (elf->fd >= 0)
        close(elf->fd);
    free(elf);
}

bool elf_section(struct elf_file *elf, const char *name, struct elf_place *ret)
{
    size_t names;
    if (elf_getshdrstrndx(elf->elf, &names) != 0)
        return false;
    for (Elf_Scn *section = NULL; (section = elf_nextscn(elf->elf, section));) {
        GElf_Shdr header;
        if (!gelf_getshdr(section, &header))
            continue;
        const char *its_name = elf_strptr(elf->elf, names, header.sh_name);
        if (its_name && strcmp(its_name, name) == 0 && (header.sh_flags & SHF_ALLOC)) {
            *ret = (struct elf_place){header.sh_addr, header.sh_size};
            return true;
        }
    }
    return false;
}

static bool symbol_in(Elf *elf, Elf_Scn *section, const GElf_Shdr *header, const char *name,
                      struct elf_place *ret)
{
    Elf_Data *data = elf_getdata(section, NULL);
    if (!data || !header->sh_entsize)
        return false;
    size_t count = data->d_size / header->sh_entsize;
    for (size_t i = 0; i < count && i < INT32_MAX; i++) {
        GElf_Sym symbol;
        if (!gelf_getsym(data, (int)i, &symbol) || symbol.st_shndx == SHN_UNDEF)
            continue;
        const char *its_name = elf_strptr(elf, header->sh_link, symbol.st_name);
        if (its_name && strcmp(its_name, name) == 0) {
            *ret = (struct elf_place){symbol.st_value, symbol.st_size};
            return true;
        }
    }
    return false;
}

bool elf_symbol(struct elf_file *elf, const char *name, struct elf_place *ret)
{
    static const GElf_Word tables[] = {SHT_DYNSYM, SHT_SYMTAB};
    for (size_t t = 0; t < ARRAY_LEN(tables); t++) {
        for (Elf_Scn *section = NULL; (section = elf_nextscn(elf->elf, section));) {
            GElf_Shdr header;
            if (gelf_getshdr(section, &header) && header.sh_type == tables[t] &&
                symbol_in(elf->elf, section, &header, name, ret))
                return true;
        }
    }
    return false;
}

/* How well the segment explains the mapping; 0: not at all. The end of one segment and the beginning
 * of the next may share a page of the file, and that page is mapped for both, at different
 * distances: they differ in what may be done with them, and a mapping begins where its segment does,
 * unless it was cut. */
static int explains(const GElf_Phdr *segment, const struct mapping *m, uint64_t first)
{
    if (m->offset < first || m->offset >= segment->p_offset + segment->p_filesz)
        return 0;
    bool exec = segment->p_flags & PF_X;
    return 1 + 2 * (exec == m->exec) + (m->offset == first);
}

bool elf_bias(struct elf_file *elf, const struct mapping *m, uint64_t *ret_bias)
{
    size_t count;
    if (elf_getphdrnum(elf->elf, &count) != 0)
        return false;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    int best = 0;
    for (size_t i = 0; i < count && i < 256; i++) {
        GElf_Phdr segment;
        if (!gelf_getphdr(elf->elf, (int)i, &segment) || segment.p_type != PT_LOAD)
            continue;
        uint64_t first = segment.p_offset & ~(page - 1);
        int score = explains(&segment, m, first);
        if (score > best) {
            best = score;
            *ret_bias = m->start - ((segment.p_vaddr & ~(page - 1)) + (m->offset - first));
        }
    }
    return best > 0;
}
