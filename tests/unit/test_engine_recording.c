/* What is written is read back, from one file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "recording_sample.h"

static FILE *file;
static struct rec_writer *w;

static int set_up(void **state)
{
    (void)state;
    file = tmpfile();
    return rec_writer_new(file, &sample_info, &w);
}

static int tear_down(void **state)
{
    (void)state;
    rec_writer_free(w);
    fclose(file);
    return 0;
}

static struct recording *reread(void)
{
    struct recording *r = NULL;
    struct error err = {0};
    assert_int_equal(recording_open_stream(file, &r, &err), 0);
    return r;
}

static struct rec_sample next(struct recording *r)
{
    struct rec_sample s = {0};
    assert_int_equal(recording_next(r, &s), 1);
    return s;
}

static size_t count_samples(struct recording *r)
{
    struct rec_sample s;
    size_t n = 0;
    int result;
    while ((result = recording_next(r, &s)) == 1)
        n++;
    assert_int_equal(result, 0);
    return n;
}

static void assert_same_frame(const struct rec_frame *a, const struct rec_frame *b)
{
    assert_string_equal(a->name, b->name ? b->name : "");
    assert_string_equal(a->file, b->file ? b->file : "");
    assert_string_equal(a->short_file, b->short_file ? b->short_file : "");
    assert_string_equal(a->module, b->module ? b->module : "");
    assert_int_equal(a->line, b->line);
    assert_int_equal(a->first_line, b->first_line);
}

static void assert_same_sample(const struct rec_sample *a, const struct rec_sample *b)
{
    assert_int_equal(a->time, b->time);
    assert_int_equal(a->weight, b->weight);
    assert_int_equal(a->thread, b->thread);
    assert_int_equal(a->stack, b->stack);
    assert_int_equal(a->flags, b->flags);
}

static void an_empty_recording_keeps_its_info_and_summary(void **state)
{
    (void)state;
    assert_int_equal(rec_writer_finish(w, &sample_summary), 0);
    struct recording *r = reread();
    const struct rec_info *info = recording_info(r);
    assert_string_equal(info->command, sample_info.command);
    assert_string_equal(info->host, sample_info.host);
    assert_int_equal(info->start_unix_ns, sample_info.start_unix_ns);
    assert_true(info->rate == sample_info.rate);
    assert_int_equal(info->options, sample_info.options);
    assert_int_equal(count_samples(r), 0);
    const struct rec_summary *s = recording_summary(r);
    assert_true(s->complete && !s->damaged);
    assert_int_equal(s->duration, sample_summary.duration);
    assert_int_equal(s->samples, sample_summary.samples);
    assert_int_equal(s->torn, sample_summary.torn);
    assert_int_equal(s->missed, sample_summary.missed);
    assert_int_equal(s->late, sample_summary.late);
    assert_int_equal(s->errors, sample_summary.errors);
    assert_int_equal(s->own_cpu, sample_summary.own_cpu);
    recording_close(r);
}

static void processes_threads_and_frames_come_back_as_they_were(void **state)
{
    (void)state;
    uint32_t stacks[4];
    write_definitions(w, stacks);
    for (uint32_t i = 0; i < 5; i++)
        rec_writer_frame(w, &sample_frames[i]);
    rec_writer_finish(w, &sample_summary);

    struct recording *r = reread();
    count_samples(r);
    assert_int_equal(recording_process_count(r), 2);
    for (uint32_t i = 0; i < 2; i++) {
        const struct rec_process *p = recording_process(r, i);
        assert_int_equal(p->pid, sample_processes[i].pid);
        assert_int_equal(p->parent, sample_processes[i].parent);
        assert_string_equal(p->command, sample_processes[i].command);
        assert_string_equal(p->python, sample_processes[i].python);
    }
    assert_int_equal(recording_thread_count(r), 3);
    for (uint32_t i = 0; i < 3; i++) {
        const struct rec_thread *t = recording_thread(r, i);
        assert_int_equal(t->process, sample_threads[i].process);
        assert_int_equal(t->tid, sample_threads[i].tid);
        assert_true(t->thread_id == sample_threads[i].thread_id);
        assert_string_equal(t->name, sample_threads[i].name);
    }
    /* write_definitions() met frames 1, 2 and 3 first */
    const uint32_t order[] = {1, 2, 3, 0, 4};
    assert_int_equal(recording_frame_count(r), 5);
    for (uint32_t i = 0; i < 5; i++)
        assert_same_frame(recording_frame(r, i), &sample_frames[order[i]]);
    recording_close(r);
}

