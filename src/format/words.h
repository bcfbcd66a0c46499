/* The words a format puts on a frame, a thread and a process, and who their owners are. */
#ifndef SCRY_FORMAT_WORDS_H
#define SCRY_FORMAT_WORDS_H

#include "format/format.h"
#include "format/tracks.h"
#include "util/buf.h"

/* Text that is safe on one line of any format: control characters become their pictures
 * (U+2400...), bytes that are not UTF-8 and code points XML forbids become U+FFFD. */
void words_clean(struct buf *b, const char *text);

/* The line to show in this mode; 0 = none. */
int32_t words_line(const struct rec_frame *frame, enum line_mode mode);
/* `name (file:line)`, `name (file)` without a line, `name` without a file; cleaned. Returns the
 * length of the name. */
size_t words_frame(struct buf *b, const struct rec_frame *frame,
                   const struct format_options *options);
/* `thread (TID): name`; the id in hexadecimal where only the pthread id is known. */
void words_thread(struct buf *b, const struct track *track);
/* TID alone, as above. */
void words_thread_id(struct buf *b, const struct track *track);
/* `process PID:"command line"`. */
void words_process(struct buf *b, const struct rec_process *process);
/* Calls `add` with the text of each root frame of a track that the options ask for, the outermost
 * first: its host, its processes, then the thread. Where recordings are compared, the thread has no number. Returns the last result of `add`; stops at the first
 * negative one. */
int words_roots(const struct recording *r, const struct track *track,
                const struct format_options *options, int (*add)(void *context, const char *text),
                void *context);
/* What the figures of a recording mean: samples where each stands for the same time, else microseconds. */
enum measure {
    MEASURE_SAMPLES,
    MEASURE_WALL,
    MEASURE_CPU,
};
enum measure words_measure(const struct recording *r);
/* What a process runs, short enough for a title: program and script without the arguments, which
 * may hold secrets. "python app.py", "python -m http.server". */
void words_program(struct buf *b, const char *command);

/* Whose code a frame is: people look for their own first. */
enum origin {
    ORIGIN_USER,
    ORIGIN_PACKAGE, /* site-packages, dist-packages */
    ORIGIN_STDLIB,
    ORIGIN_NATIVE,
    ORIGIN_ROOT, /* thread, process */
};
enum origin words_origin(const struct rec_frame *frame);

#endif
