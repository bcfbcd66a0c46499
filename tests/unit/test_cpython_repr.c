/* Reprs, on every layout where the layout matters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>

#include "cpython/number.h"
#include "cpython/repr.h"
#include "fake_python.h"

static void check(struct fake *f, scry_addr obj, size_t budget, const char *expected)
{
    struct buf text;
    buf_init(&text);
    py_repr(&f->v, obj, budget, &text);
    assert_string_equal(text.data, expected);
    buf_done(&text);
}

static void floats_have_the_shortest_text_that_reads_back(void **state)
{
    (void)state;
    const struct {
        double value;
        const char *text;
    } cases[] = {
        {0.0, "0.0"},
        {-0.0, "-0.0"},
        {1.0, "1.0"},
        {-1.5, "-1.5"},
        {0.1, "0.1"},
        {0.1 + 0.2, "0.30000000000000004"},
        {100.0, "100.0"},
        {123456.789, "123456.789"},
        {1e15, "1000000000000000.0"},
        {1e16, "1e+16"},
        {9007199254740993.0, "9007199254740992.0"},
        {1.5e300, "1.5e+300"},
        {0.0001, "0.0001"},
        {0.00012345, "0.00012345"},
        {0.00001, "1e-05"},
        {5e-324, "5e-324"},
        {1.7976931348623157e308, "1.7976931348623157e+308"},
        {0x1p-44,
         "5.684341886080802e-14"}, /* nearest with 16 digits would be ...801, which is another */
        {0x1p-1022, "2.2250738585072014e-308"},
        {9.5367431640625e-07, "9.5367431640625e-07"},
        {INFINITY, "inf"},
        {-INFINITY, "-inf"},
        {NAN, "nan"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[FLOAT_TEXT];
        float_text(cases[i].value, true, text);
        assert_string_equal(text, cases[i].text);
    }
}

static void every_float_text_reads_back(void **state)
{
    (void)state;
    uint64_t bits = 0x9e3779b97f4a7c15;
    for (int i = 0; i < 20000; i++) {
        double value;
        char text[FLOAT_TEXT];
        bits = bits * 6364136223846793005ULL + 1442695040888963407ULL;
        memcpy(&value, &bits, sizeof(value));
        float_text(value, true, text);
        if (!isnan(value))
            assert_true(strtod(text, NULL) == value);
    }
}

static void halves_are_doubles(void **state)
{
    (void)state;
    assert_true(half_to_double(0x3c00) == 1.0);
    assert_true(half_to_double(0xc000) == -2.0);
    assert_true(half_to_double(0x0001) == 0x1p-24);
    assert_true(half_to_double(0x7bff) == 65504.0);
    assert_true(isinf(half_to_double(0x7c00)));
    assert_true(isnan(half_to_double(0x7e00)));
}

static void ints_of_any_size(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake f = fake_new(l);
        const char *suffix = l->major == 2 ? "L" : "";
        const struct {
            bool negative;
            uint32_t digits[4];
            size_t count;
            const char *text;
        } cases[] = {
            {false, {0}, 0, "0"},
            {false, {7}, 1, "7"},
            {true, {7}, 1, "-7"},
            {false, {0, 1}, 2, "1073741824"},
            {false, {0, 0, 0, 1}, 4, "1237940039285380274899124224"}, /* 2**90 */
            {true, {0x3fffffff, 0x3fffffff, 0x3fffffff}, 3, "-1237940039285380274899124223"},
        };
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
            char expected[64];
            snprintf(expected, sizeof(expected), "%s%s", cases[i].text, suffix);
            check(&f, fake_long(&f, cases[i].negative, cases[i].digits, cases[i].count), 100,
                  expected);
        }
        fake_done(&f);
    }
}

static void huge_ints_are_cut_or_counted(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake f = fake_new(l);
        const uint32_t digits[] = {0, 0, 0, 1};
        check(&f, fake_long(&f, false, digits, 4), 10, "1237940039...");
        scry_addr huge = fake_long(&f, false, digits, 4);
        if (l->long_tag != LAYOUT_NONE)
            fake_u64(&f, huge + l->long_tag, 1000000UL << 3);
        else
            fake_u64(&f, huge + l->var_size, 1000000);
        check(&f, huge, 100, "<int with about 9030900 digits>");
        fake_done(&f);
    }
}

