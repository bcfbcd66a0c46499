/* Files that are cut off, spoilt, or made to mislead: what can be read is read and true, the rest
 * is left. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include <zstd.h>

#include "../../fuzz/recording_blocks.h"
#include "recording_sample.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BLOCKS    5
#define PER_BLOCK 6

static char *whole; /* a valid recording of BLOCKS blocks with PER_BLOCK samples each */
static size_t whole_len;
static size_t ends[BLOCKS + 2]; /* where a block ends: the info, each of data, the end */
static struct rec_sample samples[BLOCKS * PER_BLOCK];

static int make_whole(void **state)
{
    (void)state;
    FILE *out = open_memstream(&whole, &whole_len);
    struct rec_writer *w;
    assert_int_equal(rec_writer_new(out, &sample_info, &w), 0);
    ends[0] = whole_len;
    uint32_t stacks[4];
    write_definitions(w, stacks);
    for (uint32_t i = 0; i < BLOCKS * PER_BLOCK; i++) {
        samples[i] = sample_at(i, 1000, stacks);
        assert_int_equal(rec_writer_sample(w, &samples[i]), 0);
        if (i % PER_BLOCK == PER_BLOCK - 1) {
            assert_int_equal(rec_writer_flush(w), 0);
            ends[1 + i / PER_BLOCK] = whole_len;
        }
    }
    assert_int_equal(rec_writer_finish(w, &sample_summary), 0);
    ends[BLOCKS + 1] = whole_len;
    rec_writer_free(w);
    fclose(out);
    return 0;
}

static int free_whole(void **state)
{
    (void)state;
    free(whole);
    return 0;
}

/* What came of reading some bytes. */
struct outcome {
    int opened;     /* recording_open_stream() */
    int last;       /* the last recording_next() */
    size_t samples; /* that it gave, */
    bool true_ones; /* and whether they are the first of `samples` */
    struct rec_summary summary;
    struct error err;
};

static struct outcome read_bytes(const char *data, size_t len)
{
    struct outcome o = {.true_ones = true};
    FILE *in = fmemopen((void *)(uintptr_t)data, len, "rb");
    assert_non_null(in);
    struct recording *r;
    o.opened = recording_open_stream(in, &r, &o.err);
    if (o.opened == 0) {
        struct rec_sample s;
        while ((o.last = recording_next(r, &s)) == 1) {
            size_t i = o.samples++;
            o.true_ones = o.true_ones && i < ARRAY_LEN(samples) && s.time == samples[i].time &&
                          s.weight == samples[i].weight && s.thread == samples[i].thread &&
                          s.stack == samples[i].stack && s.flags == samples[i].flags;
        }
        o.summary = *recording_summary(r);
        recording_close(r);
    }
    fclose(in);
    return o;
}

static void a_cut_file_has_all_samples_of_its_whole_blocks(void **state)
{
    (void)state;
    for (size_t len = 1; len <= whole_len; len++) {
        struct outcome o = read_bytes(whole, len);
        if (len < ends[0]) {
            assert_int_equal(o.opened, -SCRY_E_BAD_FILE);
            continue;
        }
        size_t blocks = 0;
        while (blocks <= BLOCKS && ends[blocks + 1] <= len)
            blocks++;
        bool between = len == ends[blocks];
        bool complete = blocks > BLOCKS;
        assert_int_equal(o.opened, 0);
        assert_int_equal(o.last, 0);
        assert_int_equal(o.samples, (complete ? BLOCKS : blocks) * PER_BLOCK);
        assert_true(o.true_ones);
        assert_int_equal(o.summary.complete, complete);
        assert_int_equal(o.summary.damaged, !between);
        if (!complete) {
            assert_int_equal(o.summary.samples, o.samples);
            assert_int_equal(o.summary.duration, o.samples ? samples[o.samples - 1].time : 0);
        }
    }
}

static void a_changed_byte_never_changes_a_sample(void **state)
{
    (void)state;
    const unsigned char changes[] = {0x01, 0x80, 0xff, 0x20};
    for (size_t at = 0; at < whole_len; at++) {
        for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
            whole[at] = (char)(whole[at] ^ changes[i]);
            struct outcome o = read_bytes(whole, whole_len);
            whole[at] = (char)(whole[at] ^ changes[i]);
            if (at < ends[0])
                assert_int_equal(o.opened, -SCRY_E_BAD_FILE);
            assert_true(o.true_ones);
            assert_false(o.summary.complete);
            assert_true(o.opened < 0 || o.summary.damaged);
        }
    }
}

