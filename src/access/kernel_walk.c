#include "access/kernel_walk.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dlfcn.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MOST_CPUS   8192
#define COUNTS_SIZE 4096 /* of the memory shared with the program, at least: it is a page */

/* The program, compiled; kernel_walk.py makes it. */
extern const unsigned char kernel_walk_program[];
extern const size_t kernel_walk_program_size;

/* libbpf is loaded only when it is needed: most who use scry never do, and may not have it. */
#define LIBRARY "libbpf.so.1"
#define FUNCTIONS(F)                                                                               \
    F(libbpf_set_print)                                                                            \
    F(libbpf_num_possible_cpus)                                                                    \
    F(bpf_object__open_mem)                                                                        \
    F(bpf_object__load)                                                                            \
    F(bpf_object__close)                                                                           \
    F(bpf_object__next_map)                                                                        \
    F(bpf_object__find_map_by_name)                                                                \
    F(bpf_object__find_map_fd_by_name)                                                             \
    F(bpf_object__find_program_by_name)                                                            \
    F(bpf_program__fd)                                                                             \
    F(bpf_map__fd)                                                                                 \
    F(bpf_map__initial_value)                                                                      \
    F(bpf_map__name)                                                                               \
    F(bpf_map__set_max_entries)                                                                    \
    F(bpf_map_update_elem)                                                                         \
    F(ring_buffer__epoll_fd)                                                                       \
    F(ring_buffer__new)                                                                            \
    F(ring_buffer__consume)                                                                        \
    F(ring_buffer__free)

static struct {
#define F(name) __typeof__ (&(name))(name);
    FUNCTIONS(F)
#undef F
    bool loaded;
} lib;

static int load_library(struct error *err)
{
    if (lib.loaded)
        return 0;
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    lib.loaded = library;
#define F(name)                                                                                    \
    lib.loaded = lib.loaded && ((lib.name) = (__typeof__(&(name)))(uintptr_t)dlsym(library, #name));
    FUNCTIONS(F)
#undef F
    if (lib.loaded)
        return 0;
    error_set(err, -SCRY_E_UNSUPPORTED,
              "the kernel cannot be asked to read stacks without " LIBRARY);
    error_hint(err,
               "install it (on Debian: libbpf1), or read the memory from outside: --reader memory");
    return -SCRY_E_UNSUPPORTED;
}

struct kernel_walk {
    struct bpf_object *object;
    struct bpf_program *program;
    struct ring_buffer *ring;
    const uint64_t *lost; /* counted by the program */
    int *timers;          /* descriptors, one for each CPU */
    size_t timer_count;
    scry_nsec period;
    int (*take)(const struct kernel_sample *, const struct kernel_node *, void *);
    void *context;
    int result;
    int known_fd; /* of a map */
    size_t taken; /* bytes, by the last collection */
};

/* What the loader has to say is for its developers. */
static int say_nothing(enum libbpf_print_level level, const char *format, va_list list)
{
    (void)level;
    if (getenv("SCRY_DEBUG_BPF"))
        vfprintf(stderr, format, list);
    return 0;
}

static int failed(struct error *err, const char *what, int code)
{
    bool denied = code == EPERM || code == EACCES;
    error_set(err, denied ? -SCRY_E_PERMISSION : -SCRY_E_UNSUPPORTED,
              "the kernel cannot be asked to read stacks: %s: %s", what, strerror(code));
    error_hint(err, denied ? "it takes root, or the capabilities CAP_BPF, CAP_PERFMON and "
                             "CAP_SYS_PTRACE; without: --reader memory"
                           : "read the memory from outside instead: --reader memory");
    return denied ? -SCRY_E_PERMISSION : -SCRY_E_UNSUPPORTED;
}

/* ---- the program ---- */

/* The program's own variables of a kind. */
static struct bpf_map *variables(const struct kernel_walk *w, const char *kind)
{
    struct bpf_map *map = NULL;
    while ((map = lib.bpf_object__next_map(w->object, map)))
        if (strstr(lib.bpf_map__name(map), kind))
            return map;
    return NULL;
}

static int set_plan(struct kernel_walk *w, const struct process *process,
                    const struct kernel_plan *plan)
{
    struct stat ns;
    if (fstatat(process->proc_fd, "ns/pid", &ns, 0) < 0)
        return -errno;
    struct bpf_map *constants = variables(w, ".rodata");
    size_t size = 0;
    struct kernel_plan *to =
        constants ? (void *)(uintptr_t)lib.bpf_map__initial_value(constants, &size) : NULL;
    if (!to || size < sizeof(*to))
        return -ENOENT;
    *to = *plan;
    to->ns_dev = ns.st_dev;
    to->ns_ino = ns.st_ino;
    to->tgid = (uint32_t)process->ns_pid;
    return 0;
}

static int load(struct kernel_walk *w, const struct process *process,
                const struct kernel_plan *plan)
{
    lib.libbpf_set_print(say_nothing);
    LIBBPF_OPTS(bpf_object_open_opts, options, .object_name = "scry");
    w->object = lib.bpf_object__open_mem(kernel_walk_program, kernel_walk_program_size, &options);
    if (!w->object)
        return -errno;
    int cpus = lib.libbpf_num_possible_cpus();
    struct bpf_map *scratches = lib.bpf_object__find_map_by_name(w->object, "scratches");
    int r = set_plan(w, process, plan);
    if (r == 0)
        r = lib.bpf_map__set_max_entries(scratches, cpus > 0 ? (uint32_t)cpus : 1);
    if (r == 0)
        r = lib.bpf_object__load(w->object);
    if (r < 0)
        return r;
    w->program = lib.bpf_object__find_program_by_name(w->object, "on_timer");
    w->known_fd = lib.bpf_object__find_map_fd_by_name(w->object, "known_whats");
    struct bpf_map *counts = variables(w, ".bss");
    w->lost = counts ? mmap(NULL, COUNTS_SIZE, PROT_READ, MAP_SHARED, lib.bpf_map__fd(counts), 0)
                     : MAP_FAILED;
    if (w->lost == MAP_FAILED)
        w->lost = NULL;
    return w->lost ? 0 : -ENOENT;
}

/* ---- timers ---- */

static int add_timer(struct kernel_walk *w, int cpu)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE,
        .size = sizeof(attr),
        .config = PERF_COUNT_SW_CPU_CLOCK,
        .sample_period = w->period,
        .disabled = 1,
    };
    int fd = (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0)
        return errno == ENODEV ? 0 : -errno; /* this CPU is off */
    if (ioctl(fd, PERF_EVENT_IOC_SET_BPF, lib.bpf_program__fd(w->program)) < 0 ||
        ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) < 0) {
        int r = -errno;
        close(fd);
        return r;
    }
    w->timers[w->timer_count++] = fd;
    return 0;
}

