#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>

#include "access/mem.h"
#include "access/permission.h"
#include "access/process.h"
#include "child.h"

#define NOBODY 65534

/* ---- judging facts: every cause, on any machine ---- */

static struct permission_facts refused(void)
{
    return (struct permission_facts){
        .pid = 42,
        .comm = "python",
        .exists = true,
        .uids = {1000, 1000, 1000},
        .gids = {1000, 1000, 1000},
        .own_uid = 1000,
        .own_gid = 1000,
        .cap_reachable = true,
        .yama = -1,
    };
}

static void assert_judged(struct permission_facts f, const char *reason, const char *in_why,
                          const char *in_remedy)
{
    struct diagnosis d;
    permission_judge(&f, &d);
    assert_string_equal(d.reason, reason);
    assert_false(d.can_attach);
    assert_non_null(strstr(d.why, in_why));
    assert_non_null(strstr(d.why, "permission"));
    assert_non_null(strstr(d.why, "42"));
    assert_non_null(strstr(d.remedy, in_remedy));
    assert_true(d.why[strlen(d.why) - 1] != '.');
}

static void yama_is_named_with_its_scope(void **state)
{
    (void)state;
    struct permission_facts f = refused();
    f.yama = 1;
    assert_judged(f, "yama", "ptrace_scope is 1", "sudo sysctl kernel.yama.ptrace_scope=0");
    assert_judged(f, "yama", "parent", "scry record -- python");
    f.cap_reachable = false;
    assert_judged(f, "yama", "ptrace_scope is 1", "--cap-add SYS_PTRACE");
    f.cap_reachable = true;
    f.yama = 2;
    assert_judged(f, "yama", "ptrace_scope is 2", "sudo scry");
    f.yama = 3;
    assert_judged(f, "yama", "ptrace_scope is 3", "reboot");
    f.has_cap = true;
    assert_judged(f, "yama", "everyone", "reboot");
}

static void another_owner_is_named(void **state)
{
    (void)state;
    struct permission_facts f = refused();
    f.uids[0] = f.uids[1] = f.uids[2] = 4242;
    f.yama = 1;
    assert_judged(f, "uid", "uid 4242", "sudo scry");
    assert_judged(f, "uid", "uid 1000", "setcap cap_sys_ptrace+ep");
    f.no_new_privs = true;
    assert_judged(f, "uid", "uid 4242", "no_new_privs");
    f = refused();
    f.gids[2] = 7;
    assert_judged(f, "uid", "group", "sudo scry");
    f = refused();
    f.uids[0] = 7;
    assert_judged(f, "uid", "another user", "sudo scry");
}

static void a_missing_capability_is_named(void **state)
{
    (void)state;
    struct permission_facts f = refused();
    f.own_uid = 0;
    f.cap_reachable = false;
    assert_judged(f, "capability", "CAP_SYS_PTRACE", "docker run --cap-add SYS_PTRACE");
    f.in_kubernetes = true;
    assert_judged(f, "capability", "container", "securityContext.capabilities.add");
    f = refused();
    f.more_caps = true;
    assert_judged(f, "capability", "capabilities that scry has not", "sudo scry");
}

static void the_rest_is_named(void **state)
{
    (void)state;
    struct permission_facts f = refused();
    f.undumpable = true;
    assert_judged(f, "not-dumpable", "not dumpable", "sudo scry");
    f = refused();
    f.has_cap = f.other_userns = true;
    assert_judged(f, "userns", "user namespace", "same container");
    f = refused();
    f.has_cap = f.seccomp = true;
    assert_judged(f, "seccomp", "seccomp", "seccomp=unconfined");
    f = refused();
    f.has_cap = true;
    strcpy(f.modules, "capability,apparmor");
    assert_judged(f, "lsm", "capability,apparmor", "apparmor=unconfined");
    f = refused();
    f.hidden = true;
    assert_judged(f, "hidepid", "hidepid", "sudo scry");
}

static void in_a_container_pids_are_its_own(void **state)
{
    (void)state;
    struct permission_facts f = {.pid = 42, .own_pidns = true};
    struct diagnosis d;
    permission_judge(&f, &d);
    assert_string_equal(d.reason, "gone");
    assert_non_null(strstr(d.remedy, "container"));
    f.own_pidns = false;
    permission_judge(&f, &d);
    assert_string_equal(d.remedy, "");
}

