/* The request line taken apart: the path in its segments and the parameters, decoded and checked.
 * Nothing else reads the raw text, so nothing else can be fooled by how it was written: a segment
 * that holds a slash, a NUL, a dot-dot or bytes that are no UTF-8 never gets past here. */
#ifndef SCRY_HTTP_QUERY_H
#define SCRY_HTTP_QUERY_H

#include "util/types.h"

#define QUERY_SEGMENTS_MAX 8
#define QUERY_PARAMS_MAX   32
#define QUERY_TEXT_MAX     8192 /* of the whole request target */

struct query_param {
    const char *name, *value;
};

struct query {
    char *text; /* what all the others point into */
    const char *segments[QUERY_SEGMENTS_MAX];
    size_t segment_count; /* 0: "/" */
    struct query_param params[QUERY_PARAMS_MAX];
    size_t param_count;
    bool folder; /* the path ends with a slash */
};

enum query_fault {
    QUERY_FINE,
    QUERY_LONG,   /* the whole, or too many parts */
    QUERY_PATH,   /* not a path anybody should ask for */
    QUERY_ESCAPE, /* % not followed by two hexadecimal digits */
    QUERY_NUL,    /* %00 */
    QUERY_NOT_UTF8,
    QUERY_TWICE, /* a parameter given twice */
    QUERY_MEMORY,
};

/* `fault_at` receives the name of the parameter at fault, "" for the path; made printable. The query
 * is to be given to query_done() whatever the result. */
enum query_fault query_parse(struct query *q, const char *target, char *fault_at, size_t cap);
void query_done(struct query *q);
/* The value of a parameter, NULL when it was not given. */
const char *query_get(const struct query *q, const char *name);

/* `text` as it can stand in an address: all but letters, digits and -._~ escaped. */
struct buf;
void query_escape(struct buf *to, const char *text);

#endif
