/* Strings, numbers, tuples, dicts, attributes and thread names, on every layout. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "fake_python.h"

static void check_str(struct fake *f, scry_addr str, size_t max, const char *expected)
{
    struct buf text;
    buf_init(&text);
    assert_int_equal(py_str_read(&f->v, str, max, &text), 0);
    assert_string_equal(text.data, expected);
    buf_done(&text);
}

static void ascii_strings_are_read_and_cut(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake f = fake_new(l);
        scry_addr str = fake_str(&f, "thread");
        check_str(&f, str, 100, "thread");
        check_str(&f, str, 4, "thre");
        check_str(&f, fake_str(&f, ""), 100, "");
        fake_done(&f);
    }
}

static void wide_strings_become_utf8(void **state)
{
    (void)state;
    const uint16_t two[] = {'a', 0x416, 0x20ac};
    const uint32_t four[] = {'a', 0x1f4a9, 'b'};
    FOR_EACH_LAYOUT(l)
    {
        struct fake f = fake_new(l);
        check_str(&f, fake_wide_str(&f, two, 3, 2), 100, "a\xd0\x96\xe2\x82\xac");
        check_str(&f, fake_wide_str(&f, four, 3, 4), 100,
                  "a\xf0\x9f\x92\xa9"
                  "b");
        if (l->major == 3)
            check_str(&f, fake_wide_str(&f, "h\xe9", 2, 1), 100, "h\xc3\xa9"); /* Latin-1 */
        fake_done(&f);
    }
}

static void lone_surrogates_are_replaced(void **state)
{
    (void)state;
    const uint16_t lone[] = {'a', 'b', 0xd83d, 'c'};
    const uint16_t pair[] = {'a', 'b', 0xd83d, 0xdca9};
    FOR_EACH_LAYOUT(l)
    {
        struct fake f = fake_new(l);
        check_str(&f, fake_wide_str(&f, lone, 4, 2), 100,
                  "ab\xef\xbf\xbd"
                  "c");
        /* A narrow build of 2.7 writes a character beyond 0xffff as a pair; 3.x never does. */
        check_str(&f, fake_wide_str(&f, pair, 4, 2), 100,
                  l->major == 2 ? "ab\xf0\x9f\x92\xa9" : "ab\xef\xbf\xbd\xef\xbf\xbd");
        fake_done(&f);
    }
}

static void bytes_of_2_7_that_are_not_utf8_are_replaced(void **state)
{
    (void)state;
    struct py_version version = {.major = 2, .minor = 7};
    struct fake f = fake_new(layout_for(version, false, false));
    check_str(&f, fake_str(&f, "h\xc3\xa9 \xff \xed\xa0\x80 \xc3"), 100,
              "h\xc3\xa9 \xef\xbf\xbd \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd \xef\xbf\xbd");
    fake_done(&f);
}

static void text_that_is_kept_elsewhere_is_found(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        if (l->major == 2)
            continue;
        struct fake f = fake_new(l);
        scry_addr str = fake_str(&f, "");
        fake_u64(&f, str + l->ascii_length, 3);
        fake_u32(&f, str + l->ascii_state, 1U << l->str_kind_shift); /* not compact */
        fake_u64(&f, str + l->unicode_data, fake_bytes(&f, "abc", 3));
        check_str(&f, str, 100, "abc");
        fake_done(&f);
    }
}

static void broken_strings_are_errors_and_add_nothing(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake f = fake_new(l);
        struct buf text;
        buf_init(&text);
        buf_add_str(&text, "before");
        scry_addr str = fake_str(&f, "abc");
        fake_u64(&f, str + (l->major == 2 ? l->var_size : l->ascii_length), UINT64_MAX);
        assert_int_equal(py_str_read(&f.v, str, 10, &text), -SCRY_E_CORRUPT);
        fake_u64(&f, str + (l->major == 2 ? l->var_size : l->ascii_length), 1 << 20);
        assert_int_equal(py_str_read(&f.v, str, 1 << 20, &text), -SCRY_E_READ);
        if (l->major == 3) {
            fake_u32(&f, str + l->ascii_state, (3U | 8) << l->str_kind_shift);
            assert_int_equal(py_str_read(&f.v, str, 10, &text), -SCRY_E_CORRUPT);
        }
        assert_int_equal(py_str_read(&f.v, 0, 10, &text), -SCRY_E_CORRUPT);
        assert_int_equal(py_str_read(&f.v, str + 1, 10, &text), -SCRY_E_CORRUPT);
        assert_int_equal(py_str_read(&f.v, 0x7fff0000, 10, &text), -SCRY_E_READ);
        assert_string_equal(text.data, "before");
        buf_done(&text);
        fake_done(&f);
    }
}

