/* A core file: the memory of a process that died, or was copied, and what the kernel (or gcore)
 * noted about it. Nothing in it is believed: every offset is held against the file, every count
 * has a limit. */
#ifndef SCRY_BINARY_CORE_H
#define SCRY_BINARY_CORE_H

#include "access/mem.h"
#include "util/error.h"
#include "util/types.h"

struct core_segment { /* one mapping of the process */
    scry_addr start, end;
    uint64_t offset; /* in the core file */
    uint64_t saved;  /* so many bytes of it ought to be in the core file ... */
    uint64_t there;  /* ... and so many are */
    bool read, write, exec;
};

struct core_file { /* a stretch of a file that was mapped */
    scry_addr start, end;
    uint64_t offset; /* in the file */
    const char *path;
    bool deleted; /* " (deleted)" was taken off */
};

struct core_thread {
    pid_t tid;
    int signal;                     /* that it got, 0 = none */
    const unsigned char *registers; /* struct user_regs_struct as the kernel wrote it */
    size_t registers_size;
};

struct core {
    const unsigned char *data; /* the file, mapped */
    size_t size;
    struct core_segment *segments;
    size_t segment_count;
    struct core_file *files; /* by address */
    size_t file_count;
    struct core_thread *threads; /* as in the file: the one that died first */
    size_t thread_count;
    pid_t pid, parent;
    char name[17];    /* of the executable, cut to 15 bytes */
    char command[81]; /* the first 80 bytes of the command line */
    int signal;       /* the process died of, 0 = none: a copy of a living one */
    int signal_code;  /* si_code */
    bool has_fault;   /* SIGSEGV, SIGBUS and the like: */
    scry_addr fault;  /* where */
    pid_t signal_sender;
    scry_addr program_headers; /* of the executable: AT_PHDR; 0 = not known */
    scry_addr program_name_at; /* AT_EXECFN */
    const unsigned char *auxv; /* as the kernel put it on the stack at the start */
    size_t auxv_size;
    uint64_t missing; /* bytes that ought to be in the file and are not: it is cut off */
    char *paths;      /* private */
    bool mapped;
};

/* From a file. One that is compressed with gzip or zstd is unpacked into a temporary file without a
 * name. The sentence of a failure names the file. */
int core_open(const char *path, struct core *ret_core, struct error *err);
/* From memory that stays the caller's; `name` is for the sentences. */
int core_parse(const void *data, size_t size, const char *name, struct core *ret_core,
               struct error *err);
void core_close(struct core *core); /* harmless on zeroed memory */

/* "SIGSEGV"; "signal 99" is for the caller to say: NULL. */
const char *core_signal_name(int signal);
/* The number of the system call a thread was in; -1 if it was running. */
long core_thread_call(const struct core_thread *thread);

/* Did the process die of this signal, or was it stopped and copied? */
bool core_died(const struct core *core);
/* The whole command line, from the stack the process began with; false if it is not there any more.
 */
struct buf;
bool core_command(const struct core *core, struct mem *mem, struct buf *ret_command);

/* private to core*.c: an unpacked copy of `fd`; negative with its sentence in `err`. */
int core_unpack(int fd, const char *name, bool gzip, struct error *err);

#endif
