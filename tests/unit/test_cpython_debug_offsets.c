/* Published offsets: what is taken from them, and that nothing that cannot be true is believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

#include "cpython/debug_offsets.h"

#define RUNTIME 0x7000
#define WORDS   128

/* A table as 3.13 has it (positions in words), with values made up where nothing depends on them.
 */
enum {
    VERSION = 1,
    FREE_THREADED = 2,
    RUNTIME_SIZE = 3,
    INTERPRETERS_HEAD = 5,
    INTERPRETER_SIZE = 6,
    GC = 10,
    GIL = 15,
    GIL_LOCKED = 17,
    GIL_HOLDER = 18,
    THREAD_SIZE = 19,
    THREAD_NEXT = 21,
    DATASTACK_CHUNK = 26,
    OBJECT_SIZE = 44,
    GC_COLLECTING = 72,
};

/* Where 3.13's structure sizes stand, in words. */
static const int sizes_313[] = {3, 6, 19, 28, 34, 44, 46, 50, 53, 56, 59, 61, 64, 67, 71};

static void fill(uint64_t *words)
{
    memset(words, 0, WORDS * sizeof(*words));
    memcpy(words, DEBUG_OFFSETS_COOKIE, 8);
    words[VERSION] = 0x030d01f0;
    for (size_t i = 0; i < ARRAY_LEN(sizes_313); i++)
        words[sizes_313[i]] = 4096;
    words[OBJECT_SIZE] = 16;
    words[INTERPRETERS_HEAD] = 632;
}

static struct layout layout;
static struct py_version version;
static bool free_threaded;
static struct error error;

static int read_table(const uint64_t *words)
{
    struct mem *mem = mem_fake_new();
    mem_fake_add(mem, RUNTIME, words, WORDS * sizeof(*words));
    memset(&error, 0, sizeof(error));
    int rc = debug_offsets_read(mem, RUNTIME, &layout, &version, &free_threaded, &error);
    mem_close(mem);
    return rc;
}

static void published_values_replace_those_of_the_row(void **state)
{
    (void)state;
    uint64_t words[WORDS];
    fill(words);
    words[THREAD_NEXT] = 1234;
    words[THREAD_SIZE] = 2000;
    words[DATASTACK_CHUNK] = 500;
    assert_int_equal(read_table(words), 0);
    assert_int_equal(version.minor, 13);
    assert_int_equal(version.micro, 1);
    assert_int_equal(version.level, 0xf);
    assert_false(free_threaded);
    assert_int_equal(layout.ts_next, 1234);
    assert_int_equal(layout.ts_size, 2000);
    assert_int_equal(layout.ts_datastack_top, 508);
    assert_int_equal(layout.dk_log2_size, 8); /* not published: from the row */
    assert_int_equal(layout.co_tlbc, LAYOUT_NONE);
}

/* What no version publishes and nobody would notice is taken only from the headers of that very version. */
static void what_nobody_publishes_is_not_guessed(void **state)
{
    (void)state;
    uint64_t words[WORDS];
    fill(words);
    assert_int_equal(read_table(words), 0);
    assert_int_not_equal(layout.co_version, LAYOUT_NONE);
    assert_int_not_equal(layout.is_code_object_generation, LAYOUT_NONE);
    words[VERSION] = 0x030d00c1;
    assert_int_equal(read_table(words), 0);
    assert_int_equal(layout.co_version, LAYOUT_NONE);
    assert_int_equal(layout.is_code_object_generation, LAYOUT_NONE);
}

static void the_gil_is_relative_to_itself(void **state)
{
    (void)state;
    uint64_t words[WORDS];
    fill(words);
    words[GIL] = 1000;
    words[GIL_LOCKED] = 1016;
    words[GIL_HOLDER] = 1008;
    words[GC] = 300;
    words[GC_COLLECTING] = 40;
    assert_int_equal(read_table(words), 0);
    assert_int_equal(layout.gil_locked, 16);
    assert_int_equal(layout.gil_last_holder, 8);
    assert_int_equal(layout.is_gc_collecting, 340);
    words[GIL] = 1012;
    assert_int_equal(read_table(words), -SCRY_E_CORRUPT);
}

