/* Two recordings compared: figures, noise, functions, and both ways to draw it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "format/diff.h"

#define MS 1000000ULL

/* Samples that end in the last of `path`, names separated by blanks. */
struct share {
    const char *path;
    unsigned samples;
    unsigned weight_ms; /* 0 = 10 */
};

struct side {
    FILE *file;
    struct rec_writer *w;
    struct recording *r;
    uint32_t thread;
    uint64_t ms;
};

struct fixture {
    struct side sides[2];
    struct diff d;
    struct diff_options options;
    struct diff_function *functions;
    size_t count;
    char *svg;
};

static void side_init(struct side *s, const char *thread)
{
    s->file = tmpfile();
    assert_int_equal(rec_writer_new(s->file, &(struct rec_info){.rate = 100}, &s->w), 0);
    uint32_t process = rec_writer_process(
        s->w, &(struct rec_process){.pid = 7, .command = "python app.py", .python = "3.13.0"});
    s->thread =
        rec_writer_thread(s->w, &(struct rec_thread){.process = process, .tid = 7, .name = thread});
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    f->options = (struct diff_options){.view = {.lines = LINES_NONE, .title = "", .tool = "scry"},
                                       .widths = DIFF_AFTER,
                                       .names = {"old.scry", "new.scry"}};
    side_init(&f->sides[0], "MainThread");
    side_init(&f->sides[1], "MainThread");
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    diff_done(&f->d);
    for (size_t i = 0; i < 2; i++) {
        recording_close(f->sides[i].r);
        rec_writer_free(f->sides[i].w);
        fclose(f->sides[i].file);
    }
    free(f->functions);
    free(f->svg);
    free(f);
    return 0;
}

static uint32_t stack_of(struct side *s, const char *path, int line)
{
    char text[256];
    snprintf(text, sizeof(text), "%s", path);
    uint32_t stack = REC_EMPTY_STACK;
    char *rest = NULL;
    for (char *name = strtok_r(text, " ", &rest); name; name = strtok_r(NULL, " ", &rest))
        stack = rec_writer_stack(s->w, stack,
                                 rec_writer_frame(s->w, &(struct rec_frame){.name = name,
                                                                            .file = "/srv/app.py",
                                                                            .short_file = "app.py",
                                                                            .line = line,
                                                                            .first_line = line - 1,
                                                                            .module = ""}));
    return stack;
}

/* The line differs from side to side, as it does when a file was edited. */
static void record(struct fixture *f, enum diff_moment moment, const struct share *shares)
{
    struct side *s = &f->sides[moment];
    for (; shares->path; shares++) {
        uint32_t stack = stack_of(s, shares->path, moment == DIFF_BEFORE ? 10 : 20);
        unsigned weight = shares->weight_ms ? shares->weight_ms : 10;
        for (unsigned i = 0; i < shares->samples; i++) {
            s->ms += weight;
            struct rec_sample sample = {
                .time = s->ms * MS, .weight = weight * MS, .thread = s->thread, .stack = stack};
            assert_int_equal(rec_writer_sample(s->w, &sample), 0);
        }
    }
}

static void compare_over(struct fixture *f, uint64_t before_ms, uint64_t after_ms)
{
    struct error err = {0};
    struct recording *recordings[2];
    const uint64_t durations[2] = {before_ms, after_ms};
    for (size_t i = 0; i < 2; i++) {
        struct side *s = &f->sides[i];
        assert_int_equal(
            rec_writer_finish(s->w, &(struct rec_summary){.duration = durations[i] * MS}), 0);
        assert_int_equal(recording_open_stream(s->file, &s->r, &err), 0);
        recordings[i] = s->r;
    }
    assert_int_equal(diff_read(&f->d, recordings, &f->options, &err), 0);
    assert_int_equal(diff_functions(&f->d, &f->functions, &f->count, &err), 0);
}

static void compare(struct fixture *f)
{
    compare_over(f, f->sides[0].ms, f->sides[1].ms);
}

static const struct diff_function *function(const struct fixture *f, const char *label)
{
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(interner_get(&f->d.tree.texts, f->functions[i].label, NULL), label) == 0)
            return &f->functions[i];
    fail_msg("there is no %s", label);
    return NULL;
}