static void samples_come_back_as_they_were(void **state)
{
    (void)state;
    uint32_t stacks[4];
    write_definitions(w, stacks);
    for (uint32_t i = 0; i < 300; i++) {
        struct rec_sample s = sample_at(i, 10000000, stacks);
        assert_int_equal(rec_writer_sample(w, &s), 0);
    }
    rec_writer_finish(w, &sample_summary);

    struct recording *r = reread();
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < 300; i++) {
            struct rec_sample expected = sample_at(i, 10000000, stacks), s = next(r);
            assert_same_sample(&s, &expected);
        }
        struct rec_sample s;
        assert_int_equal(recording_next(r, &s), 0);
        assert_int_equal(recording_next(r, &s), 0);
        assert_int_equal(recording_stack_count(r), 4);
        assert_int_equal(recording_rewind(r), 0);
    }
    recording_close(r);
}

static void a_stack_leads_down_to_the_empty_one(void **state)
{
    (void)state;
    uint32_t stacks[4];
    write_definitions(w, stacks);
    rec_writer_finish(w, &sample_summary);
    struct recording *r = reread();
    count_samples(r);
    uint32_t stack = stacks[3];
    for (uint32_t i = 3; i > 0; i--) {
        uint32_t frame;
        recording_stack(r, stack, &stack, &frame);
        assert_same_frame(recording_frame(r, frame), &sample_frames[i]);
        assert_int_equal(stack, stacks[i - 1]);
    }
    assert_int_equal(stack, REC_EMPTY_STACK);
    recording_close(r);
}

static void the_same_content_gets_the_same_number(void **state)
{
    (void)state;
    uint32_t first[4], again[4];
    write_definitions(w, first);
    write_definitions(w, again);
    assert_memory_equal(first, again, sizeof(first));
    struct rec_frame frame = sample_frames[0];
    uint32_t a = rec_writer_frame(w, &frame);
    frame.line++;
    assert_int_not_equal(rec_writer_frame(w, &frame), a);
    struct rec_process process = sample_processes[0];
    process.command = "another that got the same pid";
    assert_int_equal(rec_writer_process(w, &process), 2);
}

static void a_thread_may_get_another_name(void **state)
{
    (void)state;
    uint32_t stacks[4];
    write_definitions(w, stacks);
    struct rec_sample s = {.time = 1, .thread = 1};
    rec_writer_sample(w, &s);
    struct rec_thread thread = sample_threads[1];
    thread.name = "worker";
    assert_int_equal(rec_writer_thread(w, &thread), 1);
    s.time = 2;
    rec_writer_sample(w, &s);
    thread.name = "worker-2";
    rec_writer_thread(w, &thread);
    rec_writer_finish(w, &sample_summary);

    struct recording *r = reread();
    next(r);
    assert_string_equal(recording_thread(r, 1)->name, "");
    next(r);
    assert_string_equal(recording_thread(r, 1)->name, "worker");
    count_samples(r);
    assert_string_equal(recording_thread(r, 1)->name, "worker-2");
    assert_int_equal(recording_thread_count(r), 3);
    recording_rewind(r);
    next(r);
    assert_string_equal(recording_thread(r, 1)->name, "worker-2");
    recording_close(r);
}

static void pointers_hold_while_more_is_read(void **state)
{
    (void)state;
    uint32_t stacks[4];
    write_definitions(w, stacks);
    struct rec_sample s = {.time = 1, .stack = stacks[1]};
    rec_writer_sample(w, &s);
    char name[32];
    for (int i = 0; i < 5000; i++) {
        snprintf(name, sizeof(name), "f%d", i);
        rec_writer_frame(w, &(struct rec_frame){.name = name});
    }
    rec_writer_finish(w, &sample_summary);

    struct recording *r = reread();
    next(r);
    const struct rec_frame *frame = recording_frame(r, 0);
    const char *text = frame->name;
    count_samples(r);
    assert_int_equal(recording_frame_count(r), 5003);
    assert_string_equal(recording_frame(r, 5002)->name, "f4999");
    assert_ptr_equal(frame, recording_frame(r, 0));
    assert_ptr_equal(text, recording_frame(r, 0)->name);
    assert_string_equal(text, "Work.run");
    recording_close(r);
}