static void what_follows_the_end_is_not_read(void **state)
{
    (void)state;
    SCOPED_BUF file;
    buf_init(&file);
    buf_add(&file, whole, whole_len);
    buf_add_str(&file, "and more");
    struct outcome o = read_bytes(file.data, file.len);
    assert_int_equal(o.samples, BLOCKS * PER_BLOCK);
    assert_true(o.summary.complete && !o.summary.damaged);
}

static void what_is_no_recording_is_called_so(void **state)
{
    (void)state;
    struct outcome o = read_bytes("{\"version\": 1, \"stacks\": []}", 28);
    assert_int_equal(o.opened, -SCRY_E_BAD_FILE);
    assert_string_equal(error_text(&o.err), "'the recording' is not a scry recording");
    assert_string_not_equal(error_hint_text(&o.err), "");

    whole[WIRE_MAGIC_SIZE]++;
    o = read_bytes(whole, whole_len);
    whole[WIRE_MAGIC_SIZE]--;
    assert_int_equal(o.opened, -SCRY_E_BAD_FILE);
    assert_string_equal(error_text(&o.err),
                        "'the recording' is in a format that this scry does not know");

    o = read_bytes(whole, ends[0] - 1);
    assert_string_equal(error_text(&o.err),
                        "'the recording' is cut off or damaged before the first sample");
}

/* ---- blocks and records made by hand, checksums right ---- */

/* A process without strings, a thread in it, one frame, stack 1 of it, and a sample. */
#define PROCESS     "\x02\x04\x54\x02\x00\x00"
#define THREAD      "\x03\x04\x00\x54\x07\x00"
#define FRAME       "\x05\x06\x00\x00\x00\x02\x02\x00"
#define STACK       "\x06\x02\x01\x00"
#define SAMPLE      "\x83\x00\x0a\x01"
#define DEFINITIONS PROCESS THREAD FRAME STACK
#define VARINT_MAX  "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"

static struct outcome read_block(char type, char coding, const void *data, size_t len, size_t raw)
{
    SCOPED_BUF file;
    buf_init(&file);
    add_start(&file);
    add_block(&file, type, coding, data, (uint32_t)len, (uint32_t)raw);
    return read_bytes(file.data, file.len);
}
#define READ_RECORDS(records)                                                                      \
    read_block(WIRE_DATA, WIRE_STORED, records, sizeof(records) - 1, sizeof(records) - 1)

/* DEFINITIONS, then what is bad, then a sample that must not be believed any more. */
#define ASSERT_REFUSED(bad)                                                                        \
    do {                                                                                           \
        struct outcome o_ = READ_RECORDS(DEFINITIONS SAMPLE bad SAMPLE);                           \
        assert_int_equal(o_.opened, 0);                                                            \
        assert_int_equal(o_.last, 0);                                                              \
        assert_int_equal(o_.samples, 1);                                                           \
        assert_true(o_.summary.damaged);                                                           \
    } while (0)

static void records_made_by_hand_are_read(void **state)
{
    (void)state;
    struct outcome o = READ_RECORDS(DEFINITIONS SAMPLE SAMPLE);
    assert_int_equal(o.samples, 2);
    assert_false(o.summary.damaged);
    assert_int_equal(o.summary.duration, 20);
}

static void references_to_what_is_not_defined_are_refused(void **state)
{
    (void)state;
    ASSERT_REFUSED("\x83\x01\x0a\x01");                 /* thread 1 */
    ASSERT_REFUSED("\x83\x00\x0a\x02");                 /* stack 2 */
    ASSERT_REFUSED("\x83\x00\x0a" VARINT_MAX);          /* a stack beyond 32 bits */
    ASSERT_REFUSED("\x02\x04\x54\x02\x01\x00");         /* string 1 */
    ASSERT_REFUSED("\x03\x04\x01\x54\x07\x00");         /* process 1 */
    ASSERT_REFUSED("\x04\x02\x01\x00");                 /* the name of thread 1 */
    ASSERT_REFUSED("\x05\x06\x01\x00\x00\x02\x02\x00"); /* a frame's string 1 */
    ASSERT_REFUSED("\x06\x02\x01\x01");                 /* frame 1 */
    ASSERT_REFUSED("\x06\x02\x00\x00");                 /* a stack on itself */
    ASSERT_REFUSED("\x06\x02\x03\x00");                 /* on one before the first */
    ASSERT_REFUSED("\x06\x0b" VARINT_MAX "\x00");       /* far before */
}

