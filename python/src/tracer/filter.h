/* Which files are traced. Patterns with * ? or [ are matched against the whole path, those that begin with / are a
 * file or a folder with all in it, others are a name anywhere in the path. */
#ifndef SCRY_TRACER_FILTER_H
#define SCRY_TRACER_FILTER_H

#include <stdbool.h>
#include <stddef.h>

struct patterns {
    char **items;
    size_t count;
};

struct filter {
    struct patterns include; /* none: all */
    struct patterns exclude;
    bool ignore_frozen;
    char *own;    /* scry's own folder: never traced */
    char *folder; /* what relative paths start from */
};

bool patterns_add(struct patterns *p, const char *pattern);
void filter_done(struct filter *f);
bool filter_excludes(const struct filter *f, const char *file);

#endif