static void a_process_that_can_be_read_is_fine(void **state)
{
    (void)state;
    struct permission_facts f = refused();
    struct diagnosis d;
    f.readable = f.undumpable = f.other_userns = f.seccomp = true;
    f.yama = 3;
    permission_judge(&f, &d);
    assert_true(d.can_attach);
    assert_string_equal(d.reason, "ok");
    assert_string_equal(d.why, "");
}

/* ---- for real ---- */

static int warn_unless_root(void **state)
{
    (void)state;
    if (geteuid() == 0)
        return 0;
    print_message("SKIPPED, all that needs root: another uid, capabilities, namespaces, seccomp\n");
    return 0;
}

#define SKIP_UNLESS_ROOT                                                                           \
    if (geteuid())                                                                                 \
    skip()

static void idle(int in, int out, void *arg)
{
    (void)arg;
    child_say(out, 'r');
    child_hear(in);
}

static void idle_as_nobody(int in, int out, void *arg)
{
    bool dumpable = *(bool *)arg;
    if (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) ||
        setresuid(NOBODY, NOBODY, NOBODY))
        _exit(97);
    prctl(PR_SET_DUMPABLE, dumpable ? 1 : 0);
    idle(in, out, NULL);
}

/* A process in some predicament that tells what it thinks of another. */
struct question {
    pid_t pid;
    bool (*predicament)(void);
};

struct answer {
    struct diagnosis d;
    char reason[32];
    int memory; /* what mem_open_live says */
    struct error err;
};

static void answers(int in, int out, void *arg)
{
    const struct question *q = arg;
    static struct answer a;
    struct mem *m = NULL;
    (void)in;
    if (!q->predicament())
        _exit(96);
    permission_diagnose(q->pid, &a.d);
    snprintf(a.reason, sizeof(a.reason), "%s", a.d.reason);
    a.memory = mem_open_live(q->pid, &m, &a.err);
    mem_close(m);
    if (write(out, &a, sizeof(a)) != sizeof(a))
        _exit(95);
}

static struct answer ask(pid_t pid, bool (*predicament)(void))
{
    struct question q = {pid, predicament};
    static struct answer a;
    struct child c = child_start(answers, &q);
    size_t got = 0;
    for (ssize_t n; got < sizeof(a); got += (size_t)n)
        if ((n = read(c.from, (char *)&a + got, sizeof(a) - got)) <= 0)
            break;
    child_end(&c);
    assert_int_equal(got, sizeof(a));
    return a;
}

static void assert_asked(pid_t pid, bool (*predicament)(void), const char *reason)
{
    struct answer a = ask(pid, predicament);
    assert_string_equal(a.reason, reason);
    bool ok = !strcmp(reason, "ok");
    assert_int_equal(a.d.can_attach, ok);
    assert_int_equal(a.memory, ok ? 0 : -SCRY_E_PERMISSION);
    if (!ok)
        assert_non_null(strstr(error_text(&a.err), "permission"));
}

static bool nothing(void)
{
    return true;
}

static bool be_nobody(void)
{
    return !setgroups(0, NULL) && !setresgid(NOBODY, NOBODY, NOBODY) &&
           !setresuid(NOBODY, NOBODY, NOBODY);
}

static bool drop_ptrace(void)
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    if (prctl(PR_CAPBSET_DROP, CAP_SYS_PTRACE) || syscall(SYS_capget, &head, data))
        return false;
    data[0].effective &= ~(1u << CAP_SYS_PTRACE);
    data[0].permitted &= ~(1u << CAP_SYS_PTRACE);
    data[0].inheritable &= ~(1u << CAP_SYS_PTRACE);
    return !syscall(SYS_capset, &head, data);
}

static bool other_userns(void)
{
    return !unshare(CLONE_NEWUSER);
}

static bool filter_calls(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ptrace, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    };
    struct sock_fprog program = {ARRAY_LEN(code), code};
    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
           !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static bool hide_others(void)
{
    return !unshare(CLONE_NEWNS) && !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
           !mount("proc", "/proc", "proc", 0, "hidepid=2") && be_nobody();
}

