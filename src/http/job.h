/* A recording that was asked for: one or many processes, here or on other nodes. While it waits or
 * runs it lives here; from its beginning to its end it is also entered in the store, which has it
 * alone once it has ended. Everything in it is guarded by the lock of jobs.h. */
#ifndef SCRY_HTTP_JOB_H
#define SCRY_HTTP_JOB_H

#include <stdio.h>

#include "http/reply.h"
#include "http/store.h"
#include "util/types.h"

#define NODE_ID_MAX      80
#define NODE_NAME_MAX    128
#define JOB_NAME_MAX     200
#define JOB_TARGETS_MAX  1000
#define JOB_WARNINGS_MAX 16

enum job_state {
    JOB_QUEUED,
    JOB_RECORDING,
    JOB_DONE,
    JOB_FAILED,
    JOB_CANCELLED,
};
extern const char *const job_states[]; /* the words of the API; ends with NULL */

enum job_mode { JOB_WALL, JOB_CPU, JOB_GIL };
extern const char *const job_modes[]; /* ends with NULL */

struct job_error {
    char code[32]; /* "" = none; a word of the API */
    char message[600];
    char hint[600];
};

struct job_target {
    char node[NODE_ID_MAX], node_name[NODE_NAME_MAX];
    bool remote;
    pid_t pid;
    uint64_t start_time; /* 0 on other nodes */
    char command[512], python[32];
    enum job_state state;
    uint64_t samples;
    double elapsed;
    uint64_t size; /* of its data */
    struct job_error error;
};

struct job_options {
    double duration, rate;
    enum job_mode mode;
    bool idle, native, subprocesses, merge, attached;
    const char *origin; /* static: "page", "api", "ray", "peer" */
    char name[JOB_NAME_MAX + 1];
};

struct job {
    char id[STORE_ID_MAX];
    struct job_options options;
    enum job_state state;
    int64_t created, started, ended; /* unix ms; 0 = not yet */
    struct job_target *targets;
    size_t target_count;
    char *warnings[JOB_WARNINGS_MAX];
    size_t warning_count;
    struct job_error error;
    uint64_t size;
    bool pinned;
    /* private to jobs.c */
    unsigned refs;
    bool cancel;       /* end it now */
    bool coordinated;  /* targets on other nodes are seen to */
    unsigned watchers; /* of its events, or waiting for its result */
    int64_t unwatched; /* since when nobody does; monotonic ms */
    unsigned version;  /* goes up with each change */
    struct job *next;
};

bool job_ended(const struct job *job);
double job_elapsed(const struct job *job);
uint64_t job_samples(const struct job *job);
void job_warn(struct job *job, const char *format, ...) __attribute__((format(printf, 2, 3)));
void job_error_set(struct job_error *error, const char *code, const char *message,
                   const char *hint);

/* As the API shows it. */
void job_json(const struct job *job, FILE *out);
int job_store(struct store *store, const struct job *job, struct error *err);

/* The HTTP status that belongs to an error's word, and the word for a symbol of util/errors.def. */
unsigned job_error_status(const char *code);
void job_error_word(const char *symbol, char to[static 32]);

#endif
