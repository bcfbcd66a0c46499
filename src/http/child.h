/* scry itself as a child process: whatever looks into other programs, or takes recordings apart, is
 * done there, so that a crash, a hang or a flood in it is the end of one answer and not of the
 * server.
 *
 * A child is told to stop (SIGTERM) when the server dies, so that no recording outlives it for
 * longer than it takes to write it down. The kernel does that when the thread that started the
 * child ends: child_run() therefore starts it and waits for it in one call. */
#ifndef SCRY_HTTP_CHILD_H
#define SCRY_HTTP_CHILD_H

#include "util/buf.h"
#include "util/types.h"

struct child_limits {
    scry_nsec time;       /* wall clock until it is killed; 0 = none */
    size_t memory;        /* bytes of data; 0 = none */
    size_t file;          /* bytes of a file it writes; 0 = none */
    size_t output;        /* bytes of standard output that are taken in; more is a failure */
    unsigned cpu_seconds; /* 0 = none */
};

enum child_end {
    CHILD_OK,        /* exit status 0 */
    CHILD_FAILED,    /* another one; `error` says why */
    CHILD_CRASHED,   /* died of a signal that was not ours */
    CHILD_LATE,      /* killed at its time limit */
    CHILD_FLOOD,     /* wrote more than `output` */
    CHILD_CANCELLED, /* `cancelled` said so */
    CHILD_NOT_STARTED,
};

enum child_poll {
    CHILD_GO_ON,
    CHILD_STOP, /* ask it to end in order (SIGINT); what it writes is still wanted */
    CHILD_KILL,
};

struct child_job {
    const char *const *argv; /* after the program's name; ends with NULL */
    struct child_limits limits;
    const char *confine; /* what it may look into, see policy.h; NULL or "" = all */
    int out_fd;          /* where its standard output goes; -1: into `out` */
    /* Asked about ten times a second; may be NULL. */
    enum child_poll (*poll)(void *context);
    /* A whole line of standard output, when set, instead of `out`. */
    void (*line)(void *context, const char *line);
    void *context;
};

struct child_result {
    enum child_end end;
    int status;   /* exit status, or the signal it died of */
    bool stopped; /* CHILD_STOP was asked for, and it ended in order */
    struct buf out;
    struct buf err;     /* standard error, cut */
    char code[32];      /* the symbol of its error, "" = none: "PERMISSION" */
    char message[1024]; /* its sentence; for the other ends a sentence made here */
    char hint[1024];
};

void child_result_init(struct child_result *r);
void child_result_done(struct child_result *r);
void child_run(const struct child_job *job, struct child_result *r);

/* How many children have been started, and how many ended badly: for the metrics. */
void child_counts(uint64_t *ret_started, uint64_t *ret_failed);

#endif