static int add_timers(struct kernel_walk *w)
{
    int cpus = lib.libbpf_num_possible_cpus(), r = 0;
    if (cpus <= 0 || cpus > MOST_CPUS)
        return -EINVAL;
    w->timers = calloc((size_t)cpus, sizeof(*w->timers));
    if (!w->timers)
        return -ENOMEM;
    for (int cpu = 0; cpu < cpus && r == 0; cpu++)
        r = add_timer(w, cpu);
    return r == 0 && !w->timer_count ? -ENODEV : r;
}

void kernel_walk_jitter(struct kernel_walk *w, uint64_t *seed)
{
    for (size_t i = 0; i < w->timer_count; i++) {
        *seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
        /* Between 0.9 and 1.1 of it. */
        uint64_t period = w->period - w->period / 10 + (*seed >> 40) * (w->period / 5) / (1 << 24);
        ioctl(w->timers[i], PERF_EVENT_IOC_PERIOD, &period);
    }
}

/* ---- */

static int take_one(void *context, void *data, size_t size)
{
    struct kernel_walk *w = context;
    const struct kernel_sample *sample = data;
    w->taken += size;
    if (w->result || size < sizeof(*sample) ||
        sample->count > (size - sizeof(*sample)) / sizeof(struct kernel_node))
        return 0;
    w->result = w->take(sample, (const struct kernel_node *)(sample + 1), w->context);
    return 0;
}

int kernel_walk_open(const struct process *process, const struct kernel_plan *plan,
                     scry_nsec period, struct kernel_walk **ret_walk, struct error *err)
{
    int r = load_library(err);
    if (r < 0)
        return r;
    struct kernel_walk *w = calloc(1, sizeof(*w));
    if (!w)
        return error_set(err, -SCRY_E_NO_MEMORY, "out of memory");
    w->period = period < KERNEL_WALK_FASTEST ? KERNEL_WALK_FASTEST : period;
    r = load(w, process, plan);
    if (r < 0) {
        kernel_walk_close(w);
        return failed(err, "its program is not accepted", -r);
    }
    w->ring = lib.ring_buffer__new(lib.bpf_object__find_map_fd_by_name(w->object, "samples"),
                                   take_one, w, NULL);
    r = w->ring ? add_timers(w) : -errno;
    if (r < 0) {
        kernel_walk_close(w);
        return failed(err, "no timer is to be had", -r);
    }
    *ret_walk = w;
    return 0;
}

void kernel_walk_close(struct kernel_walk *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->timer_count; i++)
        close(w->timers[i]);
    free(w->timers);
    if (w->lost)
        munmap((void *)(uintptr_t)w->lost, COUNTS_SIZE);
    lib.ring_buffer__free(w->ring);
    lib.bpf_object__close(w->object);
    free(w);
}

int kernel_walk_drain(struct kernel_walk *w,
                      int (*take)(const struct kernel_sample *, const struct kernel_node *, void *),
                      void *context)
{
    w->take = take;
    w->context = context;
    w->result = 0;
    w->taken = 0;
    lib.ring_buffer__consume(w->ring);
    return w->result;
}

void kernel_walk_know(struct kernel_walk *w, scry_addr what, uint64_t mark)
{
    lib.bpf_map_update_elem(w->known_fd, &what, &mark, BPF_ANY);
}

int kernel_walk_fd(const struct kernel_walk *w)
{
    return lib.ring_buffer__epoll_fd(w->ring);
}

double kernel_walk_fullness(const struct kernel_walk *w)
{
    return (double)w->taken / KERNEL_WALK_ROOM;
}

uint64_t kernel_walk_lost(const struct kernel_walk *w)
{
    return *w->lost;
}
