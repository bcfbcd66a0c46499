/* Private to this folder: what the two readers of a thread's stack share. frames.c reads a thread
 * that stands still, with as many reads as it takes; peek.c reads a running one with a single read
 * and proves it. */
#ifndef SCRY_CPYTHON_WALK_H
#define SCRY_CPYTHON_WALK_H

#include "cpython/python.h"

#define MAX_FRAMES   100000
#define MAX_CHUNK    (64u << 20)
#define CHUNK_HEADER 24 /* previous, size, top */
#define OWNER_SHIM   3  /* frames from this owner on are CPython's own, on the C stack */
#define OWNER_LAST   4
#define TAG_MASK     3ULL

struct found_frame {
    scry_addr addr;
    scry_addr code;
    scry_addr instr; /* address of an instruction (3.11+), or f_lasti */
    int32_t tlbc_index;
    bool is_entry;
    bool is_shim_entry;
};

struct found_frames {
    struct found_frame *items; /* leaf first */
    size_t count, cap;
};

/* NULL when there are too many, or no memory. */
struct found_frame *found_add(struct found_frames *f);
void found_done(struct found_frames *f);

/* Whether a chain of frames ends as chains do: from 3.12 on in a shim, in 3.11 with a frame by which the evaluator was
 * entered. One that does not was caught at the moment when a frame is being linked in or out: a generator that is
 * about to run has no caller yet. */
bool walk_has_end(const struct layout *l, const struct found_frames *found, bool ended_in_shim);

/* A place that the walk had to read: what peek.c will want in its one read next time. */
struct walk_place {
    scry_addr addr;
    size_t len;
    size_t room; /* so many more bytes behind it belong to it: a data stack may grow into them */
    bool fixed;  /* stays as it is while it is reachable: a shim */
};

/* What the last python_walk() met, chunks and single frames; valid until the next one. */
size_t walk_places(const struct python *py, const struct walk_place **ret_places);
/* The evaluator's C frames that it began with, the innermost first (3.11, 3.12); 0 = none. */
#define WALK_CFRAMES 2
void walk_cframes(const struct python *py, scry_addr ret[WALK_CFRAMES]);

/* The frames it found and its copy of the newest piece of the data stack, both valid until the next walk. False if
 * that piece does not hold all of them, or this version does not count code objects. */
struct walk_copy {
    const struct found_frames *found;
    const unsigned char *data;
    scry_addr addr;
    size_t len;
    uint64_t generation; /* CPython's count of code objects then (code.h) */
};
bool walk_copy(const struct python *py, struct walk_copy *ret);

/* Fill in the thread's frames where every code object has just been seen to be the one in the cache, and the `same`
 * outermost frames are the thread's outermost frames already. */
int walk_resolve_known(struct python *py, const struct found_frames *found, size_t same,
                       struct py_thread *t);

#endif
