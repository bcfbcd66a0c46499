/* One request, as a handler sees it: who asks for what, and whether somebody still waits. */
#ifndef SCRY_HTTP_REQUEST_H
#define SCRY_HTTP_REQUEST_H

#include "http/json_in.h"
#include "http/query.h"
#include "http/reply.h"
#include "util/types.h"

struct request {
    const char *method;
    const char *target; /* as it came, for forwarding it */
    struct query query;
    const char *words[4]; /* what stood for the {words} of the route, in order */
    size_t word_count;
    const char *body; /* NULL when there is none; NUL-terminated */
    size_t body_len;
    const char *if_none_match, *accept; /* headers; NULL when not given */
    bool accepts_gzip;
    bool forwarded; /* by another node: answer for this one only */
    bool from_page; /* sent by a browser */
    int fd;         /* of the connection; -1 = none */
};

/* Has the client gone away? Asks the kernel, so it may be asked now and then while waiting. */
bool request_gone(const struct request *rq);

/* ---- parameters, checked ----
 * Each returns false after it has filled in `re` with what is wrong. A parameter that is not given
 * has the value that *ret held before. */

bool param_flag(const struct request *rq, struct reply *re, const char *name, bool *ret);
bool param_whole(const struct request *rq, struct reply *re, const char *name, int64_t min,
                 int64_t max, int64_t *ret);
bool param_number(const struct request *rq, struct reply *re, const char *name, double min,
                  double max, double *ret);
/* One of `choices`, which ends with NULL; *ret is its index. */
bool param_choice(const struct request *rq, struct reply *re, const char *name,
                  const char *const *choices, int *ret);
/* A text of at most `max` bytes, without control characters. */
bool param_text(const struct request *rq, struct reply *re, const char *name, size_t max,
                const char **ret);
bool param_required(const struct request *rq, struct reply *re, const char *name);

/* A whole number written in digits only. */
bool parse_whole(const char *text, int64_t min, int64_t max, int64_t *ret);

/* The body as a JSON object; NULL after `re` was filled in. The caller decrefs it. */
json_t *request_json(const struct request *rq, struct reply *re);
/* The same for the members of an object in the body. Unknown members: member_known(). */
bool member_flag(const json_t *o, struct reply *re, const char *name, bool *ret);
bool member_number(const json_t *o, struct reply *re, const char *name, double min, double max,
                   double *ret);
bool member_choice(const json_t *o, struct reply *re, const char *name, const char *const *choices,
                   int *ret);
bool member_text(const json_t *o, struct reply *re, const char *name, size_t max, const char **ret);
/* All members are among `names`, which ends with NULL. */
bool member_known(const json_t *o, struct reply *re, const char *const *names);

#endif
