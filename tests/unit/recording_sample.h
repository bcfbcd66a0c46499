/* A small recording for the tests of the stream: two processes, three threads, stacks that share
 * their beginnings, gaps, every flag, and strings of all kinds. */
#ifndef SCRY_TEST_RECORDING_SAMPLE_H
#define SCRY_TEST_RECORDING_SAMPLE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/recording.h"

static const struct rec_info sample_info = {
    .command = "scry record -p 42",
    .host = "h\xc3\xb6st",
    .start_unix_ns = 1700000000000000000,
    .rate = 100,
    .options = REC_OPT_IDLE | REC_OPT_SUBPROCESSES,
};
static const struct rec_summary sample_summary = {
    .duration = 5 * SCRY_NSEC_PER_SEC,
    .samples = 12,
    .torn = 3,
    .missed = 4,
    .late = 5,
    .errors = 6,
    .own_cpu = 7,
};
static const struct rec_process sample_processes[] = {
    {.pid = 42, .parent = 1, .command = "python app.py", .python = "3.13.0"},
    {.pid = 43, .parent = 42, .command = "", .python = "3.14.2t"},
};
static const struct rec_thread sample_threads[] = {
    {.process = 0, .tid = 42, .thread_id = 0x7f0000001000, .name = "MainThread"},
    {.process = 0, .tid = 44, .thread_id = 0x7f0000002000, .name = ""},
    {.process = 1, .tid = 0, .thread_id = UINT64_MAX, .name = "\xe7\xba\xbf\xe7\xa8\x8b"},
};
static const struct rec_frame sample_frames[] = {
    {.name = "<module>", .file = "/srv/app.py", .short_file = "app.py", .line = 9, .first_line = 1},
    {.name = "Work.run", .file = "/srv/app.py", .short_file = "app.py", .line = 5, .first_line = 3},
    {.name = "Work.run", .file = "/srv/app.py", .short_file = "app.py", .line = 6, .first_line = 3},
    {.name = "recv", .file = "", .short_file = "", .module = "libc.so.6"},
    {.name = "odd", .line = INT32_MAX, .first_line = INT32_MIN},
};

/* One sample each `step`, the threads in turn; sample i has a stack of depth i % 4. */
static inline struct rec_sample sample_at(uint32_t i, scry_nsec step, const uint32_t *stacks)
{
    return (struct rec_sample){
        .time = i / 3 * step + (i > 6) * 2 * step,
        .weight = i % 5 == 0 ? 0 : i / 3 * step,
        .thread = i % 3,
        .stack = stacks[i % 4],
        .flags = i % 16,
    };
}

static inline void write_definitions(struct rec_writer *w, uint32_t stacks[4])
{
    for (size_t i = 0; i < ARRAY_LEN(sample_processes); i++)
        rec_writer_process(w, &sample_processes[i]);
    for (size_t i = 0; i < ARRAY_LEN(sample_threads); i++)
        rec_writer_thread(w, &sample_threads[i]);
    stacks[0] = REC_EMPTY_STACK;
    for (uint32_t i = 1; i < 4; i++)
        stacks[i] = rec_writer_stack(w, stacks[i - 1], rec_writer_frame(w, &sample_frames[i % 5]));
}

#endif
