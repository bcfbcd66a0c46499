/* Which Python frames each running call of the evaluator is busy with, and where on the C stack that
 * call keeps its record of them: so Python's frames find their place among native ones, with no
 * symbol needed. */
#ifndef SCRY_CPYTHON_ENTRIES_H
#define SCRY_CPYTHON_ENTRIES_H

#include "cpython/python.h"

/* One call of the evaluator, the innermost first. */
struct py_entry {
    size_t frame_count; /* so many of the thread's frames, after those of the entries before */
    scry_addr at;       /* an address inside the evaluator's own native frame; 0 = not known */
};

struct py_entries {
    struct py_entry *items;
    size_t count, cap;
};

/* For a thread that stands still and has just been walked. Up to 3.10 every frame has a call of its
 * own, whose address is not known. 0 or -SCRY_E_NO_MEMORY. */
int python_entries(struct python *py, const struct py_thread *thread, struct py_entries *entries);
void py_entries_done(struct py_entries *entries);

#endif
