/* Reading images: what was written by this process, or by others into files, in the order it happened, as calls on
 * tracks. A file may come from a program that was killed in the middle, or be damaged: nothing in it is believed. */
#ifndef SCRY_TRACER_READ_H
#define SCRY_TRACER_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image.h"

struct text {
    const char *at; /* not terminated; may hold anything */
    size_t bytes;
};

struct read_name {
    struct text name, file;
    int line;
};

enum track_kind {
    TRACK_THREAD,
    TRACK_TASK,
    TRACK_SPANS, /* what the program itself measured, beside its thread */
    TRACK_COUNTER,
};

struct read_image;

struct track {
    enum track_kind kind;
    uint32_t index; /* counts all tracks of a reading */
    struct read_image *image;
    struct text name;
    uint64_t tid; /* TRACK_THREAD: the kernel's */
    uint64_t ident;
    uint32_t number; /* TRACK_TASK: the task's */
    void *writer;    /* the writer's own; freed with free() */
};

struct call {
    struct track *track;
    uint32_t number; /* its name's */
    uint32_t kind;   /* the word it began with */
    uint64_t start;  /* ns */
    struct text args;
    bool written; /* the writer was told of its begin */
};

struct ending {
    uint32_t kind; /* the word it ended with; 0: it was still open */
    struct text result, exception;
};

struct read_image {
    int32_t pid, parent;
    uint32_t python;
    bool finished;
    uint64_t wall_ns, dropped;
    struct text command;
    const struct read_name *names; /* by number; number 0 is unknown */
    uint32_t name_count;
    uint32_t index;
    void *writer; /* freed with free() */
};

/* What a reader tells a writer. Times are nanoseconds since the earliest start of all images, and do not go back
 * but for the start of spans. A false result ends the reading. */
struct writer {
    bool (*begin)(struct writer *w, const struct track *thread, const struct call *call);
    bool (*end)(struct writer *w, const struct track *thread, const struct call *call,
                uint64_t time, const struct ending *ending);
    bool (*instant)(struct writer *w, const struct track *track, uint64_t time, struct text name,
                    struct text json);
    bool (*counter)(struct writer *w, const struct track *track, uint64_t time, struct text json);
    bool (*span)(struct writer *w, const struct track *track, uint64_t start, uint64_t end,
                 struct text name, struct text json);
    bool (*track)(struct writer *w, struct track *track); /* before anything on it */
    bool (*image)(struct writer *w, struct read_image *image);
};

struct read_result {
    uint64_t calls, dropped;
    uint64_t duration; /* ns */
    uint32_t images, damaged, unfinished;
    bool stopped; /* the writer, or whoever is told of progress, did not want more */
};

struct reading;
struct reading *reading_new(void);
void reading_free(struct reading *r);
/* Take in a file: 0, or an errno; EINVAL: it is no image. */
int reading_add_file(struct reading *r, const char *path);
/* The image of this process; it must not change meanwhile. */
int reading_add_own(struct reading *r, const struct image *image);
/* Tell all to the writer. `progress` is asked now and then, with the share that is done: false stops. */
bool reading_run(struct reading *r, struct writer *w, bool (*progress)(void *context, double share),
                 void *context, struct read_result *ret_result);
size_t reading_images(const struct reading *r);
/* The wall clock at time 0, ns since 1970. */
uint64_t reading_wall(const struct reading *r);

#endif
