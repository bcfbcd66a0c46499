/* The queue: which recording runs when. A fixed number of threads each see to one target at a time,
 * in a child process of its own; a process is recorded by one job at a time, and whoever asks for it
 * meanwhile waits. */
#ifndef SCRY_HTTP_JOBS_H
#define SCRY_HTTP_JOBS_H

#include "http/job.h"
#include "http/request.h"
#include "http/store.h"

struct jobs;

struct jobs_config {
    struct store *store;
    const char *node_name; /* goes into the recordings as the host */
    unsigned running;      /* targets recorded at the same time */
    unsigned queue;        /* jobs that may wait */
    size_t file_bytes;     /* of one target's data, at most */
    size_t memory;         /* of a child, at most */
    const char *confine;   /* what a child may look into, see policy.h */
    /* Sees to the targets on other nodes and returns when they have ended; called in a thread of
     * its own with a reference to the job. NULL when there are no other nodes. */
    void (*remote)(void *context, struct jobs *jobs, struct job *job);
    void *remote_context;
};

int jobs_new(const struct jobs_config *config, struct jobs **ret, struct error *err);
/* Ends all recordings, keeping what they have, and waits for that. */
void jobs_free(struct jobs *jobs);

/* Queue a job. Takes `targets` over (from malloc). NULL after `re` was filled in: 429 when the queue
 * is full, 503 when the store fails. The job comes with a reference. */
struct job *jobs_add(struct jobs *jobs, const struct job_options *options,
                     struct job_target *targets, size_t count, struct reply *re);
/* The same for somebody who waits: joins a job that waits for the same target with the same
 * options, if there is one. */
struct job *jobs_add_or_join(struct jobs *jobs, const struct job_options *options,
                             const struct job_target *target, struct reply *re);
void job_release(struct jobs *jobs, struct job *job);
/* A job that waits or runs, with a reference; NULL when there is none of that name. */
struct job *jobs_find(struct jobs *jobs, const char *id);
void jobs_cancel(struct jobs *jobs, struct job *job);

/* Somebody watches the job: while it is one that ends with its watchers, it goes on only so long. */
void job_watch(struct jobs *jobs, struct job *job);
void job_unwatch(struct jobs *jobs, struct job *job);
/* The same for somebody who asks now and then. */
void job_touch(struct jobs *jobs, struct job *job);
/* Waits until the job's version differs from `seen`, it has ended, or the time is over; returns the
 * version. */
unsigned job_wait(struct jobs *jobs, struct job *job, unsigned seen, unsigned timeout_ms);

/* Reading and changing a job from outside this file. */
void jobs_lock(struct jobs *jobs);
void jobs_unlock(struct jobs *jobs);
void job_changed(struct jobs *jobs, struct job *job); /* with the lock held */
bool jobs_is_cancelled(struct jobs *jobs, const struct job *job);
/* A target is being recorded; with the lock held. */
void job_begins(struct jobs *jobs, struct job *job);
/* A target has ended; with the lock held. The last one ends the job. */
void job_target_ended(struct jobs *jobs, struct job *job);

/* The recording a process is in now; "" = none. */
void jobs_recording_of(struct jobs *jobs, pid_t pid, char to[static STORE_ID_MAX]);
/* Calls `each` for all that wait or run, with the lock held. */
void jobs_each(struct jobs *jobs, void (*each)(void *context, const struct job *job),
               void *context);

struct jobs_counts {
    unsigned queued, running, waiting_targets;
    uint64_t ended[JOB_CANCELLED + 1];
};
void jobs_counts(struct jobs *jobs, struct jobs_counts *ret);
/* Entries of a server that did not end them: mended at the start. */
void jobs_mend(struct jobs *jobs);

#endif