static void strings_are_quoted_like_python_does(void **state)
{
    (void)state;
    const struct {
        const char *text, *repr;
    } cases[] = {
        {"", "''"},
        {"abc", "'abc'"},
        {"it's", "\"it's\""},
        {"say \"no\"", "'say \"no\"'"},
        {"it's \"so\"", "'it\\'s \"so\"'"},
        {"a\nb\tc\rd\\e", "'a\\nb\\tc\\rd\\\\e'"},
        {"\x01\x1f\x7f", "'\\x01\\x1f\\x7f'"},
    };
    FOR_EACH_LAYOUT(l)
    {
        struct fake f = fake_new(l);
        for (size_t i = 0; i < ARRAY_LEN(cases); i++)
            check(&f, fake_str(&f, cases[i].text), 100, cases[i].repr);
        fake_done(&f);
    }
}

static void characters_beyond_ascii_are_shown_if_they_can_be(void **state)
{
    (void)state;
    const uint32_t text[] = {0xe9, 0x416, 0x1f4a9, 0x200b, 0xa0, 0xd800, 0xe000, 0x10ffff};
    FOR_EACH_LAYOUT(l)
    {
        struct fake f = fake_new(l);
        scry_addr str = fake_wide_str(&f, text, ARRAY_LEN(text), 4);
        if (l->major == 2)
            check(&f, str, 200, "u'\\xe9\\u0416\\U0001f4a9\\u200b\\xa0\\ud800\\ue000\\U0010ffff'");
        else
            check(&f, str, 200,
                  "'\xc3\xa9\xd0\x96\xf0\x9f\x92\xa9\\u200b\\xa0\\ud800\\ue000\\U0010ffff'");
        fake_done(&f);
    }
}

static void long_strings_are_cut_behind_the_quote(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake f = fake_new(l);
        check(&f, fake_str(&f, "abcdefgh"), 10, "'abcdefgh'");
        check(&f, fake_str(&f, "abcdefghi"), 10, "'abcdefgh'...");
        fake_done(&f);
    }
}

static void bytes_are_escaped(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        if (l->major == 2)
            continue;
        struct fake f = fake_new(l);
        scry_addr bytes = fake_instance_of(&f, "bytes", TYPE_BYTES);
        fake_u64(&f, bytes + l->var_size, 5);
        mem_fake_add(f.mem, bytes + l->bytes_data, "a\0\xff'\n", 5);
        check(&f, bytes, 100, "b\"a\\x00\\xff'\\n\"");
        scry_addr array = fake_instance_of(&f, "bytearray", 0);
        fake_u64(&f, array + l->var_size, 2);
        fake_u64(&f, array + l->bytearray_start, fake_bytes(&f, "xy", 2));
        check(&f, array, 100, "bytearray(b'xy')");
        fake_done(&f);
    }
}

static void constants_and_bools(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake f = fake_new(l);
        check(&f, fake_instance_of(&f, "NoneType", 0), 100, "None");
        check(&f, fake_instance_of(&f, "ellipsis", 0), 100, "Ellipsis");
        check(&f, fake_instance_of(&f, "NotImplementedType", 0), 100, "NotImplemented");
        scry_addr yes = fake_int(&f, 1), no = fake_int(&f, 0),
                  type = fake_type(&f, "bool", TYPE_LONG);
        if (l->int2_value != LAYOUT_NONE) {
            fake_u64(&f, yes + l->int2_value, 1);
            fake_u64(&f, no + l->int2_value, 0);
        }
        fake_u64(&f, yes + l->ob_type, type);
        fake_u64(&f, no + l->ob_type, type);
        check(&f, yes, 100, "True");
        check(&f, no, 100, "False");
        fake_done(&f);
    }
}

static void complex_numbers(void **state)
{
    (void)state;
    const struct {
        double real, imag;
        const char *text;
    } cases[] = {
        {1, 2, "(1+2j)"},
        {0, 3, "3j"},
        {-0.0, -1.5, "(-0-1.5j)"},
        {1.5, NAN, "(1.5+nanj)"},
        {INFINITY, -INFINITY, "(inf-infj)"},
    };
    FOR_EACH_LAYOUT(l)
    {
        struct fake f = fake_new(l);
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
            scry_addr obj = fake_instance_of(&f, "complex", 0);
            mem_fake_add(f.mem, obj + l->ob_size, &cases[i].real, 8);
            mem_fake_add(f.mem, obj + l->ob_size + 8, &cases[i].imag, 8);
            check(&f, obj, 100, cases[i].text);
        }
        fake_done(&f);
    }
}

