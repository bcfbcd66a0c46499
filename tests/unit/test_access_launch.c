#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "access/launch.h"
#include "access/stop.h"

static void run_to_the_end(struct launch *l, const char *script)
{
    char *argv[] = {"sh", "-c", (char *)script, NULL};
    assert_int_equal(launch_program(l, argv, NULL), 0);
    while (!launch_poll(l))
        usleep(20);
    assert_true(launch_poll(l));
}

static void the_exit_status_is_the_programs(void **state)
{
    (void)state;
    struct launch l;
    run_to_the_end(&l, "exit 3");
    assert_int_equal(launch_exit_status(&l), 3);
    run_to_the_end(&l, "kill -TERM $$");
    assert_int_equal(launch_exit_status(&l), 128 + SIGTERM);
    run_to_the_end(&l, "exit 0");
    assert_int_equal(launch_exit_status(&l), 0);
}

static void what_cannot_be_run_is_named(void **state)
{
    (void)state;
    struct launch l;
    struct error err = {0};
    char *missing[] = {"no-such-program-anywhere", NULL};
    assert_int_equal(launch_program(&l, missing, &err), -SCRY_E_LAUNCH);
    assert_string_equal(error_text(&err),
                        "cannot run 'no-such-program-anywhere': No such file or directory");
    assert_true(error_hint_text(&err)[0]);
    assert_int_equal(l.pid, 0);

    char *folder[] = {"/", NULL};
    assert_int_equal(launch_program(&l, folder, &err), -SCRY_E_LAUNCH);
    assert_string_equal(error_text(&err), "cannot run '/': Permission denied");
    char *nothing[] = {NULL};
    assert_int_equal(launch_program(&l, nothing, &err), -SCRY_E_LAUNCH);
    /* No stray child is left. */
    errno = 0;
    assert_int_equal(wait(NULL), -1);
    assert_int_equal(errno, ECHILD);
    launch_end(&l, 0);
}

/* A folder in PATH that is closed to us must not change the answer. As root no folder is closed. */
static void a_closed_folder_in_path_changes_nothing(void **state)
{
    (void)state;
    char *old = strdup(getenv("PATH")), path[8192];
    char dir[] = "/tmp/scry-test-XXXXXX";
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s:%s", dir, old);
    setenv("PATH", path, 1);
    chmod(dir, 0);
    if (!geteuid()) {
        setenv("SUDO_UID", "65534", 1);
        setenv("SUDO_GID", "65534", 1);
    }
    struct launch l;
    struct error err = {0};
    char *missing[] = {"no-such-program-anywhere", NULL};
    assert_int_equal(launch_program(&l, missing, &err), -SCRY_E_LAUNCH);
    unsetenv("SUDO_UID");
    unsetenv("SUDO_GID");
    setenv("PATH", old, 1);
    rmdir(dir);
    free(old);
    assert_string_equal(error_text(&err),
                        "cannot run 'no-such-program-anywhere': No such file or directory");
}

