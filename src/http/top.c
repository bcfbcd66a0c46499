/* Live top: scry top in a child, its lines of JSON as events. */
#include <string.h>

#include "http/routes.h"

void top_get(struct server *s, struct request *rq, struct reply *re)
{
    (void)s, (void)rq;
    reply_error(re, 501, "unsupported", NULL, "", "live top is not there yet");
}
