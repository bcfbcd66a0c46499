/* The formats over recordings made on the spot: what golden files show badly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "format/format.h"
#include "format/tracks.h"

#define MS 1000000ULL

struct fixture {
    FILE *file;
    struct rec_writer *w;
    struct recording *r;
    char *text;
    size_t length;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    f->file = tmpfile();
    *state = f;
    return rec_writer_new(f->file, &(struct rec_info){.rate = 100}, &f->w);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    recording_close(f->r);
    rec_writer_free(f->w);
    fclose(f->file);
    free(f->text);
    free(f);
    return 0;
}

static uint32_t process(struct fixture *f, int pid, int parent)
{
    return rec_writer_process(
        f->w, &(struct rec_process){.pid = pid, .parent = parent, .command = "p", .python = ""});
}

static uint32_t thread(struct fixture *f, uint32_t of, int64_t tid, uint64_t id, const char *name)
{
    return rec_writer_thread(
        f->w, &(struct rec_thread){.process = of, .tid = tid, .thread_id = id, .name = name});
}

static uint32_t call(struct fixture *f, uint32_t parent, const char *name)
{
    return rec_writer_stack(
        f->w, parent,
        rec_writer_frame(
            f->w, &(struct rec_frame){.name = name, .file = "", .short_file = "", .module = ""}));
}

static void sample(struct fixture *f, uint64_t ms, uint32_t of, uint32_t stack)
{
    struct rec_sample s = {.time = ms * MS, .weight = 10 * MS, .thread = of, .stack = stack};
    assert_int_equal(rec_writer_sample(f->w, &s), 0);
}

static void open_recording(struct fixture *f)
{
    struct error err = {0};
    assert_int_equal(rec_writer_finish(f->w, &(struct rec_summary){0}), 0);
    assert_int_equal(recording_open_stream(f->file, &f->r, &err), 0);
}

static const char *written(struct fixture *f, const char *format, struct format_options options)
{
    struct error err = {0};
    free(f->text);
    f->text = NULL;
    FILE *out = open_memstream(&f->text, &f->length);
    options.title = "";
    options.tool = "scry";
    assert_int_equal(format_find(format)->write(f->r, &options, out, &err), 0);
    fclose(out);
    return f->text;
}

static void lines_are_sorted_by_bytes_even_if_a_label_begins_with_another(void **state)
{
    struct fixture *f = *state;
    uint32_t main = thread(f, process(f, 1, 0), 1, 1, "");
    static const char *const names[] = {"a", "a 5", "a!", "a(", "aa", "a;b"};
    uint64_t ms = 10;
    for (size_t i = 0; i < ARRAY_LEN(names); i++, ms += 10) {
        uint32_t top = call(f, REC_EMPTY_STACK, names[i]);
        sample(f, ms, main, top);
        sample(f, ms, main, call(f, top, "x"));
    }
    open_recording(f);
    /* The blank before a count (0x20) sorts before everything, `;` (0x3b) after digits and
     * brackets. */
    assert_string_equal(written(f, "raw", (struct format_options){0}), "a 1\n"
                                                                       "a 5 1\n"
                                                                       "a 5;x 1\n"
                                                                       "a! 1\n"
                                                                       "a!;x 1\n"
                                                                       "a( 1\n"
                                                                       "a(;x 1\n"
                                                                       "a:b 1\n"
                                                                       "a:b;x 1\n"
                                                                       "a;x 1\n"
                                                                       "aa 1\n"
                                                                       "aa;x 1\n");
}

