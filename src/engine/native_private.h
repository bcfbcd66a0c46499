/* Private to native.c, native_merge.c, native_roles.c and to whoever looks. */
#ifndef SCRY_ENGINE_NATIVE_PRIVATE_H
#define SCRY_ENGINE_NATIVE_PRIVATE_H

#include "cpython/entries.h"
#include "dwarf/unwind.h"
#include "engine/native.h"

/* One per target. */
struct native {
    struct modules modules;
    struct unwinder unwinder;
    struct symbolizer symbolizer;
    bool all;                  /* the interpreter's own functions too */
    const char *python_binary; /* the python's */
    unsigned char *copy;       /* of a stack */
    size_t copy_cap;
    struct stack_copy stack;
    struct registers registers;
    struct py_entries entries;
    struct unwound unwound;
    bool captured;
    uint64_t next_version;
};

/* One per thread. */
struct native_thread {
    struct merged_stack merged;
    scry_addr stack_end; /* where the memory of its stack ends; 0 = not known yet */
    scry_addr stack_start;
    size_t window;  /* how much of the stack to copy next time */
    bool want_more; /* the copy was too short */
    bool need_stop; /* it sleeps, but pc and stack pointer alone do not lead to its callers */
};

struct native *native_new(const struct process *process, struct mem *mem, const struct python *py,
                          bool all);
struct native *native_new_from(const struct modules_source *source, struct mem *mem,
                               const struct python *py, bool all);
void native_free(struct native *n);
struct native_thread *native_thread_new(void);
void native_thread_free(struct native_thread *t);

/* The thread is about to be read anew. */
void native_forget(struct native_thread *t);
/* While it stands still, its Python frames just read: held by stop_thread(), or asleep. */
void native_capture(struct native *n, struct native_thread *t, struct python *py,
                    const struct py_thread *python, pid_t tid, bool stopped, scry_nsec now);
/* After it was let go: unwind what was copied, and merge. */
void native_finish(struct native *n, struct native_thread *t, const struct py_thread *python,
                   scry_nsec now);

/* The same for a process that stands still for ever. */
void native_read_dead(struct native *n, struct native_thread *t, struct python *py,
                      const struct py_thread *python, const struct registers *registers);

/* native_roles.c: what a function is to the merge. */
enum native_role {
    ROLE_UNKNOWN,
    ROLE_ORDINARY,
    ROLE_EVALUATOR, /* runs Python frames, which stand for it */
    ROLE_PLUMBING,  /* gets from one Python function to the next, or to the first: left out */
};
enum native_role native_role(struct native_code *code, const char *python_binary);

/* native_merge.c */
int native_merge(struct native *n, const struct py_thread *python, struct merged_stack *to);

#endif
