#include "format/timeline.h"

struct stretch timeline_next(struct timeline *t, scry_nsec time, scry_nsec weight)
{
    scry_nsec start = weight < time ? time - weight : 0;
    struct stretch s = {.start = start, .end = time};
    if (t->begun) {
        /* A tick that came a little early or late is no gap: less than half a sample is left out.
         */
        if (start > t->end && start - t->end > weight / 2)
            s.gap = start - t->end;
        else
            s.start = t->end;
        if (s.end < s.start)
            s.end = s.start;
    }
    t->begun = true;
    t->end = s.end;
    return s;
}
