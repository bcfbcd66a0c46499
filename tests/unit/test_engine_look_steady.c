/* Looking at a program that does nothing new allocates nothing, whether its threads are peeked at, stopped or
 * asleep. On a real Python. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stddef.h>
#include <cmocka.h>

#include "child.h"
#include "counted_allocations.h"
#include "engine/target.h"

static const char program[] = "import os, sys, threading\n"
                              "def leaf():\n"
                              "    return sum(range(100))\n"
                              "def middle():\n"
                              "    return leaf()\n"
                              "def wait():\n"
                              "    threading.Event().wait()\n"
                              "for _ in range(3):\n"
                              "    t = threading.Thread(target=wait)\n"
                              "    t.daemon = True\n"
                              "    t.start()\n"
                              "os.write(int(sys.argv[1]), b'r')\n"
                              "while True:\n"
                              "    middle()\n";

static void run_python(int in, int out, void *arg)
{
    (void)in;
    (void)arg;
    char fd[16];
    snprintf(fd, sizeof(fd), "%d", out);
    execlp("python3", "python3", "-c", program, fd, NULL);
}

static void look_often(enum blocking blocking)
{
    struct child c = child_start(run_python, NULL);
    struct target *t;
    const struct snapshot *snapshot;
    struct error err = {0};
    assert_int_equal(child_hear(c.from), 'r');
    assert_int_equal(target_open(c.pid, 10 * SCRY_NSEC_PER_SEC, &t, &err), 0);
    const struct look look = {.blocking = blocking};
    for (int i = 0; i < 1000; i++)
        assert_int_equal(target_look(t, &look, &snapshot), 0);
    assert_int_equal(snapshot->count, 4);
    assert_true(allocations > 0); /* or nothing is counted */
    /* Buffers grow until they have met the largest stack; on a busy machine that may take a while. */
    size_t grown = 1;
    for (int round = 0; round < 10 && grown; round++) {
        size_t before = allocations;
        for (int i = 0; i < 1000; i++)
            assert_int_equal(target_look(t, &look, &snapshot), 0);
        grown = allocations - before;
    }
    assert_int_equal(grown, 0);
    assert_true(blocking == BLOCKING_ALWAYS || t->stats.reused > 0); /* the sleeping ones */
    target_close(t);
    child_end(&c);
}

static void looking_allocates_nothing(void **state)
{
    (void)state;
    if (!CAN_COUNT) {
        print_message("allocations cannot be counted in this build\n");
        skip();
    }
    look_often(BLOCKING_AUTO);
    look_often(BLOCKING_NEVER);
    look_often(BLOCKING_ALWAYS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(looking_allocates_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
