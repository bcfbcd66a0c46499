#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "engine/stack_table.h"

#define NO_LIMIT SIZE_MAX

static struct stack_table t;

static int set_up(void **state)
{
    (void)state;
    return stack_table_init(&t) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    stack_table_done(&t);
    return 0;
}

static uint32_t add(uint32_t parent, uint32_t frame, bool expect_new)
{
    bool is_new;
    uint32_t n = stack_table_add(&t, parent, frame, NO_LIMIT, &is_new);
    assert_int_equal(is_new, expect_new);
    return n;
}

static void numbers_follow_each_other(void **state)
{
    (void)state;
    assert_int_equal(t.count, 1); /* the empty stack */
    assert_int_equal(add(0, 0, true), 1);
    assert_int_equal(add(1, 0, true), 2);
    assert_int_equal(add(0, 7, true), 3);
    assert_int_equal(t.nodes[2].parent, 1);
    assert_int_equal(t.nodes[3].frame, 7);
}

static void the_same_stack_has_the_same_number(void **state)
{
    (void)state;
    uint32_t a = add(0, 1, true), b = add(a, 2, true);
    assert_int_equal(add(0, 1, false), a);
    assert_int_equal(add(a, 2, false), b);
    /* Parent and frame are not to be mistaken for one another. */
    assert_int_equal(add(b, a, true), 3);
    assert_int_equal(add(a, b, false), b);
}

static void numbers_hold_while_it_grows(void **state)
{
    (void)state;
    uint32_t stack = 0;
    for (uint32_t i = 0; i < 20000; i++)
        stack = add(stack, i % 3, true);
    assert_int_equal(stack, 20000);
    stack = 0;
    for (uint32_t i = 0; i < 20000; i++)
        assert_int_equal(stack = add(stack, i % 3, false), i + 1);
}

static void a_full_table_still_knows_what_it_has(void **state)
{
    (void)state;
    bool is_new;
    for (uint32_t i = 0; i < 9; i++)
        assert_int_equal(stack_table_add(&t, 0, i, 10, &is_new), i + 1);
    assert_int_equal(stack_table_add(&t, 0, 9, 10, &is_new), STACK_TABLE_FULL);
    assert_int_equal(stack_table_add(&t, 0, 8, 10, &is_new), 9);
    assert_int_equal(t.count, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(numbers_follow_each_other, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_same_stack_has_the_same_number, set_up, tear_down),
        cmocka_unit_test_setup_teardown(numbers_hold_while_it_grows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_table_still_knows_what_it_has, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
