#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "access/maps.h"
#include "access/mem.h"
#include "access/process.h"
#include "access/procfs.h"
#include "child.h"

static void stat_survives_hostile_names(void **state)
{
    (void)state;
    struct proc_stat s;
    const char *line =
        "42 (a) R 7 (b) S 17 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 3 0 86797 2461696 114 "
        "18446744073709551615 11 12 13 0";
    assert_int_equal(proc_stat_parse(line, &s), 0);
    assert_string_equal(s.comm, "a) R 7 (b");
    assert_int_equal(s.state, 'S');
    assert_int_equal(s.parent, 17);
    assert_int_equal(s.threads, 3);
    assert_int_equal(s.start_time, 86797);
    assert_int_equal(s.start_code, 11);
    assert_int_equal(s.start_stack, 13);
    assert_int_equal(s.arg_start, 0);
    assert_true(proc_stat_parse("", &s) < 0);
    assert_true(proc_stat_parse("1 (x", &s) < 0);
    assert_true(proc_stat_parse("1 (x) ", &s) < 0);
}

static void status_fields_are_found_at_line_starts(void **state)
{
    (void)state;
    const char *status = "Name:\tNSpid:\nTgid:\t5\nNSpid:\t5\t2\t1\nLast:\t9";
    assert_int_equal(proc_status_ns_pid(status), 1);
    assert_int_equal(proc_status_ns_depth(status), 3);
    assert_int_equal(strtol(proc_status_find(status, "Last"), NULL, 10), 9);
    assert_null(proc_status_find(status, "Las"));
    assert_int_equal(proc_status_ns_pid("Name:\tx\n"), 0);
}

static void idle(int in, int out, void *arg)
{
    (void)arg;
    child_say(out, 'r');
    child_hear(in);
}

static void a_child_is_described(void **state)
{
    (void)state;
    struct child c = child_start_ready(idle, NULL);
    struct process *p, *self;
    assert_int_equal(process_open(c.pid, &p, NULL), 0);
    assert_int_equal(process_open(getpid(), &self, NULL), 0);
    assert_int_equal(p->parent, getpid());
    assert_int_equal(p->ns_pid, c.pid);
    assert_false(p->other_mount_ns || p->other_pid_ns || p->exe_deleted);
    assert_string_equal(p->exe, self->exe);
    assert_string_equal(p->command, self->command);
    assert_true(process_alive(p));
    assert_false(process_execed(p));
    child_end(&c);
    assert_false(process_alive(p));
    assert_false(process_execed(p));
    SCOPED_BUF text;
    buf_init(&text);
    assert_int_equal(process_read_proc(p, "maps", 100, &text), -SCRY_E_GONE);
    process_close(p);
    process_close(self);
}

static void assert_refused(pid_t pid, int code, const char *word)
{
    struct process *p;
    struct error err = {0};
    assert_int_equal(process_open(pid, &p, &err), code);
    assert_non_null(strstr(error_text(&err), word));
}

static void what_is_no_process_is_named(void **state)
{
    (void)state;
    assert_refused(0, -SCRY_E_NO_PROCESS, "no process with pid 0");
    assert_refused(-5, -SCRY_E_NO_PROCESS, "no process with pid -5");
    assert_refused(0x7fffffff, -SCRY_E_NO_PROCESS, "no process with pid 2147483647");
}

static void quits(int in, int out, void *arg)
{
    (void)in, (void)out, (void)arg;
}

static void a_zombie_is_named(void **state)
{
    (void)state;
    struct child c = child_start(quits, NULL);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)c.pid, &info, WEXITED | WNOWAIT), 0);
    assert_refused(c.pid, -SCRY_E_ZOMBIE, "zombie");
    child_end(&c);
    assert_refused(c.pid, -SCRY_E_NO_PROCESS, "no process");
}

static void a_kernel_thread_is_named(void **state)
{
    (void)state;
    char comm[32];
    if (procfs_read_small(AT_FDCWD, "/proc/2/comm", comm, sizeof(comm)) < 0 ||
        strncmp(comm, "kthreadd", 8)) {
        print_message("SKIPPED: pid 2 is no kernel thread here (inside a container)\n");
        skip();
    }
    assert_refused(2, -SCRY_E_KERNEL_THREAD, "kernel thread");
}

static int thread_ends[2];

static char first_thread_state(void)
{
    char text[PROC_STAT_MAX], path[64];
    struct proc_stat stat = {0};
    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", getpid());
    procfs_read_small(AT_FDCWD, path, text, sizeof(text));
    proc_stat_parse(text, &stat);
    return stat.state;
}

static void *outlives_the_first(void *arg)
{
    (void)arg;
    while (first_thread_state() != 'Z')
        sched_yield();
    child_say(thread_ends[1], 'r');
    child_hear(thread_ends[0]);
    _exit(0);
}

