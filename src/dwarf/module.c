#include "dwarf/module.h"

#include <elf.h>
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "dwarf/extents.h"
#include "dwarf/inlines.h"
#include "dwarf/symbols.h"

#define MAX_VDSO       (64 * 1024)
#define MAX_IMAGE      (256u << 20)
#define MAX_BINARIES   16384
#define MAX_DEBUG_PATH (2 * PATH_MAX)

/* ---- opening ---- */

static bool is_the_file(int fd, const struct mapping *m)
{
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_ino == m->inode;
}

/* By the mapping itself where the kernel lets us; else by its path, if that is still the same file.
 * The kernel names the files of a process in a chroot as we see them: hence the last try. */
static int open_mapped(const struct modules *ms, const struct mapping *m)
{
    const struct process *process = ms->process;
    if (!process)
        return ms->source.open_mapping(m, ms->source.context);
    int fd = process_open_mapping(process, m->start, m->end);
    if (fd >= 0 || m->deleted)
        return fd;
    fd = process_open_path(process, m->path);
    if (fd >= 0 && !is_the_file(fd, m)) {
        close(fd);
        fd = -1;
    }
    if (fd < 0)
        fd = open(m->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && !is_the_file(fd, m)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* A copy of the target's memory taken for a file. */
static void open_image(struct modules *ms, struct binary *b, scry_addr start, size_t len)
{
    Elf64_Ehdr *header = b->image = malloc(len);
    if (!header)
        return;
    if (len >= sizeof(*header) && mem_read(ms->mem, start, header, len) == 0) {
        if (b->path[0] != '[')
            header->e_shoff = header->e_shnum = header->e_shstrndx = 0; /* these are not mapped */
        if (elf_open_memory(header, len, &b->elf) == 0)
            return;
    }
    free(b->image);
    b->image = NULL;
}

/* A file that can no longer be opened. The parts of it that are not written to lie in memory in
 * their order in the file, as a rule: enough for the unwind tables. */
static void open_remains(struct modules *ms, struct binary *b)
{
    const struct mapping *first = NULL;
    scry_addr end = 0;
    for (size_t i = 0; i < ms->maps.count; i++) {
        const struct mapping *m = &ms->maps.items[i];
        if (m->inode != b->inode || strcmp(m->path, b->path) != 0)
            continue;
        if (!m->offset && !first)
            first = m;
        else if (!first || m->start != end || m->start - first->start != m->offset)
            break;
        end = m->end;
    }
    if (first && end - first->start <= MAX_IMAGE)
        open_image(ms, b, first->start, end - first->start);
}

static void open_binary(struct modules *ms, struct binary *b, const struct mapping *m)
{
    b->opened = true;
    if (m->path[0] == '[') {
        if (m->end - m->start <= MAX_VDSO)
            open_image(ms, b, m->start, m->end - m->start);
    } else {
        int fd = open_mapped(ms, m);
        if (fd < 0 || elf_open(fd, &b->elf) < 0)
            open_remains(ms, b);
    }
    if (b->elf)
        b->eh_frame = dwarf_getcfi_elf(elf_handle(b->elf));
}

static struct binary *binary_for(struct modules *ms, const struct mapping *m)
{
    for (size_t i = ms->binary_count; i-- > 0;) {
        struct binary *known = ms->binaries[i];
        if (known->inode == m->inode && strcmp(known->path, m->path) == 0)
            return known;
    }
    if (ms->binary_count == ms->binary_cap) {
        size_t cap = ms->binary_cap ? ms->binary_cap * 2 : 64;
        struct binary **grown =
            cap <= MAX_BINARIES ? realloc(ms->binaries, cap * sizeof(*grown)) : NULL;
        if (!grown)
            return NULL;
        ms->binaries = grown;
        ms->binary_cap = cap;
    }
    struct binary *b = calloc(1, sizeof(*b));
    if (b)
        b->path = strdup(m->path);
    if (!b || !b->path) {
        free(b);
        return NULL;
    }
    b->inode = m->inode;
    ms->binaries[ms->binary_count++] = b;
    return b;
}

static void binary_free(struct binary *b)
{
    debug_info_free(b->debug);
    symbol_table_free(b->symbols);
    extents_free(b->extents);
    if (b->eh_frame)
        dwarf_cfi_end(b->eh_frame);
    elf_close(b->elf);
    free(b->image);
    free(b->path);
    free(b);
}

/* ---- the list ---- */

void modules_init(struct modules *m, const struct process *process, struct mem *mem)
{
    *m = (struct modules){.process = process, .mem = mem};
}

void modules_init_from(struct modules *m, const struct modules_source *source, struct mem *mem)
{
    *m = (struct modules){.source = *source, .mem = mem};
}

void modules_done(struct modules *m)
{
    for (size_t i = 0; i < m->binary_count; i++)
        binary_free(m->binaries[i]);
    free(m->binaries);
    free(m->items);
    maps_done(&m->maps);
    *m = (struct modules){0};
}

static bool holds_code(const struct mapping *m)
{
    return m->exec && strcmp(m->path, "[vsyscall]") != 0;
}

static bool has_file(const struct mapping *m)
{
    return (m->path[0] == '/' && m->inode) || strcmp(m->path, "[vdso]") == 0;
}

static bool same_place(const struct module *a, const struct module *b)
{
    return a->start == b->start && a->end == b->end && a->offset == b->offset &&
           a->binary == b->binary;
}

/* Is everything that was there still there? Both lists are in order. */
static bool keeps_all(const struct module *old, size_t old_count, const struct module *fresh,
                      size_t fresh_count)
{
    size_t k = 0;
    for (size_t i = 0; i < old_count; i++) {
        while (k < fresh_count && fresh[k].start < old[i].start)
            k++;
        if (k == fresh_count || !same_place(&old[i], &fresh[k]))
            return false;
    }
    return true;
}

/* The paths stay the source's. */
static int copy_maps(const struct maps *from, struct maps *ret)
{
    *ret = (struct maps){.items = calloc(from->count + 1, sizeof(*ret->items))};
    if (!ret->items)
        return -SCRY_E_NO_MEMORY;
    if (from->count)
        memcpy(ret->items, from->items, from->count * sizeof(*ret->items));
    ret->count = from->count;
    return 0;
}

int modules_refresh(struct modules *ms, scry_nsec now)
{
    struct maps maps;
    ms->read_at = now;
    int r = ms->process ? maps_read(ms->process, &maps, NULL) : copy_maps(ms->source.maps, &maps);
    if (r < 0)
        return r;
    struct module *fresh = calloc(maps.count + 1, sizeof(*fresh));
    if (!fresh) {
        maps_done(&maps);
        return -SCRY_E_NO_MEMORY;
    }
    size_t count = 0;
    for (size_t i = 0; i < maps.count; i++) {
        const struct mapping *m = &maps.items[i];
        if (!holds_code(m))
            continue;
        struct module *module = &fresh[count++];
        *module = (struct module){.start = m->start, .end = m->end, .offset = m->offset};
        module->binary = has_file(m) ? binary_for(ms, m) : NULL;
    }
    if (!keeps_all(ms->items, ms->count, fresh, count))
        ms->generation++;
    free(ms->items);
    ms->items = fresh;
    ms->count = count;
    maps_done(&ms->maps);
    ms->maps = maps;
    return 0;
}

static void make_ready(struct modules *ms, struct module *module)
{
    struct binary *b = module->binary;
    module->bias_tried = true;
    const struct mapping *m = maps_find(&ms->maps, module->start);
    if (!m)
        return;
    if (!b->opened)
        open_binary(ms, b, m);
    if (b->elf)
        module->has_bias = elf_bias(b->elf, m, &module->bias);
}

const struct module *modules_find(struct modules *m, scry_addr addr)
{
    size_t low = 0, high = m->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (m->items[mid].end <= addr)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == m->count || m->items[low].start > addr)
        return NULL;
    struct module *found = &m->items[low];
    if (found->binary && !found->bias_tried)
        make_ready(m, found);
    return found;
}

/* ---- separate debug files ---- */

int modules_open_path(const struct modules *m, const char *path)
{
    return m->process ? process_open_path(m->process, path)
                      : m->source.open_path(path, m->source.context);
}

struct elf_file *modules_open_elf(const struct modules *m, const char *path)
{
    struct elf_file *elf;
    int fd = modules_open_path(m, path);
    return fd >= 0 && elf_open(fd, &elf) == 0 ? elf : NULL;
}

static bool same_build(struct elf_file *debug, const char *build_id)
{
    char its_own[ELF_BUILD_ID_MAX];
    elf_build_id(debug, its_own);
    return strcmp(its_own, build_id) == 0;
}

static struct elf_file *open_checked(const struct modules *m, const char *path,
                                     const char *build_id)
{
    struct elf_file *elf = modules_open_elf(m, path);
    if (elf && same_build(elf, build_id))
        return elf;
    elf_close(elf);
    return NULL;
}

static struct elf_file *open_by_build_id(const struct modules *m, const char *build_id)
{
    char path[256];
    if (strlen(build_id) < 4)
        return NULL;
    snprintf(path, sizeof(path), "/usr/lib/debug/.build-id/%.2s/%s.debug", build_id, build_id + 2);
    return open_checked(m, path, build_id);
}

static bool crc_matches(const struct modules *m, const char *path, uint32_t wanted)
{
    static const size_t step = 1 << 16;
    int fd = modules_open_path(m, path);
    unsigned char *bytes = fd >= 0 ? malloc(step) : NULL;
    unsigned long crc = crc32(0, NULL, 0);
    ssize_t got = -1;
    while (bytes && (got = read(fd, bytes, step)) > 0)
        crc = crc32(crc, bytes, (unsigned)got);
    free(bytes);
    if (fd >= 0)
        close(fd);
    return got == 0 && crc == wanted;
}

/* By the name in .gnu_debuglink: beside the binary, in .debug there, and under /usr/lib/debug. */
static struct elf_file *open_by_link(const struct modules *m, const struct binary *b,
                                     const char *build_id)
{
    GElf_Word crc;
    const char *name = dwelf_elf_gnu_debuglink(elf_handle(b->elf), &crc);
    const char *slash = strrchr(b->path, '/');
    if (!name || !*name || strchr(name, '/') || !slash)
        return NULL;
    static const char *const places[][2] = {{"", "/"}, {"", "/.debug/"}, {"/usr/lib/debug", "/"}};
    char path[MAX_DEBUG_PATH];
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        int len = snprintf(path, sizeof(path), "%s%.*s%s%s", places[i][0], (int)(slash - b->path),
                           b->path, places[i][1], name);
        if (len >= (int)sizeof(path) || strcmp(path, b->path) == 0)
            continue;
        if (*build_id) {
            struct elf_file *elf = open_checked(m, path, build_id);
            if (elf)
                return elf;
        } else if (crc_matches(m, path, crc)) {
            return modules_open_elf(m, path);
        }
    }
    return NULL;
}

struct elf_file *binary_open_debug(const struct modules *m, const struct binary *b)
{
    char build_id[ELF_BUILD_ID_MAX];
    if (!b->elf || b->image)
        return NULL;
    elf_build_id(b->elf, build_id);
    struct elf_file *elf = open_by_build_id(m, build_id);
    return elf ? elf : open_by_link(m, b, build_id);
}
