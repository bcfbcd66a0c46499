/* The limits of a job. A job is the program itself, and here that is this test, called with a word that says how to
 * misbehave. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "http/child.h"

static const struct child_limits generous = {.time = 60 * SCRY_NSEC_PER_SEC, .output = 1 << 20};

static void run(const char *how, struct child_limits limits, struct child_result *r)
{
    const char *argv[] = {how, NULL};
    struct child_job job = {.argv = argv, .limits = limits, .out_fd = -1};
    child_result_init(r);
    child_run(&job, r);
}

static void assert_ends(const char *how, struct child_limits limits, enum child_end end,
                        const char *words)
{
    struct child_result r;
    run(how, limits, &r);
    assert_int_equal(r.end, end);
    assert_non_null(strstr(r.message, words));
    child_result_done(&r);
}

static void test_what_it_writes_is_taken_in(void **state)
{
    (void)state;
    struct child_result r;
    run("speak", generous, &r);
    assert_int_equal(r.end, CHILD_OK);
    assert_string_equal(r.out.data, "said\n");
    child_result_done(&r);
}

static void test_its_error_is_read(void **state)
{
    (void)state;
    struct child_result r;
    run("complain", generous, &r);
    assert_int_equal(r.end, CHILD_FAILED);
    assert_int_equal(r.status, 3);
    assert_string_equal(r.code, "PERMISSION");
    assert_string_equal(r.message, "no");
    assert_string_equal(r.hint, "ask");
    child_result_done(&r);
}

static void test_a_crash_is_one_jobs(void **state)
{
    (void)state;
    assert_ends("crash", generous, CHILD_CRASHED, "signal 6");
}

static void test_one_that_hangs_is_ended(void **state)
{
    (void)state;
    struct child_limits limits = generous;
    limits.time = SCRY_NSEC_PER_SEC / 10;
    assert_ends("hang", limits, CHILD_LATE, "took longer");
}

static void test_one_that_spins_is_ended(void **state)
{
    (void)state;
    struct child_limits limits = generous;
    limits.cpu_seconds = 1;
    /* The soft limit's SIGXCPU, or the hard one's SIGKILL: they are the same here. */
    assert_ends("spin", limits, CHILD_CRASHED, "died of signal");
}

static void test_a_flood_is_cut_off(void **state)
{
    (void)state;
    assert_ends("flood", generous, CHILD_FLOOD, "wrote more than 1048576");
}

static void test_memory_has_an_end(void **state)
{
    (void)state;
    struct child_limits limits = generous;
    limits.memory = 64 << 20;
#ifdef __SANITIZE_ADDRESS__
    skip(); /* child.c sets none there */
#endif
    assert_ends("eat", limits, CHILD_FAILED, "status 4");
}

static void test_a_file_has_an_end(void **state)
{
    (void)state;
    struct child_limits limits = generous;
    limits.file = 1 << 20;
    assert_ends("fill", limits, CHILD_CRASHED, "File size");
}

static enum child_poll at_once(void *context)
{
    (void)context;
    return CHILD_STOP;
}

static void test_one_that_does_not_want_to_stop_is_killed(void **state)
{
    (void)state;
    const char *argv[] = {"stubborn", NULL};
    struct child_job job = {.argv = argv, .limits = generous, .out_fd = -1, .poll = at_once};
    struct child_result r;
    child_result_init(&r);
    child_run(&job, &r);
    assert_int_equal(r.end, CHILD_CANCELLED);
    child_result_done(&r);
}

static void test_starting_changes_nothing_here(void **state)
{
    (void)state;
    sigset_t before, after;
    struct child_result r;
    signal(SIGPIPE, SIG_IGN);
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    run("speak", generous, &r);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    child_result_done(&r);
    for (int s = 1; s < NSIG; s++)
        assert_int_equal(sigismember(&before, s), sigismember(&after, s));
    assert_ptr_equal(signal(SIGPIPE, SIG_DFL), SIG_IGN);
}

/* ---- the other side ---- */

static int eat(void)
{
    for (;;) {
        char *more = malloc(1 << 20);
        if (!more)
            return 4;
        memset(more, 1, 1 << 20);
    }
}

static int fill(void)
{
    static const char block[4096];
    FILE *file = tmpfile();
    while (file && write(fileno(file), block, sizeof(block)) > 0)
        ;
    return 5;
}

static int misbehave(const char *how)
{
    static volatile unsigned spun;
    if (strcmp(how, "speak") == 0)
        return puts("said") < 0;
    if (strcmp(how, "complain") == 0) {
        fputs("first a warning\n{\"code\":\"PERMISSION\",\"message\":\"no\",\"hint\":\"ask\"}\n",
              stderr);
        return 3;
    }
    if (strcmp(how, "crash") == 0)
        abort();
    if (strcmp(how, "stubborn") == 0)
        signal(SIGINT, SIG_IGN);
    while (strcmp(how, "hang") == 0 || strcmp(how, "stubborn") == 0)
        pause();
    while (strcmp(how, "spin") == 0)
        spun++;
    while (strcmp(how, "flood") == 0)
        puts("flood");
    return strcmp(how, "eat") == 0 ? eat() : strcmp(how, "fill") == 0 ? fill() : 1;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return misbehave(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_it_writes_is_taken_in),
        cmocka_unit_test(test_its_error_is_read),
        cmocka_unit_test(test_a_crash_is_one_jobs),
        cmocka_unit_test(test_one_that_hangs_is_ended),
        cmocka_unit_test(test_one_that_spins_is_ended),
        cmocka_unit_test(test_a_flood_is_cut_off),
        cmocka_unit_test(test_memory_has_an_end),
        cmocka_unit_test(test_a_file_has_an_end),
        cmocka_unit_test(test_one_that_does_not_want_to_stop_is_killed),
        cmocka_unit_test(test_starting_changes_nothing_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