static void numpy_scalars_show_their_number(void **state)
{
    (void)state;
    const struct {
        const char *type;
        uint64_t bits;
        const char *text;
    } cases[] = {
        {"numpy.bool", 1, "True"},
        {"numpy.bool_", 0, "False"},
        {"numpy.int8", 0xff, "-1"},
        {"numpy.uint8", 0xff, "255"},
        {"numpy.int64", UINT64_MAX, "-1"},
        {"numpy.uint64", UINT64_MAX, "18446744073709551615"},
        {"numpy.float16", 0x2e66, "0.1"},
        {"numpy.float32", 0x3dcccccd, "0.1"},
        {"numpy.float64", 0x3fb999999999999a, "0.1"},
    };
    FOR_EACH_LAYOUT(l)
    {
        struct fake f = fake_new(l);
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
            scry_addr obj = fake_instance_of(&f, cases[i].type, 0);
            fake_u64(&f, obj + l->ob_size, cases[i].bits);
            check(&f, obj, 100, cases[i].text);
        }
        fake_done(&f);
    }
}

static void containers_nest(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        if (l->major == 2)
            continue; /* the same but for the L of its ints */
        struct fake f = fake_new(l);
        scry_addr one = fake_int(&f, 1), a = fake_str(&f, "a");
        scry_addr empty = fake_tuple(&f, NULL, 0), single = fake_tuple(&f, &one, 1);
        const scry_addr items[] = {one, a, empty, single};
        scry_addr list = fake_list(&f, items, 4);
        check(&f, empty, 100, "()");
        check(&f, single, 100, "(1,)");
        check(&f, list, 100, "[1, 'a', (), (1,)]");
        const scry_addr keys[] = {a, one}, values[] = {list, one};
        check(&f, fake_dict(&f, keys, values, 2, false), 100, "{'a': [1, 'a', (), (1,)], 1: 1}");
        check(&f, fake_dict(&f, NULL, NULL, 0, true), 100, "{}");
        fake_done(&f);
    }
}

static scry_addr fake_set(struct fake *f, const char *name, const scry_addr *items, size_t count)
{
    scry_addr obj = fake_instance_of(f, name, 0), table = fake_zeros(f, 8 * 16);
    int key_at = f->l->major == 2 ? 8 : 0;
    fake_u64(f, obj + f->l->set_used, count);
    fake_u64(f, obj + f->l->set_mask, 7);
    fake_u64(f, obj + f->l->set_table, table);
    for (size_t i = 0; i < count; i++)
        fake_u64(f, table + (i + 1) * 16 + (uint64_t)key_at, items[i]);
    /* One that was taken out. */
    fake_u64(f, table + (uint64_t)key_at, fake_str(f, "<dummy key>"));
    fake_u64(f, table + 8 - (uint64_t)key_at, UINT64_MAX);
    return obj;
}

static void sets_show_what_is_in_them(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake f = fake_new(l);
        bool is_2 = l->major == 2;
        const scry_addr items[] = {fake_str(&f, "a"), fake_str(&f, "b")};
        check(&f, fake_set(&f, "set", items, 2), 100, is_2 ? "set(['a', 'b'])" : "{'a', 'b'}");
        check(&f, fake_set(&f, "set", items, 0), 100, is_2 ? "set([])" : "set()");
        check(&f, fake_set(&f, "frozenset", items, 1), 100,
              is_2 ? "frozenset(['a'])" : "frozenset({'a'})");
        fake_done(&f);
    }
}

static void a_container_inside_of_itself_ends(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake f = fake_new(l);
        const scry_addr items[] = {fake_str(&f, "x"), 0};
        scry_addr list = fake_list(&f, items, 2), data;
        mem_read_u64(f.mem, list + l->list_item, &data);
        fake_u64(&f, data + 8, list);
        check(&f, list, 100, "['x', [...]]");
        fake_done(&f);
    }
}