static void numbers_out_of_range_are_refused(void **state)
{
    (void)state;
    ASSERT_REFUSED("\x81\x00" VARINT_MAX);                                  /* time runs over */
    ASSERT_REFUSED("\x81\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02");     /* 65 bits */
    ASSERT_REFUSED("\x81\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x81\x00"); /* 11 bytes */
    ASSERT_REFUSED("\x84\x00\x0b");                 /* weight 11 at time 10 */
    ASSERT_REFUSED("\x88\x00\x80\x80\x80\x80\x10"); /* flags beyond 32 bits */
    ASSERT_REFUSED("\x03\x0d\x00\x54\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02\x00"); /* 65 bits */
    ASSERT_REFUSED("\x91\x00" VARINT_MAX); /* microseconds beyond 64 bits of nanoseconds */
    ASSERT_REFUSED("\xa0\x00");            /* a sample bit that means nothing */
    ASSERT_REFUSED("\x02\x08\x80\x80\x80\x80\x20\x02\x00\x00");         /* a pid beyond 32 bits */
    ASSERT_REFUSED("\x05\x0a\x00\x00\x00\x80\x80\x80\x80\x20\x02\x00"); /* a line number */
}

static void records_that_do_not_hold_together_are_refused(void **state)
{
    (void)state;
    ASSERT_REFUSED("\x07\x00");        /* a definition of an unknown kind */
    ASSERT_REFUSED("\x00\x00");        /* no kind at all */
    ASSERT_REFUSED("\x01\x7fshort");   /* longer than the block */
    ASSERT_REFUSED("\x01" VARINT_MAX); /* far longer */
    ASSERT_REFUSED("\x01\x03"
                   "a\0b");         /* a string with an end in it */
    ASSERT_REFUSED("\x06\x01\x01"); /* ends before its last field */
    struct outcome o = READ_RECORDS(DEFINITIONS SAMPLE "\x81\x00");
    assert_int_equal(o.samples, 1);
    assert_true(o.summary.damaged);
}

static void what_a_newer_writer_adds_is_passed_over(void **state)
{
    (void)state;
    struct outcome o = READ_RECORDS(DEFINITIONS "\x41\x03new" SAMPLE);
    assert_int_equal(o.samples, 1);
    assert_false(o.summary.damaged);
    /* more fields than we know: stack 2, then a sample with it */
    o = READ_RECORDS(DEFINITIONS "\x06\x04\x01\x00\x63\x64"
                                 "\x83\x00\x0a\x02");
    assert_int_equal(o.samples, 1);
    assert_false(o.summary.damaged);

    o = read_block('x', 9, "?", 1, 1);
    assert_true(o.summary.damaged); /* its coding is unknown */
    o = read_block('x', WIRE_STORED, "?", 1, 1);
    assert_false(o.summary.damaged);
    o = read_block('X', WIRE_STORED, "?", 1, 1);
    assert_true(o.summary.damaged);
}

static void blocks_that_lie_about_their_size_are_refused(void **state)
{
    (void)state;
    const char records[] = DEFINITIONS SAMPLE;
    size_t len = sizeof(records) - 1;
    assert_int_equal(read_block(WIRE_DATA, WIRE_STORED, records, len, len).samples, 1);
    assert_int_equal(read_block(WIRE_DATA, WIRE_STORED, records, len, len + 1).samples, 0);
    assert_int_equal(read_block(WIRE_DATA, WIRE_ZSTD, records, len, len).samples, 0);

    struct outcome o;
    o = read_block(WIRE_DATA, WIRE_ZSTD, records, len, UINT32_MAX);
    assert_true(o.summary.damaged);
    o = read_block(WIRE_END, WIRE_STORED, "\0\0\0", 3, 3);
    assert_true(o.summary.damaged && !o.summary.complete);
}

