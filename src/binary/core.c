#include "binary/core.h"

#include <elf.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>

#define SEGMENTS_MAX (1u << 20)
#define FILES_MAX    (1u << 17)
#define THREADS_MAX  (1u << 16)

#if defined(__x86_64__)
#define OUR_MACHINE EM_X86_64
#define OUR_NAME    "x86-64"
#elif defined(__aarch64__)
#define OUR_MACHINE EM_AARCH64
#define OUR_NAME    "aarch64"
#endif

/* ---- what kind of file is it? ---- */

static const char *machine_name(uint16_t machine)
{
    static const struct {
        uint16_t machine;
        const char *name;
    } names[] = {{EM_X86_64, "x86-64"}, {EM_AARCH64, "aarch64"}, {EM_386, "x86"},
                 {EM_ARM, "arm"},       {EM_PPC64, "ppc64"},     {EM_S390, "s390x"},
                 {EM_RISCV, "riscv"},   {EM_MIPS, "mips"},       {EM_PPC, "ppc"}};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (names[i].machine == machine)
            return names[i].name;
    return "another architecture";
}

static const char *kind_name(uint16_t type)
{
    switch (type) {
    case ET_REL:
        return "an object file";
    case ET_EXEC:
    case ET_DYN:
        return "a program or library";
    default:
        return "another ELF file";
    }
}

static int refuse(struct error *err, const char *name, const char *what, const char *hint)
{
    error_set(err, -SCRY_E_BAD_FILE, "'%.500s' %s", name, what);
    error_hint(err, "%s", hint);
    return -SCRY_E_BAD_FILE;
}

static int check_header(const Elf64_Ehdr *h, size_t size, const char *name, struct error *err)
{
    static const char hint[] =
        "a core file is what the kernel writes when a process crashes, or gcore -o FILE PID";
    char what[160];
    if (size < EI_NIDENT || memcmp(h->e_ident, ELFMAG, SELFMAG) != 0)
        return refuse(err, name, size ? "is no core file" : "is empty", hint);
    if (h->e_ident[EI_CLASS] == ELFCLASS32)
        return refuse(err, name, "is of a 32-bit process, and scry reads 64-bit ones",
                      "use a 32-bit debugger");
    if (size < sizeof(*h))
        return refuse(err, name, "is cut off in its very first bytes", "copy the file again");
    if (h->e_ident[EI_DATA] != ELFDATA2LSB || h->e_machine != OUR_MACHINE) {
        snprintf(what, sizeof(what), "is of a process on %s, and this scry reads those on %s",
                 h->e_ident[EI_DATA] != ELFDATA2LSB ? "another architecture"
                                                    : machine_name(h->e_machine),
                 OUR_NAME);
        return refuse(err, name, what, "read it with a scry built for that machine");
    }
    if (h->e_type != ET_CORE) {
        snprintf(what, sizeof(what), "is %s, no core file", kind_name(h->e_type));
        return refuse(err, name, what, hint);
    }
    return 0;
}

/* ---- segments ---- */

/* More than 65534 segments do not fit into the header: then the first section has the number. */
static uint64_t segment_count(const struct core *c, const Elf64_Ehdr *h)
{
    Elf64_Shdr first;
    if (h->e_phnum != PN_XNUM)
        return h->e_phnum;
    if (h->e_shoff > c->size || c->size - h->e_shoff < sizeof(first))
        return 0;
    memcpy(&first, c->data + h->e_shoff, sizeof(first));
    return first.sh_info;
}

static void add_segment(struct core *c, const Elf64_Phdr *p)
{
    if (!p->p_memsz || p->p_vaddr + p->p_memsz < p->p_vaddr)
        return;
    struct core_segment s = {
        .start = p->p_vaddr,
        .end = p->p_vaddr + p->p_memsz,
        .offset = p->p_offset,
        .saved = p->p_filesz < p->p_memsz ? p->p_filesz : p->p_memsz,
        .read = p->p_flags & PF_R,
        .write = p->p_flags & PF_W,
        .exec = p->p_flags & PF_X,
    };
    uint64_t left = s.offset < c->size ? c->size - s.offset : 0;
    s.there = s.saved < left ? s.saved : left;
    c->missing += s.saved - s.there;
    c->segments[c->segment_count++] = s;
}

/* ---- notes ---- */

static uint64_t word_at(const unsigned char *data, size_t index)
{
    uint64_t word;
    memcpy(&word, data + 8 * index, sizeof(word));
    return word;
}