/* The last object of a mapping is shorter than the window in which objects are read. */
static void objects_at_the_end_of_memory_are_read(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake f = fake_new(l);
        scry_addr str = fake_str(&f, "abc"), at = 0x50000 - 96;
        unsigned char bytes[96];
        assert_int_equal(mem_read(f.mem, str, bytes, sizeof(bytes)), 0);
        mem_fake_add(f.mem, at, bytes, sizeof(bytes));
        check_str(&f, at, 100, "abc");
        fake_done(&f);
    }
}

static void bytes_have_a_limit(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake f = fake_new(l);
        struct buf data;
        buf_init(&data);
        scry_addr bytes = fake_instance_of(&f, "bytes", 1UL << 27);
        fake_u64(&f, bytes + l->var_size, 3);
        mem_fake_add(f.mem, bytes + l->bytes_data, "a\0b", 3);
        assert_int_equal(py_bytes_read(&f.v, bytes, 2, &data), -SCRY_E_CORRUPT);
        assert_int_equal(py_bytes_read(&f.v, bytes, 3, &data), 0);
        assert_int_equal(data.len, 3);
        assert_memory_equal(data.data, "a\0b", 3);
        fake_u64(&f, bytes + l->var_size, 0);
        assert_int_equal(py_bytes_read(&f.v, bytes, 3, &data), 0);
        assert_int_equal(data.len, 3);
        buf_done(&data);
        fake_done(&f);
    }
}

static void ints_are_read_when_they_fit(void **state)
{
    (void)state;
    const int64_t values[] = {0, 1, -1, 255, 1 << 30, -(1LL << 31), INT64_MAX, INT64_MIN};
    const uint32_t too_big[] = {0, 0, 8}, too_many[] = {0, 0, 0, 1};
    FOR_EACH_LAYOUT(l)
    {
        struct fake f = fake_new(l);
        int64_t value;
        for (size_t i = 0; i < ARRAY_LEN(values); i++) {
            assert_int_equal(py_long_read(&f.v, fake_int(&f, values[i]), &value), 0);
            assert_int_equal(value, values[i]);
        }
        scry_addr big = fake_long(&f, false, too_big, 3);
        assert_int_equal(py_long_read(&f.v, big, &value), -SCRY_E_CORRUPT);
        big = fake_long(&f, true, too_big, 3);
        assert_int_equal(py_long_read(&f.v, big, &value), 0); /* exactly the smallest */
        assert_int_equal(py_long_read(&f.v, fake_long(&f, true, too_many, 4), &value),
                         -SCRY_E_CORRUPT);
        fake_done(&f);
    }
}

static void the_int_of_2_7_is_a_machine_word(void **state)
{
    (void)state;
    struct py_version version = {.major = 2, .minor = 7};
    struct fake f = fake_new(layout_for(version, false, false));
    scry_addr obj = fake_instance_of(&f, "int", 1UL << 23);
    int64_t value;
    fake_u64(&f, obj + f.l->int2_value, (uint64_t)-7);
    assert_int_equal(py_long_read(&f.v, obj, &value), 0);
    assert_int_equal(value, -7);
    fake_done(&f);
}

static void type_names_come_without_module(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake f = fake_new(l);
        char name[8];
        assert_int_equal(py_type_name(&f.v, fake_str(&f, ""), name, sizeof(name)), 0);
        assert_string_equal(name, "str");
        scry_addr deque = fake_instance_of(&f, "collections.deque_iterator", 0);
        assert_int_equal(py_type_name(&f.v, deque, name, sizeof(name)), 0);
        assert_string_equal(name, "deque_i");
        fake_done(&f);
    }
}

