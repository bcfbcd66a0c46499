/* Native frames of a target's threads, merged with their Python frames.
 *
 * While a thread stands still its registers and the part of its stack that is in use are copied;
 * it is unwound after it has been let go. Then each call of the evaluator is replaced by the Python
 * frames it runs. Where the two do not match up the Python stack stands as it is, and the thread
 * says so: nothing is lost. */
#ifndef SCRY_ENGINE_NATIVE_H
#define SCRY_ENGINE_NATIVE_H

#include "cpython/python.h"
#include "dwarf/symbolizer.h"

/* How it went for one thread. */
enum native_state {
    NATIVE_OFF,       /* not asked for */
    NATIVE_MERGED,    /* all frames, each in its place */
    NATIVE_CUT,       /* the outer native frames are missing; all Python frames are there */
    NATIVE_UNMATCHED, /* native and Python frames do not match: only the Python frames */
    NATIVE_MISSING,   /* not read, because the thread was running and was not to be stopped */
};

/* One frame of a merged stack. */
struct merged_frame {
    const struct native_code *native; /* NULL: the thread's Python frame number `python` */
    uint32_t python;
    scry_addr pc; /* of a native frame; inlined ones have that of the frame they are part of */
};

/* What there is to say about it, for a person: "" for OFF and MERGED. */
const char *native_state_text(enum native_state state);
/* "merged", "cut", "unmatched", "missing", "off": stable words for programs. */
const char *native_state_word(enum native_state state);

struct merged_stack {
    enum native_state state;
    uint64_t version;            /* changes whenever the frames may have */
    struct merged_frame *frames; /* innermost first; valid for MERGED and CUT */
    size_t count, cap;
};

#endif
