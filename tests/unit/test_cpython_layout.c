/* The choice of a row by version. The rows themselves are checked against headers by
 * tests/test_layouts.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "cpython/layout.h"

static const struct layout *row_of(int major, int minor, int micro, bool free_threaded, bool debug)
{
    struct py_version version = {.major = major, .minor = minor, .micro = micro, .level = 0xf};
    return layout_for(version, free_threaded, debug);
}

static void every_supported_version_has_its_row(void **state)
{
    (void)state;
    for (int minor = 6; minor <= 15; minor++) {
        const struct layout *row = row_of(3, minor, 20, false, false);
        assert_non_null(row);
        assert_int_equal(row->major, 3);
        assert_int_equal(row->minor, minor);
        assert_false(row->free_threaded);
    }
    assert_int_equal(row_of(2, 7, 18, false, false)->major, 2);
}

static void unsupported_versions_have_none(void **state)
{
    (void)state;
    assert_null(row_of(3, 5, 0, false, false));
    assert_null(row_of(2, 6, 0, false, false));
    assert_null(row_of(4, 0, 0, false, false));
    assert_null(row_of(3, 12, 0, true, false)); /* there was no free-threaded 3.12 */
}

static void patch_releases_of_3_7_differ(void **state)
{
    (void)state;
    assert_int_equal(row_of(3, 7, 3, false, false)->rt_tstate_current, 1392);
    assert_int_equal(row_of(3, 7, 4, false, false)->rt_tstate_current, 1480);
}

static void newer_versions_start_from_the_newest_row(void **state)
{
    (void)state;
    assert_ptr_equal(row_of(3, 99, 0, false, false), row_of(3, 15, 0, false, false));
    assert_ptr_equal(row_of(3, 99, 0, true, false), row_of(3, 15, 0, true, false));
    assert_true(row_of(3, 99, 0, true, false)->free_threaded);
}

static void debug_builds_have_larger_objects_up_to_3_7(void **state)
{
    (void)state;
    assert_int_equal(row_of(3, 7, 9, false, true)->ob_size, 32);
    assert_int_equal(row_of(3, 7, 9, false, false)->ob_size, 16);
    for (int minor = 8; minor <= 15; minor++)
        assert_ptr_equal(row_of(3, minor, 0, false, true), row_of(3, minor, 0, false, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_supported_version_has_its_row),
        cmocka_unit_test(unsupported_versions_have_none),
        cmocka_unit_test(patch_releases_of_3_7_differ),
        cmocka_unit_test(newer_versions_start_from_the_newest_row),
        cmocka_unit_test(debug_builds_have_larger_objects_up_to_3_7),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
