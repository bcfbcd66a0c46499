#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "access/mem.h"
#include "child.h"

static void fake_reads_what_was_put_there(void **state)
{
    (void)state;
    struct mem *m = mem_fake_new();
    char to[8] = {0};
    assert_int_equal(mem_fake_add(m, 0x1ffe, "abcd", 4), 0);
    assert_int_equal(mem_fake_add(m, 0x2002, "ef", 2), 0);
    assert_int_equal(mem_read(m, 0x1ffe, to, 6), 0);
    assert_memory_equal(to, "abcdef", 6);
    assert_int_equal(mem_fake_add(m, 0x2000, "X", 1), 0);
    assert_int_equal(mem_read(m, 0x1fff, to, 2), 0);
    assert_memory_equal(to, "bX", 2);
    mem_close(m);
}

static void fake_refuses_one_byte_too_many(void **state)
{
    (void)state;
    struct mem *m = mem_fake_new();
    char to[8];
    mem_fake_add(m, 0x1000, "abcd", 4);
    assert_int_equal(mem_read(m, 0x1000, to, 5), -SCRY_E_READ);
    assert_int_equal(mem_read(m, 0xfff, to, 2), -SCRY_E_READ);
    assert_int_equal(mem_read(m, UINT64_MAX, to, 2), -SCRY_E_READ);
    struct mem_range ranges[] = {{0x1000, to, 4}, {0x1004, to, 1}, {0x1000, to, 1}};
    assert_int_equal(mem_readv(m, ranges, 3), 1);
    mem_close(m);
}

static void strings_end_at_their_nul_or_are_cut(void **state)
{
    (void)state;
    struct mem *m = mem_fake_new();
    char to[16];
    mem_fake_add(m, 0x1ffc, "abc", 4); /* nothing follows: a read past the page would fail */
    assert_int_equal(mem_read_cstr(m, 0x1ffc, to, sizeof(to)), 0);
    assert_string_equal(to, "abc");
    assert_int_equal(mem_read_cstr(m, 0x1ffc, to, 3), 0);
    assert_string_equal(to, "ab");
    assert_int_equal(mem_read_cstr(m, 0x1ffc, to, 1), 0);
    assert_string_equal(to, "");
    assert_int_equal(mem_read_cstr(m, 0x3000, to, sizeof(to)), -SCRY_E_READ);
    mem_close(m);
}

/* Until the end, what was read ahead is taken as it was then; all else is read as it is. */
static void what_was_read_ahead_is_not_read_again(void **state)
{
    (void)state;
    struct mem *under = mem_fake_new();
    struct mem_ahead *m = mem_ahead_new(under);
    char first[4], second[4], to[8];
    const struct mem_range ahead[] = {{0x1000, first, 4}, {0x2000, second, 4}};
    mem_fake_add(under, 0x1000, "abcdefgh", 8);
    mem_fake_add(under, 0x2000, "ijkl", 4);
    assert_true(mem_ahead_begin(m, ahead, 2));
    mem_fake_add(under, 0x1000, "ABCDEFGH", 8);
    mem_fake_add(under, 0x2000, "IJKL", 4);
    assert_int_equal(mem_read(&m->mem, 0x1001, to, 3), 0);
    assert_memory_equal(to, "bcd", 3);
    assert_int_equal(mem_read(&m->mem, 0x1001, to, 4), 0);
    assert_memory_equal(to, "BCDE", 4); /* not all of it was there */
    struct mem_range some[] = {{0x2000, to, 2}, {0x1004, to + 2, 2}, {0x1000, to + 4, 2}};
    assert_int_equal(mem_readv(&m->mem, some, 3), 3);
    assert_memory_equal(to, "ijEFab", 6);
    mem_ahead_end(m);
    assert_int_equal(mem_read(&m->mem, 0x2000, to, 4), 0);
    assert_memory_equal(to, "IJKL", 4);
    mem_close(&m->mem);
}

static void a_range_that_is_not_there_ends_what_is_read_ahead(void **state)
{
    (void)state;
    struct mem *under = mem_fake_new();
    struct mem_ahead *m = mem_ahead_new(under);
    char first[4], second[4], third[4], to[8];
    const struct mem_range ahead[] = {{0x1000, first, 4}, {0x2000, second, 4}, {0x3000, third, 4}};
    mem_fake_add(under, 0x1000, "abcd", 4);
    mem_fake_add(under, 0x3000, "ijkl", 4);
    assert_false(mem_ahead_begin(m, ahead, 3));
    struct mem_range some[] = {
        {0x1000, to, 4}, {0x3000, to + 4, 4}, {0x2000, to, 1}, {0x1000, to, 1}};
    assert_int_equal(mem_readv(&m->mem, some, 4), 2);
    assert_memory_equal(to, "abcdijkl", 8);
    mem_close(&m->mem);
}