static void tuples_have_bounds(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake f = fake_new(l);
        const scry_addr items[] = {0x1234500, 0x6789a00};
        scry_addr tuple = fake_tuple(&f, items, 2), item;
        size_t size;
        assert_int_equal(py_tuple_size(&f.v, tuple, &size), 0);
        assert_int_equal(size, 2);
        assert_int_equal(py_tuple_item(&f.v, tuple, 1, &item), 0);
        assert_int_equal(item, 0x6789a00);
        assert_int_equal(py_tuple_item(&f.v, tuple, 2, &item), -SCRY_E_CORRUPT);
        fake_u64(&f, tuple + l->var_size, UINT64_MAX);
        assert_int_equal(py_tuple_size(&f.v, tuple, &size), -SCRY_E_CORRUPT);
        fake_done(&f);
    }
}

static int count_entries(scry_addr key, scry_addr value, void *context)
{
    (void)key;
    (void)value;
    ++*(size_t *)context;
    return 0;
}

static int stop_at_once(scry_addr key, scry_addr value, void *context)
{
    (void)key;
    (void)value;
    (void)context;
    return 42;
}

/* More than one index byte per entry, more than one chunk. */
#define MANY 300

static void dicts_give_all_their_entries(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        for (int str_keys = 0; str_keys <= 1; str_keys++) {
            struct fake f = fake_new(l);
            scry_addr keys[MANY], values[MANY], value;
            for (int i = 0; i < MANY; i++) {
                char name[16];
                snprintf(name, sizeof(name), "key%d", i);
                keys[i] = fake_str(&f, name);
                values[i] = 0x100000 + (scry_addr)i * 16;
            }
            values[7] = 0; /* deleted */
            scry_addr dict = fake_dict(&f, keys, values, MANY, str_keys);
            size_t count = 0;
            assert_int_equal(py_dict_each(&f.v, dict, 1000, count_entries, &count), 0);
            assert_int_equal(count, MANY - 1);
            count = 0;
            assert_int_equal(py_dict_each(&f.v, dict, 10, count_entries, &count), 0);
            assert_int_equal(count, 10);
            assert_int_equal(py_dict_each(&f.v, dict, 10, stop_at_once, NULL), 42);
            assert_int_equal(py_dict_get_str(&f.v, dict, "key299", &value), 0);
            assert_int_equal(value, values[299]);
            assert_int_equal(py_dict_get_str(&f.v, dict, "key7", &value), 1);
            assert_int_equal(py_dict_get_str(&f.v, dict, "key", &value), 1);
            fake_done(&f);
        }
    }
}

static void a_key_that_cannot_be_read_hides_no_other(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake f = fake_new(l);
        scry_addr keys[] = {0x7fff0000, fake_int(&f, 5), fake_str(&f, "wanted")};
        scry_addr values[] = {0x100000, 0x100010, 0x100020}, value;
        scry_addr dict = fake_dict(&f, keys, values, 3, false);
        assert_int_equal(py_dict_get_str(&f.v, dict, "wanted", &value), 0);
        assert_int_equal(value, 0x100020);
        fake_done(&f);
    }
}

static void split_dicts_take_values_from_their_own_table(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        if (l->dict_values == LAYOUT_NONE)
            continue;
        struct fake f = fake_new(l);
        scry_addr keys[] = {fake_str(&f, "x"), fake_str(&f, "y")}, value;
        scry_addr dict = fake_dict(&f, keys, NULL, 0, true);
        fake_u64(&f, dict + l->dict_keys, fake_keys(&f, keys, NULL, 2, true));
        scry_addr values = fake_zeros(&f, 64);
        fake_u64(&f, dict + l->dict_values, values);
        scry_addr first = values + (l->dv_values == LAYOUT_NONE ? 0 : l->dv_values);
        fake_u64(&f, first + 8, 0x4440);
        assert_int_equal(py_dict_get_str(&f.v, dict, "y", &value), 0);
        assert_int_equal(value, 0x4440);
        assert_int_equal(py_dict_get_str(&f.v, dict, "x", &value), 1); /* not set here */
        fake_done(&f);
    }
}