/* Valid records, filled up to `len` bytes with one that may be passed over. */
static char *large_block(size_t len)
{
    const char records[] = DEFINITIONS SAMPLE "\x41";
    char *block = calloc(1, len);
    assert_non_null(block);
    size_t at = sizeof(records) - 1;
    memcpy(block, records, at);
    size_t fill = len - at - 3; /* the length takes three bytes */
    assert_int_equal(wire_put_varint((unsigned char *)block + at, fill), 3);
    return block;
}

static void blocks_have_a_largest_size(void **state)
{
    (void)state;
    char *block = large_block(WIRE_MAX_BLOCK);
    assert_int_equal(
        read_block(WIRE_DATA, WIRE_STORED, block, WIRE_MAX_BLOCK, WIRE_MAX_BLOCK).samples, 1);
    free(block);
    size_t len = WIRE_MAX_BLOCK + 1;
    block = large_block(len);
    assert_int_equal(read_block(WIRE_DATA, WIRE_STORED, block, len, len).samples, 0);
    char packed[4096];
    size_t packed_len = ZSTD_compress(packed, sizeof(packed), block, len, 1);
    assert_false(ZSTD_isError(packed_len));
    assert_int_equal(read_block(WIRE_DATA, WIRE_ZSTD, packed, packed_len, len).samples, 0);
    free(block);
}

static void bytes_that_must_be_zero_are_looked_at(void **state)
{
    (void)state;
    SCOPED_BUF file;
    buf_init(&file);
    add_start(&file);
    unsigned char header[WIRE_BLOCK_HEADER] = {'x', 0, 1};
    wire_put_u32(header + WIRE_CRC_OFFSET, (uint32_t)crc32(0, header, WIRE_CRC_OFFSET));
    buf_add(&file, header, sizeof(header));
    assert_true(read_bytes(file.data, file.len).summary.damaged);
}

static void compressing_must_not_make_larger(void **state)
{
    (void)state;
    const char records[] = DEFINITIONS SAMPLE;
    char packed[200];
    size_t len = ZSTD_compress(packed, sizeof(packed), records, sizeof(records) - 1, 1);
    assert_false(ZSTD_isError(len));
    assert_true(len > sizeof(records) - 1);
    struct outcome o = read_block(WIRE_DATA, WIRE_ZSTD, packed, len, sizeof(records) - 1);
    assert_true(o.summary.damaged && o.samples == 0);
}

/* `count` times the same definition. */
static int read_repeated(const char *record, size_t size, size_t count)
{
    size_t per_block = WIRE_MAX_BLOCK / size;
    char *block = malloc(size * per_block);
    assert_non_null(block);
    for (size_t i = 0; i < per_block; i++)
        memcpy(block + i * size, record, size);
    SCOPED_BUF file;
    buf_init(&file);
    add_start(&file);
    add_block(&file, WIRE_DATA, WIRE_STORED, DEFINITIONS, sizeof(DEFINITIONS) - 1,
              sizeof(DEFINITIONS) - 1);
    for (; count > 0; count -= per_block < count ? per_block : count) {
        uint32_t len = (uint32_t)(size * (per_block < count ? per_block : count));
        add_block(&file, WIRE_DATA, WIRE_STORED, block, len, len);
    }
    free(block);
    return read_bytes(file.data, file.len).last;
}

static void tables_do_not_grow_without_limit(void **state)
{
    (void)state;
    /* One of each is there already. */
    const size_t size = sizeof(PROCESS) - 1;
    assert_int_equal(read_repeated(PROCESS, size, WIRE_MAX_PROCESSES - 1), 0);
    assert_int_equal(read_repeated(PROCESS, size, WIRE_MAX_PROCESSES), -SCRY_E_NO_MEMORY);
    assert_int_equal(read_repeated(THREAD, sizeof(THREAD) - 1, WIRE_MAX_THREADS),
                     -SCRY_E_NO_MEMORY);
    /* the same string again and again */
    assert_int_equal(read_repeated("\x01\x00", 2, WIRE_MAX_STRINGS), -SCRY_E_NO_MEMORY);
}

/* ---- at random ---- */

static uint64_t random_state = 1;

static uint64_t random_below(uint64_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % n;
}

static size_t mutate(uint8_t *data, size_t len)
{
    for (uint64_t n = 1 + random_below(4); n > 0; n--) {
        size_t at = random_below(len), other = random_below(len);
        size_t run = random_below(len - (at > other ? at : other));
        switch (random_below(5)) {
        case 0:
            data[at] ^= (uint8_t)(1 << random_below(8));
            break;
        case 1:
            data[at] = (uint8_t)random_below(256);
            break;
        case 2:
            memmove(data + at, data + other, run);
            break;
        case 3:
            data[at] = 0xff;
            break;
        default:
            len = random_below(16) ? len : 1 + at;
        }
    }
    return len;
}

