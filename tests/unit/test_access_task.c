#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "access/task.h"
#include "child.h"

static int ends[2];

static pid_t own_tid(void)
{
    return (pid_t)syscall(SYS_gettid);
}

static void say_number(int out, pid_t n)
{
    if (write(out, &n, sizeof(n)) != sizeof(n))
        _exit(99);
}

static pid_t hear_number(int in)
{
    pid_t n = 0;
    assert_int_equal(read(in, &n, sizeof(n)), sizeof(n));
    return n;
}

/* Says its id, waits for a byte, says so, waits again: blocked in read, ran a little, blocked in
 * read. */
static void *step(void *arg)
{
    pthread_setname_np(pthread_self(), "stepper");
    say_number(ends[1], own_tid());
    while (child_hear(ends[0]))
        child_say(ends[1], 's');
    return arg;
}

static void one_thread_steps(int in, int out, void *arg)
{
    pthread_t thread;
    ends[0] = in;
    ends[1] = out;
    pthread_create(&thread, NULL, step, arg);
    pthread_join(thread, NULL);
}

/* Look until it blocks. */
static void look_until_blocked(struct task_watch *w)
{
    bool ran;
    while (task_watch_look(w, &ran) != TASK_BLOCKED || ran)
        breathe();
}

static void threads_are_listed_with_their_names(void **state)
{
    (void)state;
    struct child c = child_start(one_thread_steps, NULL);
    pid_t tid = hear_number(c.from);
    struct process *p;
    struct task_list list = {0};
    assert_int_equal(process_open(c.pid, &p, NULL), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(tasks_read(p, &list), 0);
        assert_int_equal(list.count, 2);
        assert_true(list.items[0].tid < list.items[1].tid);
        assert_non_null(tasks_by_ns_tid(&list, c.pid));
        const struct task *t = tasks_by_ns_tid(&list, tid);
        assert_non_null(t);
        assert_int_equal(t->tid, tid);
        assert_string_equal(t->comm, "stepper");
        assert_null(tasks_by_ns_tid(&list, getpid()));
    }
    child_end(&c);
    assert_int_equal(tasks_read(p, &list), -SCRY_E_GONE);
    tasks_done(&list);
    process_close(p);
}

static void a_blocked_thread_is_told_from_one_that_ran(void **state)
{
    (void)state;
    struct child c = child_start(one_thread_steps, NULL);
    pid_t tid = hear_number(c.from);
    struct process *p;
    struct task_watch w;
    bool ran;
    assert_int_equal(process_open(c.pid, &p, NULL), 0);
    assert_int_equal(task_watch_open(&w, p, tid), 0);
    task_watch_look(&w, &ran);
    assert_true(ran);
    look_until_blocked(&w);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(task_watch_look(&w, &ran), TASK_BLOCKED);
        assert_false(ran);
        child_say(c.to, 'x');
        child_hear(c.from);
        /* It has run, and until it blocks again nothing may say that it has not. */
        bool seen = false;
        enum task_activity activity;
        do {
            activity = task_watch_look(&w, &ran);
            seen |= ran;
        } while (activity == TASK_RUNNING);
        assert_int_equal(activity, TASK_BLOCKED);
        assert_true(seen);
        look_until_blocked(&w);
    }
    child_end(&c);
    assert_int_equal(task_watch_look(&w, &ran), TASK_UNKNOWN);
    task_watch_close(&w);
    process_close(p);
}

static void spins(int in, int out, void *arg)
{
    (void)in, (void)arg;
    child_say(out, 'r');
    for (;;)
        __asm__ volatile("");
}

static void a_thread_on_a_cpu_runs(void **state)
{
    (void)state;
    struct child c = child_start_ready(spins, NULL);
    struct process *p;
    struct task_watch w;
    bool ran;
    assert_int_equal(process_open(c.pid, &p, NULL), 0);
    assert_int_equal(task_watch_open(&w, p, c.pid), 0);
    while (task_watch_look(&w, &ran) != TASK_RUNNING)
        breathe();
    for (int i = 0; i < 100; i++)
        assert_int_equal(task_watch_look(&w, &ran), TASK_RUNNING);
    task_watch_close(&w);
    process_close(p);
    child_end(&c);
}