static int add_thread(struct core *c, const unsigned char *data, size_t size)
{
    struct elf_prstatus status;
    if (size < sizeof(status) || c->thread_count >= THREADS_MAX)
        return 0;
    struct core_thread *grown = realloc(c->threads, (c->thread_count + 1) * sizeof(*grown));
    if (!grown)
        return -SCRY_E_NO_MEMORY;
    c->threads = grown;
    memcpy(&status, data, sizeof(status));
    c->threads[c->thread_count++] = (struct core_thread){
        .tid = status.pr_pid,
        .signal = status.pr_cursig,
        .registers = data + offsetof(struct elf_prstatus, pr_reg),
        .registers_size = sizeof(status.pr_reg),
    };
    return 0;
}

static void read_process(struct core *c, const unsigned char *data, size_t size)
{
    struct elf_prpsinfo info;
    if (size < sizeof(info))
        return;
    memcpy(&info, data, sizeof(info));
    c->pid = info.pr_pid;
    c->parent = info.pr_ppid;
    snprintf(c->name, sizeof(c->name), "%.*s", (int)sizeof(info.pr_fname), info.pr_fname);
    snprintf(c->command, sizeof(c->command), "%.*s", (int)sizeof(info.pr_psargs), info.pr_psargs);
    for (size_t len = strlen(c->command); len && c->command[len - 1] == ' ';)
        c->command[--len] = '\0';
}

static void read_signal(struct core *c, const unsigned char *data, size_t size)
{
    siginfo_t info;
    if (size < sizeof(info) || c->signal)
        return;
    memcpy(&info, data, sizeof(info));
    c->signal = info.si_signo;
    c->signal_code = info.si_code;
    if (info.si_code <= 0)
        c->signal_sender = info.si_pid;
    else if (info.si_signo == SIGSEGV || info.si_signo == SIGBUS || info.si_signo == SIGILL ||
             info.si_signo == SIGFPE) {
        c->fault = (scry_addr)(uintptr_t)info.si_addr;
        c->has_fault = true;
    }
}

static void read_auxv(struct core *c, const unsigned char *data, size_t size)
{
    c->auxv = data;
    c->auxv_size = size;
    for (size_t i = 0; i + 1 < size / 8; i += 2) {
        uint64_t key = word_at(data, i), value = word_at(data, i + 1);
        if (key == AT_PHDR)
            c->program_headers = value;
        else if (key == AT_EXECFN)
            c->program_name_at = value;
        else if (key == AT_NULL)
            return;
    }
}

