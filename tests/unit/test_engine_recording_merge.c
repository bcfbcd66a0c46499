/* Several files read as one recording. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "recording_sample.h"

#define SECOND SCRY_NSEC_PER_SEC
#define START  1700000000000000000ULL

static char folder[] = "/tmp/scry-test-merge-XXXXXX";
static char path_a[64], path_b[64];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path_a, sizeof(path_a), "%s/a.scry", folder);
    snprintf(path_b, sizeof(path_b), "%s/b.scry", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path_a);
    unlink(path_b);
    return rmdir(folder);
}

/* A process with one thread: main calls `leaf`; a sample each second, of `count`, the first at 0.
 */
static void write_file(const char *path, uint64_t start, const char *leaf, int count, bool whole)
{
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    struct rec_writer *w;
    struct rec_info info = {.command = path, .start_unix_ns = start, .rate = 1};
    assert_int_equal(rec_writer_new(out, &info, &w), 0);
    rec_writer_process(w, &(struct rec_process){.pid = 7, .command = path});
    rec_writer_thread(w, &(struct rec_thread){.tid = 7, .name = leaf});
    uint32_t f1 = rec_writer_frame(w, &(struct rec_frame){.name = "main", .line = 1});
    uint32_t f2 = rec_writer_frame(w, &(struct rec_frame){.name = leaf, .line = 2});
    uint32_t stack = rec_writer_stack(w, rec_writer_stack(w, REC_EMPTY_STACK, f1), f2);
    for (int i = 0; i < count; i++) {
        struct rec_sample s = {.time = (scry_nsec)i * SECOND, .stack = stack};
        assert_int_equal(rec_writer_sample(w, &s), 0);
    }
    struct rec_summary summary = {.duration = (scry_nsec)count * SECOND,
                                  .samples = (uint64_t)count,
                                  .torn = 1,
                                  .missed = 2,
                                  .late = 3,
                                  .errors = 4,
                                  .own_cpu = 5};
    assert_int_equal(whole ? rec_writer_finish(w, &summary) : rec_writer_flush(w), 0);
    rec_writer_free(w);
    fclose(out);
}

static struct recording *open_both(void)
{
    const char *paths[] = {path_a, path_b};
    struct recording *r = NULL;
    assert_int_equal(recording_open(paths, 2, &r, NULL), 0);
    return r;
}

static void assert_next(struct recording *r, scry_nsec time, const char *leaf)
{
    struct rec_sample s;
    assert_int_equal(recording_next(r, &s), 1);
    assert_int_equal(s.time, time);
    assert_string_equal(recording_thread(r, s.thread)->name, leaf);
    uint32_t parent, frame;
    recording_stack(r, s.stack, &parent, &frame);
    assert_string_equal(recording_frame(r, frame)->name, leaf);
    recording_stack(r, parent, &parent, &frame);
    assert_string_equal(recording_frame(r, frame)->name, "main");
    assert_int_equal(parent, REC_EMPTY_STACK);
}

static void assert_end(struct recording *r)
{
    struct rec_sample s;
    assert_int_equal(recording_next(r, &s), 0);
}

static void samples_are_in_order_of_wall_time(void **state)
{
    (void)state;
    write_file(path_a, START + SECOND / 2, "late", 2, true);
    write_file(path_b, START, "early", 3, true);
    struct recording *r = open_both();
    for (int pass = 0; pass < 2; pass++) {
        assert_next(r, 0, "early");
        assert_next(r, SECOND / 2, "late");
        assert_next(r, SECOND, "early");
        assert_next(r, SECOND * 3 / 2, "late");
        assert_next(r, SECOND * 2, "early");
        assert_end(r);
        assert_int_equal(recording_rewind(r), 0);
    }
    assert_int_equal(recording_info(r)->start_unix_ns, START);
    recording_close(r);
}

static void samples_of_one_instant_come_in_order_of_the_files(void **state)
{
    (void)state;
    write_file(path_a, START, "a", 2, true);
    write_file(path_b, START, "b", 2, true);
    struct recording *r = open_both();
    assert_next(r, 0, "a");
    assert_next(r, 0, "b");
    assert_next(r, SECOND, "a");
    assert_next(r, SECOND, "b");
    assert_end(r);
    recording_close(r);
}