static void deep_nesting_ends(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake f = fake_new(l);
        scry_addr list = fake_list(&f, NULL, 0);
        for (int i = 0; i < 40; i++)
            list = fake_list(&f, &list, 1);
        check(&f, list, 1000, "[[[[[[[[[[[[[[[[...]]]]]]]]]]]]]]]]");
        fake_done(&f);
    }
}

static void nested_containers_share_the_budget(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake f = fake_new(l);
        scry_addr items[100];
        for (size_t i = 0; i < ARRAY_LEN(items); i++)
            items[i] = fake_str(&f, "word");
        scry_addr inner = fake_list(&f, items, ARRAY_LEN(items));
        const scry_addr two[] = {inner, inner};
        check(&f, fake_list(&f, two, 2), 20, "[['word', 'word', 'w'..., ...], ...]");
        fake_done(&f);
    }
}

static void what_has_a_name_is_shown_by_it(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake f = fake_new(l);
        char expected[100];
        scry_addr function = fake_instance_of(&f, "function", 0), name = fake_str(&f, "A.run");
        fake_u64(&f, function + (l->func_qualname == LAYOUT_NONE ? l->func_name : l->func_qualname),
                 name);
        snprintf(expected, sizeof(expected), "<function A.run at 0x%llx>",
                 (unsigned long long)function);
        check(&f, function, 100, expected);

        scry_addr key = fake_str(&f, "__name__"), math = fake_str(&f, "math");
        scry_addr module = fake_instance_of(&f, "module", 0);
        fake_u64(&f, module + l->mod_dict, fake_dict(&f, &key, &math, 1, true));
        check(&f, module, 100, "<module 'math'>");

        scry_addr definition = fake_zeros(&f, 32),
                  builtin = fake_instance_of(&f, "builtin_function_or_method", 0);
        fake_u64(&f, definition, fake_bytes(&f, "len", 4));
        fake_u64(&f, builtin + l->cfunc_ml, definition);
        fake_u64(&f, builtin + l->cfunc_self, module);
        check(&f, builtin, 100, "<built-in function len>");
        fake_done(&f);
    }
}

static void classes_and_their_instances_have_a_module(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake f = fake_new(l);
        char expected[100];
        scry_addr meta = fake_type(&f, "type", TYPE_TYPE);
        scry_addr builtin = fake_type(&f, "int", TYPE_LONG),
                  class = fake_type(&f, "Inner", TYPE_HEAP);
        fake_u64(&f, builtin + l->ob_type, meta);
        fake_u64(&f, class + l->ob_type, meta);
        scry_addr key = fake_str(&f, "__module__"), module = fake_str(&f, "pkg.mod");
        fake_u64(&f, class + l->tp_dict, fake_dict(&f, &key, &module, 1, true));
        if (l->ht_qualname != LAYOUT_NONE)
            fake_u64(&f, class + l->ht_qualname, fake_str(&f, "Outer.Inner"));
        const char *name = l->ht_qualname != LAYOUT_NONE ? "pkg.mod.Outer.Inner" : "pkg.mod.Inner";
        check(&f, builtin, 100, l->major == 2 ? "<type 'int'>" : "<class 'int'>");
        snprintf(expected, sizeof(expected), "<class '%s'>", name);
        check(&f, class, 100, expected);
        scry_addr obj = fake_object(&f, class);
        snprintf(expected, sizeof(expected), "<%s object at 0x%llx>", name,
                 (unsigned long long)obj);
        check(&f, obj, 100, expected);
        fake_done(&f);
    }
}

static void exceptions_show_their_arguments(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake f = fake_new(l);
        scry_addr text = fake_str(&f, "x"),
                  error = fake_instance_of(&f, "ValueError", TYPE_EXCEPTION);
        fake_u64(&f, error + l->exc_args, fake_tuple(&f, &text, 1));
        bool comma = l->major == 2 || l->minor < 7;
        check(&f, error, 100, comma ? "ValueError('x',)" : "ValueError('x')");
        fake_u64(&f, error + l->exc_args, fake_tuple(&f, NULL, 0));
        check(&f, error, 100, "ValueError()");
        fake_done(&f);
    }
}

