/* A recording: what the sampler saw, in the order it saw it, as an append-only stream (a `.scry`
 * file). Every output format is made from it. The byte layout is in docs/format.md.
 *
 * Strings, frames, stacks, threads and processes are interned: each is written once, inline, before
 * its first use, and named by its number from then on. Memory is bounded by what is distinct, not
 * by time. */
#ifndef SCRY_ENGINE_RECORDING_H
#define SCRY_ENGINE_RECORDING_H

#include <stdio.h>

#include "engine/sink.h"
#include "util/error.h"
#include "util/types.h"

/* One frame as a person reads it. Strings are UTF-8; "" where unknown. */
struct rec_frame {
    const char *name;       /* qualified name where there is one */
    const char *file;       /* full path */
    const char *short_file; /* shortened path; may equal file */
    int32_t line;           /* line being executed; 0 = none */
    int32_t first_line;     /* line of the def; 0 = unknown */
    const char *module;     /* native library; "" for Python */
};

struct rec_process {
    int32_t pid;
    int32_t parent; /* 0 = none or unknown */
    const char *command;
    const char *python; /* "3.13.0", "3.14.2t" */
    const char *host;   /* of the file it stands in; not written, may be NULL there */
};

struct rec_thread {
    uint32_t process;   /* number of its process */
    int64_t tid;        /* OS thread id; 0 = unknown */
    uint64_t thread_id; /* pthread id */
    const char *name;
};

enum rec_flags {
    REC_ACTIVE = 1,
    REC_GIL = 2,
    REC_TORN = 4, /* unsure: read while it ran */
    REC_GC = 8,
    REC_UNMERGED = 16, /* native frames were asked for, and not all of them could be had */
};

struct rec_sample {
    scry_nsec time;   /* since the start of the recording */
    scry_nsec weight; /* the span it stands for: (time - weight, time]; at most `time`. With
                         REC_OPT_CPU: so much time on a CPU, at some moments before `time` */
    uint32_t thread;
    uint32_t stack; /* REC_EMPTY_STACK: a thread without Python frames */
    uint32_t flags;
};
#define REC_EMPTY_STACK 0 /* stack number 0 is the empty stack; frames hang below it */

struct rec_info {        /* how it was made; strings may be "" */
    const char *command; /* scry's own command line */
    const char *host;
    uint64_t start_unix_ns; /* wall clock at the start */
    double rate;            /* samples per second asked for; 0 = no one rate */
    uint32_t options;       /* REC_OPT_ bits */
};
enum rec_options {
    REC_OPT_IDLE = 1,
    REC_OPT_GIL = 2,
    REC_OPT_NATIVE = 4,
    REC_OPT_SUBPROCESSES = 8,
    REC_OPT_CPU = 16,    /* weights are time on a CPU, not the span since the last look */
    REC_OPT_VARIED = 32, /* the rate changed meanwhile: samples do not stand for the same time */
};

/* The end of the recording. When it was cut off, `duration`, `samples` and `torn` are those of the
 * samples that can be read, and the rest is zero. */
struct rec_summary {
    bool complete; /* it has its end */
    bool damaged;  /* cut off in mid-block, or spoilt: more than a writer that was killed */
    scry_nsec duration;
    uint64_t samples, torn, missed, late, errors;
    uint64_t unmerged; /* samples with REC_UNMERGED */
    scry_nsec own_cpu;
};

/* ---- writing ---- */

struct rec_writer;
/* Writes to `out`, which stays the caller's; no seeks. */
int rec_writer_new(FILE *out, const struct rec_info *info, struct rec_writer **ret_writer);
/* Numbers, handed out on first sight: the same content gets the same number. UINT32_MAX when memory
 * runs out or a number referred to was never handed out. Strings are copied (NULL is ""), up to
 * 65,535 bytes of each. */
uint32_t rec_writer_process(struct rec_writer *w, const struct rec_process *process);
/* The same, but a process of its own even if one like it is known: when recordings are merged. */
uint32_t rec_writer_add_process(struct rec_writer *w, const struct rec_process *process);
/* A thread is known by process, tid and thread_id; another name renames it. */
uint32_t rec_writer_thread(struct rec_writer *w, const struct rec_thread *thread);
uint32_t rec_writer_frame(struct rec_writer *w, const struct rec_frame *frame);
/* The stack `parent` with `frame` called from its top. Start from REC_EMPTY_STACK at the root.
 * Keeps to a limit (docs/format.md) that only endless recursion in endless variety meets. */
uint32_t rec_writer_stack(struct rec_writer *w, uint32_t parent, uint32_t frame);
/* In time order: INTERNAL if it is before the last one, or of an unknown thread or stack. A weight
 * that reaches back before the start is cut. OUTPUT when writing failed, now or before. Makes no
 * allocation. */
int rec_writer_sample(struct rec_writer *w, const struct rec_sample *sample);
/* Close the current block, so that a reader sees all up to here even if scry is killed. The writer
 * does so itself when the block is full, and with the first sample that is a second younger than
 * the block. */
int rec_writer_flush(struct rec_writer *w);
/* The proper end: makes the file complete, whatever the summary says about that. */
int rec_writer_finish(struct rec_writer *w, const struct rec_summary *summary);
void rec_writer_free(struct rec_writer *w);
/* The writer as a sampler sees it; lives as long as the writer. */
struct sample_sink *rec_writer_sink(struct rec_writer *w);

/* ---- reading ---- */

struct recording;
/* Opens one or several files; several are merged on their wall clocks: same frames and stacks get
 * the same number, each file keeps its own processes and threads. A file cut off in mid-block is
 * read up to its last whole block. */
int recording_open(const char *const *paths, size_t count, struct recording **ret_recording,
                   struct error *err);
/* Over a stream that can seek (a temporary file), from its start; stays the caller's. */
int recording_open_stream(FILE *in, struct recording **ret_recording, struct error *err);
void recording_close(struct recording *r);

/* The next sample in time order: 1, or 0 at the end, or a negative error. All tables it refers to
 * are known. A damaged file ends where it is damaged; the summary says so. */
int recording_next(struct recording *r, struct rec_sample *ret_sample);
/* Start over. Tables stay. */
int recording_rewind(struct recording *r);

/* Valid for every number met so far; pointers hold until close. Strings are valid UTF-8 whatever
 * the file holds. A thread has the latest name met so far. */
const struct rec_info *recording_info(const struct recording *r);
/* After the end was reached. */
const struct rec_summary *recording_summary(const struct recording *r);
/* The same of one of several files, in the order they were given. */
const struct rec_summary *recording_file_summary(const struct recording *r, size_t file);
const struct rec_frame *recording_frame(const struct recording *r, uint32_t frame);
const struct rec_process *recording_process(const struct recording *r, uint32_t process);
const struct rec_thread *recording_thread(const struct recording *r, uint32_t thread);
/* The top frame of a stack and the stack below it. Not for REC_EMPTY_STACK. */
void recording_stack(const struct recording *r, uint32_t stack, uint32_t *ret_parent,
                     uint32_t *ret_frame);
size_t recording_stack_count(const struct recording *r); /* numbers are below this */
size_t recording_frame_count(const struct recording *r);
size_t recording_thread_count(const struct recording *r);
size_t recording_process_count(const struct recording *r);

#endif
