/* In place of kernel_walk.c where scry is built without libbpf or clang. */
#include "access/kernel_walk.h"

int kernel_walk_open(const struct process *process, const struct kernel_plan *plan,
                     scry_nsec period, struct kernel_walk **ret_walk, struct error *err)
{
    (void)process, (void)plan, (void)period, (void)ret_walk;
    error_set(err, -SCRY_E_UNSUPPORTED, "this scry was built without the reader in the kernel");
    error_hint(err, "read the memory from outside instead: --reader memory");
    return -SCRY_E_UNSUPPORTED;
}

void kernel_walk_close(struct kernel_walk *w)
{
    (void)w;
}

bool kernel_walk_sees_waiting(const struct kernel_walk *w)
{
    (void)w;
    return false;
}

int kernel_walk_drain(struct kernel_walk *w,
                      int (*take)(const struct kernel_sample *, const struct kernel_node *, void *),
                      void *context)
{
    (void)w, (void)take, (void)context;
    return 0;
}

void kernel_walk_know(struct kernel_walk *w, scry_addr what, uint64_t mark)
{
    (void)w, (void)what, (void)mark;
}

int kernel_walk_fd(const struct kernel_walk *w)
{
    (void)w;
    return -1;
}

double kernel_walk_fullness(const struct kernel_walk *w)
{
    (void)w;
    return 0;
}

uint64_t kernel_walk_lost(const struct kernel_walk *w)
{
    (void)w;
    return 0;
}

uint64_t kernel_walk_idle(const struct kernel_walk *w)
{
    (void)w;
    return 0;
}

void kernel_walk_jitter(struct kernel_walk *w, scry_nsec now, uint64_t *seed)
{
    (void)w, (void)now, (void)seed;
}
