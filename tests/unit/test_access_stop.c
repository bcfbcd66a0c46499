#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "access/procfs.h"
#include "access/stop.h"
#include "child.h"

#define SECOND SCRY_NSEC_PER_SEC

/* Shared with the child: a count that moves while it runs. */
struct shared {
    volatile uint64_t beats;
    volatile uint64_t signals;
    volatile pid_t tids[8];
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

static char state_of(pid_t tid)
{
    char path[64], text[PROC_STAT_MAX];
    struct proc_stat stat = {0};
    snprintf(path, sizeof(path), "/proc/%d/stat", tid);
    if (procfs_read_small(AT_FDCWD, path, text, sizeof(text)) > 0)
        proc_stat_parse(text, &stat);
    return stat.state;
}

static void await_state(pid_t tid, char state)
{
    while (state_of(tid) != state)
        breathe();
}

static void await_beat(void)
{
    uint64_t before = shared->beats;
    while (shared->beats == before)
        breathe();
}

static void count_signal(int n)
{
    (void)n;
    shared->signals++;
}

static void beats(int in, int out, void *arg)
{
    (void)in, (void)arg;
    signal(SIGUSR1, count_signal);
    child_say(out, 'r');
    for (;;)
        shared->beats++;
}

static void a_stopped_thread_stands_still(void **state)
{
    (void)state;
    struct child c = child_start_ready(beats, NULL);
    for (int i = 0; i < 1000; i++) {
        struct stop s;
        assert_int_equal(stop_thread(&s, c.pid, SECOND), 0);
        assert_true(s.held);
        uint64_t before = shared->beats;
        breathe();
        assert_int_equal(shared->beats, before);
        stop_release(&s);
        stop_release(&s);
        if (i % 100 == 0)
            await_beat();
    }
    await_beat();
    assert_int_equal(stop_tracer(c.pid), 0);
    child_end(&c);
}

static void no_signal_is_lost_or_doubled(void **state)
{
    (void)state;
    struct child c = child_start_ready(beats, NULL);
    uint64_t sent = 0;
    for (int i = 0; i < 900; i++) {
        struct stop s;
        /* Before, while and after it is held; each counted before the next is sent, as equal ones
         * merge. */
        if (i % 3 == 0)
            kill(c.pid, SIGUSR1), sent++;
        assert_int_equal(stop_thread(&s, c.pid, SECOND), 0);
        if (i % 3 == 1)
            kill(c.pid, SIGUSR1), sent++;
        stop_release(&s);
        if (i % 3 == 2)
            kill(c.pid, SIGUSR1), sent++;
        while (shared->signals < sent)
            breathe();
    }
    await_beat();
    assert_int_equal(shared->signals, sent);
    child_end(&c);
}

static void a_process_stopped_by_job_control_stays_so(void **state)
{
    (void)state;
    struct child c = child_start_ready(beats, NULL);
    kill(c.pid, SIGSTOP);
    await_state(c.pid, 'T');
    for (int i = 0; i < 200; i++) {
        struct stop s;
        assert_int_equal(stop_thread(&s, c.pid, SECOND), 0);
        stop_release(&s);
        await_state(c.pid, 'T');
    }
    uint64_t before = shared->beats;
    kill(c.pid, SIGUSR1);
    assert_int_equal(shared->beats, before);
    assert_int_equal(shared->signals, 0);
    kill(c.pid, SIGCONT);
    await_beat();
    while (shared->signals < 1)
        breathe();
    child_end(&c);
}

static void stopping_meets_job_control(void **state)
{
    (void)state;
    struct child c = child_start_ready(beats, NULL);
    for (int i = 0; i < 100; i++) {
        struct stop s;
        kill(c.pid, SIGSTOP);
        assert_int_equal(stop_thread(&s, c.pid, SECOND), 0);
        stop_release(&s);
        await_state(c.pid, 'T');
        assert_int_equal(stop_thread(&s, c.pid, SECOND), 0);
        kill(c.pid, SIGCONT);
        stop_release(&s);
        await_beat();
    }
    child_end(&c);
}

static void *lives_shortly(void *arg)
{
    shared->tids[(size_t)(uintptr_t)arg] = (pid_t)syscall(SYS_gettid);
    for (int i = 0; i < 2000; i++)
        shared->beats++;
    return NULL;
}

static void makes_threads(int in, int out, void *arg)
{
    (void)in, (void)arg;
    child_say(out, 'r');
    for (;;) {
        pthread_t threads[4];
        for (uintptr_t i = 0; i < 4; i++)
            pthread_create(&threads[i], NULL, lives_shortly, (void *)i);
        for (int i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
    }
}

static void threads_may_die_meanwhile(void **state)
{
    (void)state;
    struct child c = child_start_ready(makes_threads, NULL);
    int held = 0, gone = 0;
    for (int i = 0; held < 300 || gone < 300; i++) {
        struct stop s;
        pid_t tid = shared->tids[i % 4];
        if (!tid)
            continue;
        int rc = stop_thread(&s, tid, SECOND);
        assert_true(rc == 0 || rc == -SCRY_E_GONE);
        *(rc ? &gone : &held) += 1;
        stop_release(&s);
    }
    assert_int_equal(stop_settle(), 0);
    await_beat();
    child_end(&c);
}

static void killed_while_held_it_still_ends(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        struct child c = child_start_ready(beats, NULL);
        struct stop s;
        assert_int_equal(stop_thread(&s, c.pid, SECOND), 0);
        kill(c.pid, SIGKILL);
        if (i % 2)
            await_state(c.pid, 'Z');
        stop_release(&s);
        /* The status of our own child was left for us. */
        int status = child_end(&c);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
}

static void exits_on_word(int in, int out, void *arg)
{
    (void)arg;
    child_say(out, 'r');
    child_hear(in);
    _exit(7);
}

static void the_exit_status_of_a_child_is_left_alone(void **state)
{
    (void)state;
    struct child c = child_start_ready(exits_on_word, NULL);
    child_say(c.to, 'x');
    int rc;
    do {
        struct stop s;
        rc = stop_thread(&s, c.pid, SECOND);
        stop_release(&s);
    } while (rc == 0);
    assert_int_equal(rc, -SCRY_E_GONE);
    int status;
    assert_int_equal(waitpid(c.pid, &status, 0), c.pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    close(c.from);
    close(c.to);
}

/* A child of a child: not ours to wait for, so its parent must still get the news. */
static void reports_its_child(int in, int out, void *arg)
{
    (void)arg;
    int status = 0;
    pid_t pid = fork();
    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            shared->beats++;
    }
    shared->tids[0] = pid;
    child_say(out, 'r');
    waitpid(pid, &status, 0);
    child_say(out, WIFSIGNALED(status) ? (char)WTERMSIG(status) : 'x');
    child_hear(in);
}

static void the_real_parent_hears_of_the_end(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        struct child c = child_start_ready(reports_its_child, NULL);
        struct stop s;
        assert_int_equal(stop_thread(&s, shared->tids[0], SECOND), 0);
        kill(shared->tids[0], SIGTERM);
        if (i % 2)
            kill(shared->tids[0], SIGKILL);
        stop_release(&s);
        while (stop_settle())
            breathe();
        char how = child_hear(c.from);
        assert_true(how == SIGTERM || how == SIGKILL);
        child_end(&c);
    }
}

/* A child made by vfork leaves its parent in uninterruptible sleep until it lets go. */
static void sleeps_uninterruptibly(int in, int out, void *arg)
{
    (void)arg;
    if (vfork() == 0) {
        child_say(out, 'r');
        child_hear(in);
        _exit(0);
    }
    for (;;)
        shared->beats++;
}

static void what_cannot_stop_is_let_go_later(void **state)
{
    (void)state;
    struct child c = child_start_ready(sleeps_uninterruptibly, NULL);
    await_state(c.pid, 'D');
    struct stop s;
    assert_int_equal(stop_thread(&s, c.pid, 1000000), -SCRY_E_TORN);
    stop_release(&s);
    assert_int_equal(stop_settle(), 1);
    assert_int_equal(stop_thread(&s, c.pid, 1000000), -SCRY_E_TORN);
    child_say(c.to, 'x');
    while (stop_settle())
        breathe();
    await_beat();
    assert_int_equal(stop_thread(&s, c.pid, SECOND), 0);
    stop_release(&s);
    await_beat();
    child_end(&c);
}

static void traces(int in, int out, void *arg)
{
    pid_t pid = *(pid_t *)arg;
    child_say(out, ptrace(PTRACE_SEIZE, pid, NULL, NULL) ? 'x' : 'r');
    child_hear(in);
}

static void another_tracer_is_named(void **state)
{
    (void)state;
    struct child c = child_start_ready(beats, NULL);
    struct child tracer = child_start(traces, &c.pid);
    struct stop s;
    assert_int_equal(child_hear(tracer.from), 'r');
    assert_int_equal(stop_thread(&s, c.pid, SECOND), -SCRY_E_PERMISSION);
    assert_int_equal(stop_tracer(c.pid), tracer.pid);
    child_end(&tracer);
    await_beat();
    child_end(&c);
    assert_int_equal(stop_thread(&s, c.pid, SECOND), -SCRY_E_GONE);
}

/* Whatever the program that scry is part of does with SIGCHLD. */
static void it_needs_no_signal(void **state)
{
    (void)state;
    struct child c = child_start_ready(beats, NULL);
    sigset_t child, none, mask;
    sigemptyset(&none);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    const struct sigaction ways[] = {{.sa_handler = SIG_DFL},
                                     {.sa_handler = SIG_IGN},
                                     {.sa_handler = count_signal},
                                     {.sa_handler = count_signal, .sa_flags = SA_NOCLDSTOP}};
    for (size_t i = 0; i < 2 * ARRAY_LEN(ways); i++) {
        bool blocked = i % 2;
        sigaction(SIGCHLD, &ways[i / 2], NULL);
        pthread_sigmask(SIG_SETMASK, blocked ? &child : &none, NULL);
        for (int n = 0; n < 100; n++) {
            struct stop s;
            assert_int_equal(stop_thread(&s, c.pid, SECOND), 0);
            stop_release(&s);
        }
        pthread_sigmask(SIG_SETMASK, &none, &mask);
        assert_int_equal(sigismember(&mask, SIGCHLD), blocked);
    }
    signal(SIGCHLD, SIG_DFL);
    child_end(&c);
}

static void *takes_signals(void *arg)
{
    sem_t *over = arg;
    while (sem_wait(over))
        ;
    return NULL;
}

/* Another thread may take the signal: the stops come nevertheless, and soon. */
static void it_needs_no_signal_of_its_own(void **state)
{
    (void)state;
    struct child c = child_start_ready(beats, NULL);
    pthread_t other;
    sem_t over;
    sem_init(&over, 0, 0);
    struct sigaction action = {.sa_handler = count_signal};
    sigaction(SIGCHLD, &action, NULL);
    assert_int_equal(pthread_create(&other, NULL, takes_signals, &over), 0);
    for (int n = 0; n < 200; n++) {
        struct stop s;
        assert_int_equal(stop_thread(&s, c.pid, SECOND), 0);
        stop_release(&s);
    }
    sem_post(&over);
    pthread_join(other, NULL);
    signal(SIGCHLD, SIG_DFL);
    sem_destroy(&over);
    child_end(&c);
}

static volatile pid_t awaited;
static volatile sig_atomic_t reaped;

static void reap(int n)
{
    (void)n;
    if (awaited && waitpid(awaited, NULL, WNOHANG) == awaited) {
        awaited = 0;
        reaped++;
    }
}

/* The kernel keeps one SIGCHLD at a time, for our stops and for their children. */
static void the_program_hears_of_its_children(void **state)
{
    (void)state;
    struct child c = child_start_ready(beats, NULL);
    sigset_t child, former;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    signal(SIGCHLD, reap);
    for (int i = 0; i < 100; i++) {
        int before = reaped;
        pthread_sigmask(SIG_BLOCK, &child, &former);
        pid_t pid = fork();
        if (!pid)
            _exit(0);
        awaited = pid;
        pthread_sigmask(SIG_SETMASK, &former, NULL);
        while (state_of(pid) != 'Z' && reaped == before) {
            struct stop s;
            assert_int_equal(stop_thread(&s, c.pid, SECOND), 0);
            stop_release(&s);
        }
        /* From here on no stop makes a signal that could stand in for the child's. */
        for (int n = 0; n < 100000 && reaped == before; n++)
            breathe();
        assert_int_equal(reaped, before + 1);
    }
    signal(SIGCHLD, SIG_DFL);
    child_end(&c);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_stopped_thread_stands_still),
        TEST(no_signal_is_lost_or_doubled),
        TEST(a_process_stopped_by_job_control_stays_so),
        TEST(stopping_meets_job_control),
        TEST(threads_may_die_meanwhile),
        TEST(killed_while_held_it_still_ends),
        TEST(the_exit_status_of_a_child_is_left_alone),
        TEST(the_real_parent_hears_of_the_end),
        TEST(what_cannot_stop_is_let_go_later),
        TEST(another_tracer_is_named),
        TEST(it_needs_no_signal),
        TEST(it_needs_no_signal_of_its_own),
        TEST(the_program_hears_of_its_children),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
