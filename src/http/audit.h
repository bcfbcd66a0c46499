/* A line per request: when, who, what, and what came of it. */
#ifndef SCRY_HTTP_AUDIT_H
#define SCRY_HTTP_AUDIT_H

#include "http/request.h"

struct audit;
/* `where`: a path, "-" for standard error, "" for audit.log in `folder`. The file is begun anew when
 * it has grown large; the one before it is kept. */
int audit_open(const char *where, const char *folder, struct audit **ret, struct error *err);
void audit_close(struct audit *a);
void audit_line(struct audit *a, const char *who, const struct request *rq, const struct reply *re,
                int64_t milliseconds);

#endif
