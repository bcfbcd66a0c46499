#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "access/maps.h"
#include "access/mem.h"
#include "access/process.h"
#include "access/procfs.h"
#include "access/task.h"
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
        breathe();
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

/* ---- exec ---- */

static char *const reads_again[] = {"/bin/cat", NULL};

static void execs(int in, int out, void *arg)
{
    (void)arg;
    dup2(in, 0);
    dup2(out, 1);
    child_say(out, 'r');
    child_hear(in);
    execv(reads_again[0], reads_again);
    _exit(1);
}

/* cat copies what it hears: then exec has happened. */
static void await_cat(struct child *c)
{
    child_say(c->to, 'c');
    assert_int_equal(child_hear(c->from), 'c');
}

static void exec_is_seen(void **state)
{
    (void)state;
    struct child c = child_start_ready(execs, NULL);
    struct process *p;
    assert_int_equal(process_open(c.pid, &p, NULL), 0);
    assert_false(process_execed(p));
    bool visible = process_space_lives(p);
    assert_true(visible || geteuid());
    child_say(c.to, 'x');
    await_cat(&c);
    assert_true(process_alive(p));
    assert_true(process_execed(p));
    assert_false(process_space_lives(p));
    assert_true(process_space_lost(p) || !visible);
    process_close(p);
    child_end(&c);
}

/* The same program again, at the same addresses: only the address space itself is another. */
static void execs_itself(int in, int out, void *arg)
{
    (void)arg;
    dup2(in, 0);
    dup2(out, 1);
    personality(ADDR_NO_RANDOMIZE);
    char *const argv[] = {"/bin/sh", "-c", "echo; read x; exec /bin/sh -c \"$0\" \"$0\"",
                          "echo; read x; exec /bin/sh -c \"$0\" \"$0\"", NULL};
    execv(argv[0], argv);
}

static void exec_of_the_same_program_is_seen(void **state)
{
    (void)state;
    struct child c = child_start_ready(execs_itself, NULL);
    child_say(c.to, '\n');
    assert_int_equal(child_hear(c.from), '\n');
    struct process *before, *p;
    assert_int_equal(process_open(c.pid, &p, NULL), 0);
    assert_false(process_execed(p));
    child_say(c.to, '\n');
    assert_int_equal(child_hear(c.from), '\n');
    assert_int_equal(process_open(c.pid, &before, NULL), 0);
    /* Else this test would show nothing. */
    assert_int_equal(before->start_stack, p->start_stack);
    assert_int_equal(before->start_code, p->start_code);
    assert_true(process_execed(p));
    process_close(before);
    process_close(p);
    child_end(&c);
}

static void vforks_and_execs(int in, int out, void *arg)
{
    pid_t pid = vfork();
    if (!pid) {
        pid_t self = getpid();
        dup2(in, 0);
        dup2(out, 1);
        if (write(out, &self, sizeof(self)) < 0)
            _exit(99);
        child_hear(in);
        execv(reads_again[0], reads_again);
        _exit(1);
    }
    (void)arg;
    close(in);
    close(out);
    waitpid(pid, NULL, 0);
}

/* A child made by vfork shares its parent's memory until it execs; that memory lives on. */
static void exec_after_vfork_is_seen(void **state)
{
    (void)state;
    struct child c = child_start(vforks_and_execs, NULL);
    pid_t pid = 0;
    struct process *p;
    assert_int_equal(read(c.from, &pid, sizeof(pid)), sizeof(pid));
    assert_int_equal(process_open(pid, &p, NULL), 0);
    assert_false(process_execed(p));
    child_say(c.to, 'x');
    await_cat(&c);
    assert_true(process_execed(p));
    process_close(p);
    child_end(&c);
}

/* ---- namespaces ---- */