static void dicts_of_impossible_size_are_refused(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake f = fake_new(l);
        scry_addr keys[] = {fake_str(&f, "x")}, values[] = {0x4440}, value, keys_addr;
        scry_addr dict = fake_dict(&f, keys, values, 1, false);
        if (l->dict_table != LAYOUT_NONE) {
            fake_u64(&f, dict + l->dict_mask, UINT64_MAX - 1);
            assert_int_equal(py_dict_get_str(&f.v, dict, "x", &value), -SCRY_E_CORRUPT);
        } else {
            mem_read_u64(f.mem, dict + l->dict_keys, &keys_addr);
            fake_u64(&f, keys_addr + l->dk_nentries, 1000);
            assert_int_equal(py_dict_get_str(&f.v, dict, "x", &value), -SCRY_E_CORRUPT);
            fake_u64(&f, keys_addr + l->dk_nentries, 1);
            if (l->dk_size != LAYOUT_NONE)
                fake_u64(&f, keys_addr + l->dk_size, 12); /* no power of two */
            else
                fake_u8(&f, keys_addr + l->dk_log2_size, 200);
            assert_int_equal(py_dict_get_str(&f.v, dict, "x", &value), -SCRY_E_CORRUPT);
        }
        assert_int_equal(py_dict_get_str(&f.v, 0, "x", &value), -SCRY_E_CORRUPT);
        fake_done(&f);
    }
}

/* An instance whose class keeps attributes as this version does it by default. */
static scry_addr fake_instance(struct fake *f, scry_addr dict)
{
    const struct layout *l = f->l;
    scry_addr type = fake_type(f, "Thread", 1UL << 9 | (l->managed_dict ? 1UL << 4 : 0));
    fake_zeros(f, 64); /* room before the object */
    scry_addr obj = fake_object(f, type);
    if (!l->managed_dict) {
        fake_u64(f, type + l->tp_dictoffset, 48);
        fake_u64(f, obj + 48, dict);
        return obj;
    }
    fake_u64(f, obj - (l->managed_dict == 13 && l->free_threaded ? 8 : 24), dict);
    return obj;
}

static void attributes_come_from_the_instance_dict(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake f = fake_new(l);
        scry_addr keys[] = {fake_str(&f, "_name")}, values[] = {0x4440}, value;
        scry_addr obj = fake_instance(&f, fake_dict(&f, keys, values, 1, true));
        assert_int_equal(py_instance_attr(&f.v, obj, "_name", &value), 0);
        assert_int_equal(value, 0x4440);
        assert_int_equal(py_instance_attr(&f.v, obj, "other", &value), 1);
        assert_int_equal(py_instance_attr(&f.v, fake_instance(&f, 0), "_name", &value), 1);
        assert_int_equal(py_instance_attr(&f.v, fake_str(&f, "no attributes"), "_name", &value), 1);
        fake_done(&f);
    }
}

static void attributes_come_from_values_without_a_dict(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        if (!l->managed_dict)
            continue;
        struct fake f = fake_new(l);
        scry_addr keys[] = {fake_str(&f, "x"), fake_str(&f, "y")}, value, type;
        scry_addr obj = fake_instance(&f, 0), values = fake_zeros(&f, 64);
        mem_read_u64(f.mem, obj + l->ob_type, &type);
        fake_u64(&f, type + l->ht_cached_keys, fake_keys(&f, keys, NULL, 2, true));
        if (l->managed_dict == 11) {
            fake_u64(&f, obj - 32, values);
        } else if (l->managed_dict == 12) {
            fake_u64(&f, obj - 24, values - 1);
        } else {
            fake_u64(&f, type + l->tp_flags, 1UL << 9 | 1UL << 4 | 1UL << 2);
            fake_u64(&f, type + l->tp_basicsize, 40);
            values = obj + 40;
        }
        fake_u64(&f, values + l->dv_values + 8, 0x4440);
        assert_int_equal(py_instance_attr(&f.v, obj, "y", &value), 0);
        assert_int_equal(value, 0x4440);
        assert_int_equal(py_instance_attr(&f.v, obj, "x", &value), 1);
        fake_done(&f);
    }
}

