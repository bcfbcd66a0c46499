/* Two recordings compared: one call tree with all that is in either of them, and the figures of
 * both. Frames are the same when their labels are, so the options decide how much of a frame counts
 * (lines move from version to version; functions stay). */
#ifndef SCRY_FORMAT_DIFF_H
#define SCRY_FORMAT_DIFF_H

#include "format/tree.h"

enum diff_by {
    DIFF_BY_SHARE, /* of all samples, or of all CPU time where that was recorded: runs of different length and load compare */
    DIFF_BY_TIME,  /* per second of wall clock: more work in all is seen too; threads add up */
};

enum diff_moment {
    DIFF_BEFORE,
    DIFF_AFTER,
};

struct diff_options {
    enum diff_by by;
    enum diff_moment widths; /* which one the flame graph is laid out by at first */
    struct format_options view;
    const char *names[2]; /* of the recordings, for a person */
};

/* Of one node or function. Own: samples that end in it. Total: those of what it calls as well. */
struct diff_figures {
    uint64_t own_samples, total_samples;
    scry_nsec own_time, total_time;
};

struct diff_side {
    struct diff_figures *nodes; /* by node of the tree */
    uint64_t samples;           /* with a frame: what shares are shares of */
    scry_nsec duration;
    double rate;
};

struct diff {
    struct tree tree; /* its own figures mean nothing */
    enum diff_by by;
    enum measure measure; /* of shares */
    struct diff_side sides[2];
};
/* What the figures are shares of: "samples", "CPU time" or "the wall clock". */
const char *diff_whole(const struct diff *d);

/* Reads both recordings to their ends. */
int diff_read(struct diff *d, struct recording *const recordings[2],
              const struct diff_options *options, struct error *err);
void diff_done(struct diff *d);

/* One figure of something, before and after. */
struct diff_change {
    double before, after; /* 1.0 = all samples, or all of the wall clock */
    uint64_t before_samples, after_samples;
    double sigmas; /* how many standard deviations of sampling noise the change amounts to */
};
#define DIFF_SIGMAS 3.0 /* less is noise */

struct diff_change diff_own(const struct diff *d, const struct diff_figures *before,
                            const struct diff_figures *after);
struct diff_change diff_total(const struct diff *d, const struct diff_figures *before,
                              const struct diff_figures *after);
bool diff_is_noise(const struct diff_change *change);

/* A function, wherever it was called from. What it calls counts once when it calls itself. */
struct diff_function {
    uint32_t label;
    struct diff_change own, total;
};

/* All functions, the greatest change of own time first. The caller frees the list. */
int diff_functions(const struct diff *d, struct diff_function **ret_functions, size_t *ret_count,
                   struct error *err);

/* The differential flame graph. */
int flamegraph_diff_write(const struct diff *d, const struct diff_options *options, FILE *out,
                          struct error *err);

#endif
