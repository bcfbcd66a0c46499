/* Recordings named on the command line: what `convert` and `diff` read. */
#ifndef SCRY_TOOL_INPUTS_H
#define SCRY_TOOL_INPUTS_H

#include "engine/recording.h"

/* Read everything once and rewind, before anything is written: what goes to a pipe cannot be taken
 * back. A file that is spoilt is an error unless `partial`; one that merely has no end is mentioned
 * on standard error. `paths` are the files `r` was opened with. */
int inputs_check(const char *tool, struct recording *r, const char *const *paths, size_t count,
                 bool partial, struct error *err);
/* Refuses to write to a file that is being read. */
int inputs_check_output(const char *const *paths, size_t count, const char *output,
                        struct error *err);
/* A name that the user did not choose must not cost a file. */
int inputs_check_default_name(const char *name, struct error *err);
/* The path without the ending of a recording; its length. */
size_t inputs_stem(const char *path);

#endif
