#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "access/freeze.h"
#include "child.h"

#define SECOND SCRY_NSEC_PER_SEC

/* Shared with the child. */
struct shared {
    volatile uint64_t beats; /* of the thread that runs */
    volatile uint64_t brief; /* threads begun so far */
    volatile pid_t runs, reads, sleeps;
};
static struct shared *shared;

static int set_up(void **state)
{
    (void)state;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    return munmap(shared, sizeof(*shared));
}

static pid_t own_tid(void)
{
    return (pid_t)syscall(SYS_gettid);
}

static void *run(void *arg)
{
    (void)arg;
    shared->runs = own_tid();
    for (;;)
        shared->beats++;
    return NULL;
}

static void *sleep_long(void *arg)
{
    (void)arg;
    shared->sleeps = own_tid();
    for (;;)
        sleep(1000);
    return NULL;
}

static void *begin_and_end(void *arg)
{
    (void)arg;
    shared->brief++;
    return NULL;
}

/* One thread that runs, one that sleeps, one that waits for input. */
static void three(int in, int out, void *arg)
{
    (void)arg;
    pthread_t thread;
    shared->reads = own_tid();
    pthread_create(&thread, NULL, run, NULL);
    pthread_create(&thread, NULL, sleep_long, NULL);
    while (!shared->sleeps || !shared->beats)
        breathe();
    child_say(out, 'r');
    child_hear(in);
}

static void births(int in, int out, void *arg)
{
    (void)in, (void)arg;
    for (int i = 0;; i++) {
        pthread_t threads[4];
        for (int k = 0; k < 4; k++)
            pthread_create(&threads[k], NULL, begin_and_end, NULL);
        if (i == 0)
            child_say(out, 'r');
        for (int k = 0; k < 4; k++)
            pthread_join(threads[k], NULL);
    }
}

static struct process *opened(pid_t pid)
{
    struct process *p;
    assert_int_equal(process_open(pid, &p, NULL), 0);
    return p;
}

/* To be stopped wakes them up: until they sleep again they run. */
static void freeze_asleep(struct freeze *f, const struct process *p)
{
    for (;; breathe()) {
        assert_int_equal(freeze_begin(f, p, SECOND), 0);
        assert_int_equal(f->count, 3);
        assert_int_equal(freeze_activity(f, shared->runs), TASK_RUNNING);
        if (freeze_activity(f, shared->reads) == TASK_BLOCKED &&
            freeze_activity(f, shared->sleeps) == TASK_BLOCKED)
            return;
        freeze_end(f);
    }
}

static void all_stand_still_and_it_is_known_who_slept(void **state)
{
    (void)state;
    struct child c = child_start_ready(three, NULL);
    struct process *p = opened(c.pid);
    struct freeze f = {0};
    for (int i = 0; i < 500; i++) {
        freeze_asleep(&f, p);
        uint64_t before = shared->beats;
        assert_int_equal(freeze_activity(&f, 1), TASK_UNKNOWN);
        breathe();
        assert_int_equal(shared->beats, before);
        freeze_end(&f);
        freeze_end(&f);
        while (shared->beats == before)
            breathe();
    }
    assert_int_equal(stop_tracer(shared->sleeps), 0);
    freeze_done(&f);
    process_close(p);
    child_end(&c);
}

static void one_may_go_on_alone(void **state)
{
    (void)state;
    struct child c = child_start_ready(three, NULL);
    struct process *p = opened(c.pid);
    struct freeze f = {0};
    assert_int_equal(freeze_begin(&f, p, SECOND), 0);
    uint64_t before = shared->beats;
    freeze_let_go(&f, shared->runs);
    while (shared->beats == before)
        breathe();
    assert_false(freeze_holds(&f, shared->runs));
    assert_true(freeze_holds(&f, shared->sleeps));
    freeze_done(&f);
    process_close(p);
    child_end(&c);
}

static void no_thread_is_born_meanwhile(void **state)
{
    (void)state;
    struct child c = child_start_ready(births, NULL);
    struct process *p = opened(c.pid);
    struct freeze f = {0};
    size_t most = 0;
    for (int i = 0; i < 500; i++) {
        assert_int_equal(freeze_begin(&f, p, SECOND), 0);
        most = f.count > most ? f.count : most;
        uint64_t before = shared->brief;
        breathe();
        assert_int_equal(shared->brief, before);
        freeze_end(&f);
        while (shared->brief == before)
            breathe();
    }
    assert_true(most > 1);
    freeze_done(&f);
    process_close(p);
    child_end(&c);
}

static void a_process_that_is_gone_is_told(void **state)
{
    (void)state;
    struct child c = child_start_ready(three, NULL);
    struct process *p = opened(c.pid);
    struct freeze f = {0};
    child_end(&c);
    assert_int_equal(freeze_begin(&f, p, SECOND), -SCRY_E_GONE);
    assert_int_equal(f.count, 0);
    freeze_done(&f);
    process_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_stand_still_and_it_is_known_who_slept, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(one_may_go_on_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_thread_is_born_meanwhile, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_process_that_is_gone_is_told, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
