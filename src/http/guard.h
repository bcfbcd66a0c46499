/* Who may ask: the token, and the checks against pages of other sites that make a browser ask for
 * them. */
#ifndef SCRY_HTTP_GUARD_H
#define SCRY_HTTP_GUARD_H

#include "http/reply.h"
#include "util/error.h"
#include "util/types.h"

#define GUARD_TOKEN_MAX 256
#define GUARD_HOSTS_MAX 64

struct guard {
    char token[GUARD_TOKEN_MAX + 1];    /* "" = none is wanted */
    char session[65];                   /* what the cookie holds: made from the token */
    bool loopback;                      /* it listens on the loopback only */
    const char *hosts[GUARD_HOSTS_MAX]; /* names it may be called by, besides addresses */
    size_t host_count;
    char own_names[4][256];
};

/* The token from its file, which is made, readable by its owner alone, when it is missing. */
int guard_read_token(struct guard *g, const char *path, struct error *err);
/* The name of this host is one it may be called by. */
void guard_init(struct guard *g, bool loopback, const char *const *hosts, size_t host_count);

/* In constant time. */
bool guard_token_is(const struct guard *g, const char *token);

struct guard_headers {
    const char *host, *origin, *authorization, *cookie, *fetch_site; /* NULL = not given */
    bool changes; /* the method is one that changes something */
};
/* Host and Origin; fills in `re` and returns false when they are not to be trusted. */
bool guard_check_origin(const struct guard *g, const struct guard_headers *h, struct reply *re);
bool guard_check_token(const struct guard *g, const struct guard_headers *h, struct reply *re);

#endif