static void first_thread_ends(int in, int out, void *arg)
{
    (void)arg;
    pthread_t other;
    thread_ends[0] = in;
    thread_ends[1] = out;
    pthread_create(&other, NULL, outlives_the_first, NULL);
    syscall(SYS_exit, 0);
}

static int landmark = 0x5c47;

static void a_process_outlives_its_first_thread(void **state)
{
    (void)state;
    struct child c = child_start_ready(first_thread_ends, NULL);
    struct process *p;
    struct maps maps;
    struct mem *m;
    uint32_t seen = 0;
    assert_int_equal(process_open(c.pid, &p, NULL), 0);
    assert_true(process_alive(p));
    assert_false(process_execed(p));
    assert_int_equal(p->pid, c.pid);
    assert_int_equal(p->ns_pid, c.pid);
    assert_int_equal(maps_read(p, &maps, NULL), 0);
    assert_non_null(maps_find(&maps, (uintptr_t)&landmark));
    assert_int_equal(mem_open_live(c.pid, &m, NULL), 0);
    assert_int_equal(mem_read_u32(m, (uintptr_t)&landmark, &seen), 0);
    assert_int_equal(seen, 0x5c47);
    mem_close(m);
    maps_done(&maps);
    child_end(&c);
    assert_false(process_alive(p));
    process_close(p);
}

static void touch(const char *path, const char *content)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(content, f);
    fclose(f);
}

static void chrooted(int in, int out, void *arg)
{
    child_say(out, chroot(arg) || chdir("/") ? 'x' : 'r');
    child_hear(in);
}

static void paths_are_opened_in_the_targets_own_root(void **state)
{
    (void)state;
    if (geteuid()) {
        print_message("SKIPPED: chroot needs root\n");
        skip();
    }
    char dir[] = "/tmp/scry-test-XXXXXX", path[128], text[16] = {0};
    assert_non_null(mkdtemp(dir));
    assert_int_equal(chdir(dir), 0);
    mkdir("etc", 0755);
    touch("etc/inside", "inside");
    assert_int_equal(symlink("/etc/inside", "absolute"), 0);
    assert_int_equal(symlink("../../../../etc/inside", "etc/relative"), 0);
    assert_int_equal(symlink("loop", "loop"), 0);
    assert_int_equal(mkfifo("fifo", 0600), 0);
    struct child c = child_start(chrooted, dir);
    assert_int_equal(child_hear(c.from), 'r');
    struct process *p;
    assert_int_equal(process_open(c.pid, &p, NULL), 0);
    assert_true(p->other_mount_ns);
    const char *good[] = {"/etc/inside", "absolute", "/etc/relative", "/../etc/./inside"};
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        int fd = process_open_path(p, good[i]);
        assert_true(fd >= 0);
        assert_int_equal(read(fd, text, sizeof(text)), 6);
        assert_string_equal(text, "inside");
        close(fd);
    }
    assert_int_equal(process_open_path(p, "/etc/passwd"), -ENOENT);
    assert_int_equal(process_open_path(p, "/loop"), -ELOOP);
    assert_int_equal(process_open_path(p, "/fifo"), -EINVAL);
    assert_int_equal(process_open_path(p, "/etc"), -EISDIR);
    snprintf(path, sizeof(path), "%s/etc/inside", dir);
    assert_string_equal(process_own_path(p, path), "/etc/inside");
    process_close(p);
    child_end(&c);
    snprintf(path, sizeof(path), "rm -r %s", dir);
    assert_int_equal(chdir("/"), 0);
    assert_int_equal(system(path), 0);
}

static bool list_has(const struct pid_list *list, pid_t pid)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i] == pid)
            return true;
    return false;
}

static void children_are_listed(void **state)
{
    (void)state;
    struct child a = child_start_ready(idle, NULL), b = child_start_ready(idle, NULL);
    struct pid_list list;
    assert_int_equal(process_children(getpid(), &list), 0);
    assert_int_equal(list.count, 2);
    assert_true(list_has(&list, a.pid) && list_has(&list, b.pid));
    pid_list_done(&list);
    assert_int_equal(process_list(&list), 0);
    assert_true(list_has(&list, getpid()) && list_has(&list, b.pid));
    pid_list_done(&list);
    child_end(&a);
    child_end(&b);
    assert_int_equal(process_children(getpid(), &list), 0);
    assert_int_equal(list.count, 0);
    pid_list_done(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stat_survives_hostile_names),
        cmocka_unit_test(status_fields_are_found_at_line_starts),
        cmocka_unit_test(a_child_is_described),
        cmocka_unit_test(what_is_no_process_is_named),
        cmocka_unit_test(a_zombie_is_named),
        cmocka_unit_test(a_kernel_thread_is_named),
        cmocka_unit_test(a_process_outlives_its_first_thread),
        cmocka_unit_test(paths_are_opened_in_the_targets_own_root),
        cmocka_unit_test(children_are_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
