/* libscry: look inside running Python processes.
 *
 * Attach to a process, take as many snapshots as you like, walk their threads and frames, detach.
 * Nothing is ever written into the process; a thread is stopped only while its stack is read, and
 * only where that is the one way to get a true stack. The library prints nothing and never ends the
 * program.
 *
 * Threads: a handle may be used by one thread at a time; different handles are independent. Memory
 * handed out belongs to the handle and stays valid until the next snapshot or the detach. Strings
 * are UTF-8 and come from the process looked into: treat them as untrusted. */
#ifndef SCRY_SCRY_H
#define SCRY_SCRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SCRY_API __attribute__((visibility("default")))
#else
#define SCRY_API
#endif

/* Functions return 0 or one of these, negated. */
enum scry_error_code {
    SCRY_OK = 0,
    SCRY_E_USAGE,         /* an argument makes no sense */
    SCRY_E_NO_PROCESS,    /* there is no such process */
    SCRY_E_ZOMBIE,        /* it has ended and waits to be reaped */
    SCRY_E_KERNEL_THREAD, /* it is part of the kernel */
    SCRY_E_NOT_PYTHON,    /* it does not run CPython */
    SCRY_E_UNSUPPORTED,   /* a CPython that scry cannot read */
    SCRY_E_NOT_READY,     /* Python has not started yet */
    SCRY_E_PERMISSION,    /* the kernel forbids it; the error's text says why */
    SCRY_E_GONE,          /* it ended */
    SCRY_E_READ,          /* its memory could not be read */
    SCRY_E_TORN,          /* it changed while it was read */
    SCRY_E_CORRUPT,       /* what it holds makes no sense */
    SCRY_E_IO,
    SCRY_E_OUTPUT,
    SCRY_E_BAD_FILE,
    SCRY_E_LAUNCH,
    SCRY_E_NO_MEMORY,
    SCRY_E_INTERNAL,
    SCRY_E_COUNT_
};

struct scry_error {
    size_t size; /* set to sizeof(struct scry_error) before the call */
    int code;    /* as returned */
    char text[1024];
    char hint[1024]; /* what helps; "" when nothing is known to */
};

enum scry_blocking {
    SCRY_BLOCKING_AUTO,   /* stop a thread only where its stack cannot be proved otherwise */
    SCRY_BLOCKING_ALWAYS, /* stop each thread while it is read */
    SCRY_BLOCKING_NEVER,  /* never stop one; what is unsure is marked torn */
};

struct scry_options {
    size_t size; /* sizeof(struct scry_options): lets the struct grow */
    enum scry_blocking blocking;
    unsigned patience_ms; /* how long to wait for Python to start in the process */
    bool wait_reasons;    /* find out what idle threads wait for */
};

typedef struct scry_target scry_target;

SCRY_API const char *scry_version(void);
/* One sentence for a code. */
SCRY_API const char *scry_strerror(int code);

/* `options` and `error` may be NULL. */
SCRY_API int scry_attach(int pid, const struct scry_options *options, scry_target **ret_target,
                         struct scry_error *error);
SCRY_API void scry_detach(scry_target *target);

SCRY_API int scry_pid(const scry_target *target);
SCRY_API const char *scry_python_version(const scry_target *target); /* "3.13.1", "3.14.0t" */
SCRY_API const char *scry_command_line(const scry_target *target);

/* Look at every thread once. SCRY_E_GONE when the process ended. */
SCRY_API int scry_sample(scry_target *target);

struct scry_thread {
    size_t size;        /* set before the call */
    uint64_t thread_id; /* pthread id */
    int os_thread_id;   /* as seen from here; 0 = unknown */
    const char *name;   /* "" = none */
    bool active;        /* runs or is ready to */
    bool owns_gil;
    bool torn;        /* read while it ran: not proved */
    const char *wait; /* what an idle thread waits for; "" = unknown */
    size_t frame_count;
};

struct scry_frame {
    size_t size; /* set before the call */
    const char *name;
    const char *qualified_name;
    const char *filename;
    int line; /* 0 = none */
    int first_line;
    bool is_entry; /* the interpreter was entered from C here */
};

/* Of the last sample; threads in the interpreter's order, frames innermost first. False when out of
 * range. */
SCRY_API size_t scry_thread_count(const scry_target *target);
SCRY_API bool scry_get_thread(const scry_target *target, size_t thread,
                              struct scry_thread *ret_thread);
SCRY_API bool scry_get_frame(const scry_target *target, size_t thread, size_t frame,
                             struct scry_frame *ret_frame);

#ifdef __cplusplus
}
#endif

#endif
