/* Finding CPython in a process.
 *
 * A mapped ELF file is a candidate when it is the executable, is named like libpython, or, if those
 * do not hold the interpreter, is any other mapped file (programs that embed Python). In each
 * candidate the runtime is looked for by section, by symbol, then by searching its writable memory.
 * Whatever is found is proved before it is believed: the first interpreter's first thread must
 * point back at the interpreter. */
#include <ctype.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/maps.h"
#include "binary/elf.h"
#include "binary/image.h"
#include "cpython/debug_offsets.h"
#include "cpython/python.h"

#define MAX_MODULES 512
#define COOKIE      "xdebugpy"

/* One mapped file. */
struct module {
    const char *path;
    const struct mapping *first; /* its lowest mapping */
    bool is_exe;
    bool named_python;
};

struct search {
    const struct python_source *source;
    struct mem *mem;
    const struct maps *maps;
    struct module modules[MAX_MODULES];
    size_t module_count;
    struct py_version hint; /* from file names; minor 0 = none */
    bool saw_python_file;
    bool saw_runtime;
    bool not_ready;
    char tried[512];
    struct error *err;
};

/* What one candidate offers. Addresses are in the process; 0 = not there. */
struct offer {
    scry_addr runtime;
    uint64_t runtime_size;
    scry_addr interp_head;     /* 2.7, 3.6 */
    scry_addr tstate_current;  /* 2.7, 3.6 */
    struct py_version version; /* from Py_Version; minor 0 = unknown */
    const char *by;
};

