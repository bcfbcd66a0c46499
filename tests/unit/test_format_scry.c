/* A recording written again says the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "format/format.h"
#include "recording_sample.h"

static const struct format_options options = {.title = "", .tool = "scry"};

struct bytes {
    char *data;
    size_t len;
};

/* A recording in which thread 1 is renamed between samples, and once more after the last. */
static void write_sample(FILE *out, bool whole)
{
    struct rec_writer *w;
    assert_int_equal(rec_writer_new(out, &sample_info, &w), 0);
    uint32_t stacks[4];
    write_definitions(w, stacks);
    struct rec_thread thread = sample_threads[1];
    for (uint32_t i = 0; i < 300; i++) {
        struct rec_sample s = sample_at(i, 1000000, stacks);
        assert_int_equal(rec_writer_sample(w, &s), 0);
        thread.name = i == 100 ? "later" : i == 299 ? "last" : NULL;
        if (thread.name)
            rec_writer_thread(w, &thread);
    }
    assert_int_equal(whole ? rec_writer_finish(w, &sample_summary) : rec_writer_flush(w), 0);
    rec_writer_free(w);
}

static struct bytes rewritten(struct recording *r)
{
    struct bytes b = {0};
    FILE *out = open_memstream(&b.data, &b.len);
    assert_int_equal(format_find("scry")->write(r, &options, out, NULL), 0);
    fclose(out);
    return b;
}

static struct bytes original(bool whole)
{
    struct bytes b = {0};
    FILE *out = open_memstream(&b.data, &b.len);
    write_sample(out, whole);
    fclose(out);
    return b;
}

static struct recording *open_bytes(const struct bytes *b, FILE **ret_in)
{
    struct recording *r = NULL;
    *ret_in = fmemopen(b->data, b->len, "rb");
    assert_int_equal(recording_open_stream(*ret_in, &r, NULL), 0);
    return r;
}

static void assert_same_recording(struct recording *a, struct recording *b)
{
    struct rec_sample x, y;
    int more;
    while ((more = recording_next(a, &x)) == 1) {
        assert_int_equal(recording_next(b, &y), 1);
        assert_true(x.time == y.time && x.weight == y.weight && x.thread == y.thread &&
                    x.stack == y.stack && x.flags == y.flags);
        assert_string_equal(recording_thread(a, x.thread)->name,
                            recording_thread(b, y.thread)->name);
    }
    assert_int_equal(more, 0);
    assert_int_equal(recording_next(b, &y), 0);
    assert_string_equal(recording_thread(a, 1)->name, recording_thread(b, 1)->name);
    const struct rec_summary *s = recording_summary(a), *t = recording_summary(b);
    assert_true(s->complete == t->complete && s->damaged == t->damaged);
    assert_true(s->duration == t->duration && s->samples == t->samples && s->torn == t->torn &&
                s->missed == t->missed && s->late == t->late && s->errors == t->errors &&
                s->own_cpu == t->own_cpu);
    assert_int_equal(recording_stack_count(a), recording_stack_count(b));
    assert_string_equal(recording_info(a)->command, recording_info(b)->command);
    assert_int_equal(recording_info(a)->start_unix_ns, recording_info(b)->start_unix_ns);
}

static void check_again(bool whole)
{
    struct bytes first = original(whole);
    FILE *in_first, *in_again;
    struct recording *r = open_bytes(&first, &in_first);
    struct bytes again = rewritten(r);
    recording_close(r);
    fclose(in_first);

    r = open_bytes(&first, &in_first);
    struct recording *r_again = open_bytes(&again, &in_again);
    assert_same_recording(r, r_again);
    assert_int_equal(recording_summary(r_again)->complete, whole);
    recording_close(r);
    recording_close(r_again);
    fclose(in_first);
    fclose(in_again);
    free(first.data);
    free(again.data);
}

static void a_recording_written_again_says_the_same(void **state)
{
    (void)state;
    check_again(true);
}

static void one_without_its_end_is_not_given_one(void **state)
{
    (void)state;
    check_again(false);
}

static void what_is_alike_in_two_files_stays_apart(void **state)
{
    (void)state;
    char path[] = "/tmp/scry-test-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w");
    write_sample(file, true);
    fclose(file);
    const char *both[] = {path, path};
    struct recording *r;
    assert_int_equal(recording_open(both, 2, &r, NULL), 0);
    struct bytes merged = rewritten(r);
    recording_close(r);
    unlink(path);

    FILE *in;
    r = open_bytes(&merged, &in);
    struct rec_sample s;
    size_t n = 0;
    while (recording_next(r, &s) == 1)
        n++;
    assert_int_equal(n, 600);
    assert_int_equal(recording_process_count(r), 4);
    assert_int_equal(recording_thread_count(r), 6);
    assert_int_equal(recording_frame_count(r), 3);
    assert_int_equal(recording_stack_count(r), 4);
    recording_close(r);
    fclose(in);
    free(merged.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_recording_written_again_says_the_same),
        cmocka_unit_test(one_without_its_end_is_not_given_one),
        cmocka_unit_test(what_is_alike_in_two_files_stays_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