static const char *drawn(struct fixture *f)
{
    struct error err = {0};
    size_t length;
    FILE *out = open_memstream(&f->svg, &length);
    assert_int_equal(flamegraph_diff_write(&f->d, &f->options, out, &err), 0);
    fclose(out);
    return f->svg;
}

/* The title of the first box of a function within one view; "" if it is not drawn there. */
static void title_in(const char *svg, const char *view, const char *name, char title[static 256])
{
    char id[64], start[64];
    snprintf(id, sizeof(id), "<svg class=\"frames\" id=\"frames-%s\"", view);
    snprintf(start, sizeof(start), "<title>%s (", name);
    const char *from = strstr(svg, id);
    assert_non_null(from);
    const char *end = strstr(from, "</svg>"), *at = strstr(from, start);
    title[0] = '\0';
    if (!at || at > end)
        return;
    at += strlen("<title>");
    snprintf(title, 256, "%.*s", (int)(strstr(at, "</title>") - at), at);
}

static void near(double a, double b)
{
    if (fabs(a - b) > 1e-9)
        fail_msg("%.12g is not %.12g", a, b);
}

/* ---- figures ---- */

static void test_shares_of_runs_of_different_length(void **state)
{
    struct fixture *f = *state;
    record(f, DIFF_BEFORE, (struct share[]){{"main parse", 100, 0}, {"main load", 300, 0}, {0}});
    record(f, DIFF_AFTER, (struct share[]){{"main parse", 100, 0}, {"main load", 100, 0}, {0}});
    compare(f);
    const struct diff_function *parse = function(f, "parse (app.py)");
    near(parse->own.before, 0.25);
    near(parse->own.after, 0.5);
    assert_int_equal(parse->own.before_samples, 100);
    assert_int_equal(parse->own.after_samples, 100);
    const struct diff_function *top = function(f, "main (app.py)");
    near(top->own.before, 0);
    near(top->total.before, 1);
    near(top->total.after, 1);
}

static void test_functions_match_although_lines_moved(void **state)
{
    struct fixture *f = *state;
    record(f, DIFF_BEFORE, (struct share[]){{"main", 10, 0}, {0}});
    record(f, DIFF_AFTER, (struct share[]){{"main", 10, 0}, {0}});
    compare(f);
    assert_int_equal(f->count, 1);
    near(f->functions[0].own.before, f->functions[0].own.after);
}

static void test_lines_are_told_apart_when_asked(void **state)
{
    struct fixture *f = *state;
    f->options.view.lines = LINES_EXACT;
    record(f, DIFF_BEFORE, (struct share[]){{"main", 10, 0}, {0}});
    record(f, DIFF_AFTER, (struct share[]){{"main", 10, 0}, {0}});
    compare(f);
    assert_int_equal(f->count, 2);
    near(function(f, "main (app.py:10)")->own.after, 0);
    near(function(f, "main (app.py:20)")->own.before, 0);
}

static void test_by_time_sees_more_of_everything(void **state)
{
    struct fixture *f = *state;
    f->options.by = DIFF_BY_TIME;
    record(f, DIFF_BEFORE, (struct share[]){{"main", 100, 0}, {0}});
    record(f, DIFF_AFTER, (struct share[]){{"main", 300, 0}, {0}});
    compare_over(f, 10000, 6000);
    near(f->functions[0].own.before, 0.1); /* 1 s of 10 s */
    near(f->functions[0].own.after, 0.5);  /* 3 s of 6 s */
    assert_false(diff_is_noise(&f->functions[0].own));
}

static void test_by_time_takes_weights_not_counts(void **state)
{
    struct fixture *f = *state;
    f->options.by = DIFF_BY_TIME;
    record(f, DIFF_BEFORE, (struct share[]){{"main", 100, 10}, {0}});
    record(f, DIFF_AFTER, (struct share[]){{"main", 1000, 1}, {0}});
    compare(f);
    near(f->functions[0].own.before, 1);
    near(f->functions[0].own.after, 1);
    near(f->functions[0].own.sigmas, 0);
}