static void a_thread_named_late_is_one_thread(void **state)
{
    struct fixture *f = *state;
    uint32_t p = process(f, 1, 0);
    uint32_t s = call(f, REC_EMPTY_STACK, "f");
    sample(f, 10, thread(f, p, 5, 50, ""), s);
    sample(f, 20, thread(f, p, 5, 50, "named"), s);
    sample(f, 30, thread(f, p, 5, 51, ""), s);
    sample(f, 30, thread(f, p, 0, 60, "no tid"), s);
    sample(f, 30, thread(f, p, 0, 61, "no tid"), s);
    open_recording(f);
    assert_string_equal(written(f, "raw", (struct format_options){.threads = true}),
                        "thread (0x3C): no tid;f 1\n"
                        "thread (0x3D): no tid;f 1\n"
                        "thread (5): named;f 3\n");
}

static void tracks_say_what_their_samples_cover(void **state)
{
    struct fixture *f = *state;
    uint32_t p = process(f, 1, 0);
    uint32_t late = thread(f, p, 9, 9, "late"), main = thread(f, p, 1, 1, "main");
    thread(f, p, 7, 7, "never seen");
    sample(f, 40, main, REC_EMPTY_STACK);
    sample(f, 80, late, REC_EMPTY_STACK);
    sample(f, 90, main, REC_EMPTY_STACK);
    open_recording(f);
    struct tracks t;
    assert_int_equal(tracks_read(&t, f->r, NULL), 0);
    assert_int_equal(t.count, 2);
    assert_string_equal(t.items[0].name, "main");
    assert_int_equal(t.items[0].first, 30 * MS);
    assert_int_equal(t.items[0].last, 90 * MS);
    assert_int_equal(t.items[0].samples, 2);
    assert_int_equal(t.of_thread[late], 1);
    tracks_done(&t);
}

static void a_circle_of_parents_ends(void **state)
{
    struct fixture *f = *state;
    uint32_t a = process(f, 10, 20);
    process(f, 20, 10);
    sample(f, 10, thread(f, a, 10, 1, ""), call(f, REC_EMPTY_STACK, "f"));
    open_recording(f);
    const char *text = written(f, "raw", (struct format_options){.processes = true});
    assert_non_null(strstr(text, "process 20:\"p\";process 10:\"p\";f 1\n"));
}

static void a_thread_without_frames_makes_no_line(void **state)
{
    struct fixture *f = *state;
    sample(f, 10, thread(f, process(f, 1, 0), 1, 1, "idle"), REC_EMPTY_STACK);
    open_recording(f);
    assert_string_equal(
        written(f, "raw", (struct format_options){.threads = true, .processes = true}), "");
    assert_non_null(strstr(written(f, "flamegraph", (struct format_options){0}), "--idle"));
}

static void formats_are_found_whatever_the_case(void **state)
{
    (void)state;
    assert_ptr_equal(format_find("FlameGraph"), &formats[0]);
    assert_null(format_find("flame"));
    assert_null(format_find(""));
}

static void a_full_disk_is_an_error(void **state)
{
    struct fixture *f = *state;
    sample(f, 10, thread(f, process(f, 1, 0), 1, 1, ""), call(f, REC_EMPTY_STACK, "f"));
    open_recording(f);
    struct format_options options = {.title = "", .tool = "scry"};
    for (const struct format *format = formats; format->name; format++) {
        FILE *full = fopen("/dev/full", "w");
        struct error err = {0};
        assert_int_equal(format->write(f->r, &options, full, &err), -SCRY_E_OUTPUT);
        fclose(full);
    }
}

