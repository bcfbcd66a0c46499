#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "util/json.h"

static char *text;
static size_t length;
static FILE *out;
static struct json j;

static int set_up(void **state)
{
    (void)state;
    out = open_memstream(&text, &length);
    json_init(&j, out, 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fclose(out);
    free(text);
    return 0;
}

static void assert_written(const char *expected)
{
    fflush(out);
    assert_string_equal(text, expected);
}

static void nested_values_get_their_commas(void **state)
{
    (void)state;
    json_begin_object(&j);
    json_key(&j, "a");
    json_begin_array(&j);
    json_int(&j, -1);
    json_null(&j);
    json_begin_array(&j);
    json_end_array(&j);
    json_end_array(&j);
    json_key(&j, "b");
    json_bool(&j, true);
    json_end_object(&j);
    assert_written("{\"a\":[-1,null,[]],\"b\":true}");
}

static void strings_are_escaped(void **state)
{
    (void)state;
    json_string(&j, "a\"b\\c\n\x01 \xc3\xa9");
    assert_written("\"a\\\"b\\\\c\\n\\u0001 \xc3\xa9\"");
}

static void invalid_utf8_is_replaced(void **state)
{
    (void)state;
    json_string(&j, "x\xff\xed\xa0\x80\xc0y");
    assert_written("\"x\\ufffd\\ufffd\\ufffd\\ufffd\\ufffdy\"");
}

static void doubles_are_short_and_exact(void **state)
{
    (void)state;
    json_begin_array(&j);
    json_double(&j, 0.1);
    json_double(&j, 1.0);
    json_double(&j, 1.0 / 3);
    json_end_array(&j);
    assert_written("[0.1,1,0.3333333333333333]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nested_values_get_their_commas, set_up, tear_down),
        cmocka_unit_test_setup_teardown(strings_are_escaped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(invalid_utf8_is_replaced, set_up, tear_down),
        cmocka_unit_test_setup_teardown(doubles_are_short_and_exact, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
