/* Which processes are meant: named by their ids, or by what their command lines say. */
#ifndef SCRY_TOOL_SELECTION_H
#define SCRY_TOOL_SELECTION_H

#include "access/process.h"
#include "tool/options.h"

/* All processes of `pids`, each once, and all Python processes of this host, but scry itself, whose command line has the
 * text or matches the pattern `name` (NULL = none asked for; finding none is an error). The caller frees the list. */
int selection_find(const struct pids *pids, const char *name, struct pid_list *ret_list,
                   struct error *err);

#endif
