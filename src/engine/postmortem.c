/* A core file holds what the process had written; the rest of its memory, code and constants, is in
 * the files it had mapped, if they are still the same. Whether they are is told by their build ids. */
#include "engine/postmortem.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/syscalls.h"
#include "access/task.h"
#include "binary/build_id.h"
#include "cpython/thread_ids.h"
#include "engine/native_private.h"
#include "engine/short_path.h"

#define FILES_MAX 4096
#define PAGE      4096

/* A file that was mapped, as it is now. */
struct mapped_file {
    const char *path;          /* as the process named it */
    char *local;               /* where it is now */
    const unsigned char *data; /* NULL: missing, or not the same any more */
    size_t size;
};

struct thread_name {
    char text[256];
};

struct postmortem_private {
    const struct postmortem_options *options; /* while opening */
    struct mapped_file *files;
    size_t file_count;
    char sysroot[PATH_MAX];
    char first_missing[PATH_MAX];
    struct py_threads threads;
    struct thread_name *names; /* one per thread */
    struct snapshot snapshot;
    struct native *native;                 /* NULL: not asked for */
    struct native_thread **native_threads; /* one per thread of the last look */
    size_t native_count;
    struct short_paths short_paths;
};

static void warn(struct postmortem *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void warn(struct postmortem *p, const char *format, ...)
{
    size_t used = strlen(p->warning);
    if (used + 3 >= sizeof(p->warning))
        return;
    if (used)
        used += (size_t)snprintf(p->warning + used, sizeof(p->warning) - used, "; ");
    va_list args;
    va_start(args, format);
    vsnprintf(p->warning + used, sizeof(p->warning) - used, format, args);
    va_end(args);
}

/* ---- the files ---- */

static struct mapped_file *find_file(const struct postmortem_private *v, const char *path)
{
    for (size_t i = 0; i < v->file_count; i++)
        if (strcmp(v->files[i].path, path) == 0)
            return &v->files[i];
    return NULL;
}

static int open_regular(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)))
        return fd;
    close(fd);
    return -1;
}

static char *local_path(const struct postmortem *p, const char *path)
{
    const struct postmortem_options *o = p->private->options;
    char joined[PATH_MAX];
    if (o->exe && strcmp(path, p->exe) == 0)
        return strdup(o->exe);
    if (snprintf(joined, sizeof(joined), "%s%s", p->private->sysroot, path) >= (int)sizeof(joined))
        return NULL;
    return strdup(joined);
}

static bool map_file(struct mapped_file *f)
{
    struct stat st;
    int fd = f->local ? open_regular(f->local) : -1;
    if (fd < 0)
        return false;
    if (fstat(fd, &st) == 0 && st.st_size > 0) {
        void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data != MAP_FAILED) {
            f->data = data;
            f->size = (size_t)st.st_size;
        }
    }
    close(fd);
    return f->data != NULL;
}

static void unmap_file(struct mapped_file *f)
{
    if (f->data)
        munmap((void *)(uintptr_t)f->data, f->size);
    f->data = NULL;
}

/* Data files have nothing to tell them by, and Python's memory is not in them. */
static bool is_elf(const struct mapped_file *f)
{
    return f->size > 4 && memcmp(f->data, "\177ELF", 4) == 0;
}

static void open_file(struct postmortem *p, const struct core_file *first)
{
    struct postmortem_private *v = p->private;
    struct mapped_file *f = &v->files[v->file_count++];
    *f = (struct mapped_file){.path = first->path, .local = local_path(p, first->path)};
    bool is_exe = strcmp(first->path, p->exe) == 0;
    if (!map_file(f)) {
        if (!v->first_missing[0] || is_exe)
            snprintf(v->first_missing, sizeof(v->first_missing), "%s", f->local ?: f->path);
        return;
    }
    if (!is_elf(f)) {
        unmap_file(f);
        return;
    }
    struct build_id then = build_id_in_memory(p->mem, first->start);
    struct build_id now = build_id_in_file(f->data, f->size);
    /* The file in a deleted one's place may be anything. */
    if (!build_id_differ(&then, &now) && (!first->deleted || (then.len && now.len)))
        return;
    warn(p, "%.300s is not the file that the process had mapped: %s", f->local,
         first->deleted && !then.len ? "that was deleted" : "it has another build id");
    unmap_file(f);
}