static void in_a_pid_namespace(int in, int out, void *arg)
{
    (void)arg;
    if (unshare(CLONE_NEWPID))
        _exit(97);
    pid_t pid = fork();
    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        idle(in, out, NULL);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

static void a_pid_is_known_by_both_its_names(void **state)
{
    (void)state;
    if (geteuid()) {
        print_message("SKIPPED: a pid namespace needs root\n");
        skip();
    }
    struct child c = child_start_ready(in_a_pid_namespace, NULL);
    struct pid_list list;
    struct process *p;
    struct task_list tasks = {0};
    assert_int_equal(process_children(c.pid, &list), 0);
    assert_int_equal(list.count, 1);
    assert_int_equal(process_open(list.items[0], &p, NULL), 0);
    assert_true(p->other_pid_ns);
    assert_int_equal(p->ns_pid, 1);
    assert_int_equal(p->pid, list.items[0]);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tasks_read(p, &tasks), 0);
        assert_int_equal(tasks.count, 1);
        assert_int_equal(tasks.items[0].ns_tid, 1);
        assert_ptr_equal(tasks_by_ns_tid(&tasks, 1), &tasks.items[0]);
        assert_int_equal(tasks.items[0].tid, p->pid);
    }
    tasks_done(&tasks);
    process_close(p);
    kill(list.items[0], SIGKILL);
    pid_list_done(&list);
    child_end(&c);
}

/* ---- files ---- */

static void a_deleted_executable_is_still_there(void **state)
{
    (void)state;
    char dir[] = "/tmp/scry-test-XXXXXX", path[64], command[128], magic[4] = "";
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/cat (deleted)", dir);
    snprintf(command, sizeof(command), "cp /bin/cat '%s'", path);
    assert_int_equal(system(command), 0);
    int to[2], from[2];
    assert_int_equal(pipe(to) | pipe(from), 0);
    pid_t pid = fork();
    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(to[0], 0);
        dup2(from[1], 1);
        execl(path, path, NULL);
        _exit(1);
    }
    struct child c = {pid, from[0], to[1]};
    await_cat(&c);
    struct process *p;
    assert_int_equal(process_open(pid, &p, NULL), 0);
    assert_string_equal(p->exe, path);
    assert_false(p->exe_deleted);
    process_close(p);
    unlink(path);
    assert_int_equal(process_open(pid, &p, NULL), 0);
    assert_string_equal(p->exe, path);
    assert_true(p->exe_deleted);
    assert_int_equal(process_open_path(p, path), -ENOENT);
    int fd = process_open_exe(p);
    assert_int_equal(read(fd, magic, 4), 4);
    assert_memory_equal(magic, "\177ELF", 4);
    close(fd);
    struct maps maps;
    assert_int_equal(maps_read(p, &maps, NULL), 0);
    const struct mapping *m = maps_find(&maps, p->start_code);
    assert_non_null(m);
    assert_true(m->deleted);
    assert_string_equal(m->path, path);
    fd = process_open_mapping(p, m->start, m->end);
    if (fd == -EPERM)
        print_message("NOT TESTED: map_files needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE\n");
    else
        assert_int_equal(read(fd, magic, 4), 4);
    close(fd);
    assert_true(process_open_mapping(p, 1, 2) < 0);
    maps_done(&maps);
    process_close(p);
    child_end(&c);
    close(to[0]);
    close(from[1]);
    rmdir(dir);
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

static void make_tree(char *dir)
{
    assert_non_null(mkdtemp(dir));
    assert_int_equal(chdir(dir), 0);
    mkdir("etc", 0755);
    touch("etc/inside", "inside");
    assert_int_equal(symlink("/etc/inside", "absolute"), 0);
    assert_int_equal(symlink("../../../../etc/inside", "etc/relative"), 0);
    assert_int_equal(symlink("//absolute", "etc/chain"), 0);
    assert_int_equal(symlink("loop", "loop"), 0);
    assert_int_equal(mkfifo("fifo", 0600), 0);
    assert_int_equal(chdir("/"), 0);
}

static void remove_tree(const char *dir)
{
    char command[128];
    snprintf(command, sizeof(command), "rm -r %s", dir);
    assert_int_equal(system(command), 0);
}

/* 0, or the line of the first thing that is not as it should be: this also runs where cmocka does
 * not. */
static int check_paths(const struct process *p)
{
    const char *good[] = {"/etc/inside",   "absolute",   "/etc/relative",  "/../etc/./inside",
                          "//etc//inside", "/etc/chain", "etc/../absolute"};
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        char text[16] = "";
        int fd = process_open_path(p, good[i]);
        if (fd < 0 || read(fd, text, sizeof(text)) != 6 || strcmp(text, "inside"))
            return 100 + (int)i;
        close(fd);
    }
    const struct {
        const char *path;
        int expected;
    } bad[] = {
        {"/etc/passwd", -ENOENT},
        {"/loop", -ELOOP},
        {"/fifo", -EINVAL},
        {"/etc", -EISDIR},
        {"/", -EISDIR},
        {"/etc/inside/x", -ENOTDIR},
        {"/../../../../../etc/passwd", -ENOENT},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (process_open_path(p, bad[i].path) != bad[i].expected)
            return 200 + (int)i;
    char long_name[400];
    memset(long_name, 'x', sizeof(long_name) - 1);
    long_name[sizeof(long_name) - 1] = '\0';
    return process_open_path(p, long_name) == -ENAMETOOLONG ? 0 : 300;
}