static void what_cannot_be_read_is_a_question_mark(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake f = fake_new(l);
        const scry_addr items[] = {fake_str(&f, "x"), 0x7fff0000, 0, 3, fake_str(&f, "y")};
        check(&f, fake_list(&f, items, 5), 100, "['x', ?, ?, ?, 'y']");
        scry_addr list = fake_list(&f, items, 1);
        fake_u64(&f, list + l->list_item, 0x7fff0000);
        check(&f, list, 100, "[?]");
        /* A list that claims more than there can be has at least a type and an address. */
        char expected[64];
        fake_u64(&f, list + l->var_size, UINT64_MAX);
        snprintf(expected, sizeof(expected), "<list object at 0x%llx>", (unsigned long long)list);
        check(&f, list, 100, expected);
        fake_done(&f);
    }
}

/* Memory full of pointers into itself and of small numbers: whatever it is taken for, the text
 * stays about as short as asked for. */
static void no_memory_makes_it_fail(void **state)
{
    (void)state;
    static const char *const names[] = {"list",
                                        "dict",
                                        "set",
                                        "tuple",
                                        "str",
                                        "int",
                                        "bool",
                                        "float",
                                        "type",
                                        "range",
                                        "function",
                                        "module",
                                        "method",
                                        "generator",
                                        "bytearray",
                                        "ValueError",
                                        "complex",
                                        "collections.deque",
                                        "collections.OrderedDict",
                                        "collections.defaultdict",
                                        "datetime.datetime",
                                        "datetime.timezone",
                                        "datetime.timedelta"};
    uint64_t seed = 12345;
    FOR_EACH_LAYOUT(l)
    {
        struct fake f = fake_new(l);
        const scry_addr base = 0x100000;
        enum { WORDS = 4096 };
        static uint64_t words[WORDS];
        scry_addr types[64];
        for (size_t i = 0; i < ARRAY_LEN(types); i++)
            types[i] = fake_type(
                &f, names[i % ARRAY_LEN(names)],
                i < ARRAY_LEN(names) ? 0 : (1UL << (20 + i % 12)) | (i % 2 ? TYPE_HEAP : 0));
        for (int i = 0; i < WORDS; i++) {
            seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
            uint64_t random = seed >> 33;
            words[i] = random % 4 == 0   ? types[random / 4 % ARRAY_LEN(types)]
                       : random % 4 == 1 ? base + random / 4 % WORDS * 8
                       : random % 4 == 2 ? random / 4 % 12
                                         : seed;
        }
        mem_fake_add(f.mem, base, words, sizeof(words));
        for (int i = 0; i < WORDS; i++) {
            struct buf text;
            buf_init(&text);
            py_repr(&f.v, base + (scry_addr)i * 8, 60, &text);
            assert_true(text.len > 0);
            assert_true(text.len < 2000);
            buf_done(&text);
        }
        fake_done(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats_have_the_shortest_text_that_reads_back),
        cmocka_unit_test(every_float_text_reads_back),
        cmocka_unit_test(halves_are_doubles),
        cmocka_unit_test(ints_of_any_size),
        cmocka_unit_test(huge_ints_are_cut_or_counted),
        cmocka_unit_test(strings_are_quoted_like_python_does),
        cmocka_unit_test(characters_beyond_ascii_are_shown_if_they_can_be),
        cmocka_unit_test(long_strings_are_cut_behind_the_quote),
        cmocka_unit_test(bytes_are_escaped),
        cmocka_unit_test(constants_and_bools),
        cmocka_unit_test(complex_numbers),
        cmocka_unit_test(numpy_scalars_show_their_number),
        cmocka_unit_test(containers_nest),
        cmocka_unit_test(sets_show_what_is_in_them),
        cmocka_unit_test(a_container_inside_of_itself_ends),
        cmocka_unit_test(deep_nesting_ends),
        cmocka_unit_test(nested_containers_share_the_budget),
        cmocka_unit_test(what_has_a_name_is_shown_by_it),
        cmocka_unit_test(classes_and_their_instances_have_a_module),
        cmocka_unit_test(exceptions_show_their_arguments),
        cmocka_unit_test(what_cannot_be_read_is_a_question_mark),
        cmocka_unit_test(no_memory_makes_it_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