static bool put_on_cpu(pid_t tid, int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return !sched_setaffinity(tid, sizeof(set), &set);
}

static void counts(int in, int out, void *arg)
{
    (void)in;
    volatile uint64_t *count = arg;
    child_say(out, 'r');
    for (;;)
        ++*count;
}

/* A child that counts, and is watched. */
struct counting {
    volatile uint64_t *count;
    struct child child;
    struct process *process;
    struct task_watch watch;
};

static struct counting counting_start(void)
{
    struct counting c = {
        .count = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)};
    assert_ptr_not_equal(c.count, MAP_FAILED);
    c.child = child_start_ready(counts, (void *)(uintptr_t)c.count);
    assert_int_equal(process_open(c.child.pid, &c.process, NULL), 0);
    assert_int_equal(task_watch_open(&c.watch, c.process, c.child.pid), 0);
    return c;
}

static void counting_end(struct counting *c)
{
    task_watch_close(&c->watch);
    process_close(c->process);
    child_end(&c->child);
    munmap((void *)(uintptr_t)c->count, 4096);
}

/* Whether it was proved to wait; then it did not count. */
static bool counting_waits(struct counting *c)
{
    uint64_t switches;
    if (!task_watch_waits(&c->watch, &switches))
        return false;
    uint64_t at = *c->count;
    for (volatile int i = 0; i < 1000; i++)
        ;
    uint64_t then = *c->count;
    if (!task_watch_waited(&c->watch, switches))
        return false;
    assert_int_equal(at, then);
    return true;
}

/* Who has our CPU stands still as long as we say so; who has one of its own is never said to. */
static void a_thread_that_waits_for_our_cpu_stands_still(void **state)
{
    (void)state;
    struct counting c = counting_start();
    uint64_t switches;
    cpu_set_t before;
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    int ours = sched_getcpu();
    assert_true(put_on_cpu(0, ours) && put_on_cpu(c.child.pid, ours));
    for (int proved = 0; proved < 200;) {
        if (!counting_waits(&c))
            continue;
        proved++;
        if (proved % 10 == 0)
            breathe();
    }
    for (int other = 0; other < CPU_SETSIZE; other++) {
        if (other == ours || !CPU_ISSET(other, &before) || !put_on_cpu(c.child.pid, other))
            continue;
        /* Not even where CPUs are scarce do we go there: that would change what the program does. */
        c.watch.crowded = true;
        for (int i = 0; i < 200; i++)
            assert_false(task_watch_waits(&c.watch, &switches));
        break;
    }
    sched_setaffinity(0, sizeof(before), &before);
    counting_end(&c);
}

/* One of two threads that share a CPU waits as long as it runs. */
static void a_thread_that_shares_its_cpu_is_crowded(void **state)
{
    (void)state;
    struct counting c = counting_start(), other = counting_start();
    bool ran;
    int cpu = sched_getcpu();
    assert_true(put_on_cpu(c.child.pid, cpu) && put_on_cpu(other.child.pid, cpu));
    do {
        breathe();
        task_watch_look(&c.watch, &ran);
    } while (!c.watch.crowded);
    counting_end(&other);
    counting_end(&c);
}

static void a_thread_that_is_not_there_cannot_be_watched(void **state)
{
    (void)state;
    struct process *p;
    struct task_watch w;
    assert_int_equal(process_open(getpid(), &p, NULL), 0);
    assert_int_equal(task_watch_open(&w, p, 0x7ffffff0), -SCRY_E_GONE);
    task_watch_close(&w);
    process_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_are_listed_with_their_names),
        cmocka_unit_test(a_blocked_thread_is_told_from_one_that_ran),
        cmocka_unit_test(a_thread_on_a_cpu_runs),
        cmocka_unit_test(a_thread_that_waits_for_our_cpu_stands_still),
        cmocka_unit_test(a_thread_that_shares_its_cpu_is_crowded),
        cmocka_unit_test(a_thread_that_is_not_there_cannot_be_watched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
