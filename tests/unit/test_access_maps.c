#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <unistd.h>

#include "access/maps.h"

static const char text[] =
    "00400000-00401000 r--p 00000000 fe:00 123                                /usr/bin/python3.11\n"
    "00401000-00600000 r-xp 00001000 fe:00 123                                /usr/bin/python3.11\n"
    "00600000-00601000 rw-p 00200000 fe:00 123    /opt/a b/py\\012thon (deleted)\n"
    "01000000-02000000 rw-p 00000000 00:00 0                                  [heap]\n"
    "7f0000000000-7f0000001000 rw-p 00000000 00:00 0 \n"
    "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n";

static void each_line_becomes_a_mapping(void **state)
{
    (void)state;
    struct maps maps;
    assert_int_equal(maps_parse(text, &maps), 0);
    assert_int_equal(maps.count, 6);
    const struct mapping *m = &maps.items[1];
    assert_int_equal(m->start, 0x401000);
    assert_int_equal(m->end, 0x600000);
    assert_int_equal(m->offset, 0x1000);
    assert_int_equal(m->inode, 123);
    assert_true(m->read && !m->write && m->exec && !m->deleted);
    assert_string_equal(m->path, "/usr/bin/python3.11");
    assert_string_equal(maps.items[2].path, "/opt/a b/py\nthon");
    assert_true(maps.items[2].deleted);
    assert_string_equal(maps.items[3].path, "[heap]");
    assert_string_equal(maps.items[4].path, "");
    assert_int_equal(maps.items[5].end, 0xffffffffff601000);
    maps_done(&maps);
}

static void an_address_is_found_in_its_mapping_only(void **state)
{
    (void)state;
    struct maps maps;
    assert_int_equal(maps_parse(text, &maps), 0);
    assert_ptr_equal(maps_find(&maps, 0x400000), &maps.items[0]);
    assert_ptr_equal(maps_find(&maps, 0x400fff), &maps.items[0]);
    assert_ptr_equal(maps_find(&maps, 0x401000), &maps.items[1]);
    assert_null(maps_find(&maps, 0x3fffff));
    assert_null(maps_find(&maps, 0x601000));
    assert_null(maps_find(&maps, UINT64_MAX));
    maps_done(&maps);
}

static void rubbish_and_repetition_are_left_out(void **state)
{
    (void)state;
    struct maps maps;
    assert_int_equal(maps_parse("", &maps), 0);
    assert_int_equal(maps.count, 0);
    assert_null(maps_find(&maps, 0));
    maps_done(&maps);
    assert_int_equal(maps_parse("nonsense\n2000-1000 r--p 0 0:0 0 \n\n"
                                "3000-4000 r--p 0 0:0 7 /b\n1000-3000 r--p 0 0:0 7 /a\n"
                                "2000-3000 r--p 0 0:0 7 /a\n5000-6000 r--p 0 0:0",
                                &maps),
                     0);
    assert_int_equal(maps.count, 2);
    assert_string_equal(maps.items[0].path, "/a");
    assert_string_equal(maps.items[1].path, "/b");
    maps_done(&maps);
}

static void our_own_map_contains_this_function(void **state)
{
    (void)state;
    struct process *self;
    struct maps maps;
    assert_int_equal(process_open(getpid(), &self, NULL), 0);
    assert_int_equal(maps_read(self, &maps, NULL), 0);
    const struct mapping *m = maps_find(&maps, (uintptr_t)our_own_map_contains_this_function);
    assert_non_null(m);
    assert_true(m->exec);
    assert_string_equal(m->path, self->exe);
    maps_done(&maps);
    process_close(self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_line_becomes_a_mapping),
        cmocka_unit_test(an_address_is_found_in_its_mapping_only),
        cmocka_unit_test(rubbish_and_repetition_are_left_out),
        cmocka_unit_test(our_own_map_contains_this_function),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