static void a_recording_of_many_blocks_is_whole(void **state)
{
    (void)state;
    uint32_t stacks[4];
    write_definitions(w, stacks);
    uint32_t deep = REC_EMPTY_STACK;
    char name[32];
    for (uint32_t i = 0; i < 100000; i++) {
        snprintf(name, sizeof(name), "f%u", i % 7000 * 7919);
        deep = rec_writer_stack(w, deep, rec_writer_frame(w, &(struct rec_frame){.name = name}));
        struct rec_sample s = {
            .time = i * 1000ULL, .weight = i % 1000, .thread = i % 3, .stack = deep};
        assert_int_equal(rec_writer_sample(w, &s), 0);
    }
    rec_writer_finish(w, &sample_summary);

    struct recording *r = reread();
    for (uint32_t i = 0; i < 100000; i++) {
        struct rec_sample s = next(r);
        assert_int_equal(s.time, i * 1000ULL);
        uint32_t parent, frame;
        recording_stack(r, s.stack, &parent, &frame);
        snprintf(name, sizeof(name), "f%u", i % 7000 * 7919);
        assert_string_equal(recording_frame(r, frame)->name, name);
    }
    assert_int_equal(count_samples(r), 0);
    assert_true(recording_summary(r)->complete);
    recording_close(r);
}

static void long_strings_are_cut_between_characters(void **state)
{
    (void)state;
    char *text = malloc(200001);
    for (size_t i = 0; i < 200000; i += 2)
        memcpy(text + i, "\xc3\xa9", 2);
    text[200000] = '\0';
    rec_writer_frame(w, &(struct rec_frame){.name = text});
    rec_writer_frame(w, &(struct rec_frame){.name = "after"});
    rec_writer_finish(w, &sample_summary);
    struct recording *r = reread();
    count_samples(r);
    assert_int_equal(strlen(recording_frame(r, 0)->name), 65534);
    assert_memory_equal(recording_frame(r, 0)->name, text, 65534);
    assert_string_equal(recording_frame(r, 1)->name, "after");
    recording_close(r);
    free(text);
}

