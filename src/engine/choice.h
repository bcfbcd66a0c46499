/* What of all that is there is wanted: some threads, the frames of some modules. Patterns are those of fnmatch(3),
 * where * also matches a slash; they stay the caller's. */
#ifndef SCRY_ENGINE_CHOICE_H
#define SCRY_ENGINE_CHOICE_H

#include "util/types.h"

struct patterns {
    const char *const *items;
    size_t count;
};

struct choice {              /* zeroed = everything */
    struct patterns threads; /* names, or numbers of the operating system; none = all */
    struct patterns include; /* files or modules: no other frame is shown; none = all */
    struct patterns exclude; /* files or modules: these frames are not shown */
};

bool choice_of_frames(const struct choice *c); /* whether any frame is hidden */
bool choice_takes_thread(const struct choice *c, pid_t tid, const char *name);
/* A pattern matches the path, the path from the package on, or the module's name; the name of a package stands for all
 * that is in it. */
bool choice_shows_frame(const struct choice *c, const char *file, const char *short_file);

#endif
