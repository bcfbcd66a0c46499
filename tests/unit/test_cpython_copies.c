#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

#include "cpython/copies.h"

#define MOST 64

/* Position in the read of the piece that holds the address, from the front or from the back. */
static int first_of(const struct mem_range *pieces, int count, scry_addr addr)
{
    for (int i = 0; i < count; i++)
        if (addr - pieces[i].addr < pieces[i].len)
            return i;
    return -1;
}

static int last_of(const struct mem_range *pieces, int count, scry_addr addr)
{
    for (int i = count; i-- > 0;)
        if (addr - pieces[i].addr < pieces[i].len)
            return i;
    return -1;
}

static int pieces_of(const struct copies *c, bool warm, struct mem_range *to)
{
    int count = copies_ranges(c, warm, to);
    assert_int_equal(count, copies_range_count(c, warm));
    assert_true(count <= MOST);
    return count;
}

/* What is read twice encloses what is read once, and the end of a long range is read right before and right after. */
static void the_end_of_a_long_range_is_read_twice_in_quick_succession(void **state)
{
    (void)state;
    struct copies c = {0};
    struct mem_range pieces[MOST];
    copies_begin(&c);
    copies_add(&c, 0x100000, 20000, COPIES_TWICE);
    copies_add(&c, 0x200000, 64, COPIES_BETWEEN);
    assert_true(copies_make(&c));
    int count = pieces_of(&c, false, pieces);
    int low = first_of(pieces, count, 0x100000), high = first_of(pieces, count, 0x100000 + 19999);
    int once = first_of(pieces, count, 0x200000);
    assert_int_equal(once, last_of(pieces, count, 0x200000));
    assert_true(low < high && high == once - 1);
    assert_true(last_of(pieces, count, 0x100000 + 19999) == once + 1);
    assert_true(last_of(pieces, count, 0x100000) > once + 1);
    assert_int_equal(pieces_of(&c, true, pieces), count + 1);
    assert_true(pieces[0].addr > 0x100000 && pieces[0].addr + pieces[0].len == 0x100000 + 20000);
    copies_done(&c);
}

/* Wherever they lie: those around, the near one, what is read in between, the near one, those around, what comes last. */
static void the_nearest_is_read_around_what_is_read_once(void **state)
{
    (void)state;
    struct copies c = {0};
    struct mem_range pieces[MOST];
    const scry_addr order[] = {0x200000, 0x300000, 0x100000, 0x400000,
                               0x100000, 0x300000, 0x200000, 0x500000};
    copies_begin(&c);
    copies_add(&c, 0x500000, 8, COPIES_AFTER);
    copies_add(&c, 0x400000, 64, COPIES_BETWEEN);
    copies_add(&c, 0x100000, 500, COPIES_TWICE);
    copies_add(&c, 0x200000, 600, COPIES_TWICE);
    copies_add(&c, 0x300000, 700, COPIES_TWICE);
    copies_put_near(&c, 0x100000);
    assert_true(copies_make(&c));
    assert_int_equal(pieces_of(&c, false, pieces), 8);
    for (int i = 0; i < 8; i++)
        assert_int_equal(pieces[i].addr, order[i]);
    assert_int_equal(pieces_of(&c, true, pieces), 11);
    copies_done(&c);
}

static void copies_hold_what_was_read(void **state)
{
    (void)state;
    static unsigned char memory[20000], small[48];
    for (size_t i = 0; i < sizeof(memory); i++)
        memory[i] = (unsigned char)(i * 7 + i / 251);
    memset(small, 'x', sizeof(small));
    struct copies c = {0};
    struct mem_range pieces[MOST];
    struct mem *m = mem_fake_new();
    mem_fake_add(m, 0x100000, memory, sizeof(memory));
    mem_fake_add(m, 0x200000, small, sizeof(small));
    copies_begin(&c);
    copies_add(&c, 0x200000, sizeof(small), COPIES_BETWEEN);
    copies_add(&c, 0x100000, sizeof(memory), COPIES_TWICE);
    assert_true(copies_make(&c));
    for (int warm = 0; warm < 2; warm++) {
        memset(c.data, 0, 2 * c.twice_size + c.once_size);
        int count = pieces_of(&c, warm, pieces);
        assert_int_equal(mem_readv(m, pieces, count), count);
        const struct copies_range *r = copies_find(&c, 0x100000 + 17000, 3000);
        assert_non_null(r);
        assert_memory_equal(copies_first(&c, r), memory, sizeof(memory));
        assert_memory_equal(copies_second(&c, r), memory, sizeof(memory));
        r = copies_find(&c, 0x200000, sizeof(small));
        assert_non_null(r);
        assert_ptr_equal(copies_first(&c, r), copies_second(&c, r));
        assert_memory_equal(copies_first(&c, r), small, sizeof(small));
    }
    assert_null(copies_find(&c, 0x100000 + 19000, 1001));
    mem_close(m);
    copies_done(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_of_a_long_range_is_read_twice_in_quick_succession),
        cmocka_unit_test(the_nearest_is_read_around_what_is_read_once),
        cmocka_unit_test(copies_hold_what_was_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
