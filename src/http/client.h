/* Asking other servers: many at once, each with its own deadline, none waited for longer. */
#ifndef SCRY_HTTP_CLIENT_H
#define SCRY_HTTP_CLIENT_H

#include "http/reply.h"
#include "util/buf.h"
#include "util/types.h"

struct client;

/* `token` is sent to nodes ("" = none), `ca` is a file of certificates to trust (NULL = the
 * system's), `node` our own id. All stay the caller's. */
int client_new(const char *token, const char *ca, const char *node, struct client **ret);
void client_free(struct client *c);

struct call {
    /* the question */
    char url[4096];
    const char *method; /* NULL = GET */
    const char *body;   /* JSON; NULL = none */
    bool foreign;       /* not one of our nodes: no token, no mark of a forwarded request */
    double timeout;     /* seconds */
    size_t max;         /* bytes of the answer that are taken in */
    int fd;        /* where the answer goes instead of `answer`, if it is a success; 0 = none */
    void *context; /* the caller's */
    /* the answer */
    long status; /* 0: there was none, and `error` says why */
    bool late;   /* because the time was over */
    bool ended;
    char error[256];
    struct buf answer;
    char type[128], recording[64], warning[600], retry_after[16], disposition[200];
    double seconds;
};

void call_init(struct call *call);
void call_done(struct call *call);

/* Returns when all have ended; `cancelled` (may be NULL) is asked now and then and ends them all. */
void client_all(struct client *c, struct call *calls, size_t count,
                bool (*cancelled)(void *context), void *context);

/* An answer that comes bit by bit, as a reply: fills in `re` with the stream or the error. */
void client_stream(struct client *c, const char *url, int client_fd, struct reply *re);

#endif
