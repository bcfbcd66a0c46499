/* Text for people: safe to print, and broken into lines that fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tool/text.h"

static void assert_shown(const char *text, const char *expected)
{
    SCOPED_BUF shown;
    buf_init(&shown);
    text_add_printable(&shown, text);
    assert_string_equal(shown.data, expected);
}

static void plain_text_stays(void **state)
{
    (void)state;
    assert_shown("", "");
    assert_shown("worker-1 \"x\" \\n", "worker-1 \"x\" \\n");
    assert_shown("\u00e9\u65e5\U0001f600", "\u00e9\u65e5\U0001f600");
}

static void control_characters_become_escapes(void **state)
{
    (void)state;
    assert_shown("a\nb\tc\rd", "a\\nb\\tc\\rd");
    assert_shown("\033[31m", "\\x1b[31m");
    assert_shown("\x7f", "\\x7f");
    assert_shown("\xc2\x9b"
                 "5n",
                 "\\x9b5n");
}

static void what_hides_or_turns_text_becomes_escapes(void **state)
{
    (void)state;
    assert_shown("\u202eabc\u202c", "\\u202eabc\\u202c");
    assert_shown("\u2066x\u200b\ufeff", "\\u2066x\\u200b\\ufeff");
    assert_shown("\u2028", "\\u2028");
    assert_shown("\U000e0041", "\\U000e0041");
}

static void broken_utf8_becomes_escapes(void **state)
{
    (void)state;
    assert_shown("\xff", "\\xff");
    assert_shown("a\xc3", "a\\xc3");
    assert_shown("\xc0\x80", "\\xc0\\x80");
    assert_shown("\xed\xa0\x80", "\\xed\\xa0\\x80");
    assert_shown("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80");
    assert_shown("\x9b", "\\x9b");
}

static void assert_wrapped(const char *text, int column, int indent, int width,
                           const char *expected)
{
    char *data;
    size_t len;
    FILE *out = open_memstream(&data, &len);
    text_wrap(out, text, column, indent, width);
    fclose(out);
    assert_string_equal(data, expected);
    free(data);
}

static void lines_are_broken_between_words(void **state)
{
    (void)state;
    assert_wrapped("one two three", 0, 0, 80, "one two three\n");
    assert_wrapped("one two three", 0, 0, 7, "one two\nthree\n");
    assert_wrapped("one two three", 0, 2, 7, "  one\n  two\n  three\n");
    assert_wrapped("one two", 3, 5, 80, "  one two\n");
}

static void a_word_too_long_stands_alone(void **state)
{
    (void)state;
    assert_wrapped("a abcdefghij b", 0, 0, 5, "a\nabcdefghij\nb\n");
}

static void paragraphs_stay_apart(void **state)
{
    (void)state;
    assert_wrapped("one\n\ntwo", 0, 0, 80, "one\n\ntwo\n");
}

static void width_counts_characters(void **state)
{
    (void)state;
    assert_wrapped("\u00e9\u00e9 \u00e9\u00e9", 0, 0, 5, "\u00e9\u00e9 \u00e9\u00e9\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_text_stays),
        cmocka_unit_test(control_characters_become_escapes),
        cmocka_unit_test(what_hides_or_turns_text_becomes_escapes),
        cmocka_unit_test(broken_utf8_becomes_escapes),
        cmocka_unit_test(lines_are_broken_between_words),
        cmocka_unit_test(a_word_too_long_stands_alone),
        cmocka_unit_test(paragraphs_stay_apart),
        cmocka_unit_test(width_counts_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