static void strings_that_are_not_utf8_are_mended(void **state)
{
    (void)state;
    rec_writer_frame(w, &(struct rec_frame){.name = "a\xff"
                                                    "b\xed\xa0\x80"});
    rec_writer_finish(w, &sample_summary);
    struct recording *r = reread();
    count_samples(r);
    assert_string_equal(recording_frame(r, 0)->name, "a\xef\xbf\xbd"
                                                     "b\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    recording_close(r);
}

static void what_was_never_defined_is_refused(void **state)
{
    (void)state;
    uint32_t stacks[4];
    write_definitions(w, stacks);
    struct rec_sample s = {.time = 10};
    assert_int_equal(rec_writer_sample(w, &s), 0);
    s.time = 9;
    assert_int_equal(rec_writer_sample(w, &s), -SCRY_E_INTERNAL);
    s = (struct rec_sample){.time = 10, .thread = 3};
    assert_int_equal(rec_writer_sample(w, &s), -SCRY_E_INTERNAL);
    s = (struct rec_sample){.time = 10, .stack = 4};
    assert_int_equal(rec_writer_sample(w, &s), -SCRY_E_INTERNAL);
    assert_int_equal(rec_writer_stack(w, 4, 0), UINT32_MAX);
    assert_int_equal(rec_writer_stack(w, 0, 3), UINT32_MAX);
    assert_int_equal(rec_writer_thread(w, &(struct rec_thread){.process = 2}), UINT32_MAX);
}

static void a_weight_does_not_reach_back_before_the_start(void **state)
{
    (void)state;
    uint32_t stacks[4];
    write_definitions(w, stacks);
    struct rec_sample s = {.time = 10, .weight = 1000};
    rec_writer_sample(w, &s);
    rec_writer_finish(w, &sample_summary);
    struct recording *r = reread();
    assert_int_equal(next(r).weight, 10);
    recording_close(r);
}

static void a_block_is_closed_after_a_second(void **state)
{
    (void)state;
    uint32_t stacks[4];
    write_definitions(w, stacks);
    for (int i = 0; i <= 12; i++) {
        struct rec_sample s = {.time = (scry_nsec)i * SCRY_NSEC_PER_SEC / 10};
        rec_writer_sample(w, &s);
    }
    struct recording *r = reread(); /* though nothing was flushed */
    assert_int_equal(count_samples(r), 10);
    recording_close(r);
}

/* The example of docs/format.md, byte for byte. */
static const unsigned char documented[] = {
    0x89, 0x53, 0x43, 0x52, 0x59, 0x0d, 0x0a, 0x1a, 0x01, 0x00, 0x00, 0x00, 0x49, 0x00, 0x00,
    0x00, 0x12, 0x00, 0x00, 0x00, 0x12, 0x00, 0x00, 0x00, 0x5a, 0x13, 0x46, 0x8b, 0x01, 0x80,
    0x80, 0x80, 0x80, 0x80, 0x80, 0xc0, 0xac, 0x40, 0x00, 0x04, 0x73, 0x63, 0x72, 0x79, 0x01,
    0x68, 0x44, 0x00, 0x00, 0x00, 0x2e, 0x00, 0x00, 0x00, 0x2e, 0x00, 0x00, 0x00, 0x5a, 0x34,
    0x82, 0xed, 0x01, 0x06, 0x33, 0x2e, 0x31, 0x33, 0x2e, 0x30, 0x02, 0x04, 0x54, 0x00, 0x00,
    0x01, 0x03, 0x04, 0x00, 0x54, 0x07, 0x00, 0x01, 0x01, 0x66, 0x01, 0x04, 0x61, 0x2e, 0x70,
    0x79, 0x05, 0x06, 0x02, 0x03, 0x03, 0x06, 0x02, 0x00, 0x06, 0x02, 0x01, 0x00, 0x9b, 0x00,
    0x01, 0x01, 0x01, 0x45, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00,
    0xca, 0xd1, 0x76, 0x3a, 0xe8, 0x07, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00,
};

static void the_documented_example_is_what_is_written(void **state)
{
    (void)state;
    FILE *out = tmpfile();
    struct rec_writer *example;
    struct rec_info info = {.command = "scry", .host = "h", .start_unix_ns = 1, .rate = 100};
    assert_int_equal(rec_writer_new(out, &info, &example), 0);
    rec_writer_process(example, &(struct rec_process){.pid = 42, .python = "3.13.0"});
    rec_writer_thread(example, &(struct rec_thread){.tid = 42, .thread_id = 7});
    struct rec_frame f = {
        .name = "f", .file = "a.py", .short_file = "a.py", .line = 3, .first_line = 1};
    uint32_t stack = rec_writer_stack(example, REC_EMPTY_STACK, rec_writer_frame(example, &f));
    struct rec_sample s = {.time = 1000, .weight = 1000, .stack = stack, .flags = REC_ACTIVE};
    rec_writer_sample(example, &s);
    rec_writer_finish(example, &(struct rec_summary){.duration = 1000, .samples = 1});
    rec_writer_free(example);

    unsigned char bytes[sizeof(documented) + 1];
    rewind(out);
    assert_int_equal(fread(bytes, 1, sizeof(bytes), out), sizeof(documented));
    assert_memory_equal(bytes, documented, sizeof(documented));
    fclose(out);
}

static void a_full_disk_is_reported(void **state)
{
    (void)state;
    FILE *full = fopen("/dev/full", "w");
    assert_non_null(full);
    struct rec_writer *to_full = NULL;
    assert_int_equal(rec_writer_new(full, &sample_info, &to_full), -SCRY_E_OUTPUT);
    assert_null(to_full);
    fclose(full);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_empty_recording_keeps_its_info_and_summary),
        TEST(processes_threads_and_frames_come_back_as_they_were),
        TEST(samples_come_back_as_they_were),
        TEST(a_stack_leads_down_to_the_empty_one),
        TEST(the_same_content_gets_the_same_number),
        TEST(a_thread_may_get_another_name),
        TEST(pointers_hold_while_more_is_read),
        TEST(a_recording_of_many_blocks_is_whole),
        TEST(long_strings_are_cut_between_characters),
        TEST(strings_that_are_not_utf8_are_mended),
        TEST(what_was_never_defined_is_refused),
        TEST(a_weight_does_not_reach_back_before_the_start),
        TEST(a_block_is_closed_after_a_second),
        TEST(the_documented_example_is_what_is_written),
        TEST(a_full_disk_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
