#ifndef SCRY_TOOL_SERVE_MODULE_H
#define SCRY_TOOL_SERVE_MODULE_H

#include "http/module.h"
#include "util/error.h"

/* Loads the server, which stays loaded. */
int serve_module_load(const struct serve_module **ret, struct error *err);

#endif