static int by_start(const void *a, const void *b)
{
    const struct core_file *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* A count, a unit, three words for each stretch, and then as many names. */
static int read_files(struct core *c, const unsigned char *data, size_t size)
{
    if (c->files || size < 16)
        return 0;
    uint64_t count = word_at(data, 0), unit = word_at(data, 1);
    if (count > FILES_MAX || count > (size - 16) / 24 || !unit || unit > 1u << 30)
        return 0;
    size_t names = 16 + (size_t)count * 24;
    c->files = calloc((size_t)count + 1, sizeof(*c->files));
    c->paths = malloc(size - names + 1);
    if (!c->files || !c->paths)
        return -SCRY_E_NO_MEMORY;
    memcpy(c->paths, data + names, size - names);
    c->paths[size - names] = '\0';
    char *path = c->paths, *end = c->paths + (size - names);
    for (size_t i = 0; i < count && path < end; i++) {
        static const char mark[] = " (deleted)";
        struct core_file f = {.start = word_at(data, 2 + 3 * i),
                              .end = word_at(data, 3 + 3 * i),
                              .offset = word_at(data, 4 + 3 * i),
                              .path = path};
        size_t len = strlen(path);
        path += len + 1;
        if (len > sizeof(mark) && strcmp(f.path + len - (sizeof(mark) - 1), mark) == 0) {
            path[-1 - (ptrdiff_t)(sizeof(mark) - 1)] = '\0';
            f.deleted = true;
        }
        bool fits = f.offset <= UINT64_MAX / unit && f.start < f.end;
        f.offset *= unit;
        if (fits)
            c->files[c->file_count++] = f;
    }
    qsort(c->files, c->file_count, sizeof(*c->files), by_start);
    return 0;
}

static int read_note(struct core *c, uint32_t type, const unsigned char *data, size_t size)
{
    switch (type) {
    case NT_PRSTATUS:
        return add_thread(c, data, size);
    case NT_PRPSINFO:
        read_process(c, data, size);
        return 0;
    case NT_SIGINFO:
        read_signal(c, data, size);
        return 0;
    case NT_AUXV:
        read_auxv(c, data, size);
        return 0;
    case NT_FILE:
        return read_files(c, data, size);
    default:
        return 0;
    }
}

static int read_notes(struct core *c, const Elf64_Phdr *p)
{
    uint64_t left = p->p_offset < c->size ? c->size - p->p_offset : 0;
    uint64_t size = p->p_filesz < left ? p->p_filesz : left;
    const unsigned char *at = c->data + (size ? p->p_offset : 0);
    c->missing += p->p_filesz - size;
    int r = 0;
    while (size >= sizeof(Elf64_Nhdr) && r == 0) {
        Elf64_Nhdr h;
        memcpy(&h, at, sizeof(h));
        uint64_t name = ((uint64_t)h.n_namesz + 3) & ~3ULL;
        uint64_t text = ((uint64_t)h.n_descsz + 3) & ~3ULL;
        uint64_t room = size - sizeof(h);
        if (name > room || h.n_descsz > room - name)
            break;
        bool ours = h.n_namesz == 5 && memcmp(at + sizeof(h), "CORE", 5) == 0;
        if (ours)
            r = read_note(c, h.n_type, at + sizeof(h) + name, h.n_descsz);
        uint64_t step = sizeof(h) + name + (text < room - name ? text : room - name);
        at += step;
        size -= step;
    }
    return r;
}

static int read_headers(struct core *c, const Elf64_Ehdr *h, const char *name, struct error *err)
{
    uint64_t count = segment_count(c, h);
    int r = 0;
    if (h->e_phentsize != sizeof(Elf64_Phdr) || count > SEGMENTS_MAX)
        return refuse(err, name, "is damaged: its headers make no sense", "copy the file again");
    if (!count || h->e_phoff > c->size || (c->size - h->e_phoff) / sizeof(Elf64_Phdr) < count)
        return refuse(err, name, "is cut off: its headers are not all there",
                      "copy the file again; is `ulimit -c` too small, or the disk full?");
    c->segments = calloc((size_t)count, sizeof(*c->segments));
    if (!c->segments)
        return error_set(err, -SCRY_E_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < count && r == 0; i++) {
        Elf64_Phdr p;
        memcpy(&p, c->data + h->e_phoff + i * sizeof(p), sizeof(p));
        if (p.p_type == PT_LOAD)
            add_segment(c, &p);
        else if (p.p_type == PT_NOTE)
            r = read_notes(c, &p);
    }
    return r < 0 ? error_set(err, r, "out of memory") : 0;
}

int core_parse(const void *data, size_t size, const char *name, struct core *ret_core,
               struct error *err)
{
    struct core c = {.data = data, .size = size};
    Elf64_Ehdr header = {0};
    if (size)
        memcpy(&header, data, size < sizeof(header) ? size : sizeof(header));
    int r = check_header(&header, size, name, err);
    if (r == 0)
        r = read_headers(&c, &header, name, err);
    if (r < 0) {
        core_close(&c);
        return r;
    }
    /* The thread that died stands first; gcore's threads have no signal. */
    if (!c.signal && c.thread_count)
        c.signal = c.threads[0].signal;
    if (!c.pid && c.thread_count)
        c.pid = c.threads[0].tid;
    *ret_core = c;
    return 0;
}

long core_thread_call(const struct core_thread *t)
{
#if defined(__x86_64__)
    enum { ORIG_RAX_INDEX = 15 };
    if (t->registers_size >= 8 * (ORIG_RAX_INDEX + 1))
        return (long)word_at(t->registers, ORIG_RAX_INDEX);
#else
    (void)t;
#endif
    return -1;
}

bool core_died(const struct core *c)
{
    static const int dumping[] = {SIGQUIT, SIGILL, SIGABRT, SIGFPE,  SIGSEGV,
                                  SIGBUS,  SIGSYS, SIGTRAP, SIGXCPU, SIGXFSZ};
    for (size_t i = 0; i < ARRAY_LEN(dumping); i++)
        if (c->signal == dumping[i])
            return true;
    return false;
}

const char *core_signal_name(int number)
{
    static const char *const names[] = {
        [SIGHUP] = "SIGHUP",   [SIGINT] = "SIGINT",   [SIGQUIT] = "SIGQUIT", [SIGILL] = "SIGILL",
        [SIGTRAP] = "SIGTRAP", [SIGABRT] = "SIGABRT", [SIGBUS] = "SIGBUS",   [SIGFPE] = "SIGFPE",
        [SIGKILL] = "SIGKILL", [SIGUSR1] = "SIGUSR1", [SIGSEGV] = "SIGSEGV", [SIGUSR2] = "SIGUSR2",
        [SIGPIPE] = "SIGPIPE", [SIGALRM] = "SIGALRM", [SIGTERM] = "SIGTERM", [SIGXCPU] = "SIGXCPU",
        [SIGXFSZ] = "SIGXFSZ", [SIGSYS] = "SIGSYS",   [SIGSTOP] = "SIGSTOP", [SIGTSTP] = "SIGTSTP"};
    return number > 0 && (size_t)number < ARRAY_LEN(names) ? names[number] : NULL;
}
