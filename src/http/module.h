/* The server as a module. It needs some forty shared libraries that nothing else of scry does, and
 * loading those takes longer than all else before the first sample: so only `scry serve` loads it. */
#ifndef SCRY_HTTP_MODULE_H
#define SCRY_HTTP_MODULE_H

#include "http/server.h"

#define SERVE_MODULE_SYMBOL "scry_serve_module"

/* All that the program calls. The functions are those of server.h and policy.h. */
struct serve_module {
    /* First, and the same in all versions: what does not fit to the program is not called. */
    const char *version;
    size_t options_size;
    int (*add_user)(struct policy *policy, const char *user, struct error *err);
    int (*set_pid_namespace)(struct policy *policy, const char *which, struct error *err);
    int (*open)(const struct serve_options *options, struct server **ret, struct error *err);
    const char *(*url)(const struct server *s);
    const char *(*token_file)(const struct server *s);
    void (*close)(struct server *s);
};

extern const struct serve_module scry_serve_module;

#endif