/* The fuzz target aborts on a broken promise; under a sanitizer also on a wrong access. */
static void random_damage_breaks_no_promise(void **state)
{
    (void)state;
    static const char seed[] = DEFINITIONS "\x01\x05"
                                           "hello" SAMPLE "\x04\x02\x00\x01" FRAME
                                           "\x05\x06\x01\x01\x01\x10\x02\x00\x06\x02\x01\x01" SAMPLE
                                           "\x8f\x00\x05\x02\x03\x07\x80\x00";
    uint8_t input[1 + sizeof(seed) - 1];
    for (int i = 0; i < 50000; i++) {
        input[0] = 1;
        memcpy(input + 1, seed, sizeof(seed) - 1);
        size_t len = mutate(input + 1, sizeof(seed) - 1);
        LLVMFuzzerTestOneInput(input, 1 + len);
    }
    uint8_t *file = malloc(1 + whole_len);
    assert_non_null(file);
    for (int i = 0; i < 2000; i++) {
        file[0] = 0;
        memcpy(file + 1, whole, whole_len);
        size_t len = mutate(file + 1, whole_len);
        LLVMFuzzerTestOneInput(file, 1 + len);
    }
    free(file);
}

/* ---- the writer is killed ---- */

/* Writes until it is killed, and tells through `ready` when `BLOCKS` blocks' worth is flushed. */
static void write_forever(FILE *out, int ready)
{
    struct rec_writer *w;
    if (rec_writer_new(out, &sample_info, &w) < 0)
        _exit(1);
    uint32_t stacks[4];
    write_definitions(w, stacks);
    for (uint32_t i = 0; i < UINT32_MAX; i++) {
        struct rec_sample s = sample_at(i, 1000, stacks);
        if (rec_writer_sample(w, &s) < 0)
            _exit(1);
        if (i == BLOCKS * PER_BLOCK - 1 && (rec_writer_flush(w) < 0 || write(ready, "", 1) != 1))
            _exit(1);
        if (i > BLOCKS * PER_BLOCK)
            pause(); /* with a sample in the open block */
    }
}

static void what_was_flushed_survives_a_kill(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    int ready[2];
    assert_non_null(file);
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(ready[0]);
        write_forever(file, ready[1]);
        _exit(1);
    }
    close(ready[1]);
    char byte;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    kill(child, SIGKILL);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));

    struct recording *r;
    assert_int_equal(recording_open_stream(file, &r, NULL), 0);
    struct rec_sample s;
    for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
        assert_int_equal(recording_next(r, &s), 1);
        assert_int_equal(s.time, samples[i].time);
        assert_int_equal(s.stack, samples[i].stack);
    }
    assert_int_equal(recording_next(r, &s), 0);
    assert_false(recording_summary(r)->complete);
    assert_false(recording_summary(r)->damaged);
    recording_close(r);
    close(ready[0]);
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cut_file_has_all_samples_of_its_whole_blocks),
        cmocka_unit_test(a_changed_byte_never_changes_a_sample),
        cmocka_unit_test(what_follows_the_end_is_not_read),
        cmocka_unit_test(what_is_no_recording_is_called_so),
        cmocka_unit_test(records_made_by_hand_are_read),
        cmocka_unit_test(references_to_what_is_not_defined_are_refused),
        cmocka_unit_test(numbers_out_of_range_are_refused),
        cmocka_unit_test(records_that_do_not_hold_together_are_refused),
        cmocka_unit_test(what_a_newer_writer_adds_is_passed_over),
        cmocka_unit_test(blocks_that_lie_about_their_size_are_refused),
        cmocka_unit_test(blocks_have_a_largest_size),
        cmocka_unit_test(bytes_that_must_be_zero_are_looked_at),
        cmocka_unit_test(compressing_must_not_make_larger),
        cmocka_unit_test(tables_do_not_grow_without_limit),
        cmocka_unit_test(random_damage_breaks_no_promise),
        cmocka_unit_test(what_was_flushed_survives_a_kill),
    };
    return cmocka_run_group_tests(tests, make_whole, free_whole);
}
