/* A list of numbers that grows: the way through a stack. */
#ifndef SCRY_FORMAT_PATH_H
#define SCRY_FORMAT_PATH_H

#include "engine/recording.h"

struct path { /* zeroed = empty */
    uint32_t *items;
    size_t count, cap;
};

bool path_push(struct path *p, uint32_t item); /* false: out of memory */
/* The frames of a stack, the innermost first, in place of what is there. */
bool path_read(struct path *p, const struct recording *r, uint32_t stack);
/* A process and its ancestors as far as the recording knows them, the outermost first. */
bool path_ancestry(struct path *p, const struct recording *r, uint32_t process);
void path_done(struct path *p);

#endif
