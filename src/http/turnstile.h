/* So many at once, the others wait, and too many are turned away. */
#ifndef SCRY_HTTP_TURNSTILE_H
#define SCRY_HTTP_TURNSTILE_H

#include "http/request.h"

struct turnstile;
int turnstile_new(unsigned inside, unsigned waiting, struct turnstile **ret);
void turnstile_free(struct turnstile *t);
/* False after `re` was filled in (429), or when the client has gone. */
bool turnstile_enter(struct turnstile *t, const struct request *rq, struct reply *re);
void turnstile_leave(struct turnstile *t);

#endif
