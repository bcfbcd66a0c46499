/* From registers and a copy of the stack to the chain of return addresses. What the tables say
 * about an address is compiled once and kept, so that an address met before costs one lookup. */
#ifndef SCRY_DWARF_UNWIND_H
#define SCRY_DWARF_UNWIND_H

#include "dwarf/module.h"
#include "dwarf/rule.h"
#include "util/table.h"

#define UNWIND_MAX 16384

struct native_frame {
    scry_addr pc;
    scry_addr sp; /* the frame's part of the stack is [sp, end) */
    scry_addr end;
    bool exact; /* pc is the next instruction, not one after a call */
};

enum unwind_end {
    UNWIND_COMPLETE,       /* up to the thread's first function */
    UNWIND_OUT_OF_COPY,    /* a larger copy of the stack would have led further */
    UNWIND_NEEDS_REGISTER, /* the thread has to be stopped for its registers */
    UNWIND_LOST,           /* code without tables and frame pointers, or nonsense */
};

struct unwound {
    struct native_frame *frames; /* innermost first */
    size_t count, cap;
    enum unwind_end end;
};

struct unwinder {
    struct modules *modules; /* the caller's */
    struct table by_addr;    /* address -> index in rules */
    struct rule *rules;
    size_t count, cap;
    uint64_t generation; /* of the modules, when the rules were made */
};

void unwinder_init(struct unwinder *u, struct modules *modules);
void unwinder_done(struct unwinder *u);
/* Memory of *ret is reused; unwound_done() frees it. 0 or -SCRY_E_NO_MEMORY. */
int unwinder_run(struct unwinder *u, const struct registers *start, const struct stack_copy *stack,
                 struct unwound *ret);
void unwound_done(struct unwound *u);

#endif
