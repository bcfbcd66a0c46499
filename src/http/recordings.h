/* Recordings, running or kept: what several handlers need of them. */
#ifndef SCRY_HTTP_RECORDINGS_H
#define SCRY_HTTP_RECORDINGS_H

#include "format/format.h"
#include "http/cluster.h"
#include "http/state.h"

void recordings_target(struct server *s, const struct node_ref *node, pid_t pid,
                       struct job_target *ret);
/* Its document, whether it runs or has ended; false after `re` was filled in. */
bool recordings_doc(struct server *s, struct reply *re, const char *id, const char *parameter,
                    struct buf *doc);
/* Another name, kept or not. `doc` is what it was. */
int recordings_change(struct server *s, json_t *doc, const char *id, const char *name, bool pinned,
                      struct error *err);
/* The files of a recording that has ended, or of one of its targets (part >= 0); ends with NULL.
 * NULL after `re` was filled in. */
char **recordings_paths(struct server *s, struct reply *re, const char *id, const char *parameter,
                        int64_t part);
void recordings_paths_free(char **paths);
bool recordings_format(const struct request *rq, struct reply *re, const struct format **ret);

#endif