static int add_files(struct postmortem *p)
{
    struct postmortem_private *v = p->private;
    const struct core *c = &p->core;
    v->files = calloc(c->file_count + 1, sizeof(*v->files));
    if (!v->files)
        return -SCRY_E_NO_MEMORY;
    for (size_t i = 0; i < c->file_count && v->file_count < FILES_MAX; i++)
        if (c->files[i].path[0] == '/' && !find_file(v, c->files[i].path))
            open_file(p, &c->files[i]);
    int r = 0;
    for (size_t i = 0; i < c->file_count && r == 0; i++) {
        const struct core_file *m = &c->files[i];
        const struct mapped_file *f = find_file(v, m->path);
        if (f && f->data && m->offset < f->size)
            r = mem_core_add(p->mem, MEM_CORE_FILE, m->start, m->end - m->start,
                             f->data + m->offset, f->size - m->offset);
    }
    return r;
}

/* ---- memory and its map ---- */

static int add_segments(struct postmortem *p)
{
    int r = 0;
    for (size_t i = 0; i < p->core.segment_count && r == 0; i++) {
        const struct core_segment *s = &p->core.segments[i];
        r = mem_core_add(p->mem, MEM_CORE_SAVED, s->start, s->saved,
                         p->core.data + (s->there ? s->offset : 0), s->there);
    }
    return r;
}

