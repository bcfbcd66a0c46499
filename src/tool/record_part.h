/* One file of a recording: where it goes, the stream it is made from, and what was seen meanwhile.
 * Without --rotate there is one. */
#ifndef SCRY_TOOL_RECORD_PART_H
#define SCRY_TOOL_RECORD_PART_H

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

#include "engine/sampler.h"
#include "format/format.h"
#include "util/outfile.h"

struct part_plan {    /* the same for all parts */
    const char *path; /* as the user named it */
    bool numbered;    /* "run-0001.svg" instead of "run.svg" */
    const struct format *format;
    struct format_options view;
};

struct part {
    const struct part_plan *plan;
    unsigned number; /* from 1 */
    struct outfile out;
    FILE *stream; /* the recording: out.file, or a temporary file */
    struct rec_writer *writer;
    scry_nsec begun;            /* since the start of the sampler */
    struct sampler_stats stats; /* when it began; after part_end() its own */
};

/* The recording stream itself is the output: nothing to convert. */
bool part_is_stream(const struct format *format);
/* "folder/run-0007.svg" from "folder/run.svg". The caller frees it; NULL when memory runs out. */
char *part_name(const char *path, unsigned number);

int part_open(struct part *p, const struct part_plan *plan, unsigned number, struct error *err);
/* The stream is complete; `totals` are the sampler's since its start. */
int part_end(struct part *p, const struct sampler_stats *totals, scry_nsec end, struct error *err);
/* Convert what is in the stream, and let the file appear. */
int part_write(struct part *p, struct error *err);
void part_done(struct part *p); /* takes half-built and zeroed ones */

/* What there is so far, as a part to be written while `p` goes on. Only for formats that are
 * converted and go to a file with a name. */
int part_snapshot(const struct part *p, struct part *ret_snapshot, struct error *err);

/* A part written by a thread of its own, so that sampling goes on meanwhile. One at a time. */
struct part_writing {
    struct part part;
    char path[PATH_MAX]; /* where it goes; for a person, may be cut */
    bool going;          /* begun and not yet waited for */
    pthread_t thread;
    atomic_bool ended;
    int result;
    struct error err;
};

/* Takes the part over. */
int part_writing_start(struct part_writing *w, struct part *part, struct error *err);
/* Waits for it, if it is going. `w->part` has what is left of it until the next start. */
int part_writing_finish(struct part_writing *w, struct error *err);

#endif
