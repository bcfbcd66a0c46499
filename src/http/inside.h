/* What takes a look inside, or takes a recording apart: each a child process, see child.h. All fill
 * in `re` with the error and return false when it fails. */
#ifndef SCRY_HTTP_INSIDE_H
#define SCRY_HTTP_INSIDE_H

#include "http/state.h"

struct dump_options {
    bool native, subprocesses, locals, json;
};
/* Every thread of a process, as text or JSON. */
bool inside_dump(struct server *s, const struct request *rq, struct reply *re, pid_t pid,
                 const struct dump_options *options, struct buf *to);

struct view_options {
    const char *format; /* a name of format.h */
    bool threads, full_filenames;
    bool processes, nodes;
    bool processes_said; /* else as the recording suggests */
    int lines;           /* index into view_lines */
};
extern const char *const view_lines[]; /* exact, function, none; ends with NULL */

/* A recording in some format, into a file without a name: the descriptor is the caller's; -1 on
 * failure. `paths` ends with NULL. */
int inside_convert(struct server *s, const struct request *rq, struct reply *re,
                   const struct view_options *view, char *const *paths);
/* Two of them compared. */
struct diff_view {
    const char *format, *by, *widths;
    bool threads;
};
int inside_diff(struct server *s, const struct request *rq, struct reply *re,
                const struct diff_view *view, char *const *before, char *const *after);

/* "image/svg+xml" for flamegraph, and so on. */
const char *inside_type(const char *format);
/* What a child ended with, as a reply. */
struct child_result;
void inside_refuse(struct reply *re, const struct child_result *result);

#endif
