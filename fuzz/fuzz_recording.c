/* The reader of recordings against arbitrary bytes. Whatever they are, reading ends, in an error or
 * in samples that refer only to what is known.
 *
 * The first byte says how the rest is taken: even, as a file; odd, as the records of a block with
 * the right checksum, so that mutations get as far as the records. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/recording.h"
#include "recording_blocks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz_recording: broken promise: %s\n", what);
    abort();
}

static size_t touch(const char *s)
{
    require(s != NULL, "strings are never NULL");
    return strlen(s);
}

static void check_sample(const struct recording *r, const struct rec_sample *s, scry_nsec before)
{
    require(s->time >= before, "samples come in time order");
    require(s->weight <= s->time, "no weight reaches back before the start");
    require(s->thread < recording_thread_count(r), "the thread is known");
    require(s->stack < recording_stack_count(r), "the stack is known");
    const struct rec_thread *thread = recording_thread(r, s->thread);
    require(thread->process < recording_process_count(r), "the process is known");
    const struct rec_process *process = recording_process(r, thread->process);
    touch(thread->name);
    touch(process->command);
    touch(process->python);
    int depth = 0; /* bounded, or a deep stack under many samples takes forever */
    for (uint32_t stack = s->stack, frame, below; stack && depth < 100; stack = below, depth++) {
        recording_stack(r, stack, &below, &frame);
        require(below < stack, "the stack below has a smaller number");
        require(frame < recording_frame_count(r), "the frame is known");
        const struct rec_frame *f = recording_frame(r, frame);
        touch(f->name);
        touch(f->file);
        touch(f->short_file);
        touch(f->module);
    }
}

static uint64_t read_all(struct recording *r, int *ret_result)
{
    struct rec_sample s;
    uint64_t n = 0;
    scry_nsec before = 0;
    while ((*ret_result = recording_next(r, &s)) == 1) {
        check_sample(r, &s, before);
        before = s.time;
        n++;
    }
    return n;
}

static void read_twice(const void *data, size_t size)
{
    FILE *in = size ? fmemopen((void *)(uintptr_t)data, size, "rb") : NULL;
    if (!in)
        return;
    struct recording *r;
    struct error err;
    if (recording_open_stream(in, &r, &err) == 0) {
        touch(recording_info(r)->command);
        touch(recording_info(r)->host);
        int first, second;
        uint64_t n = read_all(r, &first);
        require(recording_rewind(r) == 0, "a recording can be read again");
        require(read_all(r, &second) == n && first == second, "and again it says the same");
        recording_close(r);
    }
    fclose(in);
}

static void read_records(const uint8_t *data, size_t size)
{
    SCOPED_BUF file;
    buf_init(&file);
    add_start(&file);
    add_block(&file, WIRE_DATA, WIRE_STORED, data, (uint32_t)size, (uint32_t)size);
    read_twice(file.data, file.len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > WIRE_MAX_BLOCK)
        return 0;
    if (data[0] % 2)
        read_records(data + 1, size - 1);
    else
        read_twice(data + 1, size - 1);
    return 0;
}
