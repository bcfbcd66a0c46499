#include "http/module.h"

#include "version.h"

__attribute__((visibility("default"))) const struct serve_module scry_serve_module = {
    .version = SCRY_VERSION,
    .options_size = sizeof(struct serve_options),
    .add_user = policy_add_user,
    .set_pid_namespace = policy_set_pid_namespace,
    .open = server_new,
    .url = server_url,
    .token_file = server_token_file,
    .close = server_free,
};