static void same_frames_and_stacks_are_one(void **state)
{
    (void)state;
    write_file(path_a, START, "same", 1, true);
    write_file(path_b, START, "same", 1, true);
    struct recording *r = open_both();
    struct rec_sample a, b;
    assert_int_equal(recording_next(r, &a), 1);
    assert_int_equal(recording_next(r, &b), 1);
    assert_int_equal(a.stack, b.stack);
    assert_int_equal(recording_frame_count(r), 2);
    assert_int_equal(recording_stack_count(r), 3);
    recording_close(r);
}

static void processes_and_threads_stay_apart(void **state)
{
    (void)state;
    write_file(path_a, START, "same", 1, true);
    write_file(path_b, START, "same", 1, true);
    struct recording *r = open_both();
    struct rec_sample a, b;
    assert_int_equal(recording_next(r, &a), 1);
    assert_int_equal(recording_next(r, &b), 1);
    assert_int_not_equal(a.thread, b.thread);
    const struct rec_thread *ta = recording_thread(r, a.thread),
                            *tb = recording_thread(r, b.thread);
    assert_string_equal(recording_process(r, ta->process)->command, path_a);
    assert_string_equal(recording_process(r, tb->process)->command, path_b);
    recording_close(r);
}

static void a_file_that_does_not_know_its_start_begins_with_the_rest(void **state)
{
    (void)state;
    write_file(path_a, 0, "unknown", 1, true);
    write_file(path_b, START, "known", 1, true);
    struct recording *r = open_both();
    assert_next(r, 0, "unknown");
    assert_next(r, 0, "known");
    assert_int_equal(recording_info(r)->start_unix_ns, START);
    recording_close(r);
}

static void summaries_add_up(void **state)
{
    (void)state;
    write_file(path_a, START, "a", 2, true);
    write_file(path_b, START + 10 * SECOND, "b", 3, true);
    struct recording *r = open_both();
    struct rec_sample s;
    while (recording_next(r, &s) == 1)
        ;
    const struct rec_summary *sum = recording_summary(r);
    assert_true(sum->complete);
    assert_int_equal(sum->duration, 13 * SECOND);
    assert_int_equal(sum->samples, 5);
    assert_int_equal(sum->torn, 2);
    assert_int_equal(sum->missed, 4);
    assert_int_equal(sum->late, 6);
    assert_int_equal(sum->errors, 8);
    assert_int_equal(sum->own_cpu, 10);
    recording_close(r);
}

static void one_file_without_its_end_makes_the_whole_incomplete(void **state)
{
    (void)state;
    write_file(path_a, START, "a", 2, true);
    write_file(path_b, START, "b", 3, false);
    struct recording *r = open_both();
    struct rec_sample s;
    size_t n = 0;
    while (recording_next(r, &s) == 1)
        n++;
    assert_int_equal(n, 5);
    assert_false(recording_summary(r)->complete);
    assert_false(recording_summary(r)->damaged);
    recording_close(r);
}

static void a_bad_file_among_them_is_named(void **state)
{
    (void)state;
    write_file(path_a, START, "a", 1, true);
    FILE *out = fopen(path_b, "w");
    fputs("# not a recording, but long enough to be one", out);
    fclose(out);
    const char *paths[] = {path_a, path_b};
    struct recording *r = NULL;
    struct error err = {0};
    assert_int_equal(recording_open(paths, 2, &r, &err), -SCRY_E_BAD_FILE);
    assert_null(r);
    assert_non_null(strstr(error_text(&err), path_b));
    assert_non_null(strstr(error_text(&err), "is not a scry recording"));

    unlink(path_b);
    assert_int_equal(recording_open(paths, 2, &r, &err), -SCRY_E_IO);
    assert_non_null(strstr(error_text(&err), path_b));
    assert_non_null(strstr(error_text(&err), "No such file"));

    paths[1] = folder;
    assert_int_equal(recording_open(paths, 2, &r, &err), -SCRY_E_IO);
    assert_non_null(strstr(error_text(&err), "Is a directory"));
    assert_int_equal(recording_open(paths, 0, &r, &err), -SCRY_E_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_in_order_of_wall_time),
        cmocka_unit_test(samples_of_one_instant_come_in_order_of_the_files),
        cmocka_unit_test(same_frames_and_stacks_are_one),
        cmocka_unit_test(processes_and_threads_stay_apart),
        cmocka_unit_test(a_file_that_does_not_know_its_start_begins_with_the_rest),
        cmocka_unit_test(summaries_add_up),
        cmocka_unit_test(one_file_without_its_end_makes_the_whole_incomplete),
        cmocka_unit_test(a_bad_file_among_them_is_named),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
