/* A sampler that meets nothing new must cost nothing but its bytes: no allocation. Counted by
 * standing in front of the C library's own, in this program and the libraries it uses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "counted_allocations.h"
#include "recording_sample.h"

/* A minute at 100 a second with three threads: about sixty blocks. */
static void write_minute(struct rec_writer *w, scry_nsec from)
{
    uint32_t stacks[4];
    write_definitions(w, stacks);
    for (uint32_t i = 0; i < 3 * 6000; i++) {
        struct rec_sample s = sample_at(i, SCRY_NSEC_PER_SEC / 100, stacks);
        s.time += from;
        assert_int_equal(rec_writer_sample(w, &s), 0);
    }
}

static void known_stacks_need_no_memory(void **state)
{
    (void)state;
    if (!CAN_COUNT) {
        print_message("allocations cannot be counted in this build\n");
        skip();
    }
    FILE *out = tmpfile();
    struct rec_writer *w;
    assert_int_equal(rec_writer_new(out, &sample_info, &w), 0);
    write_minute(w, 0);
    size_t before = allocations;
    assert_true(before > 0); /* or nothing is counted */
    for (scry_nsec minute = 1; minute < 10; minute++)
        write_minute(w, minute * 61 * SCRY_NSEC_PER_SEC);
    assert_int_equal(allocations - before, 0);
    rec_writer_free(w);
    fclose(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(known_stacks_need_no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
