/* The parts of cluster*.c. */
#ifndef SCRY_HTTP_CLUSTER_PRIVATE_H
#define SCRY_HTTP_CLUSTER_PRIVATE_H

#include <pthread.h>

#include "http/client.h"
#include "http/cluster.h"
#include "http/facts.h"
#include "http/rows.h"

enum peer_source {
    SOURCE_PEER = 1, /* --peer */
    SOURCE_DNS = 2,
    SOURCE_RAY = 4,
    SOURCE_DASK = 8,
};

/* A list of processes that several may look at while a new one is being fetched. */
struct shared_rows {
    unsigned refs;
    struct rows rows;
};

struct peer {
    char address[300]; /* HOST:PORT */
    char url[320];
    unsigned sources;
    bool gone;         /* discovery no longer names it */
    bool self;         /* it turned out to be this node */
    bool asked;        /* at least once */
    unsigned failures; /* in a row */
    int64_t next_try;  /* monotonic ms; of one that fails */
    int64_t last_ok;   /* unix ms; 0 = never */
    int64_t fetched;   /* monotonic ms: when `rows` were */
    double rtt;
    char error[256];
    char id[NODE_ID_MAX], name[NODE_NAME_MAX];
    struct ip_list *ips;
    struct shared_rows *rows; /* NULL = none yet */
};

struct ray_node {
    char id[68], ip[64];
    bool alive;
};

struct cluster {
    struct server *server;
    struct client *client;
    pthread_mutex_t lock;
    pthread_cond_t refreshed;
    struct peer **peers; /* stay where they are; only added to */
    size_t count, cap;
    bool refreshing;
    int64_t refreshed_at; /* monotonic ms */
    pthread_t thread;
    bool running;
    atomic_bool stopping;
    struct ray_node *ray_nodes;
    size_t ray_count;
    int64_t dns_next, list_next; /* monotonic ms */
    char ray_error[256];
};

int64_t cluster_now(void); /* monotonic ms */
/* With the lock held: the peer of that address, made if it is not there. NULL: too many. */
struct peer *cluster_add(struct cluster *c, const char *address, unsigned source);
/* Ask these peers for their processes; without the lock. */
void cluster_ask(struct cluster *c, struct peer **peers, size_t count, double timeout);
/* Whether a request waits for this peer. */
bool peer_healthy(const struct peer *p);
void shared_rows_release(struct cluster *c, struct shared_rows *rows);
/* "HOST:PORT" from "HOST", "HOST:PORT" or a URL; false when it is none. */
bool cluster_parse_address(const char *text, uint16_t port, bool tls, char address[static 300],
                           char url[static 320]);

/* cluster_discover.c: names in, peers out. */
void cluster_discover(struct cluster *c);

/* With the lock held: what a source no longer names is gone, unless another names it. */
void cluster_forget(struct cluster *c, unsigned source);
/* With the lock held: whether a node that another source named has the address already. */
bool cluster_covers(const struct cluster *c, const char *ip, unsigned source);

void ray_discover(struct cluster *c);
void dask_discover(struct cluster *c);

#endif
