/* What top counts: own and total time of functions and lines, lately and overall; recursion; threads
 * that come and go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "engine/recording.h"
#include "engine/tally.h"

#define MS 1000000ULL

struct fixture {
    struct tally *tally;
    struct sample_sink *sink;
    const struct sink_ops *ops;
    struct tally_picture picture;
    uint32_t process, thread;
};

static uint32_t add_thread(struct fixture *f, uint32_t process, int64_t tid, const char *name)
{
    return f->ops->thread(f->sink,
                          &(struct rec_thread){.process = process, .tid = tid, .name = name});
}

static uint32_t add_process(struct fixture *f, int32_t pid)
{
    return f->ops->process(
        f->sink, &(struct rec_process){.pid = pid, .command = "python", .python = "3.13.0"});
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_int_equal(tally_new(&f->tally), 0);
    f->sink = tally_sink(f->tally);
    f->ops = f->sink->ops;
    f->process = add_process(f, 7);
    f->thread = add_thread(f, f->process, 70, "MainThread");
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    tally_picture_done(&f->picture);
    tally_free(f->tally);
    free(f);
    return 0;
}

/* "main:1 work:12": frames with the lines they are at; the first letter says where the def is. */
static uint32_t stack_of(struct fixture *f, const char *path)
{
    char *copy = strdup(path), *rest = copy;
    uint32_t stack = REC_EMPTY_STACK;
    for (char *word; (word = strsep(&rest, " "));) {
        char *line = strchr(word, ':');
        *line++ = '\0';
        struct rec_frame frame = {.name = word,
                                  .file = "/srv/app.py",
                                  .short_file = "app.py",
                                  .module = "",
                                  .line = atoi(line),
                                  .first_line = word[0]};
        stack = f->ops->stack(f->sink, stack, f->ops->frame(f->sink, &frame));
        assert_int_not_equal(stack, UINT32_MAX);
    }
    free(copy);
    return stack;
}

static void look(struct fixture *f, unsigned ms)
{
    f->ops->look(f->sink, ms * MS, false);
}

static int sample(struct fixture *f, uint32_t thread, uint32_t stack, unsigned ms, uint32_t flags)
{
    return f->ops->sample(
        f->sink,
        &(struct rec_sample){.weight = ms * MS, .thread = thread, .stack = stack, .flags = flags});
}

static void see(struct fixture *f, const char *path, unsigned ms)
{
    look(f, ms);
    assert_int_equal(sample(f, f->thread, stack_of(f, path), ms, REC_ACTIVE), 0);
}

static void take(struct fixture *f, enum tally_by by, unsigned split)
{
    tally_picture_done(&f->picture);
    assert_int_equal(tally_picture(f->tally, by, split, &f->picture), 0);
}

static const struct tally_row *row(const struct fixture *f, const char *name, int line)
{
    for (size_t i = 0; i < f->picture.row_count; i++)
        if (strcmp(f->picture.rows[i].name, name) == 0 &&
            (line == 0 || f->picture.rows[i].line == line))
            return &f->picture.rows[i];
    fail_msg("no row %s:%d", name, line);
    return NULL;
}

static void assert_times(const struct tally_times *times, unsigned own_ms, unsigned total_ms)
{
    assert_int_equal(times->own / MS, own_ms);
    assert_int_equal(times->total / MS, total_ms);
}

/* ---- own and total ---- */

static void test_own_is_of_the_innermost_total_of_all(void **state)
{
    struct fixture *f = *state;
    see(f, "main:1 work:12", 10);
    see(f, "main:1 work:13 leaf:20", 5);
    tally_cut(f->tally);
    take(f, TALLY_FUNCTIONS, 0);
    assert_int_equal(f->picture.row_count, 3);
    assert_times(&row(f, "main", 0)->overall, 0, 15);
    assert_times(&row(f, "work", 0)->overall, 10, 15);
    assert_times(&row(f, "leaf", 0)->overall, 5, 5);
    assert_int_equal(row(f, "work", 0)->line, 'w');
}

static void test_lines_are_counted_apart(void **state)
{
    struct fixture *f = *state;
    see(f, "main:1 work:12", 10);
    see(f, "main:1 work:13 leaf:20", 5);
    tally_cut(f->tally);
    take(f, TALLY_LINES, 0);
    assert_int_equal(f->picture.row_count, 4);
    assert_times(&row(f, "work", 12)->overall, 10, 10);
    assert_times(&row(f, "work", 13)->overall, 0, 5);
}

/* However often a function is on the stack, the time passes once. */
static void test_recursion_counts_once(void **state)
{
    struct fixture *f = *state;
    see(f, "main:1 fib:3 fib:3 fib:4 fib:3", 10);
    tally_cut(f->tally);
    take(f, TALLY_FUNCTIONS, 0);
    assert_times(&row(f, "fib", 0)->overall, 10, 10);
    take(f, TALLY_LINES, 0);
    assert_times(&row(f, "fib", 3)->overall, 10, 10);
    assert_times(&row(f, "fib", 4)->overall, 0, 10);
}

