/* Tracks: the threads of a recording as a reader of a profile means them. A recording may know one
 * thread under several numbers (its name was found late, or changed); here they are one, under its
 * last name. */
#ifndef SCRY_FORMAT_TRACKS_H
#define SCRY_FORMAT_TRACKS_H

#include "engine/recording.h"

struct track {
    uint32_t process;
    int64_t tid;        /* OS thread id; 0 = unknown */
    uint64_t thread_id; /* pthread id */
    const char *name;   /* the recording's; "" = none */
    uint64_t samples;
    scry_nsec first, last; /* the span its samples cover */
};

struct tracks {
    struct track *items; /* by process, then by thread id: main threads come first */
    size_t count;
    uint32_t *of_thread; /* thread number -> index in items */
    size_t thread_count;
};

/* Reads the whole recording once and rewinds it. */
int tracks_read(struct tracks *t, struct recording *r, struct error *err);
/* The track of a thread number. A file may grow while it is read: what was not there in the first pass has no
 * track (NO_TRACK) and is left out of the second. */
uint32_t tracks_find(const struct tracks *t, uint32_t thread);
#define NO_TRACK UINT32_MAX
void tracks_done(struct tracks *t);

#endif
