/* Memory of a target: the seam between scry and whatever it looks into. Backends: a live process,
 * a core file, and an in-memory fake for unit tests and fuzzing. Addresses are integers; nothing read here is to
 * be believed. */
#ifndef SCRY_ACCESS_MEM_H
#define SCRY_ACCESS_MEM_H

#include "util/error.h"
#include "util/types.h"

struct mem_range {
    scry_addr addr;
    void *to;
    size_t len;
};

struct mem;

struct mem_ops {
    /* Read ranges in order; returns how many were read in full (0 .. count), stopping at the first
     * that could not be, or a negative error when the target as a whole is out of reach
     * (-SCRY_E_GONE, -SCRY_E_PERMISSION). */
    int (*readv)(struct mem *mem, const struct mem_range *ranges, int count);
    void (*close)(struct mem *mem);
};

/* First member of each backend's own struct. */
struct mem {
    const struct mem_ops *ops;
    uint64_t calls; /* system calls that it took so far; counted by the live one */
};

/* All of it or nothing: 0, -SCRY_E_READ, -SCRY_E_GONE or -SCRY_E_PERMISSION. */
int mem_read(struct mem *mem, scry_addr addr, void *to, size_t len);
/* As ops->readv. */
int mem_readv(struct mem *mem, const struct mem_range *ranges, int count);
int mem_read_u64(struct mem *mem, scry_addr addr, uint64_t *ret_value);
int mem_read_u32(struct mem *mem, scry_addr addr, uint32_t *ret_value);
/* A NUL-terminated string of at most cap-1 bytes; longer ones are cut. */
int mem_read_cstr(struct mem *mem, scry_addr addr, char *to, size_t cap);
void mem_close(struct mem *mem);

/* Live: process_vm_readv, or /proc/PID/mem where that is refused; chosen by a probe. Any number of
 * ranges. */
int mem_open_live(pid_t pid, struct mem **ret_mem, struct error *err);

/* Another memory, read ahead: between begin and end what lies in the ranges is taken from where they were read to. That
 * is true only of what does not change meanwhile: a thread that stands still. The ranges stand in the order of their
 * addresses; they and their copies stay the caller's. */
struct mem_ahead {
    struct mem mem;
    struct mem *under;
    const struct mem_range *ranges;
    int count; /* of those that were read */
};
void mem_ahead_init(struct mem_ahead *ahead, struct mem *under);
/* One that closes what is under it. */
struct mem_ahead *mem_ahead_new(struct mem *under);
/* False if some of it is not there; what lies before that is read. */
bool mem_ahead_begin(struct mem_ahead *ahead, const struct mem_range *ranges, int count);
void mem_ahead_end(struct mem_ahead *ahead);

/* Fake: made of pieces that are copied in. Reads may span adjoining pieces. */
struct mem *mem_fake_new(void);
int mem_fake_add(struct mem *fake, scry_addr addr, const void *data,
                 size_t len); /* later pieces win */

/* A core file: stretches of files that the caller has mapped and keeps mapped. */
enum mem_core_layer {
    MEM_CORE_SAVED, /* in the core file */
    MEM_CORE_FILE,  /* only in the file that was mapped there */
};
struct mem *mem_core_new(void);
/* `len` bytes from `addr` on, of which the first `there` are at `data`. Those of a layer must not
 * overlap; if they do, reads find one of them. */
int mem_core_add(struct mem *core, enum mem_core_layer layer, scry_addr addr, uint64_t len,
                 const void *data, size_t there);

#endif
