#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cpython/lines.h"

static void lnotab_adds_up_to_the_offset(void **state)
{
    (void)state;
    static const unsigned char table[] = {0, 1, 6, 2, 4, 0xff}; /* +1; at 6 +2; at 10 -1 */
    assert_int_equal(lines_find(LINES_LNOTAB, table, sizeof(table), 10, 0), 11);
    assert_int_equal(lines_find(LINES_LNOTAB, table, sizeof(table), 10, 5), 11);
    assert_int_equal(lines_find(LINES_LNOTAB, table, sizeof(table), 10, 6), 13);
    assert_int_equal(lines_find(LINES_LNOTAB, table, sizeof(table), 10, 100), 12);
}

static void lnotab_of_python2_has_no_negative_lines(void **state)
{
    (void)state;
    static const unsigned char table[] = {2, 0xff};
    assert_int_equal(lines_find(LINES_LNOTAB_UNSIGNED, table, sizeof(table), 1, 2), 256);
    assert_int_equal(lines_find(LINES_LNOTAB, table, sizeof(table), 2, 2), 1);
}

static void linetable_ranges_without_a_line_get_the_one_before(void **state)
{
    (void)state;
    static const unsigned char table[] = {4, 1, 2, 0x80, 6, 0xfe}; /* +1; none; -2 */
    assert_int_equal(lines_find(LINES_LINETABLE, table, sizeof(table), 5, 3), 6);
    assert_int_equal(lines_find(LINES_LINETABLE, table, sizeof(table), 5, 4), 6);
    assert_int_equal(lines_find(LINES_LINETABLE, table, sizeof(table), 5, 6), 4);
    assert_int_equal(lines_find(LINES_LINETABLE, table, sizeof(table), 5, 12), 0);
}

static void locations_of_every_kind(void **state)
{
    (void)state;
    static const unsigned char table[] = {
        0x80 | 11 << 3 | 1, 0,           4,                      /* units 0-1: one line, +1 */
        0x80 | 3 << 3 | 0,  0x11,                                /* unit 2: short form, +0 */
        0x80 | 15 << 3 | 0,                                      /* unit 3: none */
        0x80 | 13 << 3 | 0, 0x05,                                /* unit 4: no columns, -2 */
        0x80 | 14 << 3 | 0, 0x40 | 0x08, 0x03, 0x01, 0x02, 0x03, /* unit 5: long, +100 */
    };
    static const int expected[] = {21, 21, 21, 21, 19, 119};
    for (int unit = 0; unit < 6; unit++)
        assert_int_equal(lines_find(LINES_LOCATIONS, table, sizeof(table), 20, unit * 2),
                         expected[unit]);
    assert_int_equal(lines_find(LINES_LOCATIONS, table, sizeof(table), 20, 12), 0);
}

static void a_frame_that_has_not_started_is_at_its_first_line(void **state)
{
    (void)state;
    assert_int_equal(lines_find(LINES_LOCATIONS, NULL, 0, 7, -1), 7);
    assert_int_equal(lines_find(LINES_LNOTAB, NULL, 0, 7, -1), 7);
}

static void nonsense_is_bounded(void **state)
{
    (void)state;
    unsigned char table[4096];
    uint32_t x = 1;
    for (int round = 0; round < 2000; round++) {
        for (size_t i = 0; i < sizeof(table); i++)
            table[i] = (unsigned char)((x = x * 1664525u + 1013904223u) >> 24);
        for (int format = LINES_LNOTAB_UNSIGNED; format <= LINES_LOCATIONS; format++)
            assert_true(
                lines_find(format, table, x % sizeof(table), (int32_t)x, (int32_t)(x >> 3)) >= 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lnotab_adds_up_to_the_offset),
        cmocka_unit_test(lnotab_of_python2_has_no_negative_lines),
        cmocka_unit_test(linetable_ranges_without_a_line_get_the_one_before),
        cmocka_unit_test(locations_of_every_kind),
        cmocka_unit_test(a_frame_that_has_not_started_is_at_its_first_line),
        cmocka_unit_test(nonsense_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