static void note(struct search *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(struct search *s, const char *format, ...)
{
    size_t used = strlen(s->tried);
    if (used + 3 >= sizeof(s->tried))
        return;
    if (used)
        used += (size_t)snprintf(s->tried + used, sizeof(s->tried) - used, "; ");
    va_list args;
    va_start(args, format);
    vsnprintf(s->tried + used, sizeof(s->tried) - used, format, args);
    va_end(args);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* ---- what file names tell ---- */

/* "3.11" or "311" right at `text` gives 3.11. */
static bool parse_minor(const char *text, bool dotted, struct py_version *ret)
{
    if ((text[0] != '2' && text[0] != '3') || (dotted && text[1] != '.'))
        return false;
    const char *digits = text + (dotted ? 2 : 1);
    int minor = 0, n = 0;
    while (n < 2 && isdigit((unsigned char)digits[n]))
        minor = minor * 10 + (digits[n++] - '0');
    if (!n)
        return false;
    *ret = (struct py_version){.major = (uint8_t)(text[0] - '0'), .minor = (uint8_t)minor};
    return true;
}

/* libpython3.11.so.1.0, python3.8, .../lib/python3.12/..., _json.cpython-310-x86_64-linux-gnu.so */
static bool version_from_path(const char *path, struct py_version *ret)
{
    static const struct {
        const char *mark;
        bool dotted;
    } marks[] = {{"libpython", true}, {"python", true}, {".cpython-", false}};
    for (size_t i = 0; i < ARRAY_LEN(marks); i++)
        for (const char *at = path; (at = strstr(at, marks[i].mark)); at++)
            if (parse_minor(at + strlen(marks[i].mark), marks[i].dotted, ret))
                return true;
    return false;
}

static bool named_python(const char *path)
{
    const char *base = base_name(path);
    return strncmp(base, "libpython", 9) == 0 || strncmp(base, "python", 6) == 0;
}

/* Any file that only Python maps. */
static bool python_file(const char *path)
{
    return named_python(path) || strstr(path, ".cpython-") || strstr(path, "/lib-dynload/") ||
           strstr(path, ".abi3.so");
}

static bool is_file(const struct mapping *m)
{
    return m->path[0] == '/' && m->inode;
}

static void collect_modules(struct search *s)
{
    for (size_t i = 0; i < s->maps->count; i++) {
        const struct mapping *m = &s->maps->items[i];
        if (!is_file(m) || m->offset || s->module_count == MAX_MODULES)
            continue;
        struct py_version version;
        if (python_file(m->path)) {
            s->saw_python_file = true;
            if (!s->hint.minor && version_from_path(m->path, &version))
                s->hint = version;
        }
        bool known = false;
        for (size_t k = 0; k < s->module_count && !known; k++)
            known = strcmp(s->modules[k].path, m->path) == 0;
        if (!known)
            s->modules[s->module_count++] = (struct module){
                .path = m->path,
                .first = m,
                .is_exe = strcmp(m->path, s->source->exe) == 0,
                .named_python = named_python(m->path),
            };
    }
}

/* libpython first (a launcher's own executable has no runtime), then the executable, then the rest.
 */
enum { RANK_LIBPYTHON, RANK_EXE, RANK_OTHER };

static int rank(const struct module *m)
{
    if (m->named_python && !m->is_exe)
        return RANK_LIBPYTHON;
    return m->is_exe ? RANK_EXE : RANK_OTHER;
}

static int by_rank(const void *a, const void *b)
{
    return rank(a) - rank(b);
}

bool python_likely(const struct process *process, struct py_version *ret_version)
{
    struct python_source source = {.exe = process->exe};
    struct maps maps;
    struct search s = {.source = &source, .maps = &maps};
    *ret_version = (struct py_version){0};
    if (maps_read(process, &maps, NULL) < 0)
        return false;
    collect_modules(&s);
    maps_done(&maps);
    *ret_version = s.hint;
    return s.saw_python_file;
}

/* ---- what the ELF file offers ---- */

/* The kernel names the files of a process in a chroot as we see them, not as it does. */
static int open_own_path(const struct mapping *first)
{
    struct stat st;
    int fd = open(first->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_ino != first->inode)) {
        close(fd);
        return -1;
    }
    return fd;
}

static int open_live_file(const struct mapping *first, bool is_exe, void *context)
{
    const struct process *process = context;
    int fd = -1;
    if (is_exe)
        fd = process_open_exe(process);
    if (fd < 0)
        fd = process_open_mapping(process, first->start, first->end);
    if (fd < 0 && !first->deleted)
        fd = process_open_path(process, first->path);
    if (fd < 0 && !first->deleted)
        fd = open_own_path(first);
    return fd;
}

static struct elf_file *open_module(struct search *s, const struct module *m)
{
    struct elf_file *elf;
    int fd = s->source->open_file(m->first, m->is_exe, s->source->context);
    if (fd < 0 || elf_open(fd, &elf) < 0)
        return NULL;
    return elf;
}

/* A module's names: from its file, or from its image in memory when the file cannot be opened. */
struct names {
    struct elf_file *elf; /* NULL: image */
    uint64_t bias;
    struct image image;
};

static bool open_names(struct search *s, const struct module *m, struct names *ret)
{
    *ret = (struct names){.elf = open_module(s, m)};
    if (!ret->elf)
        return image_open(s->mem, m->first->start, &ret->image) == 0;
    if (elf_bias(ret->elf, m->first, &ret->bias))
        return true;
    elf_close(ret->elf);
    return false;
}

static bool find_symbol(const struct names *n, const char *name, struct elf_place *ret)
{
    if (!n->elf)
        return image_symbol(&n->image, name, ret);
    if (!elf_symbol(n->elf, name, ret) || !ret->addr)
        return false;
    ret->addr += n->bias;
    return true;
}

static bool find_section(const struct names *n, const char *name, struct elf_place *ret)
{
    if (!n->elf || !elf_section(n->elf, name, ret))
        return false;
    ret->addr += n->bias;
    return true;
}

static scry_addr symbol_address(const struct names *n, const char *name)
{
    struct elf_place place;
    return find_symbol(n, name, &place) ? place.addr : 0;
}

static struct py_version version_from_hex(uint64_t hex)
{
    return (struct py_version){
        .major = (uint8_t)(hex >> 24),
        .minor = (uint8_t)(hex >> 16),
        .micro = (uint8_t)(hex >> 8),
        .level = (uint8_t)(hex >> 4 & 15),
        .serial = (uint8_t)(hex & 15),
    };
}

/* 2.7 and 3.6 keep the list head in a static variable. A stripped binary still exports a function
 * that does nothing but load it: on x86-64, `mov disp(%rip), %rax`. */
static scry_addr interp_head_from_code(struct search *s, scry_addr function)
{
#if defined(__x86_64__)
    static const unsigned char load[] = {0x48, 0x8b, 0x05};
    unsigned char code[16];
    if (!function || mem_read(s->mem, function, code, sizeof(code)) < 0)
        return 0;
    size_t at = memcmp(code, "\xf3\x0f\x1e\xfa", 4) == 0 ? 4 : 0; /* endbr64 */
    if (memcmp(code + at, load, sizeof(load)) != 0)
        return 0;
    int32_t displacement;
    memcpy(&displacement, code + at + 3, 4);
    return function + at + 7 + (scry_addr)(int64_t)displacement;
#else
    (void)s;
    (void)function;
    return 0;
#endif
}

static void read_runtime(const struct names *n, struct offer *o)
{
    struct elf_place place;
    *o = (struct offer){0};
    if (find_symbol(n, "_PyRuntime", &place))
        o->by = n->elf ? "symbol _PyRuntime" : "symbol _PyRuntime in memory";
    else if (find_section(n, ".PyRuntime", &place))
        o->by = "section .PyRuntime";
    else
        return;
    o->runtime = place.addr;
    o->runtime_size = place.size;
}

static void read_offer(struct search *s, const struct names *n, struct offer *o)
{
    read_runtime(n, o);
    scry_addr version_at = symbol_address(n, "Py_Version");
    uint64_t hex;
    if (version_at && mem_read_u64(s->mem, version_at, &hex) == 0)
        o->version = version_from_hex(hex);
    if (o->runtime)
        return;
    o->tstate_current = symbol_address(n, "_PyThreadState_Current");
    if (!o->tstate_current)
        return;
    o->interp_head = symbol_address(n, "interp_head");
    o->by = "symbol interp_head";
    if (!o->interp_head) {
        o->interp_head = interp_head_from_code(s, symbol_address(n, "PyInterpreterState_Head"));
        o->by = "code of PyInterpreterState_Head";
    }
}

/* ---- proving it ---- */

enum proof {
    PROOF_NO,
    PROOF_NOT_READY, /* the list of interpreters is still empty */
    PROOF_YES,
};

static enum proof prove(struct mem *mem, const struct layout *l, scry_addr head_at)
{
    scry_addr interp, thread, back;
    if (mem_read_u64(mem, head_at, &interp) < 0)
        return PROOF_NO;
    if (!interp)
        return PROOF_NOT_READY;
    if (interp & 7 || mem_read_u64(mem, interp + (scry_addr)l->is_threads_head, &thread) < 0)
        return PROOF_NO;
    if (!thread)
        return PROOF_NOT_READY;
    if (thread & 7 || thread == interp ||
        mem_read_u64(mem, thread + (scry_addr)l->ts_interp, &back) < 0 || back != interp)
        return PROOF_NO;
    return PROOF_YES;
}

/* sys.hexversion: the one place every version keeps its exact number. */
static bool exact_version(struct python *py, struct py_version *ret)
{
    scry_addr interp, modules, sys, dict, number;
    int64_t hex;
    const struct layout *l = &py->layout;
    struct mem *mem = py->view.mem;
    if (mem_read_u64(mem, py->interp_head_at, &interp) < 0 ||
        mem_read_u64(mem, interp + (scry_addr)l->is_modules, &modules) < 0 || !modules ||
        py_dict_get_str(&py->view, modules, "sys", &sys) != 0 ||
        mem_read_u64(mem, sys + (scry_addr)l->ob_size, &dict) < 0 ||
        py_dict_get_str(&py->view, dict, "hexversion", &number) != 0 ||
        py_long_read(&py->view, number, &hex) != 0)
        return false;
    *ret = version_from_hex((uint64_t)hex);
    return true;
}

static void use_layout(struct python *py, const struct layout *l, const struct offer *o)
{
    py->layout = *l;
    py->view = (struct py_view){py->view.mem, &py->layout};
    py->runtime = o->runtime;
    py->interp_head_at =
        o->runtime ? o->runtime + (scry_addr)l->rt_interpreters_head : o->interp_head;
    if (!o->runtime)
        py->tstate_current_at = o->tstate_current;
    else
        py->tstate_current_at =
            l->rt_tstate_current == LAYOUT_NONE ? 0 : o->runtime + (scry_addr)l->rt_tstate_current;
}

/* Does this table fit? The exact version, once readable, must agree with the table's. */
static enum proof try_layout(struct python *py, const struct offer *o, struct py_version version,
                             bool debug)
{
    const struct layout *l = layout_for(version, false, debug);
    if (!l || (o->runtime != 0) != (l->rt_interpreters_head != LAYOUT_NONE))
        return PROOF_NO;
    use_layout(py, l, o);
    enum proof proof = prove(py->view.mem, &py->layout, py->interp_head_at);
    struct py_version exact;
    py->version = version;
    if (proof == PROOF_YES && exact_version(py, &exact)) {
        if (exact.major != version.major || exact.minor != version.minor)
            return PROOF_NO;
        py->version = exact;
        /* 3.7.4 moved the holder of the GIL, which no proof depends on. */
        use_layout(py, layout_for(exact, false, debug) ?: l, o);
    }
    return proof;
}

/* Versions without published offsets, likeliest first: what the binary says, what the file names
 * say, what the size of the runtime says, and then all of them. */
static enum proof try_tables(struct search *s, struct python *py, const struct offer *o)
{
    struct py_version order[16];
    size_t n = 0;
    if (o->version.minor)
        order[n++] = o->version;
    /* File names do not say which release it is. */
    if (s->hint.minor)
        order[n++] = (struct py_version){
            .major = s->hint.major, .minor = s->hint.minor, .micro = PY_MICRO_UNKNOWN};
    for (int minor = 12; minor >= 6; minor--)
        order[n++] =
            (struct py_version){.major = 3, .minor = (uint8_t)minor, .micro = PY_MICRO_UNKNOWN};
    order[n++] = (struct py_version){.major = 3, .minor = 7, .micro = 0};
    order[n++] = (struct py_version){.major = 2, .minor = 7};
    enum proof best = PROOF_NO;
    for (size_t i = 0; i < n; i++) {
        for (int debug = 0; debug < 2; debug++) {
            struct py_version v = order[i];
            if (v.major == 3 && v.minor == 7 && !o->version.minor && o->runtime_size == 1424)
                v.micro = 0;
            enum proof proof = try_layout(py, o, v, debug);
            if (proof == PROOF_YES)
                return proof;
            if (proof == PROOF_NOT_READY && i < 2)
                best = proof;
        }
    }
    return best;
}

static enum proof try_published(struct search *s, struct python *py, const struct offer *o)
{
    struct layout layout;
    bool free_threaded;
    int r = debug_offsets_read(s->mem, o->runtime, &layout, &py->version, &free_threaded, s->err);
    if (r < 0) {
        note(s, "published offsets: %s", s->err ? error_text(s->err) : error_sentence(r));
        return PROOF_NO;
    }
    use_layout(py, &layout, o);
    return prove(s->mem, &py->layout, py->interp_head_at);
}

static enum proof try_offer(struct search *s, struct python *py, const struct offer *o)
{
    char cookie[8];
    if (!o->runtime && !o->interp_head)
        return PROOF_NO;
    s->saw_runtime = true;
    if (o->runtime && mem_read(s->mem, o->runtime, cookie, 8) == 0 &&
        memcmp(cookie, COOKIE, 8) == 0)
        return try_published(s, py, o);
    return try_tables(s, py, o);
}

/* ---- searching memory ---- */

/* Writable mappings of a module, and the anonymous one right behind it (its .bss). */
static bool module_data(const struct search *s, const struct module *m, size_t i)
{
    const struct mapping *map = &s->maps->items[i];
    if (!map->write || !map->read)
        return false;
    if (strcmp(map->path, m->path) == 0)
        return true;
    return i > 0 && map->path[0] == '\0' && s->maps->items[i - 1].end == map->start &&
           strcmp(s->maps->items[i - 1].path, m->path) == 0;
}

typedef bool (*visit_word)(struct search *s, struct python *py, scry_addr at, uint64_t word);

static bool search_words(struct search *s, struct python *py, const struct module *m,
                         visit_word visit)
{
    enum { PIECE = 1 << 16 };
    uint64_t *words = malloc(PIECE);
    if (!words)
        return false;
    bool found = false;
    for (size_t i = 0; i < s->maps->count && !found; i++) {
        const struct mapping *map = &s->maps->items[i];
        if (!module_data(s, m, i))
            continue;
        for (scry_addr at = map->start; at < map->end && !found; at += PIECE) {
            size_t len = map->end - at < PIECE ? map->end - at : PIECE;
            if (mem_read(s->mem, at, words, len) < 0)
                continue;
            for (size_t k = 0; k < len / 8 && !found; k++)
                found = visit(s, py, at + k * 8, words[k]);
        }
    }
    free(words);
    return found;
}

static bool visit_cookie(struct search *s, struct python *py, scry_addr at, uint64_t word)
{
    if (memcmp(&word, COOKIE, 8) != 0)
        return false;
    struct offer o = {.runtime = at, .by = "search for the offsets' cookie"};
    enum proof proof = try_offer(s, py, &o);
    s->not_ready |= proof == PROOF_NOT_READY;
    return proof == PROOF_YES;
}

/* A word that points to an interpreter: its first thread points back, and the thread's id looks
 * like glibc's (the first words of struct pthread point at itself). */
static bool looks_like_head(struct search *s, const struct layout *l, scry_addr at, uint64_t word)
{
    const struct mapping *map = word && !(word & 7) ? maps_find(s->maps, word) : NULL;
    scry_addr thread, id, self;
    if (!map || !map->write || prove(s->mem, l, at) != PROOF_YES)
        return false;
    return mem_read_u64(s->mem, word + (scry_addr)l->is_threads_head, &thread) == 0 &&
           mem_read_u64(s->mem, thread + (scry_addr)l->ts_thread_id, &id) == 0 &&
           mem_read_u64(s->mem, id, &self) == 0 && self == id;
}

static bool visit_head(struct search *s, struct python *py, scry_addr at, uint64_t word)
{
    const struct layout *l = layout_for(s->hint, false, false);
    if (!l || !looks_like_head(s, l, at, word))
        return false;
    struct offer o = {.by = "search for an interpreter"};
    if (l->rt_interpreters_head != LAYOUT_NONE)
        o.runtime = at - (scry_addr)l->rt_interpreters_head;
    else
        o.interp_head = at;
    return try_layout(py, &o, s->hint, false) == PROOF_YES;
}

static bool search_module(struct search *s, struct python *py, const struct module *m)
{
    if (search_words(s, py, m, visit_cookie)) {
        snprintf(py->found_by, sizeof(py->found_by), "search for the offsets' cookie");
        return true;
    }
    if (!s->hint.minor || !search_words(s, py, m, visit_head))
        return false;
    snprintf(py->found_by, sizeof(py->found_by), "search for an interpreter");
    return true;
}

/* ---- putting it together ---- */

static bool try_symbols(struct search *s, struct python *py, const struct module *m)
{
    struct names names;
    struct offer offer;
    if (!open_names(s, m, &names)) {
        if (m->named_python)
            note(s, "%s cannot be opened", m->path);
        return false;
    }
    read_offer(s, &names, &offer);
    elf_close(names.elf);
    enum proof proof = try_offer(s, py, &offer);
    s->not_ready |= proof == PROOF_NOT_READY;
    if (proof == PROOF_YES)
        snprintf(py->found_by, sizeof(py->found_by), "%s", offer.by);
    else if (m->named_python || m->is_exe || offer.by)
        note(s, "%s: %s", base_name(m->path),
             offer.by ? "its runtime makes no sense" : "no symbol or section of a Python runtime");
    return proof == PROOF_YES;
}

static const struct module *find_in_modules(struct search *s, struct python *py)
{
    for (size_t i = 0; i < s->module_count; i++) {
        if (rank(&s->modules[i]) == RANK_OTHER && !s->saw_python_file)
            break;
        if (try_symbols(s, py, &s->modules[i]))
            return &s->modules[i];
    }
    if (s->not_ready || !s->saw_python_file)
        return NULL;
    for (size_t i = 0; i < s->module_count; i++)
        if ((s->modules[i].is_exe || s->modules[i].named_python) &&
            search_module(s, py, &s->modules[i]))
            return &s->modules[i];
    return NULL;
}

static int not_found(struct search *s)
{
    const struct python_source *p = s->source;
    if (s->not_ready)
        return error_set(s->err, -SCRY_E_NOT_READY, "Python in process %d has not started yet",
                         p->pid);
    if (s->saw_runtime || s->saw_python_file) {
        char version[32] = "";
        if (s->hint.minor)
            snprintf(version, sizeof(version), " (%d.%d by its file names)", s->hint.major,
                     s->hint.minor);
        error_set(s->err, -SCRY_E_UNSUPPORTED,
                  "process %d runs a Python%s that scry cannot read; tried: %s", p->pid, version,
                  s->tried);
        return -SCRY_E_UNSUPPORTED;
    }
    return error_set(s->err, -SCRY_E_NOT_PYTHON, "process %d (%.200s) does not run CPython", p->pid,
                     p->command);
}

int python_find_in(const struct python_source *source, struct mem *mem, struct python **ret_python,
                   struct error *err)
{
    struct error own_error = {0};
    struct search *s = calloc(1, sizeof(*s));
    struct python *py = calloc(1, sizeof(*py));
    int r = s && py ? 0 : error_set(err, -SCRY_E_NO_MEMORY, "out of memory");
    if (r < 0)
        goto out;
    s->source = source;
    s->maps = source->maps;
    s->mem = py->view.mem = mem;
    s->err = err ? err : &own_error;
    collect_modules(s);
    qsort(s->modules, s->module_count, sizeof(s->modules[0]), by_rank);
    const struct module *m = find_in_modules(s, py);
    if (!m) {
        r = not_found(s);
        goto out;
    }
    py->binary = strdup(m->path);
    code_cache_init(&py->codes, &py->view);
    *ret_python = py;
    py = NULL;
out:
    free(s);
    python_free(py);
    return r;
}

int python_find(const struct process *process, struct mem *mem, struct python **ret_python,
                struct error *err)
{
    struct maps maps;
    int r = maps_read(process, &maps, err);
    if (r < 0)
        return r;
    struct python_source source = {
        .pid = process->pid,
        .exe = process->exe,
        .command = process->command,
        .maps = &maps,
        .open_file = open_live_file,
        .context = (void *)(uintptr_t)process,
    };
    r = python_find_in(&source, mem, ret_python, err);
    maps_done(&maps);
    return r;
}

void python_free(struct python *py)
{
    if (!py)
        return;
    code_cache_done(&py->codes);
    walk_memory_free(py->walk);
    free(py->binary);
    free(py);
}
