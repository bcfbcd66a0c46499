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

#define MOST_CPUS  8192
#define KNOWN_SIZE (KERNEL_WALK_KNOWN * sizeof(struct kernel_known))
#define SWITCHES   "sched_exit_tp" /* Linux 6.16 */
#define WAKINGS    "sched_waking"

#define JITTER_EVERY   (100ULL * 1000 * 1000) /* and not before ... */
#define JITTER_PERIODS 100                    /* ... so many have gone by */
#define LEAST_OFF      0.03
#define MOST_OFF       0.1

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
    F(bpf_raw_tracepoint_open)                                                                     \
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
    struct ring_buffer *ring;
    const struct kernel_counts *counts; /* shared with the program */
    struct kernel_known *known;         /* too */
    int *timers;                        /* descriptors, one for each CPU */
    size_t timer_count;
    scry_nsec period;
    int (*take)(const struct kernel_sample *, const struct kernel_node *, void *);
    void *context;
    int result;
    double off; /* by so much the rate is off the wanted one; 0 = another pair is to be drawn */
    scry_nsec jittered; /* when */
    int switches_fd;    /* of the program that is told when a thread gets a CPU; -1 = none is ... */
    int wakings_fd;     /* ... and of the one that is told when a thread is woken */
    size_t taken;       /* bytes, by the last collection */
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

/* Its memory, in ours; NULL on failure. */
static void *share(const struct bpf_map *map, size_t size, int protection)
{
    void *at = map ? mmap(NULL, size, protection, MAP_SHARED, lib.bpf_map__fd(map), 0) : MAP_FAILED;
    return at == MAP_FAILED ? NULL : at;
}

static int program_fd(const struct kernel_walk *w, const char *name)
{
    return lib.bpf_program__fd(lib.bpf_object__find_program_by_name(w->object, name));
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
        r = lib.bpf_map__set_max_entries(scratches,
                                         KERNEL_WALK_SPARE + (cpus > 0 ? (uint32_t)cpus : 1));
    if (r == 0)
        r = lib.bpf_object__load(w->object);
    if (r < 0)
        return r;
    w->counts = share(variables(w, ".bss"), sizeof(*w->counts), PROT_READ);
    w->known = share(lib.bpf_object__find_map_by_name(w->object, "known_whats"), KNOWN_SIZE,
                     PROT_READ | PROT_WRITE);
    return w->counts && w->known ? 0 : -ENOENT;
}

/* ---- timers ---- */

static int add_timer(struct kernel_walk *w, int cpu, int program)
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
    if (ioctl(fd, PERF_EVENT_IOC_SET_BPF, program) < 0 || ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) < 0) {
        int r = -errno;
        close(fd);
        return r;
    }
    w->timers[w->timer_count++] = fd;
    return 0;
}

static int add_timers(struct kernel_walk *w)
{
    int cpus = lib.libbpf_num_possible_cpus(), program = program_fd(w, "on_timer"), r = 0;
    if (cpus <= 0 || cpus > MOST_CPUS)
        return -EINVAL;
    w->timers = calloc((size_t)cpus, sizeof(*w->timers));
    if (!w->timers)
        return -ENOMEM;
    for (int cpu = 0; cpu < cpus && r == 0; cpu++)
        r = add_timer(w, cpu, program);
    return r == 0 && !w->timer_count ? -ENODEV : r;
}

/* Each period is followed by its counterpart, with which it makes the wanted number of samples; and none is so near the wanted
 * one that a program which has that period itself would be seen in one phase for long. */
static scry_nsec draw_period(struct kernel_walk *w, uint64_t *seed)
{
    double off = -w->off;
    if (!w->off) {
        *seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
        double drawn = LEAST_OFF + (MOST_OFF - LEAST_OFF) * (double)(*seed >> 40) / (1 << 24);
        off = *seed >> 39 & 1 ? drawn : -drawn;
    }
    w->off = w->off ? 0 : off;
    return (scry_nsec)((double)w->period / (1 + off));
}

void kernel_walk_jitter(struct kernel_walk *w, scry_nsec now, uint64_t *seed)
{
    /* The period that is going on is lost whenever another is set. */
    scry_nsec every = JITTER_PERIODS * w->period;
    if (now - w->jittered < (every > JITTER_EVERY ? every : JITTER_EVERY))
        return;
    w->jittered = now;
    uint64_t period = draw_period(w, seed);
    for (size_t i = 0; i < w->timer_count; i++)
        ioctl(w->timers[i], PERF_EVENT_IOC_PERIOD, &period);
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
    w->switches_fd = w->wakings_fd = -1;
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
    if (plan->wait_period)
        w->switches_fd = lib.bpf_raw_tracepoint_open(SWITCHES, program_fd(w, "on_switch"));
    if (w->switches_fd >= 0)
        w->wakings_fd = lib.bpf_raw_tracepoint_open(WAKINGS, program_fd(w, "on_waking"));
    *ret_walk = w;
    return 0;
}

bool kernel_walk_sees_waiting(const struct kernel_walk *w)
{
    return w->switches_fd >= 0;
}

void kernel_walk_close(struct kernel_walk *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->timer_count; i++)
        close(w->timers[i]);
    free(w->timers);
    if (w->switches_fd >= 0)
        close(w->switches_fd);
    if (w->wakings_fd >= 0)
        close(w->wakings_fd);
    if (w->counts)
        munmap((void *)(uintptr_t)w->counts, sizeof(*w->counts));
    if (w->known)
        munmap(w->known, KNOWN_SIZE);
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
    struct kernel_known *to = &w->known[kernel_known_place(what)],
                        *other = &w->known[kernel_known_place(what) ^ 1];
    if (to->what != what && (other->what == what || (to->what && !other->what)))
        to = other;
    /* Never one thing with the mark of another. */
    __atomic_store_n(&to->what, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&to->mark, mark, __ATOMIC_RELEASE);
    __atomic_store_n(&to->what, what, __ATOMIC_RELEASE);
}

int kernel_walk_fd(const struct kernel_walk *w)
{
    return lib.ring_buffer__epoll_fd(w->ring);
}

double kernel_walk_fullness(const struct kernel_walk *w)
{
    return (double)w->taken / KERNEL_WALK_ROOM;
}

uint64_t kernel_walk_idle(const struct kernel_walk *w)
{
    return w->counts->idle;
}

uint64_t kernel_walk_lost(const struct kernel_walk *w)
{
    return w->counts->lost;
}
