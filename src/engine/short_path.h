/* A path as py-spy shows it: without the folders that are no package. Private to engine/. */
#ifndef SCRY_ENGINE_SHORT_PATH_H
#define SCRY_ENGINE_SHORT_PATH_H

#include "util/table.h"

struct short_paths {
    /* A descriptor for this file in the target's view, or negative. */
    int (*open_file)(const char *path, void *context);
    void *context;
    /* private */
    struct interner paths;
    struct table skip;              /* path number -> characters to leave out */
    struct table folder_is_package; /* hash of folder -> 0 or 1 */
};

/* A part of `path`; answers are kept. */
const char *short_path(struct short_paths *p, const char *path);
void short_paths_done(struct short_paths *p);

#endif