/* As an old container runtime would. */
static bool forbid_openat2(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {ARRAY_LEN(code), code};
    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
           !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void checks_without_openat2(int in, int out, void *arg)
{
    (void)in;
    int result = forbid_openat2() ? check_paths(arg) : 400;
    if (write(out, &result, sizeof(result)) < 0)
        _exit(99);
}

static void paths_are_opened_in_the_targets_own_root(void **state)
{
    (void)state;
    if (geteuid()) {
        print_message("SKIPPED: chroot needs root\n");
        skip();
    }
    char dir[] = "/tmp/scry-test-XXXXXX", path[128];
    make_tree(dir);
    struct child c = child_start(chrooted, dir);
    assert_int_equal(child_hear(c.from), 'r');
    struct process *p;
    assert_int_equal(process_open(c.pid, &p, NULL), 0);
    assert_true(p->other_mount_ns);
    assert_int_equal(check_paths(p), 0);
    struct child without = child_start(checks_without_openat2, p);
    int result = -1;
    assert_int_equal(read(without.from, &result, sizeof(result)), sizeof(result));
    assert_int_equal(result, 0);
    child_end(&without);
    snprintf(path, sizeof(path), "%s/etc/inside", dir);
    assert_string_equal(process_own_path(p, path), "/etc/inside");
    snprintf(path, sizeof(path), "%sx/etc/inside", dir);
    assert_string_equal(process_own_path(p, path), path);
    process_close(p);
    child_end(&c);
    remove_tree(dir);
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

static void *wait_for_ever(void *arg)
{
    (void)arg;
    pause();
    return NULL;
}

static void with_a_second_thread(int in, int out, void *arg)
{
    pthread_t thread;
    pthread_create(&thread, NULL, wait_for_ever, NULL);
    idle(in, out, arg);
}

static void children_are_found_in_one_pass(void **state)
{
    (void)state;
    struct child one = child_start_ready(idle, NULL);
    struct child two = child_start_ready(with_a_second_thread, NULL);
    struct pid_list list;
    assert_int_equal(process_children_now(getpid(), &list), 0);
    assert_true(list_has(&list, one.pid) && list_has(&list, two.pid));
    pid_list_done(&list);
    /* Of a process with one thread, and with two: none. */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(process_children_now(i ? two.pid : one.pid, &list), 0);
        assert_int_equal(list.count, 0);
        pid_list_done(&list);
    }
    child_end(&one);
    child_end(&two);
}

/* More than fit into the small buffer that is tried first. */
static void many_children_are_found_in_one_pass(void **state)
{
    (void)state;
    enum { COUNT = 80 };
    struct child children[COUNT];
    for (int i = 0; i < COUNT; i++)
        children[i] = child_start_ready(idle, NULL);
    struct pid_list list;
    assert_int_equal(process_children_now(getpid(), &list), 0);
    assert_int_equal(list.count, COUNT);
    pid_list_done(&list);
    for (int i = 0; i < COUNT; i++)
        child_end(&children[i]);
}

static void a_new_process_shows(void **state)
{
    (void)state;
    uint64_t before = process_newest();
    struct child c = child_start_ready(idle, NULL);
    assert_true(before == 0 || process_newest() != before);
    child_end(&c);
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
        cmocka_unit_test(exec_is_seen),
        cmocka_unit_test(exec_of_the_same_program_is_seen),
        cmocka_unit_test(exec_after_vfork_is_seen),
        cmocka_unit_test(a_pid_is_known_by_both_its_names),
        cmocka_unit_test(a_deleted_executable_is_still_there),
        cmocka_unit_test(paths_are_opened_in_the_targets_own_root),
        cmocka_unit_test(children_are_listed),
        cmocka_unit_test(children_are_found_in_one_pass),
        cmocka_unit_test(many_children_are_found_in_one_pass),
        cmocka_unit_test(a_new_process_shows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
