/* scry serve: the HTTP server and all it is made of. */
#ifndef SCRY_HTTP_SERVER_H
#define SCRY_HTTP_SERVER_H

#include <stdio.h>

#include "http/policy.h"
#include "util/error.h"
#include "util/types.h"

#define SERVE_PORT      8266
#define SERVE_PEERS_MAX 1100

/* All strings stay the caller's and must outlive the server. */
struct serve_options {
    const char *host; /* an address to listen on; "" = 127.0.0.1 */
    uint16_t port;    /* 0 = any that is free */
    const char *token_file, *cert, *key, *peer_ca;
    const char *data_dir;  /* "" = $XDG_DATA_HOME/scry */
    const char *node_name; /* "" = the host's */
    const char *audit;     /* a file, "-" for standard error; "" = audit.log in the data folder */
    const char *const *peers;
    size_t peer_count;
    const char *peers_dns, *ray, *dask; /* NULL = none */
    const char *const *hosts;           /* further names this server may be called by */
    size_t host_count;
    struct policy policy;
    unsigned running, queue, connections;
    uint64_t store_bytes, store_days;
    unsigned max_duration;
    bool sandbox; /* drop capabilities and filter system calls */
};

struct server;

/* Listens when it returns. */
int server_new(const struct serve_options *options, struct server **ret, struct error *err);
/* The address to open, "http://127.0.0.1:8266/"; and the line about the token, "" = none. */
const char *server_url(const struct server *s);
const char *server_token_file(const struct server *s);
/* Ends all recordings and connections. */
void server_free(struct server *s);

#endif
