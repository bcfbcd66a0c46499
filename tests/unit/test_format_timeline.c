#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "format/timeline.h"

static void assert_next(struct timeline *t, scry_nsec time, scry_nsec weight,
                        struct stretch expected)
{
    struct stretch s = timeline_next(t, time, weight);
    assert_int_equal(s.gap, expected.gap);
    assert_int_equal(s.start, expected.start);
    assert_int_equal(s.end, expected.end);
}

static void samples_in_a_row_follow_one_another(void **state)
{
    (void)state;
    struct timeline t = {0};
    assert_next(&t, 110, 10, (struct stretch){.start = 100, .end = 110});
    assert_next(&t, 120, 10, (struct stretch){.start = 110, .end = 120});
}

static void a_missing_sample_is_a_gap(void **state)
{
    (void)state;
    struct timeline t = {0};
    timeline_next(&t, 10, 10);
    assert_next(&t, 40, 10, (struct stretch){.gap = 20, .start = 30, .end = 40});
}

static void a_tick_a_little_late_is_none(void **state)
{
    (void)state;
    struct timeline t = {0};
    timeline_next(&t, 10, 10);
    assert_next(&t, 25, 10, (struct stretch){.start = 10, .end = 25});
    assert_next(&t, 43, 10, (struct stretch){.gap = 8, .start = 33, .end = 43});
}

static void stretches_never_overlap(void **state)
{
    (void)state;
    struct timeline t = {0};
    timeline_next(&t, 100, 10);
    assert_next(&t, 104, 10, (struct stretch){.start = 100, .end = 104});
    assert_next(&t, 104, 10, (struct stretch){.start = 104, .end = 104});
}

static void a_weight_cannot_reach_before_the_start(void **state)
{
    (void)state;
    struct timeline t = {0};
    assert_next(&t, 5, 10, (struct stretch){.start = 0, .end = 5});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_in_a_row_follow_one_another),
        cmocka_unit_test(a_missing_sample_is_a_gap),
        cmocka_unit_test(a_tick_a_little_late_is_none),
        cmocka_unit_test(stretches_never_overlap),
        cmocka_unit_test(a_weight_cannot_reach_before_the_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