/* Two pages, the second of them unreadable; mapped before the fork, so at the same address in the
 * child. */
static char *area;
static long page;

static void idle(int in, int out, void *arg)
{
    (void)arg;
    child_say(out, 'r');
    child_hear(in);
}

static void make_area(void)
{
    page = sysconf(_SC_PAGESIZE);
    area = mmap(NULL, 2 * (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(area, MAP_FAILED);
    for (long i = 0; i < page; i++)
        area[i] = (char)(i * 7 + i / 256);
    assert_int_equal(mprotect(area + page, (size_t)page, PROT_NONE), 0);
}

static scry_addr at(long offset)
{
    return (uintptr_t)area + (scry_addr)offset;
}

static void live_reads_whole_ranges_only(void **state)
{
    (void)state;
    make_area();
    struct child c = child_start_ready(idle, NULL);
    struct mem *m;
    assert_int_equal(mem_open_live(c.pid, &m, NULL), 0);
    char a[16], b[16], z[16];
    assert_int_equal(mem_read(m, at(100), a, 16), 0);
    assert_memory_equal(a, area + 100, 16);
    assert_int_equal(mem_read(m, at(page - 8), a, 16), -SCRY_E_READ);
    assert_int_equal(mem_read(m, 0, a, 1), -SCRY_E_READ);
    assert_int_equal(mem_read(m, UINT64_MAX - 3, a, 16), -SCRY_E_READ);

    struct mem_range ranges[] = {{at(0), a, 16},
                                 {at(16), NULL, 0},
                                 {at(page - 16), b, 16},
                                 {at(page - 8), z, 16},
                                 {at(0), z, 1}};
    assert_int_equal(mem_readv(m, ranges, 5), 3);
    assert_memory_equal(b, area + page - 16, 16);
    struct mem_range bad_first[] = {{at(0), NULL, 0}, {8, a, 4}, {at(0), b, 4}};
    assert_int_equal(mem_readv(m, bad_first, 3), 1);
    mem_close(m);
    child_end(&c);
    munmap(area, 2 * (size_t)page);
}

static void live_takes_any_number_of_ranges(void **state)
{
    (void)state;
    enum { COUNT = 3000 };
    make_area();
    struct child c = child_start_ready(idle, NULL);
    struct mem *m;
    assert_int_equal(mem_open_live(c.pid, &m, NULL), 0);
    static struct mem_range ranges[COUNT];
    static char bytes[COUNT];
    for (int i = 0; i < COUNT; i++)
        ranges[i] = (struct mem_range){at(i), &bytes[i], 1};
    assert_int_equal(mem_readv(m, ranges, COUNT), COUNT);
    assert_memory_equal(bytes, area, COUNT);
    ranges[2500].addr = at(page);
    assert_int_equal(mem_readv(m, ranges, COUNT), 2500);
    ranges[2560].addr = at(page);
    ranges[2500].addr = at(0);
    assert_int_equal(mem_readv(m, ranges, COUNT), 2560);
    mem_close(m);
    child_end(&c);
    munmap(area, 2 * (size_t)page);
}

static void live_says_when_the_process_is_gone(void **state)
{
    (void)state;
    make_area();
    struct child c = child_start_ready(idle, NULL);
    struct mem *m;
    char byte;
    assert_int_equal(mem_open_live(c.pid, &m, NULL), 0);
    assert_int_equal(mem_read(m, at(0), &byte, 1), 0);
    child_end(&c);
    assert_int_equal(mem_read(m, at(0), &byte, 1), -SCRY_E_GONE);
    mem_close(m);
    struct error err = {0};
    assert_true(mem_open_live(c.pid, &m, &err) < 0);
    munmap(area, 2 * (size_t)page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fake_reads_what_was_put_there),
        cmocka_unit_test(fake_refuses_one_byte_too_many),
        cmocka_unit_test(strings_end_at_their_nul_or_are_cut),
        cmocka_unit_test(what_was_read_ahead_is_not_read_again),
        cmocka_unit_test(a_range_that_is_not_there_ends_what_is_read_ahead),
        cmocka_unit_test(live_reads_whole_ranges_only),
        cmocka_unit_test(live_takes_any_number_of_ranges),
        cmocka_unit_test(live_says_when_the_process_is_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
