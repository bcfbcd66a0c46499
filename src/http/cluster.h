/* The other nodes: who they are, how they do, and how to have them answer. */
#ifndef SCRY_HTTP_CLUSTER_H
#define SCRY_HTTP_CLUSTER_H

#include "http/state.h"

struct cluster;

int cluster_new(struct server *s, struct cluster **ret, struct error *err);
/* Begin to look for nodes. */
int cluster_start(struct cluster *c, struct error *err);
void cluster_stop(struct cluster *c);
void cluster_free(struct cluster *c);

struct node_ref {
    bool self;
    char id[NODE_ID_MAX], name[NODE_NAME_MAX];
    char address[300]; /* HOST:PORT */
    char url[320];     /* http://HOST:PORT */
    char ip[64];       /* Ray's address of the node, "" = not asked by that; tells pods apart */
};

/* The node that `name` means: an id, name, address or Ray node id; "self". Requests that another
 * node forwarded always mean this one. False after `re` was filled in: 404. */
bool cluster_locate(struct server *s, const struct request *rq, struct reply *re, const char *name,
                    const char *parameter, struct node_ref *ret);
/* Have that node answer the request. */
void cluster_forward(struct server *s, const struct node_ref *node, const struct request *rq,
                     struct reply *re);

void cluster_nodes(struct server *s, struct reply *re, double timeout);
bool cluster_node(struct server *s, const struct node_ref *node, struct reply *re);

struct process_query {
    const char *node, *q;
    int sort; /* index into process_orders */
    bool descending;
    size_t limit, offset;
    double timeout;
};
extern const char *const process_orders[]; /* ends with NULL */
void cluster_processes(struct server *s, const struct request *rq, struct reply *re,
                       const struct process_query *query);

/* For jobs.h. `context` is the server. */
void cluster_record(void *context, struct jobs *jobs, struct job *job);

/* How many nodes are known and how many of them answer. */
void cluster_counts(struct cluster *c, unsigned *ret_nodes, unsigned *ret_up);

#endif
