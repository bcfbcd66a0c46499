/* The registers of a thread that stands still, numbered as DWARF numbers them on this machine. */
#ifndef SCRY_ACCESS_REGISTERS_H
#define SCRY_ACCESS_REGISTERS_H

#include "access/process.h"

#if defined(__x86_64__)
#define REGISTER_COUNT 17
#define REGISTER_FP    6  /* rbp */
#define REGISTER_SP    7  /* rsp */
#define REGISTER_RA    16 /* the return address: a column of the tables, no register of its own */
#elif defined(__aarch64__)
#define REGISTER_COUNT 32
#define REGISTER_FP    29
#define REGISTER_SP    31
#define REGISTER_RA    30
#else
#error "scry runs on x86-64 and aarch64"
#endif

struct registers {
    scry_addr pc;
    uint64_t value[REGISTER_COUNT];
    uint64_t known; /* bit n: value[n] is what the register holds */
};

static inline bool register_known(const struct registers *r, unsigned n)
{
    return n < REGISTER_COUNT && (r->known >> n & 1);
}

static inline void register_set(struct registers *r, unsigned n, uint64_t value)
{
    r->value[n] = value;
    r->known |= 1ULL << n;
}

static inline void register_forget(struct registers *r, unsigned n)
{
    r->known &= ~(1ULL << n);
}

/* All of them, of a thread held by stop_thread(). -SCRY_E_GONE when it is not held (any more). */
int registers_of_stopped(pid_t tid, struct registers *ret);
/* Whether it was taken out of a system call in which it slept. */
bool registers_show_sleep(pid_t tid);
/* From what the kernel wrote into a core file; -SCRY_E_BAD_FILE when it is of another size. */
int registers_of_dead(const void *data, size_t size, struct registers *ret);
/* Only pc and stack pointer, of a thread asleep in the kernel, without stopping it. -SCRY_E_TORN
 * when it runs, -SCRY_E_PERMISSION or -SCRY_E_GONE where the kernel does not say. */
int registers_of_blocked(const struct process *process, pid_t tid, struct registers *ret);
/* The same from the text of /proc/PID/task/TID/syscall. */
int registers_parse_blocked(const char *text, struct registers *ret);

#endif