static void test_a_thread_without_frames_is_a_sample_and_no_row(void **state)
{
    struct fixture *f = *state;
    look(f, 10);
    assert_int_equal(sample(f, f->thread, REC_EMPTY_STACK, 10, REC_ACTIVE), 0);
    tally_cut(f->tally);
    take(f, TALLY_FUNCTIONS, 0);
    assert_int_equal(f->picture.row_count, 0);
    assert_int_equal(f->picture.overall.samples, 1);
}

static void test_numbers_that_were_never_handed_out(void **state)
{
    struct fixture *f = *state;
    look(f, 10);
    assert_true(sample(f, f->thread, 99, 10, REC_ACTIVE) < 0);
    assert_true(sample(f, 99, REC_EMPTY_STACK, 10, REC_ACTIVE) < 0);
    assert_true(sample(f, UINT32_MAX, UINT32_MAX, 10, REC_ACTIVE) < 0);
    assert_int_equal(f->ops->stack(f->sink, 99, 0), UINT32_MAX);
    assert_int_equal(add_thread(f, 99, 1, "x"), UINT32_MAX);
}

/* ---- windows ---- */

static void test_lately_is_the_last_window(void **state)
{
    struct fixture *f = *state;
    see(f, "main:1 old:2", 10);
    tally_cut(f->tally);
    see(f, "main:1 new:3", 4);
    tally_cut(f->tally);
    take(f, TALLY_FUNCTIONS, 0);
    assert_times(&row(f, "old", 0)->lately, 0, 0);
    assert_times(&row(f, "old", 0)->overall, 10, 10);
    assert_times(&row(f, "new", 0)->lately, 4, 4);
    assert_times(&row(f, "main", 0)->lately, 0, 4);
    assert_times(&row(f, "main", 0)->overall, 0, 14);
    assert_int_equal(f->picture.lately.looked, 4 * MS);
    assert_int_equal(f->picture.overall.looked, 14 * MS);
}

static void test_the_open_window_is_not_shown(void **state)
{
    struct fixture *f = *state;
    see(f, "main:1", 10);
    take(f, TALLY_FUNCTIONS, 0);
    assert_int_equal(f->picture.row_count, 0);
}

static void test_reset(void **state)
{
    struct fixture *f = *state;
    see(f, "main:1 old:2", 10);
    tally_cut(f->tally);
    see(f, "main:1 old:2", 10);
    tally_reset(f->tally);
    see(f, "main:1 new:2", 3);
    tally_cut(f->tally);
    take(f, TALLY_FUNCTIONS, 0);
    assert_int_equal(f->picture.row_count, 2);
    assert_times(&row(f, "main", 0)->overall, 0, 3);
    assert_int_equal(f->picture.overall.samples, 1);
}

/* ---- which samples ---- */

static void see_three(struct fixture *f, bool whole)
{
    uint32_t waiting = add_thread(f, f->process, 71, "waiting");
    uint32_t holder = add_thread(f, f->process, 72, "holder");
    f->ops->look(f->sink, 10 * MS, whole);
    sample(f, f->thread, stack_of(f, "runs:1"), 10, REC_ACTIVE);
    sample(f, waiting, stack_of(f, "waits:1"), 10, 0);
    sample(f, holder, stack_of(f, "holds:1"), 10, REC_ACTIVE | REC_GIL | REC_TORN);
    f->ops->waiting(f->sink, waiting, "futex");
    tally_cut(f->tally);
    take(f, TALLY_FUNCTIONS, 0);
}

static void test_waiting_threads_count_when_asked_for(void **state)
{
    struct fixture *f = *state;
    see_three(f, true);
    assert_int_equal(f->picture.row_count, 2);
    assert_int_equal(f->picture.overall.samples, 2);
    tally_choose(f->tally, false, true);
    see_three(f, true);
    assert_int_equal(f->picture.row_count, 3);
    assert_times(&row(f, "waits", 0)->overall, 10, 10);
}

static void test_only_the_holder_of_the_gil(void **state)
{
    struct fixture *f = *state;
    tally_choose(f->tally, true, false);
    see_three(f, true);
    assert_int_equal(f->picture.row_count, 1);
    assert_times(&row(f, "holds", 0)->overall, 10, 10);
}

static void test_shares_and_states(void **state)
{
    struct fixture *f = *state;
    see_three(f, true);
    const struct tally_picture *p = &f->picture;
    assert_int_equal(p->lately.gil, 10 * MS);
    assert_int_equal(p->lately.active, 20 * MS);
    assert_int_equal(p->lately.active_looked, 10 * MS);
    assert_int_equal(p->overall.torn, 1);
    assert_int_equal(p->living_threads, 3);
    assert_int_equal(p->active_threads, 2);
    assert_int_equal(p->living_processes, 1);
    for (size_t i = 0; i < p->thread_count; i++) {
        const struct tally_thread *t = &p->threads[i];
        if (t->tid != 71)
            continue;
        assert_false(t->active);
        assert_string_equal(t->wait, "futex");
        assert_string_equal(t->where_name, "waits");
        assert_int_equal(t->where_line, 1);
    }
}

