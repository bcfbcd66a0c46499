/* What the server cannot do even when somebody makes it want to. Its children are bound by the same:
 * they keep what it takes to look into a process, and nothing that could change one. */
#ifndef SCRY_HTTP_SANDBOX_H
#define SCRY_HTTP_SANDBOX_H

#include "util/error.h"

/* Drops every capability but the few that looking needs, in all sets, for good; forbids to gain any
 * by executing something; and installs a filter of system calls. Before the first thread. */
int sandbox_enter(struct error *err);

#endif