static void test_recursion_counts_once_in_the_total(void **state)
{
    struct fixture *f = *state;
    record(f, DIFF_BEFORE, (struct share[]){{"main down down down", 10, 0}, {"main", 10, 0}, {0}});
    record(f, DIFF_AFTER, (struct share[]){{"main down leaf down", 15, 0}, {"main", 5, 0}, {0}});
    compare(f);
    const struct diff_function *down = function(f, "down (app.py)");
    near(down->total.before, 0.5);
    near(down->total.after, 0.75);
    near(down->own.before, 0.5);
    near(down->own.after, 0.75);
    near(function(f, "leaf (app.py)")->total.after, 0.75);
}

static void test_greatest_change_first(void **state)
{
    struct fixture *f = *state;
    record(f, DIFF_BEFORE, (struct share[]){{"a", 10, 0}, {"b", 40, 0}, {"c", 50, 0}, {0}});
    record(f, DIFF_AFTER,
           (struct share[]){{"a", 30, 0}, {"b", 15, 0}, {"c", 50, 0}, {"e", 5, 0}, {0}});
    compare(f);
    const char *const expected[] = {"b (app.py)", "a (app.py)", "e (app.py)", "c (app.py)"};
    assert_int_equal(f->count, ARRAY_LEN(expected));
    for (size_t i = 0; i < f->count; i++)
        assert_string_equal(interner_get(&f->d.tree.texts, f->functions[i].label, NULL),
                            expected[i]);
}

static void test_an_empty_side(void **state)
{
    struct fixture *f = *state;
    record(f, DIFF_AFTER, (struct share[]){{"main", 10, 0}, {0}});
    compare(f);
    near(f->functions[0].own.before, 0);
    near(f->functions[0].own.after, 1);
    assert_true(diff_is_noise(&f->functions[0].own)); /* of nothing nothing follows */
    assert_non_null(strstr(drawn(f), "id=\"frames-after\""));
    assert_null(strstr(f->svg, "id=\"frames-before\""));
}

static void test_two_empty_sides(void **state)
{
    struct fixture *f = *state;
    compare(f);
    assert_int_equal(f->count, 0);
    assert_non_null(strstr(drawn(f), "No samples"));
}

/* ---- noise ---- */

/* 100 of 1,000 and then 127: pooled share 0.1135, deviation 0.01419, so 1.90 of them. */
static void test_sigmas_are_those_of_two_proportions(void **state)
{
    struct fixture *f = *state;
    record(f, DIFF_BEFORE, (struct share[]){{"a", 100, 0}, {"b", 900, 0}, {0}});
    record(f, DIFF_AFTER, (struct share[]){{"a", 127, 0}, {"b", 873, 0}, {0}});
    compare(f);
    double p = 0.1135, deviation = sqrt(p * (1 - p) * 2 / 1000);
    near(function(f, "a (app.py)")->own.sigmas, 0.027 / deviation);
    near(function(f, "b (app.py)")->own.sigmas, -0.027 / deviation);
    assert_true(diff_is_noise(&function(f, "a (app.py)")->own));
}

static void test_the_same_change_of_more_samples_is_no_noise(void **state)
{
    struct fixture *f = *state;
    record(f, DIFF_BEFORE, (struct share[]){{"a", 1000, 0}, {"b", 9000, 0}, {0}});
    record(f, DIFF_AFTER, (struct share[]){{"a", 1270, 0}, {"b", 8730, 0}, {0}});
    compare(f);
    assert_false(diff_is_noise(&function(f, "a (app.py)")->own));
}

/* ---- pictures ---- */

static void test_both_layouts_are_in_the_picture(void **state)
{
    struct fixture *f = *state;
    char title[256];
    record(f, DIFF_BEFORE, (struct share[]){{"main old", 500, 0}, {"main both", 500, 0}, {0}});
    record(f, DIFF_AFTER, (struct share[]){{"main new", 750, 0}, {"main both", 250, 0}, {0}});
    compare(f);
    const char *svg = drawn(f);
    title_in(svg, "after", "both", title);
    assert_string_equal(title, "both (app.py) (before 50.00%, after 25.00%, -25.00 points, own "
                               "-25.00, 500 → 250 samples)");
    title_in(svg, "after", "old", title);
    assert_string_equal(title, "");
    title_in(svg, "before", "old", title);
    assert_string_equal(title, "old (app.py) (before 50.00%, after 0.00%, -50.00 points, own "
                               "-50.00, 500 → 0 samples)");
    title_in(svg, "after", "new", title);
    assert_non_null(strstr(title, "+75.00 points"));
    assert_non_null(strstr(svg, "50.00% gone, 75.00% new"));
    assert_non_null(strstr(svg, "scry diff · old.scry → new.scry · 1,000 → 1,000 samples"));
}