/* Subclasses of int or tuple have their dict behind their items. */
static void attributes_of_objects_of_varying_size(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake f = fake_new(l);
        scry_addr keys[] = {fake_str(&f, "x")}, values[] = {0x4440}, value;
        scry_addr type = fake_type(&f, "Point", 1UL << 9 | 1UL << 26), obj = fake_object(&f, type);
        fake_u64(&f, type + l->tp_basicsize, 64);
        fake_u64(&f, type + l->tp_itemsize, 4);
        fake_u64(&f, type + l->tp_dictoffset, (uint64_t)-8);
        fake_u64(&f, obj + l->var_size,
                 (uint64_t)-3); /* negative: the count of an int below zero */
        fake_u64(&f, obj + 64 + 16 - 8, fake_dict(&f, keys, values, 1, true));
        assert_int_equal(py_instance_attr(&f.v, obj, "x", &value), 0);
        assert_int_equal(value, 0x4440);
        fake_u64(&f, obj + l->var_size, UINT64_MAX / 2);
        assert_int_equal(py_instance_attr(&f.v, obj, "x", &value), -SCRY_E_CORRUPT);
        fake_done(&f);
    }
}

static void remember_name(uint64_t thread_id, const char *name, void *context)
{
    struct buf *names = context;
    buf_addf(names, "%llx=%s;", (unsigned long long)thread_id, name);
}

static void threads_have_the_names_that_threading_gave(void **state)
{
    (void)state;
    FOR_EACH_LAYOUT(l)
    {
        struct fake f = fake_new(l);
        scry_addr name_key = fake_str(&f, l->major == 2 ? "_Thread__name" : "_name");
        scry_addr main_name = fake_str(&f, "MainThread"), worker_name = fake_str(&f, "worker");
        scry_addr threads[] = {
            fake_instance(&f, fake_dict(&f, &name_key, &main_name, 1, true)),
            fake_instance(&f, 0), /* no name: passed over */
            fake_instance(&f, fake_dict(&f, &name_key, &worker_name, 1, true)),
        };
        scry_addr ids[] = {fake_int(&f, 0x7f0012345678), fake_int(&f, 2), fake_int(&f, 3)};
        scry_addr active = fake_dict(&f, ids, threads, 3, false);
        scry_addr active_key = fake_str(&f, "_active");
        scry_addr module = fake_instance_of(&f, "module", 0);
        fake_u64(&f, module + l->mod_dict, fake_dict(&f, &active_key, &active, 1, true));
        scry_addr threading = fake_str(&f, "threading");
        scry_addr interp = fake_zeros(&f, 16384);
        fake_u64(&f, interp + l->is_modules, fake_dict(&f, &threading, &module, 1, true));
        struct buf names;
        buf_init(&names);
        assert_int_equal(py_thread_names(&f.v, interp, remember_name, &names), 0);
        assert_string_equal(names.data, "7f0012345678=MainThread;3=worker;");
        fake_u64(&f, interp + l->is_modules, fake_dict(&f, &active_key, &module, 1, true));
        assert_int_equal(py_thread_names(&f.v, interp, remember_name, &names), 1);
        fake_u64(&f, interp + l->is_modules, 0);
        assert_int_equal(py_thread_names(&f.v, interp, remember_name, &names), 1);
        buf_done(&names);
        fake_done(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ascii_strings_are_read_and_cut),
        cmocka_unit_test(wide_strings_become_utf8),
        cmocka_unit_test(lone_surrogates_are_replaced),
        cmocka_unit_test(bytes_of_2_7_that_are_not_utf8_are_replaced),
        cmocka_unit_test(text_that_is_kept_elsewhere_is_found),
        cmocka_unit_test(broken_strings_are_errors_and_add_nothing),
        cmocka_unit_test(objects_at_the_end_of_memory_are_read),
        cmocka_unit_test(bytes_have_a_limit),
        cmocka_unit_test(ints_are_read_when_they_fit),
        cmocka_unit_test(the_int_of_2_7_is_a_machine_word),
        cmocka_unit_test(type_names_come_without_module),
        cmocka_unit_test(tuples_have_bounds),
        cmocka_unit_test(dicts_give_all_their_entries),
        cmocka_unit_test(a_key_that_cannot_be_read_hides_no_other),
        cmocka_unit_test(split_dicts_take_values_from_their_own_table),
        cmocka_unit_test(dicts_of_impossible_size_are_refused),
        cmocka_unit_test(attributes_come_from_the_instance_dict),
        cmocka_unit_test(attributes_come_from_values_without_a_dict),
        cmocka_unit_test(attributes_of_objects_of_varying_size),
        cmocka_unit_test(threads_have_the_names_that_threading_gave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