/* Two hosts may each have a process 7 with a thread 7: their slices must not share a track. */
static void merged_processes_with_one_pid_stay_apart(void **state)
{
    struct fixture *f = *state;
    char paths[2][40] = {"/tmp/scry-merge-XXXXXX", "/tmp/scry-merge-XXXXXX"};
    for (int i = 0; i < 2; i++) {
        struct fixture one = {.file = fdopen(mkstemp(paths[i]), "w")};
        rec_writer_new(one.file, &(struct rec_info){.start_unix_ns = 1, .rate = 100}, &one.w);
        sample(&one, 20, thread(&one, process(&one, 7, 0), 7, 7, ""),
               call(&one, REC_EMPTY_STACK, i ? "second" : "first"));
        rec_writer_finish(one.w, &(struct rec_summary){0});
        rec_writer_free(one.w);
        fclose(one.file);
    }
    const char *both[] = {paths[0], paths[1]};
    int opened = recording_open(both, 2, &f->r, NULL);
    unlink(paths[0]);
    unlink(paths[1]);
    assert_int_equal(opened, 0);
    const char *text = written(f, "chrometrace", (struct format_options){0});
    assert_non_null(strstr(text, "\"name\":\"first\",\"ph\":\"B\",\"pid\":7,"));
    assert_non_null(strstr(text, "\"name\":\"second\",\"ph\":\"B\",\"pid\":4194305,"));
    assert_non_null(strstr(text, "p (pid 7)"));
}

/* A file that is longer each time it is read from its start, as while scry still writes it. */
struct growing {
    const char *data;
    size_t length, step, visible, at;
};

static ssize_t growing_read(void *cookie, char *to, size_t n)
{
    struct growing *g = cookie;
    size_t left = g->visible > g->at ? g->visible - g->at : 0;
    n = n < left ? n : left;
    memcpy(to, g->data + g->at, n);
    g->at += n;
    return (ssize_t)n;
}

static int growing_seek(void *cookie, off64_t *offset, int whence)
{
    struct growing *g = cookie;
    if (whence == SEEK_END)
        return -1;
    g->at = (size_t)(whence == SEEK_CUR ? (off64_t)g->at + *offset : *offset);
    *offset = (off64_t)g->at;
    if (g->at < 64) { /* back to the start: the first block has come again */
        g->visible += g->step;
        g->visible = g->visible < g->length ? g->visible : g->length;
    }
    return 0;
}

static void write_growing(const struct format *format, const char *data, size_t length, size_t step)
{
    struct growing g = {.data = data, .length = length, .step = step, .visible = step};
    FILE *in =
        fopencookie(&g, "r", (cookie_io_functions_t){.read = growing_read, .seek = growing_seek});
    FILE *out = fopen("/dev/null", "w");
    struct format_options options = {
        .title = "", .tool = "scry", .threads = true, .processes = true};
    struct recording *r;
    if (recording_open_stream(in, &r, NULL) == 0) {
        format->write(r, &options, out, NULL);
        recording_close(r);
    }
    fclose(in);
    fclose(out);
}

static void a_recording_may_grow_while_it_is_read(void **state)
{
    struct fixture *f = *state;
    char name[32];
    /* Each block brings new processes, threads and frames. */
    for (int i = 1; i <= 200; i++) {
        snprintf(name, sizeof(name), "f%d", i);
        uint32_t of = thread(f, process(f, i, 0), i, (uint64_t)i, name);
        sample(f, (uint64_t)i * 10, of, call(f, REC_EMPTY_STACK, name));
        rec_writer_flush(f->w);
    }
    rec_writer_finish(f->w, &(struct rec_summary){0});
    fflush(f->file);
    long length = ftell(f->file);
    char *data = malloc((size_t)length);
    rewind(f->file);
    assert_int_equal(fread(data, 1, (size_t)length, f->file), length);
    for (const struct format *format = formats; format->name; format++)
        for (size_t step = 500; step < (size_t)length; step += 777)
            write_growing(format, data, (size_t)length, step);
    free(data);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(lines_are_sorted_by_bytes_even_if_a_label_begins_with_another),
        TEST(a_thread_named_late_is_one_thread),
        TEST(tracks_say_what_their_samples_cover),
        TEST(a_circle_of_parents_ends),
        TEST(a_thread_without_frames_makes_no_line),
        TEST(a_full_disk_is_an_error),
        TEST(merged_processes_with_one_pid_stay_apart),
        TEST(a_recording_may_grow_while_it_is_read),
        cmocka_unit_test(formats_are_found_whatever_the_case),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