/* ---- threads and processes apart ---- */

static void see_two_processes(struct fixture *f)
{
    uint32_t child = add_process(f, 8);
    uint32_t first = add_thread(f, child, 80, "MainThread");
    uint32_t second = add_thread(f, child, 81, "worker");
    look(f, 10);
    sample(f, f->thread, stack_of(f, "main:1 work:2"), 10, REC_ACTIVE);
    sample(f, first, stack_of(f, "main:1 work:2"), 20, REC_ACTIVE);
    sample(f, second, stack_of(f, "main:1 work:2"), 30, REC_ACTIVE);
    tally_cut(f->tally);
}

static void test_rows_are_split(void **state)
{
    struct fixture *f = *state;
    see_two_processes(f);
    take(f, TALLY_FUNCTIONS, 0);
    assert_int_equal(f->picture.row_count, 2);
    assert_times(&row(f, "work", 0)->overall, 60, 60);
    assert_int_equal(row(f, "work", 0)->thread, TALLY_NONE);

    take(f, TALLY_FUNCTIONS, TALLY_PROCESSES);
    assert_int_equal(f->picture.row_count, 4);
    scry_nsec sum = 0;
    for (size_t i = 0; i < f->picture.row_count; i++) {
        const struct tally_row *r = &f->picture.rows[i];
        sum += r->overall.own;
        if (strcmp(r->name, "work") == 0)
            assert_int_equal(r->overall.own,
                             f->picture.processes[r->process].pid == 7 ? 10 * MS : 50 * MS);
    }
    assert_int_equal(sum, 60 * MS);

    take(f, TALLY_FUNCTIONS, TALLY_THREADS);
    assert_int_equal(f->picture.row_count, 6);
}

/* ---- memory ---- */

/* After a renewal all numbers are new, threads that ended are one, and no time is lost. */
static void test_renewal(void **state)
{
    struct fixture *f = *state;
    see_two_processes(f);
    look(f, 10);
    sample(f, f->thread, stack_of(f, "main:1 late:9"), 5, REC_ACTIVE);
    /* Two whole looks without the child: it is gone. */
    for (int i = 0; i < 3; i++) {
        f->ops->look(f->sink, 0, true);
        sample(f, f->thread, REC_EMPTY_STACK, 0, REC_ACTIVE);
    }
    tally_renew(f->tally);
    f->process = add_process(f, 7);
    f->thread = add_thread(f, f->process, 70, "MainThread");
    see(f, "main:1 work:2", 100);
    tally_cut(f->tally);
    take(f, TALLY_FUNCTIONS, TALLY_THREADS);
    scry_nsec ended = 0, living = 0;
    for (size_t i = 0; i < f->picture.row_count; i++) {
        const struct tally_row *r = &f->picture.rows[i];
        const struct tally_thread *t = &f->picture.threads[r->thread];
        if (t->tid == 70)
            living += r->overall.own;
        else
            ended += r->overall.own;
        if (t->tid != 70)
            assert_string_equal(t->name, "(ended)");
    }
    assert_int_equal(living, 115 * MS);
    assert_int_equal(ended, 50 * MS);
    assert_int_equal(f->picture.living_threads, 1);
    take(f, TALLY_FUNCTIONS, 0);
    assert_times(&row(f, "late", 0)->overall, 5, 5);
    assert_times(&row(f, "main", 0)->overall, 0, 165);
}

static void test_many_short_threads_ask_for_renewal(void **state)
{
    struct fixture *f = *state;
    int renewed = 0;
    size_t most = 0;
    for (int i = 0; i < 40000; i++) {
        f->ops->look(f->sink, 1 * MS, true);
        char name[32];
        snprintf(name, sizeof(name), "Thread-%d", i);
        sample(f, add_thread(f, f->process, 1000 + i, name), stack_of(f, "work:2"), 1, REC_ACTIVE);
        if (!tally_wants_renewal(f->tally))
            continue;
        tally_renew(f->tally);
        f->process = add_process(f, 7);
        renewed++;
        take(f, TALLY_FUNCTIONS, TALLY_THREADS);
        most = f->picture.thread_count > most ? f->picture.thread_count : most;
    }
    tally_cut(f->tally);
    take(f, TALLY_FUNCTIONS, 0);
    assert_true(renewed >= 3);
    assert_true(most < 10);
    assert_times(&row(f, "work", 0)->overall, 40000, 40000);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_own_is_of_the_innermost_total_of_all),
        TEST(test_lines_are_counted_apart),
        TEST(test_recursion_counts_once),
        TEST(test_a_thread_without_frames_is_a_sample_and_no_row),
        TEST(test_numbers_that_were_never_handed_out),
        TEST(test_lately_is_the_last_window),
        TEST(test_the_open_window_is_not_shown),
        TEST(test_reset),
        TEST(test_waiting_threads_count_when_asked_for),
        TEST(test_only_the_holder_of_the_gil),
        TEST(test_shares_and_states),
        TEST(test_rows_are_split),
        TEST(test_renewal),
        TEST(test_many_short_threads_ask_for_renewal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
