/* CPython inside a process: found once, then asked for its threads and their frames. */
#ifndef SCRY_CPYTHON_PYTHON_H
#define SCRY_CPYTHON_PYTHON_H

#include "access/maps.h"
#include "access/mem.h"
#include "access/process.h"
#include "cpython/code.h"
#include "cpython/layout.h"

struct python {
    struct py_version version;
    struct layout layout; /* complete: table and published offsets merged */
    struct py_view view;
    scry_addr runtime;           /* _PyRuntime; 0 before 3.7 */
    scry_addr interp_head_at;    /* where the pointer to the first interpreter stands */
    scry_addr tstate_current_at; /* GIL holder pointer up to 3.11, else 0 */
    char *binary;                /* the file Python was found in, in the target's view */
    char found_by[128];          /* how, for `--verbose` and tests */
    struct code_cache codes;
    struct walk_memory *walk; /* private to frames.c */
    scry_addr none;           /* private to threads.c; 0 = not met yet */
};

/* Look for CPython in this process. NOT_PYTHON and UNSUPPORTED say what was tried; NOT_READY when
 * Python is there but has not made its first interpreter yet. `mem` stays the caller's. */
int python_find(const struct process *process, struct mem *mem, struct python **ret_python,
                struct error *err);
/* The same where there is no live process, only its memory and what is known of it. Everything stays
 * the caller's and is not kept. */
struct python_source {
    pid_t pid;
    const char *exe; /* as the maps name it */
    const char *command;
    const struct maps *maps;
    /* The file mapped there: a descriptor, or negative. */
    int (*open_file)(const struct mapping *first, bool is_exe, void *context);
    void *context;
};
int python_find_in(const struct python_source *source, struct mem *mem, struct python **ret_python,
                   struct error *err);
void python_free(struct python *py);
/* Cheap look at maps alone: could this be Python? For ps and for process trees. *ret_version may be
 * partial (minor only) or zero. */
bool python_likely(const struct process *process, struct py_version *ret_version);

/* "3.13.0", "3.15.0b1", "3.14.2t". */
void py_version_text(const struct python *py, char *to, size_t cap);

struct py_frame {
    scry_addr addr;
    const struct py_code *code;
    int32_t line;   /* 0 = none */
    int32_t offset; /* of the instruction, in bytes from the start of the bytecode */
    bool is_entry;  /* the evaluator was entered from C here: native frames lie below */
    bool is_shim_entry;
};

struct py_thread {
    scry_addr tstate;
    scry_addr interp;
    int64_t interp_id;
    uint64_t thread_id; /* pthread_t */
    pid_t ns_tid;       /* the OS thread id as the target sees it; 0 = unknown */
    bool owns_gil;      /* holds the GIL; free-threaded: is attached */
    bool in_gc;
    /* So many outermost frames are as they were at the stack version before this one. */
    size_t same_callers;
    uint64_t stack_version;  /* changes whenever `frames` do */
    bool incomplete;         /* the walk stopped early: broken chain or a limit */
    struct py_frame *frames; /* leaf first */
    size_t frame_count, frame_cap;
};

struct py_threads {
    struct py_thread *items; /* in the interpreter's order: newest first */
    size_t count, cap;
};

/* The thread states, without frames. Memory of the list is reused. */
int python_threads(struct python *py, struct py_threads *list);
/* What the lists of interpreters and threads begin with. While that is the same, no thread was added. */
#define THREADS_MARK_MAX 32
struct threads_mark {
    scry_addr addrs[THREADS_MARK_MAX];
    uint64_t values[THREADS_MARK_MAX];
    int count; /* 0 = nothing known */
};
void python_threads_mark(struct python *py, struct threads_mark *ret_mark);
bool python_threads_same(struct python *py, const struct threads_mark *mark);
/* The same as part of another read: `values` has room for THREADS_MARK_MAX. */
int threads_mark_ranges(const struct threads_mark *mark, uint64_t *values,
                        struct mem_range *ranges);
bool threads_mark_same(const struct threads_mark *mark, const uint64_t *values);
/* Read one thread's frames (and refresh owns_gil). CORRUPT when the thread state belongs to another
 * thread now: list the threads anew. The thread should stand still; if it does not,
 * what comes back is bounded and harmless, but may be torn. */
int python_walk(struct python *py, struct py_thread *thread);
/* The same in two parts, for a thread that is to stand still no longer than needed: the first finds the frames, the
 * second what runs in them. Where that may be late, the thread may go on before; if a code object is replaced meanwhile,
 * the stack is marked incomplete. */
int python_walk_begin(struct python *py, struct py_thread *thread);
bool python_walk_may_end_late(const struct python *py);
int python_walk_end(struct python *py, struct py_thread *thread, bool late);
void py_threads_done(struct py_threads *list);
/* The thread state that holds this interpreter's GIL; 0 = nobody, or a free-threaded build. */
scry_addr python_gil_holder(struct python *py, scry_addr interp);
/* Ask again who holds the GIL, for this thread alone. */
/* Whether garbage is being collected at this moment; false where that cannot be known (before 3.7). */
bool python_collecting(struct python *py, scry_addr interp);
/* Whether the thread raises an exception or is in an `except` or `finally` block of one. Before 3.7 only the first. */
bool python_has_exception(struct python *py, const struct py_thread *thread);
int python_refresh_gil(struct python *py, struct py_thread *thread);

/* private: what frames.c keeps between walks */
void walk_memory_free(struct walk_memory *memory);

/* One variable of a frame. */
struct py_local {
    char *name;
    scry_addr addr;
    bool is_arg;
    char *repr;
};
struct py_locals {
    struct py_local *items;
    size_t count, cap;
};
/* Arguments and variables of a frame, each repr at most `budget` characters. */
int python_locals(struct python *py, const struct py_frame *frame, size_t budget,
                  struct py_locals *ret_locals);
void py_locals_done(struct py_locals *locals);

#endif
