#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "format/words.h"

static const struct rec_frame frame = {.name = "work",
                                       .file = "/srv/pack/mod.py",
                                       .short_file = "pack/mod.py",
                                       .line = 12,
                                       .first_line = 10,
                                       .module = ""};

static void assert_frame(const struct rec_frame *f, struct format_options options, const char *text)
{
    SCOPED_BUF b;
    buf_init(&b);
    words_frame(&b, f, &options);
    assert_string_equal(b.data, text);
}

static void a_frame_has_name_file_and_line(void **state)
{
    (void)state;
    assert_frame(&frame, (struct format_options){0}, "work (pack/mod.py:12)");
    assert_frame(&frame, (struct format_options){.full_filenames = true},
                 "work (/srv/pack/mod.py:12)");
    assert_frame(&frame, (struct format_options){.lines = LINES_FUNCTION}, "work (pack/mod.py:10)");
    assert_frame(&frame, (struct format_options){.lines = LINES_NONE}, "work (pack/mod.py)");
}

static void what_is_unknown_is_left_out(void **state)
{
    (void)state;
    struct rec_frame f = frame;
    f.line = 0;
    assert_frame(&f, (struct format_options){0}, "work (pack/mod.py)");
    f.line = -5;
    assert_frame(&f, (struct format_options){0}, "work (pack/mod.py)");
    f.short_file = "";
    assert_frame(&f, (struct format_options){0}, "work");
    f.name = "";
    assert_frame(&f, (struct format_options){0}, "<unknown>");
}

static void a_thread_has_its_os_id_or_else_its_pthread_id(void **state)
{
    (void)state;
    SCOPED_BUF b;
    buf_init(&b);
    words_thread(&b, &(struct track){.tid = 77, .thread_id = 0x7fab, .name = "pool 1"});
    assert_string_equal(b.data, "thread (77): pool 1");
    buf_reset(&b);
    words_thread(&b, &(struct track){.tid = 77, .name = ""});
    assert_string_equal(b.data, "thread (77)");
    buf_reset(&b);
    words_thread(&b, &(struct track){.thread_id = 0x7fab00, .name = ""});
    assert_string_equal(b.data, "thread (0x7FAB00)");
}

static void assert_program(const char *command, const char *title)
{
    SCOPED_BUF b;
    buf_init(&b);
    words_program(&b, command);
    assert_string_equal(b.data, title);
}

static void a_title_names_the_program_but_not_its_arguments(void **state)
{
    (void)state;
    assert_program("/usr/bin/python3 /srv/app.py --token=secret", "python3 app.py");
    assert_program("python -u -m http.server 8000", "python -m http.server");
    assert_program("python -c import os; secret", "python -c …");
    assert_program("python", "python");
    assert_program("python   ", "python");
    assert_program("python -m", "python -m");
    assert_program("", "");
    assert_program("gunicorn:\tmaster [shop]", "gunicorn:␉master [shop]");
}

static void assert_clean(const char *text, const char *clean)
{
    SCOPED_BUF b;
    buf_init(&b);
    words_clean(&b, text);
    assert_string_equal(b.data, clean);
}

static void text_of_the_target_stays_on_its_line(void **state)
{
    (void)state;
    assert_clean("plain; text", "plain; text");
    assert_clean("a\nb\tc\x01\x1b\x7f", "a␊b␉c␁␛␡");
    assert_clean("\xc2\x85 \xe2\x80\xa8 \xe2\x80\xa9", "\uFFFD \uFFFD \uFFFD");
    assert_clean("\xef\xbf\xbe \xef\xbf\xbf", "\uFFFD \uFFFD");
    assert_clean("x\xff\xed\xa0\x80", "x\uFFFD\uFFFD\uFFFD\uFFFD");
    assert_clean("функция 💩", "функция 💩");
}

static void assert_origin(const char *file, const char *module, enum origin origin)
{
    struct rec_frame f = frame;
    f.file = file;
    f.module = module;
    assert_int_equal(words_origin(&f), origin);
}

static void the_path_says_whose_code_it_is(void **state)
{
    (void)state;
    assert_origin("/srv/app.py", "", ORIGIN_USER);
    assert_origin("<string>", "", ORIGIN_USER);
    assert_origin("", "", ORIGIN_USER);
    assert_origin("/opt/lib/python-tools/app.py", "", ORIGIN_USER);
    assert_origin("/usr/lib/python3.11/json/decoder.py", "", ORIGIN_STDLIB);
    assert_origin("/opt/v/lib64/python3.9/threading.py", "", ORIGIN_STDLIB);
    assert_origin("<frozen importlib._bootstrap>", "", ORIGIN_STDLIB);
    assert_origin("/v/lib/python3.9/site-packages/numpy/core.py", "", ORIGIN_PACKAGE);
    assert_origin("/usr/lib/python3/dist-packages/six.py", "", ORIGIN_PACKAGE);
    assert_origin("/v/lib/python3.9/site-packages/numpy/x.so", "x.so", ORIGIN_NATIVE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frame_has_name_file_and_line),
        cmocka_unit_test(what_is_unknown_is_left_out),
        cmocka_unit_test(a_thread_has_its_os_id_or_else_its_pthread_id),
        cmocka_unit_test(a_title_names_the_program_but_not_its_arguments),
        cmocka_unit_test(text_of_the_target_stays_on_its_line),
        cmocka_unit_test(the_path_says_whose_code_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