static void another_users_process(void **state)
{
    (void)state;
    SKIP_UNLESS_ROOT;
    struct child c = child_start_ready(idle, NULL);
    assert_asked(c.pid, nothing, "ok");
    assert_asked(c.pid, be_nobody, "uid");
    struct answer a = ask(c.pid, be_nobody);
    assert_non_null(strstr(a.d.why, "(uid 0)"));
    child_end(&c);
}

static void a_process_that_protects_itself(void **state)
{
    (void)state;
    SKIP_UNLESS_ROOT;
    bool dumpable = false;
    struct child c = child_start_ready(idle_as_nobody, &dumpable);
    assert_asked(c.pid, be_nobody, "not-dumpable");
    assert_asked(c.pid, nothing, "ok");
    child_end(&c);
    dumpable = true;
    c = child_start_ready(idle_as_nobody, &dumpable);
    struct answer a = ask(c.pid, be_nobody);
    if (strcmp(a.reason, "yama"))
        assert_string_equal(a.reason, "ok");
    child_end(&c);
}

static void root_without_the_capability(void **state)
{
    (void)state;
    SKIP_UNLESS_ROOT;
    bool dumpable = true;
    struct child theirs = child_start_ready(idle_as_nobody, &dumpable);
    struct child ours = child_start_ready(idle, NULL);
    assert_asked(theirs.pid, drop_ptrace, "capability");
    assert_asked(ours.pid, drop_ptrace, "capability");
    child_end(&theirs);
    child_end(&ours);
}

static void a_process_outside_of_the_user_namespace(void **state)
{
    (void)state;
    SKIP_UNLESS_ROOT;
    struct child c = child_start_ready(idle, NULL);
    assert_asked(c.pid, other_userns, "userns");
    child_end(&c);
}

static void a_seccomp_filter_leaves_the_way_through_proc(void **state)
{
    (void)state;
    SKIP_UNLESS_ROOT;
    struct child c = child_start_ready(idle, NULL);
    assert_asked(c.pid, filter_calls, "ok");
    child_end(&c);
}

static void a_process_hidden_by_hidepid(void **state)
{
    (void)state;
    SKIP_UNLESS_ROOT;
    struct child c = child_start_ready(idle, NULL);
    assert_asked(c.pid, hide_others, "hidepid");
    child_end(&c);
}

static void quits(int in, int out, void *arg)
{
    (void)in, (void)out, (void)arg;
}

static void the_dead_are_no_question_of_permission(void **state)
{
    (void)state;
    struct diagnosis d;
    struct error err = {0};
    siginfo_t info;
    struct child c = child_start(quits, NULL);
    assert_int_equal(waitid(P_PID, (id_t)c.pid, &info, WEXITED | WNOWAIT), 0);
    permission_diagnose(c.pid, &d);
    assert_string_equal(d.reason, "zombie");
    assert_int_equal(permission_error(c.pid, &err), -SCRY_E_ZOMBIE);
    child_end(&c);
    permission_diagnose(c.pid, &d);
    assert_string_equal(d.reason, "gone");
    assert_int_equal(permission_error(c.pid, &err), -SCRY_E_NO_PROCESS);
    assert_int_equal(permission_error(-1, &err), -SCRY_E_NO_PROCESS);
    assert_int_equal(permission_error(getpid(), &err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(yama_is_named_with_its_scope),
        cmocka_unit_test(another_owner_is_named),
        cmocka_unit_test(a_missing_capability_is_named),
        cmocka_unit_test(the_rest_is_named),
        cmocka_unit_test(in_a_container_pids_are_its_own),
        cmocka_unit_test(a_process_that_can_be_read_is_fine),
        cmocka_unit_test(another_users_process),
        cmocka_unit_test(a_process_that_protects_itself),
        cmocka_unit_test(root_without_the_capability),
        cmocka_unit_test(a_process_outside_of_the_user_namespace),
        cmocka_unit_test(a_seccomp_filter_leaves_the_way_through_proc),
        cmocka_unit_test(a_process_hidden_by_hidepid),
        cmocka_unit_test(the_dead_are_no_question_of_permission),
    };
    return cmocka_run_group_tests(tests, warn_unless_root, NULL);
}
