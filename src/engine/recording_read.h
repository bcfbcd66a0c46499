/* One recording file being read: blocks to records to samples, with the file's own numbers turned
 * into those of the recording it is part of. Private to recording*.c.
 *
 * Nothing in a file is believed: lengths are held against what is there, numbers against what was
 * defined, tables against the limits of recording_wire.h. */
#ifndef SCRY_ENGINE_RECORDING_READ_H
#define SCRY_ENGINE_RECORDING_READ_H

#include "engine/recording.h"
#include "engine/recording_wire.h"
#include "util/buf.h"

struct numbers { /* the file's number -> the recording's */
    uint32_t *items;
    size_t count, cap;
};

struct source_thread {
    uint32_t number; /* in the recording */
    struct wire_last last;
};

struct room {
    unsigned char *data;
    size_t cap;
};

struct source {
    struct recording *recording;
    FILE *file;
    bool close_file;
    char *name; /* for messages */
    off_t data; /* where the blocks after the info begin */

    struct rec_info info;
    char *command, *host;
    struct rec_summary summary;
    bool ended;
    int failed; /* an error; it stays until the next rewind */

    struct numbers strings, processes, frames, stacks;
    struct source_thread *threads;
    size_t thread_count, thread_cap;
    uint64_t defined; /* definitions met since the start or rewind ... */
    uint64_t known;   /* ... and those among them that were taken in before, on an earlier pass */

    struct room raw, stored; /* one block */
    size_t pos, len;         /* in raw */
    struct ZSTD_DCtx_s *zstd;
    scry_nsec time;
};

/* Reads the header and the info block. Takes over `file` if `close_file`, also on failure. */
int source_open(struct source *s, struct recording *recording, FILE *file, bool close_file,
                const char *name, struct error *err);
void source_close(struct source *s);
/* 1, or 0 at the end, or a negative error. The summary is filled in at the end. */
int source_next(struct source *s, struct rec_sample *ret_sample);
int source_rewind(struct source *s);

/* Adding to the recording's tables (recording.c): the number, or UINT32_MAX when memory runs out or
 * a limit is met. References are the recording's numbers and checked by the caller. */
struct frame_numbers {
    uint32_t name, file, short_file, module;
    int32_t line, first_line;
};
struct process_numbers {
    int32_t pid, parent;
    uint32_t command, python;
    const char *host; /* lives as long as the recording */
};
struct thread_numbers {
    uint32_t process, name;
    int64_t tid;
    uint64_t thread_id;
};
uint32_t recording_add_string(struct recording *r, const void *s, size_t len);
uint32_t recording_add_frame(struct recording *r, const struct frame_numbers *frame);
uint32_t recording_add_stack(struct recording *r, uint32_t parent, uint32_t frame);
uint32_t recording_add_process(struct recording *r, const struct process_numbers *process);
uint32_t recording_add_thread(struct recording *r, const struct thread_numbers *thread);
void recording_name_thread(struct recording *r, uint32_t thread, uint32_t name);

#endif
