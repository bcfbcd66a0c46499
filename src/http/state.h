/* What the handlers share. Private to http/. */
#ifndef SCRY_HTTP_STATE_H
#define SCRY_HTTP_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "http/guard.h"
#include "http/jobs.h"
#include "http/processes.h"
#include "http/request.h"
#include "http/server.h"
#include "http/store.h"

struct cluster;
struct audit;
struct turnstile;

struct server {
    struct serve_options options;
    char node[NODE_ID_MAX]; /* its id */
    char name[NODE_NAME_MAX];
    char url[320];
    char address[300]; /* HOST:PORT it listens on */
    uint16_t port;
    bool tls;
    char confine[POLICY_TEXT_MAX]; /* what jobs may look into */
    struct guard guard;
    struct store *store;
    struct processes *processes;
    struct jobs *jobs;
    struct cluster *cluster;
    struct audit *audit;
    struct turnstile *children; /* how many short jobs may run at once */
    int64_t started;            /* unix ms */
    atomic_bool stopping;
    atomic_uint connections;
    atomic_uint streams;
    atomic_uint_fast64_t requests[6]; /* by hundreds of their status; 0: all */
    struct daemon_state *daemon;      /* private to server.c */
};

#endif
