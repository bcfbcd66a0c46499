/* Looking into a process that is no more, through its core file. Gives the same snapshot as a look
 * at a living one (target.h). */
#ifndef SCRY_ENGINE_POSTMORTEM_H
#define SCRY_ENGINE_POSTMORTEM_H

#include "binary/core.h"
#include "engine/snapshot.h"
#include "util/buf.h"

struct postmortem_options {
    const char *core;
    const char *exe;         /* where the executable lies now; NULL = where it was */
    const char *sysroot;     /* a folder with the files of the machine the core is of; NULL = "/" */
    bool native, native_all; /* native frames, too; and those of the interpreter itself */
};

struct postmortem {
    struct core core; /* its threads have their registers: where native frames begin */
    struct mem *mem;
    struct maps maps;
    struct python *python;
    struct buf command; /* the command line, as far as it can be had */
    const char *exe;    /* as the process named it; "" = not known */
    char warning[1024]; /* what is missing or does not fit; "" = nothing */
    struct postmortem_private *private;
};

/* BAD_FILE and IO say what is wrong with the file; NOT_PYTHON, UNSUPPORTED and READ what was looked
 * for in vain. */
int postmortem_open(const struct postmortem_options *options, struct postmortem **ret_postmortem,
                    struct error *err);
void postmortem_close(struct postmortem *p);

/* Read all threads. `visit` (may be NULL) is called for each after its frames were read. The
 * snapshot holds until the next look. */
int postmortem_look(struct postmortem *p,
                    void (*visit)(struct python *python, const struct py_thread *thread,
                                  void *context),
                    void *context, const struct snapshot **ret_snapshot);

/* As target_short_path. */
const char *postmortem_short_path(struct postmortem *p, const char *path);

#endif