static void free_threaded_builds_have_larger_objects(void **state)
{
    (void)state;
    uint64_t words[WORDS];
    fill(words);
    words[FREE_THREADED] = 1;
    assert_int_equal(read_table(words), -SCRY_E_UNSUPPORTED);
    words[OBJECT_SIZE] = 32;
    assert_int_equal(read_table(words), 0);
    assert_true(free_threaded);
    assert_true(layout.free_threaded);
    words[FREE_THREADED] = 2;
    assert_int_equal(read_table(words), -SCRY_E_CORRUPT);
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    uint64_t words[WORDS];
    fill(words);
    words[0] ^= 1;
    assert_int_equal(read_table(words), -SCRY_E_CORRUPT);
    fill(words);
    words[THREAD_NEXT] = 4096; /* as large as the structure */
    assert_int_equal(read_table(words), -SCRY_E_CORRUPT);
    assert_non_null(strstr(error.detail, "thread_state.next"));
    fill(words);
    words[INTERPRETER_SIZE] = 1 << 20;
    assert_int_equal(read_table(words), -SCRY_E_CORRUPT);
    fill(words);
    words[RUNTIME_SIZE] = 0;
    assert_int_equal(read_table(words), -SCRY_E_CORRUPT);
    fill(words);
    words[VERSION] = 0x1030d01f0;
    assert_int_equal(read_table(words), -SCRY_E_CORRUPT);
}

/* Every size and offset in turn set to something huge: never accepted. */
static void no_huge_value_passes(void **state)
{
    (void)state;
    uint64_t words[WORDS];
    for (size_t i = 0; i < ARRAY_LEN(sizes_313); i++) {
        fill(words);
        words[sizes_313[i]] = UINT64_MAX;
        assert_int_equal(read_table(words), -SCRY_E_CORRUPT);
    }
}

static void unknown_shapes_are_named(void **state)
{
    (void)state;
    uint64_t words[WORDS];
    fill(words);
    words[VERSION] = 0x030f00b1; /* the first beta of 3.15 had a smaller table */
    words[INTERPRETERS_HEAD] = 928;
    assert_int_equal(read_table(words), -SCRY_E_UNSUPPORTED);
    assert_non_null(strstr(error.detail, "3.15.0 (pre-release)"));
    assert_non_null(strstr(error.detail, "880"));
    words[VERSION] = 0x031000f0;
    assert_int_equal(read_table(words), -SCRY_E_UNSUPPORTED);
    assert_non_null(strstr(error.detail, "3.16.0"));
    words[VERSION] = 0x030c00f0;
    assert_int_equal(read_table(words), -SCRY_E_UNSUPPORTED);
    words[VERSION] = 0x040000f0;
    assert_int_equal(read_table(words), -SCRY_E_UNSUPPORTED);
}

static void a_newer_version_with_the_newest_shape_is_read(void **state)
{
    (void)state;
    uint64_t words[WORDS];
    memset(words, 0, sizeof(words));
    memcpy(words, DEBUG_OFFSETS_COOKIE, 8);
    words[VERSION] = 0x031102f0;
    /* Sizes everywhere: below no limit here, and nothing else is set. */
    for (int i = RUNTIME_SIZE; i < WORDS; i++)
        words[i] = 100;
    static const int sizes_315[] = {3,  6,  22, 39, 47, 58, 60, 66, 68,
                                    71, 74, 78, 81, 83, 86, 89, 94, 99};
    for (size_t i = 0; i < ARRAY_LEN(sizes_315); i++)
        words[sizes_315[i]] = 5000;
    words[58] = 16;
    words[59] = 8;
    words[INTERPRETERS_HEAD] = 936;
    words[27] = 72; /* thread_state.base_frame */
    assert_int_equal(read_table(words), 0);
    assert_int_equal(layout.minor, 17);
    assert_int_equal(version.micro, 2);
    assert_int_equal(layout.ts_base_frame, 72);
}

static void nothing_there_is_a_read_error(void **state)
{
    (void)state;
    struct mem *mem = mem_fake_new();
    assert_int_equal(debug_offsets_read(mem, RUNTIME, &layout, &version, &free_threaded, &error),
                     -SCRY_E_READ);
    mem_close(mem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_values_replace_those_of_the_row),
        cmocka_unit_test(what_nobody_publishes_is_not_guessed),
        cmocka_unit_test(the_gil_is_relative_to_itself),
        cmocka_unit_test(free_threaded_builds_have_larger_objects),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(no_huge_value_passes),
        cmocka_unit_test(unknown_shapes_are_named),
        cmocka_unit_test(a_newer_version_with_the_newest_shape_is_read),
        cmocka_unit_test(nothing_there_is_a_read_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
