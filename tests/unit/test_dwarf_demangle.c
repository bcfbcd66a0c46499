#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "dwarf/demangle.h"

static void assert_demangled(const char *symbol, const char *expected)
{
    char *name = demangle(symbol);
    assert_string_equal(name, expected);
    free(name);
}

static void names_become_readable(void **state)
{
    (void)state;
    assert_demangled("list_sort_impl", "list_sort_impl");
    assert_demangled("_ZN2at6native3addERKNS_6TensorES3_", "at::native::add");
    assert_demangled("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write");
    assert_demangled("_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar");
    assert_demangled("list_sort_impl.isra.0", "list_sort_impl");
    assert_demangled("_PyEval_EvalFrameDefault.cold.12", "_PyEval_EvalFrameDefault");
    assert_demangled("_Z", "_Z");
    assert_demangled("", "");
    assert_demangled(".cold", ".cold");
}

static void a_name_too_long_to_read_is_left_alone(void **state)
{
    (void)state;
    char *symbol = malloc(20001);
    memset(symbol, '1', 20000);
    symbol[20000] = '\0';
    memcpy(symbol, "_ZN", 3);
    assert_demangled(symbol, symbol);
    free(symbol);
}

static void assert_cython(const char *symbol, const char *expected)
{
    char *name = cython_name(symbol);
    if (expected)
        assert_string_equal(name, expected);
    else
        assert_null(name);
    free(name);
}

static void cython_names_are_what_was_written(void **state)
{
    (void)state;
    assert_cython("__pyx_pw_4demo_1square", "square");
    assert_cython("__pyx_pf_4demo_square", "square");
    assert_cython("__pyx_pw_4demo_3foo_bar", "foo_bar");
    assert_cython("__pyx_f_4demo_inner", "inner");
    assert_cython("__pyx_pw_4demo_5Point_3norm", "norm");
    assert_cython("__pyx_f_4demo_5Point_norm.isra.0", "norm");
    assert_cython("__pyx_pw_3pkg_3sub_1f", "f");
    assert_cython("PyObject_Call", NULL);
    assert_cython("__pyx_pw_", NULL);
    assert_cython("__pyx_pw_99x", "x");
    assert_true(cython_is_helper("__Pyx_PyObject_Call"));
    assert_false(cython_is_helper("__pyx_pw_4demo_1square"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_become_readable),
        cmocka_unit_test(a_name_too_long_to_read_is_left_alone),
        cmocka_unit_test(cython_names_are_what_was_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
