/* Which threads and frames a choice takes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/choice.h"

#define PATTERNS(...)                                                                              \
    {                                                                                              \
        (const char *const[]){__VA_ARGS__},                                                        \
            sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *)                      \
    }

static void test_everything(void **state)
{
    (void)state;
    const struct choice all = {0};
    assert_true(choice_takes_thread(&all, 0, ""));
    assert_true(choice_shows_frame(&all, "", ""));
    assert_false(choice_of_frames(&all));
}

static void test_threads(void **state)
{
    (void)state;
    const struct choice c = {.threads = PATTERNS("Main*", "4711", "a?c")};
    assert_true(choice_takes_thread(&c, 1, "MainThread"));
    assert_true(choice_takes_thread(&c, 4711, ""));
    assert_true(choice_takes_thread(&c, 1, "4711")); /* it is called so */
    assert_true(choice_takes_thread(&c, 1, "abc"));
    assert_false(choice_takes_thread(&c, 1, "main"));
    assert_false(choice_takes_thread(&c, 47110, "abd"));
    assert_false(choice_takes_thread(&c, 0, ""));
}

static void test_files_and_modules(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        bool requests, app;
    } cases[] = {
        {"requests", true, false},
        {"requests.*", true, false},
        {"requests/*", true, false},
        {"*/site-packages/*", true, false},
        {"/venv/lib/site-packages/requests/api.py", true, false},
        {"api", false, false},
        {"request", false, false},
        {"app", false, true},
        {"*.py", true, true},
        {"app.py", false, true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct choice only = {.include = PATTERNS(cases[i].pattern)};
        const struct choice without = {.exclude = PATTERNS(cases[i].pattern)};
        const char *file = "/venv/lib/site-packages/requests/api.py", *own = "/srv/app.py";
        assert_int_equal(choice_shows_frame(&only, file, "requests/api.py"), cases[i].requests);
        assert_int_equal(choice_shows_frame(&only, own, "app.py"), cases[i].app);
        assert_int_equal(choice_shows_frame(&without, file, "requests/api.py"), !cases[i].requests);
        assert_int_equal(choice_shows_frame(&without, own, "app.py"), !cases[i].app);
    }
}

static void test_packages_and_what_is_no_path(void **state)
{
    (void)state;
    const struct choice c = {.include = PATTERNS("a.b", "<string>")};
    assert_true(choice_shows_frame(&c, "/x/a/b/__init__.py", "a/b/__init__.py"));
    assert_true(choice_shows_frame(&c, "/x/a/b/c/d.py", "a/b/c/d.py"));
    assert_false(choice_shows_frame(&c, "/x/a/__init__.py", "a/__init__.py"));
    assert_true(choice_shows_frame(&c, "<string>", "<string>"));
}

static void test_excluded_of_the_included(void **state)
{
    (void)state;
    const struct choice c = {.include = PATTERNS("a"), .exclude = PATTERNS("a.b")};
    assert_true(choice_shows_frame(&c, "/a/c.py", "a/c.py"));
    assert_false(choice_shows_frame(&c, "/a/b.py", "a/b.py"));
    assert_false(choice_shows_frame(&c, "/z.py", "z.py"));
}

static void test_long_paths(void **state)
{
    (void)state;
    char path[4096];
    const struct choice c = {.include = PATTERNS("a")};
    for (size_t i = 0; i < sizeof(path) - 1; i++)
        path[i] = i % 2 ? '/' : 'a';
    path[sizeof(path) - 1] = '\0';
    assert_true(choice_shows_frame(&c, path, path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_files_and_modules),
        cmocka_unit_test(test_packages_and_what_is_no_path),
        cmocka_unit_test(test_excluded_of_the_included),
        cmocka_unit_test(test_long_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