static void signals_are_as_a_shell_would_leave_them(void **state)
{
    (void)state;
    struct launch l;
    sigset_t block, old;
    sigemptyset(&block);
    sigaddset(&block, SIGTERM);
    sigprocmask(SIG_BLOCK, &block, &old);
    signal(SIGTERM, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    run_to_the_end(&l, "kill -TERM $$; sleep 0; exit 5");
    assert_int_equal(launch_exit_status(&l), 128 + SIGTERM);
    run_to_the_end(&l, "kill -PIPE $$; sleep 0; exit 5");
    assert_int_equal(launch_exit_status(&l), 128 + SIGPIPE);
    signal(SIGTERM, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &old, NULL);
}

static int start_and_hear(struct launch *l, const char *script)
{
    int ends[2];
    char text[256];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    snprintf(text, sizeof(text), "exec 1>&%d; %s", dup(ends[1]), script);
    char *argv[] = {"sh", "-c", text, NULL};
    assert_int_equal(launch_program(l, argv, NULL), 0);
    close(ends[1]);
    char c;
    assert_int_equal(read(ends[0], &c, 1), 1);
    return ends[0];
}

static void a_program_is_ended_kindly_or_not(void **state)
{
    (void)state;
    struct launch l;
    close(start_and_hear(&l, "trap 'exit 9' TERM; echo r; while :; do sleep 0.01; done"));
    launch_end(&l, 60 * SCRY_NSEC_PER_SEC);
    assert_true(l.ended);
    assert_int_equal(launch_exit_status(&l), 9);

    close(start_and_hear(&l, "trap '' TERM; echo r; while :; do sleep 0.01; done"));
    launch_end(&l, 1000000);
    assert_int_equal(launch_exit_status(&l), 128 + SIGKILL);
    launch_end(&l, 1000000);

    close(start_and_hear(&l, "echo r; kill -STOP $$"));
    launch_end(&l, 60 * SCRY_NSEC_PER_SEC);
    assert_int_equal(launch_exit_status(&l), 128 + SIGTERM);
}

static void the_status_survives_being_traced(void **state)
{
    (void)state;
    struct launch l;
    char *argv[] = {"sh", "-c", "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done; exit 4", NULL};
    assert_int_equal(launch_program(&l, argv, NULL), 0);
    while (!launch_poll(&l)) {
        struct stop s;
        stop_thread(&s, l.pid, SCRY_NSEC_PER_SEC);
        stop_release(&s);
    }
    assert_int_equal(launch_exit_status(&l), 4);
}

/* The stop of a traced child is not its end, and the signal it is about still reaches it. */
static void a_stop_is_not_the_end(void **state)
{
    (void)state;
    struct launch l;
    struct stop s;
    close(start_and_hear(&l, "echo r; while :; do :; done"));
    assert_int_equal(stop_thread(&s, l.pid, 60 * SCRY_NSEC_PER_SEC), 0);
    for (int i = 0; i < 10; i++)
        assert_false(launch_poll(&l));
    stop_release(&s);
    assert_false(launch_poll(&l));

    assert_int_equal(ptrace(PTRACE_SEIZE, l.pid, NULL, NULL), 0);
    assert_int_equal(kill(l.pid, SIGTERM), 0);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)l.pid, &info, WSTOPPED | WNOWAIT), 0);
    assert_int_equal(info.si_status, SIGTERM);
    assert_false(launch_poll(&l));
    assert_int_equal(ptrace(PTRACE_DETACH, l.pid, NULL, (void *)(uintptr_t)SIGTERM), 0);
    assert_true(launch_wait(&l, 60 * SCRY_NSEC_PER_SEC));
    assert_int_equal(launch_exit_status(&l), 128 + SIGTERM);
}

static void under_sudo_it_runs_as_the_caller(void **state)
{
    (void)state;
    if (geteuid()) {
        print_message("SKIPPED: needs root\n");
        skip();
    }
    struct launch l;
    setenv("SUDO_UID", "65534", 1);
    setenv("SUDO_GID", "65533", 1);
    run_to_the_end(&l, "[ $(id -u) = 65534 ] && [ $(id -g) = 65533 ] && ! id -G | grep -qw 0");
    assert_int_equal(launch_exit_status(&l), 0);
    setenv("SUDO_UID", "nonsense", 1);
    run_to_the_end(&l, "[ $(id -u) = 0 ]");
    assert_int_equal(launch_exit_status(&l), 0);
    unsetenv("SUDO_UID");
    unsetenv("SUDO_GID");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_exit_status_is_the_programs),
        cmocka_unit_test(what_cannot_be_run_is_named),
        cmocka_unit_test(a_closed_folder_in_path_changes_nothing),
        cmocka_unit_test(signals_are_as_a_shell_would_leave_them),
        cmocka_unit_test(a_program_is_ended_kindly_or_not),
        cmocka_unit_test(the_status_survives_being_traced),
        cmocka_unit_test(a_stop_is_not_the_end),
        cmocka_unit_test(under_sudo_it_runs_as_the_caller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
