/* Output that appears whole or not at all: written to a temporary file beside the destination and
 * renamed at the end. Destinations that are no regular file ("-", a pipe, a terminal, /dev/null)
 * are written to directly. */
#ifndef SCRY_UTIL_OUTFILE_H
#define SCRY_UTIL_OUTFILE_H

#include <stdio.h>

#include "util/error.h"
#include "util/types.h"

struct outfile {
    FILE *file; /* write here */
    char *path; /* the destination as the user named it */
    char *temp; /* NULL when written to directly */
};

/* Opens before any work starts, so that a bad path is found early. */
int outfile_open(struct outfile *o, const char *path, struct error *err);
/* Flush, sync the name, rename. On failure the temporary file is removed. */
int outfile_commit(struct outfile *o, struct error *err);
/* Let what is there so far appear under its name already; it goes on growing there. False where that
 * is not possible: written to directly, or a file system without links. */
bool outfile_publish(struct outfile *o);
/* Removes what was written so far. Harmless after a commit and on a zeroed struct. */
void outfile_abandon(struct outfile *o);

#endif
