/* What a handler answers. It knows nothing of the connection: server.c sends it. */
#ifndef SCRY_HTTP_REPLY_H
#define SCRY_HTTP_REPLY_H

#include <stdio.h>

#include "util/buf.h"
#include "util/error.h"
#include "util/types.h"

/* A body that comes bit by bit. `next` waits until there is something, adds it, and returns true;
 * or false at the end. It is called again only after what it added has been sent. */
struct reply_stream {
    bool (*next)(void *context, struct buf *to);
    void (*free)(void *context);
    void *context;
};

#define REPLY_HEADERS_MAX 12

struct reply_header {
    const char *name; /* static */
    char *value;
};

struct reply {
    unsigned status;
    const char *type; /* static; NULL: no body */
    struct buf body;
    const void *fixed; /* a body that lives as long as the program; NULL = `body` */
    size_t fixed_len;
    int fd; /* a file to send, closed afterwards; -1 = none */
    struct reply_stream stream;
    struct reply_header headers[REPLY_HEADERS_MAX];
    size_t header_count;
    bool plain_errors; /* as text, like the Ray dashboard's */
    bool sandboxed;    /* a document with scripts of its own, to be kept away from the page */
    bool close;        /* the connection is not to be used again */
};

void reply_init(struct reply *re);
void reply_done(struct reply *re);

/* Adds a header; bytes that could end the line are taken out of the value. */
void reply_header(struct reply *re, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

void reply_text(struct reply *re, unsigned status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* An error: `code` is a stable word, `parameter` may be NULL. Whatever was there before is
 * dropped. */
void reply_error(struct reply *re, unsigned status, const char *code, const char *parameter,
                 const char *hint, const char *format, ...) __attribute__((format(printf, 6, 7)));
bool reply_failed(const struct reply *re); /* status is 400 or more */

/* JSON: write to the stream that reply_json() gives, then end it. */
FILE *reply_json(struct reply *re, unsigned status);
void reply_json_end(struct reply *re, FILE *out);

/* Times as the API writes them: "2026-11-16T03:04:05.000Z"; 0 gives "". */
#define REPLY_TIME_MAX 32
void reply_time(int64_t unix_ms, char to[static REPLY_TIME_MAX]);
int64_t reply_now(void); /* unix time in milliseconds */

#endif
