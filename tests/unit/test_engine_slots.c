/* When to look: one moment in each slot, and waiting for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/slots.h"

#define MSEC 1000000ULL

static int start(void **state)
{
    static struct slots slots;
    slots_init(&slots, 1000);
    slots_start(&slots);
    *state = &slots;
    return 0;
}

static int end(void **state)
{
    slots_done(*state);
    return 0;
}

static void test_each_slot_has_one_moment(void **state)
{
    struct slots *s = *state;
    for (uint64_t slot = 0; slot < 5000; slot++) {
        scry_nsec moment = slots_moment(s, slot);
        assert_true(moment >= slot * MSEC && moment < (slot + 1) * MSEC);
        assert_int_equal(slots_moment(s, slot), moment);
    }
}

/* In each tenth of a slot as many as in any other; by chance it is within 5 deviations, which are 30 each. */
static void test_moments_are_spread_over_their_slots(void **state)
{
    struct slots *s = *state;
    int tenths[10] = {0};
    for (uint64_t slot = 0; slot < 10000; slot++)
        tenths[(slots_moment(s, slot) - slot * MSEC) * 10 / MSEC]++;
    for (int i = 0; i < 10; i++)
        assert_in_range(tenths[i], 850, 1150);
}

static void test_slots_are_counted_from_where_the_rate_was_set(void **state)
{
    struct slots *s = *state;
    slots_set_rate(s, 500, 7 * MSEC);
    assert_int_equal(slots_period(s), 2 * MSEC);
    assert_int_equal(slots_at(s, 7 * MSEC), 0);
    assert_int_equal(slots_at(s, 13 * MSEC), 3);
    assert_in_range(slots_moment(s, 3), 13 * MSEC, 15 * MSEC);
}

/* Nobody is woken before the moment; how long after it depends on the machine. */
static void await_in_a_row(struct slots *s, uint64_t step)
{
    for (uint64_t i = 0; i < 40; i++) {
        uint64_t slot = slots_at(s, slots_now(s)) + step;
        scry_nsec moment = slots_moment(s, slot);
        slots_await(s, slot);
        assert_true(slots_now(s) >= moment);
    }
}

static void test_waiting_ends_at_the_moment_or_after_it(void **state)
{
    struct slots *s = *state;
    const double rates[] = {50, 199, 201, 1000, 9000, 20000};
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
        slots_set_rate(s, rates[i], slots_now(s));
        for (uint64_t step = 1; step <= (rates[i] < 1000 ? 1 : 3); step++)
            await_in_a_row(s, step);
    }
}

/* Slots that were left out had alarms, which went off with nobody waiting. */
static void test_a_moment_that_has_gone_by_is_not_waited_for(void **state)
{
    struct slots *s = *state;
    for (int i = 0; i < 3; i++) {
        uint64_t slot = slots_at(s, slots_now(s)) + 1;
        slots_await(s, slot);
        slots_sleep(s, slots_moment(s, slot + 2 * SLOTS_ALARMS));
        for (uint64_t past = slot; past < slot + SLOTS_ALARMS; past++)
            slots_await(s, past); /* or the test never ends */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_slot_has_one_moment, start, end),
        cmocka_unit_test_setup_teardown(test_moments_are_spread_over_their_slots, start, end),
        cmocka_unit_test_setup_teardown(test_slots_are_counted_from_where_the_rate_was_set, start,
                                        end),
        cmocka_unit_test_setup_teardown(test_waiting_ends_at_the_moment_or_after_it, start, end),
        cmocka_unit_test_setup_teardown(test_a_moment_that_has_gone_by_is_not_waited_for, start,
                                        end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