static void test_the_widths_asked_for_are_shown_first(void **state)
{
    struct fixture *f = *state;
    record(f, DIFF_BEFORE, (struct share[]){{"main", 10, 0}, {0}});
    record(f, DIFF_AFTER, (struct share[]){{"main", 10, 0}, {0}});
    compare(f);
    f->options.widths = DIFF_BEFORE;
    const char *after = strstr(drawn(f), "id=\"frames-after\"");
    const char *hidden = strstr(f->svg, "style=\"display:none\"");
    assert_non_null(hidden);
    assert_ptr_equal(memmem(after, 200, "display:none", 12), hidden + strlen("style=\""));
}

static void test_colours(void **state)
{
    struct fixture *f = *state;
    record(f, DIFF_BEFORE,
           (struct share[]){
               {"less", 4000, 0}, {"more", 1000, 0}, {"same", 4990, 0}, {"bit", 10, 0}, {0}});
    record(f, DIFF_AFTER,
           (struct share[]){
               {"less", 3700, 0}, {"more", 1290, 0}, {"same", 4991, 0}, {"bit", 19, 0}, {0}});
    compare(f);
    const char *svg = drawn(f);
    const struct {
        const char *title, *class;
    } expected[] = {{"all (", "\"r d0\""},
                    {"less (", "\"d6\""},
                    {"more (", "\"g6\""},
                    {"same (", "\"d0\""},
                    {"bit (", "\"d0"}};
    const char *view = strstr(svg, "id=\"frames-after\"");
    for (size_t i = 0; i < ARRAY_LEN(expected); i++) {
        char start[32];
        snprintf(start, sizeof(start), "<title>%s", expected[i].title);
        const char *class = strstr(strstr(view, start), "class=") + strlen("class=");
        assert_memory_equal(class, expected[i].class, strlen(expected[i].class));
    }
}

/* Forty children too narrow to be drawn are one box, with the sums of both recordings. */
static void test_what_is_folded_is_compared_too(void **state)
{
    struct fixture *f = *state;
    char path[32], title[256];
    for (int i = 0; i < 40; i++) {
        snprintf(path, sizeof(path), "main f%d", i);
        record(f, DIFF_BEFORE, (struct share[]){{path, 2, 0}, {0}});
        record(f, DIFF_AFTER, (struct share[]){{path, 1, 0}, {0}});
    }
    record(f, DIFF_BEFORE, (struct share[]){{"main", 19920, 0}, {0}});
    record(f, DIFF_AFTER, (struct share[]){{"main", 19960, 0}, {0}});
    compare(f);
    title_in(drawn(f), "after", "(40 narrower frames)", title);
    assert_string_equal(title, "(40 narrower frames) (before 0.40%, after 0.20%, -0.20 points, 80 "
                               "→ 40 samples)");
}

static void test_threads_are_the_same_by_name(void **state)
{
    struct fixture *f = *state;
    char title[256];
    f->options.view.threads = true;
    record(f, DIFF_BEFORE, (struct share[]){{"main", 10, 0}, {0}});
    record(f, DIFF_AFTER, (struct share[]){{"main", 10, 0}, {0}});
    compare(f);
    title_in(drawn(f), "after", "thread: MainThread", title);
    assert_non_null(strstr(title, "before 100.00%, after 100.00%, +0.00 points"));
    assert_int_equal(f->count, 1); /* a thread is no function */
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(test_shares_of_runs_of_different_length),
        T(test_functions_match_although_lines_moved),
        T(test_lines_are_told_apart_when_asked),
        T(test_by_time_sees_more_of_everything),
        T(test_by_time_takes_weights_not_counts),
        T(test_recursion_counts_once_in_the_total),
        T(test_greatest_change_first),
        T(test_an_empty_side),
        T(test_two_empty_sides),
        T(test_sigmas_are_those_of_two_proportions),
        T(test_the_same_change_of_more_samples_is_no_noise),
        T(test_both_layouts_are_in_the_picture),
        T(test_the_widths_asked_for_are_shown_first),
        T(test_colours),
        T(test_what_is_folded_is_compared_too),
        T(test_threads_are_the_same_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
