/* Samples as stretches of time. Each thread's stretches follow one another: where a sample is
 * missing there is a gap, where clocks wobble a little there is none, and no two overlap. */
#ifndef SCRY_FORMAT_TIMELINE_H
#define SCRY_FORMAT_TIMELINE_H

#include "engine/recording.h"

struct timeline { /* one per thread; zeroed = nothing seen yet */
    bool begun;
    scry_nsec end; /* of the last stretch */
};

struct stretch {
    scry_nsec gap; /* time before it in which nothing was seen; 0 for the first one of a thread */
    scry_nsec start, end;
};

/* The stretch of the next sample of this thread. It may be empty (start == end) when the sample
 * lies wholly in what is already covered. */
struct stretch timeline_next(struct timeline *t, scry_nsec time, scry_nsec weight);

#endif
