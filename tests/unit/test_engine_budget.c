/* The rate that a budget affords, over costs that are known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/budget.h"

struct world {
    double own, held; /* nanoseconds per look */
    double base;      /* share of a CPU, however seldom one looks */
    struct budget budget;
    double time, spent_own, spent_held, looks;
};

static void run(struct world *w, double seconds)
{
    const double step = 1e7;
    for (double end = w->time + seconds * 1e9; w->time < end; w->time += step) {
        double looks = w->budget.rate * step / 1e9;
        w->looks += looks;
        w->spent_own += looks * w->own + step * w->base;
        w->spent_held += looks * w->held;
        if (budget_is_due(&w->budget, (scry_nsec)w->time, (uint64_t)w->looks))
            budget_adapt(&w->budget, &(struct budget_spent){
                                         .time = (scry_nsec)w->time,
                                         .own_cpu = (scry_nsec)w->spent_own,
                                         .held = (scry_nsec)w->spent_held,
                                         .looks = (uint64_t)w->looks,
                                     });
    }
}

static struct world world(double share, double own, double held)
{
    struct world w = {.own = own, .held = held};
    budget_init(&w.budget, share);
    return w;
}

static void assert_between(double low, double value, double high)
{
    if (value < low || value > high)
        fail_msg("%g is not between %g and %g", value, low, high);
}

static void test_own_cpu_decides(void **state)
{
    (void)state;
    struct world w = world(0.01, 10e3, 1e3);
    run(&w, 30);
    assert_between(750, w.budget.rate, 1000);
    assert_between(0, w.spent_own / w.time, 0.01);
}

static void test_held_threads_decide(void **state)
{
    (void)state;
    struct world w = world(0.01, 1e3, 50e3);
    run(&w, 30);
    assert_between(150, w.budget.rate, 200);
    assert_between(0, w.spent_held / w.time, 0.01);
}

static void test_follows_a_change_both_ways(void **state)
{
    (void)state;
    struct world w = world(0.01, 10e3, 0);
    run(&w, 20);
    w.own = 200e3;
    run(&w, 20);
    assert_between(20, w.budget.rate, 50);
    w.own = 5e3;
    run(&w, 20);
    assert_between(1500, w.budget.rate, 2000);
    assert_between(0, w.spent_own / w.time, 0.01);
}

static void test_a_dear_start_is_repaid(void **state)
{
    (void)state;
    struct world w = world(0.01, 10e3, 0);
    w.spent_own = 100e6;
    run(&w, 5);
    assert_true(w.budget.rate < 1000);
    run(&w, 55);
    assert_between(0, w.spent_own / w.time, 0.01);
    assert_between(750, w.budget.rate, 1000);
}

static void test_neither_too_slow_nor_too_fast(void **state)
{
    (void)state;
    struct world poor = world(0.0001, 1e6, 0), rich = world(1, 100, 0);
    run(&poor, 20);
    assert_true(poor.budget.rate == BUDGET_RATE_MIN);
    run(&rich, 20);
    assert_true(rich.budget.rate == BUDGET_RATE_MAX);
}

static void test_what_is_spent_anyway_counts(void **state)
{
    (void)state;
    struct world w = world(0.01, 10e3, 0);
    w.base = 0.004;
    run(&w, 60);
    assert_between(0.007, w.spent_own / w.time, 0.01);
    assert_between(350, w.budget.rate, 600);
}

static void test_nothing_spent(void **state)
{
    (void)state;
    struct world w = world(0.01, 0, 0);
    run(&w, 20);
    assert_true(w.budget.rate == BUDGET_RATE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_cpu_decides),
        cmocka_unit_test(test_held_threads_decide),
        cmocka_unit_test(test_follows_a_change_both_ways),
        cmocka_unit_test(test_a_dear_start_is_repaid),
        cmocka_unit_test(test_neither_too_slow_nor_too_fast),
        cmocka_unit_test(test_what_is_spent_anyway_counts),
        cmocka_unit_test(test_nothing_spent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
