/* Where a sampler puts what it sees: a recording (recording.h) or a count that is looked at while
 * it grows (tally.h). Strings, frames and so on are handed over once and named by the numbers
 * handed out. */
#ifndef SCRY_ENGINE_SINK_H
#define SCRY_ENGINE_SINK_H

#include "util/types.h"

struct rec_process;
struct rec_thread;
struct rec_frame;
struct rec_sample;

struct sample_sink {
    const struct sink_ops *ops;
};

/* What each of them promises is said of the rec_writer_ function of the same name in recording.h.
 */
struct sink_ops {
    uint32_t (*process)(struct sample_sink *sink, const struct rec_process *process);
    uint32_t (*thread)(struct sample_sink *sink, const struct rec_thread *thread);
    uint32_t (*frame)(struct sample_sink *sink, const struct rec_frame *frame);
    uint32_t (*stack)(struct sample_sink *sink, uint32_t parent, uint32_t frame);
    int (*sample)(struct sample_sink *sink, const struct rec_sample *sample);
    int (*flush)(struct sample_sink *sink);

    /* These may be NULL.
     * A look begins, and all samples up to the next are of it. It stands for `weight`. A whole look
     * has every thread, also those that the sampler's options leave out. */
    void (*look)(struct sample_sink *sink, scry_nsec weight, bool whole);
    /* What a thread of a whole look waits for. Only a sink with this gets whole looks, some each
     * second. */
    void (*waiting)(struct sample_sink *sink, uint32_t thread, const char *why);
};

#endif
