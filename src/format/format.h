/* Output formats: each turns a recording into one file. */
#ifndef SCRY_FORMAT_FORMAT_H
#define SCRY_FORMAT_FORMAT_H

#include <stdio.h>

#include "engine/recording.h"

enum line_mode {
    LINES_EXACT,    /* the line being executed */
    LINES_FUNCTION, /* -F: the line of the def, so that samples add up per function */
    LINES_NONE,     /* --nolineno */
};

struct format_options {
    enum line_mode lines;
    bool full_filenames; /* else the shortened path, where the format shows a path in text */
    bool threads;        /* -t: a root frame per thread */
    bool mark_torn;      /* a frame [torn] on top of stacks that could not be proved */
    bool processes;      /* -s: a root frame per process */
    bool hosts;          /* a root frame per host, outside of the processes */
    bool no_source;    /* read no source files: who sees the result may not be who may read them */
    bool any_run;      /* leave out what differs from run to run: recordings are compared */
    const char *title; /* for a person; "" = the format's own */
    const char *tool;  /* "scry" or "py-spy": what the exporter calls itself */
};

struct format {
    const char *name;      /* as given to -f */
    const char *extension; /* without the dot */
    const char *summary;   /* one line for help */
    const char *what;      /* "flame graph": for "Wrote flame graph to ..." */
    const char *hint;      /* where to open it; "" = nothing to say */
    bool binary;           /* not to be written to a terminal */
    int (*write)(struct recording *recording, const struct format_options *options, FILE *out,
                 struct error *err);
};

/* In the order they are listed in help; ends with a row whose name is NULL. */
extern const struct format formats[];
/* By name, without regard to case; NULL if unknown. */
const struct format *format_find(const char *name);

#endif