static int by_start(const void *a, const void *b)
{
    const struct mapping *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

static const struct core_segment *segment_at(const struct core *c, scry_addr addr)
{
    for (size_t i = 0; i < c->segment_count; i++)
        if (addr >= c->segments[i].start && addr < c->segments[i].end)
            return &c->segments[i];
    return NULL;
}

static const struct core_file *file_at(const struct core *c, scry_addr addr)
{
    for (size_t i = 0; i < c->file_count; i++)
        if (addr >= c->files[i].start && addr < c->files[i].end)
            return &c->files[i];
    return NULL;
}

/* gcore leaves out what can be had from the files, and with it what it was mapped for: the file says. */
static bool holds_code(const struct mapped_file *f, uint64_t offset)
{
    const Elf64_Ehdr *head = f && f->data ? (const void *)f->data : NULL;
    if (!head || f->size < sizeof(*head) || head->e_phentsize != sizeof(Elf64_Phdr) ||
        head->e_phoff % alignof(Elf64_Phdr) || head->e_phoff > f->size ||
        head->e_phnum > (f->size - head->e_phoff) / sizeof(Elf64_Phdr))
        return false;
    const Elf64_Phdr *parts = (const void *)(f->data + head->e_phoff);
    for (size_t i = 0; i < head->e_phnum; i++) {
        uint64_t start = parts[i].p_offset & ~(uint64_t)(PAGE - 1);
        if (parts[i].p_type == PT_LOAD && (parts[i].p_flags & PF_X) && offset >= start &&
            offset - start < parts[i].p_filesz)
            return true;
    }
    return false;
}

/* As /proc/PID/maps would show it: what was a file, whether or not the core has it, and all else
 * that it has. */
static int make_maps(struct postmortem *p)
{
    const struct core *c = &p->core;
    struct maps *maps = &p->maps;
    maps->items = calloc(c->file_count + c->segment_count + 1, sizeof(*maps->items));
    if (!maps->items)
        return -SCRY_E_NO_MEMORY;
    for (size_t i = 0; i < c->file_count; i++) {
        const struct core_file *f = &c->files[i];
        const struct core_segment *s = segment_at(c, f->start);
        maps->items[maps->count++] = (struct mapping){
            .start = f->start,
            .end = f->end,
            .offset = f->offset,
            .inode = 1,
            .read = true,
            .write = s && s->write,
            .exec = s ? s->exec : holds_code(find_file(p->private, f->path), f->offset),
            .deleted = f->deleted,
            .path = f->path,
        };
    }
    for (size_t i = 0; i < c->segment_count; i++) {
        const struct core_segment *s = &c->segments[i];
        if (!file_at(c, s->start))
            maps->items[maps->count++] = (struct mapping){.start = s->start,
                                                          .end = s->end,
                                                          .read = s->read,
                                                          .write = s->write,
                                                          .exec = s->exec,
                                                          .path = ""};
    }
    qsort(maps->items, maps->count, sizeof(*maps->items), by_start);
    return 0;
}

static const char *find_exe(const struct core *c)
{
    const struct core_file *f = c->program_headers ? file_at(c, c->program_headers) : NULL;
    if (!f && c->file_count)
        f = &c->files[0];
    return f ? f->path : "";
}

/* ---- opening ---- */

static int open_for_python(const struct mapping *first, bool is_exe, void *context)
{
    const struct postmortem *p = context;
    const struct mapped_file *f = find_file(p->private, first->path);
    (void)is_exe;
    return f && f->data ? open_regular(f->local) : -1;
}

/* What is the matter with the core is more to the point than where Python was looked for. */
static int explain(const struct postmortem *p, const char *path, int code, struct error *err)
{
    if (code != -SCRY_E_NOT_PYTHON && code != -SCRY_E_UNSUPPORTED && code != -SCRY_E_NOT_READY)
        return code;
    if (p->core.missing) {
        error_set(err, -SCRY_E_BAD_FILE,
                  "'%.400s' is cut off: %llu bytes are missing, and with them the memory of Python",
                  path, (unsigned long long)p->core.missing);
        error_hint(err, "copy the file again; is `ulimit -c` too small, or the disk full?");
        return -SCRY_E_BAD_FILE;
    }
    if (p->private->first_missing[0] || p->warning[0]) {
        struct error found = *err;
        error_set(err, code, "no Python is found in '%.300s', and %.300s%s", path,
                  p->warning[0] ? p->warning : p->private->first_missing,
                  p->warning[0] ? "" : " is not here");
        error_hint(err,
                   "say where the program is with --exe PATH, and where its libraries are with "
                   "--sysroot DIR; %.200s",
                   error_text(&found));
        return code;
    }
    error_set(err, code, "the core file '%.400s' does not hold the memory of a Python (%.300s)",
              path, error_text(err));
    error_hint(err, "was it of a Python program? /proc/PID/coredump_filter says what a core holds");
    return code;
}

static int find_python(struct postmortem *p, const char *path, struct error *err)
{
    struct python_source source = {
        .pid = p->core.pid,
        .exe = p->exe,
        .command = p->command.data,
        .maps = &p->maps,
        .open_file = open_for_python,
        .context = p,
    };
    int r = python_find_in(&source, p->mem, &p->python, err);
    if (r < 0)
        return explain(p, path, r, err);
    /* Code and constants may be wanted as well. */
    const struct mapped_file *f = find_file(p->private, p->python->binary);
    if (!f || !f->data)
        warn(p, "%.300s is not here: say where with --exe PATH or --sysroot DIR",
             f && f->local ? f->local : p->python->binary);
    return 0;
}

static int open_in_sysroot(const char *path, void *context)
{
    const struct postmortem_private *v = context;
    char joined[PATH_MAX];
    if (snprintf(joined, sizeof(joined), "%s%s", v->sysroot, path) >= (int)sizeof(joined))
        return -1;
    return open_regular(joined);
}

static int open_mapped_now(const struct mapping *m, void *context)
{
    return open_for_python(m, false, context);
}

static int open_path_now(const char *path, void *context)
{
    const struct postmortem *p = context;
    return open_in_sysroot(path, p->private);
}

static int begin_native(struct postmortem *p, bool all)
{
    struct modules_source source = {
        .maps = &p->maps,
        .open_mapping = open_mapped_now,
        .open_path = open_path_now,
        .context = p,
    };
    p->private->native = native_new_from(&source, p->mem, p->python, all);
    return p->private->native ? 0 : -SCRY_E_NO_MEMORY;
}

static int check_options(const struct postmortem_options *o, struct error *err)
{
    struct stat st;
    if (o->sysroot && (stat(o->sysroot, &st) < 0 || !S_ISDIR(st.st_mode))) {
        error_set(err, -SCRY_E_USAGE, "--sysroot '%.500s' is no folder", o->sysroot);
        error_hint(err, "name the folder below which the files lie as they did below /");
        return -SCRY_E_USAGE;
    }
    int fd = o->exe ? open_regular(o->exe) : -1;
    if (o->exe && fd < 0) {
        error_set(err, -SCRY_E_USAGE, "--exe '%.500s' cannot be read: %s", o->exe, strerror(errno));
        error_hint(err, "name the program that the core file is of");
        return -SCRY_E_USAGE;
    }
    if (fd >= 0)
        close(fd);
    return 0;
}

static int open_parts(struct postmortem *p, const struct postmortem_options *o, struct error *err)
{
    struct postmortem_private *v = p->private;
    int r = check_options(o, err);
    if (r == 0)
        r = core_open(o->core, &p->core, err);
    if (r < 0)
        return r;
    v->options = o;
    if (o->sysroot && strcmp(o->sysroot, "/") != 0)
        snprintf(v->sysroot, sizeof(v->sysroot), "%s", o->sysroot);
    p->exe = find_exe(&p->core);
    p->mem = mem_core_new();
    if (!p->mem)
        return -SCRY_E_NO_MEMORY;
    r = add_segments(p);
    if (r == 0)
        r = add_files(p);
    if (r == 0)
        r = make_maps(p);
    if (r < 0)
        return r;
    if (!core_command(&p->core, p->mem, &p->command)) {
        buf_reset(&p->command);
        buf_add_str(&p->command, p->core.command[0] ? p->core.command : p->core.name);
    }
    r = find_python(p, o->core, err);
    if (r == 0 && (o->native || o->native_all))
        r = begin_native(p, o->native_all);
    if (r == 0 && p->core.missing)
        warn(p, "the core file is cut off: %llu bytes are missing",
             (unsigned long long)p->core.missing);
    return r;
}

int postmortem_open(const struct postmortem_options *options, struct postmortem **ret_postmortem,
                    struct error *err)
{
    struct error own = {0};
    struct postmortem *p = calloc(1, sizeof(*p));
    struct postmortem_private *v = calloc(1, sizeof(*v));
    if (!p || !v) {
        free(p);
        free(v);
        return error_set(err, -SCRY_E_NO_MEMORY, "out of memory");
    }
    p->private = v;
    p->exe = "";
    buf_init(&p->command);
    v->short_paths.open_file = open_in_sysroot;
    v->short_paths.context = v;
    int r = open_parts(p, options, err ? err : &own);
    v->options = NULL;
    if (r < 0) {
        postmortem_close(p);
        return r == -SCRY_E_NO_MEMORY ? error_set(err, r, "out of memory") : r;
    }
    *ret_postmortem = p;
    return 0;
}

static void forget_native(struct postmortem_private *v)
{
    for (size_t i = 0; i < v->native_count; i++)
        native_thread_free(v->native_threads[i]);
    free(v->native_threads);
    v->native_threads = NULL;
    v->native_count = 0;
}

void postmortem_close(struct postmortem *p)
{
    if (!p)
        return;
    struct postmortem_private *v = p->private;
    forget_native(v);
    native_free(v->native);
    python_free(p->python);
    mem_close(p->mem);
    free(p->maps.items);
    for (size_t i = 0; i < v->file_count; i++) {
        unmap_file(&v->files[i]);
        free(v->files[i].local);
    }
    free(v->files);
    py_threads_done(&v->threads);
    free(v->names);
    free(v->snapshot.threads);
    short_paths_done(&v->short_paths);
    free(v);
    buf_done(&p->command);
    core_close(&p->core);
    free(p);
}

const char *postmortem_short_path(struct postmortem *p, const char *path)
{
    return short_path(&p->private->short_paths, path);
}

/* ---- looking ---- */

static void take_name(uint64_t thread_id, const char *name, void *context)
{
    struct postmortem_private *v = context;
    for (size_t i = 0; i < v->threads.count; i++)
        if (v->threads.items[i].thread_id == thread_id)
            snprintf(v->names[i].text, sizeof(v->names[i].text), "%s", name);
}

static void read_names(struct postmortem *p)
{
    struct py_threads *threads = &p->private->threads;
    scry_addr last = 0;
    for (size_t i = 0; i < threads->count; i++) {
        if (threads->items[i].interp != last)
            py_thread_names(&p->python->view, threads->items[i].interp, take_name, p->private);
        last = threads->items[i].interp;
    }
}

/* Before 3.11 only the C library knows the kernel's ids. */
static void fill_thread_ids(struct postmortem *p)
{
    const struct core *c = &p->core;
    if (p->python->layout.ts_native_thread_id != LAYOUT_NONE)
        return;
    struct task *tasks = calloc(c->thread_count + 1, sizeof(*tasks));
    if (!tasks)
        return;
    for (size_t i = 0; i < c->thread_count; i++)
        tasks[i] = (struct task){.tid = c->threads[i].tid, .ns_tid = c->threads[i].tid};
    struct task_list list = {.items = tasks, .count = c->thread_count};
    int32_t offset = thread_ids_learn(p->mem, &p->private->threads, &list);
    thread_ids_fill(p->mem, offset, &p->private->threads);
    free(tasks);
}

static const struct core_thread *core_thread(const struct core *c, pid_t tid)
{
    for (size_t i = 0; i < c->thread_count; i++)
        if (tid > 0 && c->threads[i].tid == tid)
            return &c->threads[i];
    return NULL;
}

/* A thread that is not in the core, or whose stack is not, keeps its Python frames. */
static const struct merged_stack *read_native(struct postmortem *p, const struct py_thread *python)
{
    struct postmortem_private *v = p->private;
    const struct core_thread *thread = core_thread(&p->core, python->ns_tid);
    struct registers registers;
    struct native_thread *t = v->native_threads ? native_thread_new() : NULL;
    if (!t)
        return NULL;
    v->native_threads[v->native_count++] = t;
    native_forget(t);
    if (thread && registers_of_dead(thread->registers, thread->registers_size, &registers) == 0)
        native_read_dead(v->native, t, p->python, python, &registers);
    return &t->merged;
}

static void describe(struct postmortem *p, size_t i, struct thread_state *state)
{
    const struct py_thread *python = &p->private->threads.items[i];
    const struct core_thread *thread = core_thread(&p->core, python->ns_tid);
    long call = thread ? core_thread_call(thread) : -1;
    *state = (struct thread_state){
        .python = python,
        .tid = thread ? thread->tid : 0,
        .ns_tid = python->ns_tid,
        .name = p->private->names[i].text,
        .active = call < 0,
        .owns_gil = python->owns_gil,
        .merged = p->private->native ? read_native(p, python) : NULL,
    };
    const char *name = call >= 0 ? syscall_name(call) : NULL;
    if (name)
        snprintf(state->wait, sizeof(state->wait), "%s", name);
}

int postmortem_look(struct postmortem *p,
                    void (*visit)(struct python *python, const struct py_thread *thread,
                                  void *context),
                    void *context, const struct snapshot **ret_snapshot)
{
    struct postmortem_private *v = p->private;
    int r = python_threads(p->python, &v->threads);
    if (r < 0)
        return r;
    free(v->names);
    free(v->snapshot.threads);
    v->snapshot = (struct snapshot){0};
    v->names = calloc(v->threads.count + 1, sizeof(*v->names));
    v->snapshot.threads = calloc(v->threads.count + 1, sizeof(*v->snapshot.threads));
    if (!v->names || !v->snapshot.threads)
        return -SCRY_E_NO_MEMORY;
    forget_native(v);
    if (v->native)
        v->native_threads = calloc(v->threads.count + 1, sizeof(struct native_thread *));
    fill_thread_ids(p);
    read_names(p);
    for (size_t i = 0; i < v->threads.count; i++) {
        struct py_thread *t = &v->threads.items[i];
        if (!t->thread_id)
            continue; /* made, but not begun */
        r = python_walk(p->python, t);
        if (r == -SCRY_E_NO_MEMORY)
            return r;
        /* A stack that is not in the core costs no other thread its own. */
        if (r < 0) {
            t->frame_count = 0;
            t->incomplete = true;
        } else if (visit) {
            visit(p->python, t, context);
        }
        describe(p, i, &v->snapshot.threads[v->snapshot.count++]);
    }
    *ret_snapshot = &v->snapshot;
    return 0;
}
