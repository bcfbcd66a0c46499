/* The kernel answers "operation not permitted" for a dozen reasons. This file asks them one after
 * the other, in the order in which the kernel itself does (kernel/ptrace.c, __ptrace_may_access,
 * and the security modules behind it), and says which one it was and what would help. */
#include "access/permission.h"

#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "access/permission_facts.h"

__attribute__((format(printf, 3, 4))) static void refuse(struct diagnosis *d, const char *reason,
                                                         const char *format, ...)
{
    va_list args;
    va_start(args, format);
    d->reason = reason;
    vsnprintf(d->why, sizeof(d->why), format, args);
    va_end(args);
}

__attribute__((format(printf, 2, 3))) static void advise(struct diagnosis *d, const char *format,
                                                         ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(d->remedy, sizeof(d->remedy), format, args);
    va_end(args);
}

static void advise_container(const struct permission_facts *f, struct diagnosis *d)
{
    if (f->in_kubernetes)
        advise(d, "give the container the capability: add SYS_PTRACE to "
                  "securityContext.capabilities.add in its pod spec");
    else
        advise(d, "give the container the capability: docker run --cap-add SYS_PTRACE ..., or in "
                  "Kubernetes add SYS_PTRACE to securityContext.capabilities.add");
}

/* How to get CAP_SYS_PTRACE from where we stand. */
static void advise_capability(const struct permission_facts *f, struct diagnosis *d)
{
    if (!f->cap_reachable)
        advise_container(f, d);
    else if (f->no_new_privs)
        advise(d, "run scry as root outside of this sandbox: it was started with no_new_privs, so "
                  "that sudo has no effect here");
    else if (f->own_uid == 0)
        advise(d, "run scry with the capability CAP_SYS_PTRACE, which this root shell has dropped");
    else
        advise(d, "run it as root (sudo scry ...), or give it the capability once: sudo setcap "
                  "cap_sys_ptrace+ep \"$(command -v scry)\"");
}

static void user_text(uid_t uid, char *to, size_t cap)
{
    struct passwd entry, *found = NULL;
    char memory[4096];
    if (!getpwuid_r(uid, &entry, memory, sizeof(memory), &found) && found)
        snprintf(to, cap, "%.64s (uid %u)", entry.pw_name, uid);
    else
        snprintf(to, cap, "uid %u", uid);
}

static bool judge_existence(const struct permission_facts *f, struct diagnosis *d)
{
    if (f->hidden) {
        refuse(d, "hidepid",
               "no permission to see process %d: /proc is mounted with hidepid and hides the "
               "processes of others",
               f->pid);
        advise_capability(f, d);
        return true;
    }
    if (!f->exists) {
        refuse(d, "gone", "there is no process with pid %d", f->pid);
        if (f->own_pidns)
            advise(d, "list the Python processes seen from here with: scry ps (this is a container "
                      "with pids of its own: a pid of the host means nothing in it)");
        return true;
    }
    if (f->kernel_thread)
        refuse(d, "kernel-thread", "process %d (%s) is a kernel thread and runs no Python", f->pid,
               f->comm);
    else if (f->zombie)
        refuse(d, "zombie",
               "process %d (%s) is a zombie: it has ended and waits to be reaped by its parent",
               f->pid, f->comm);
    else
        return false;
    return true;
}

static bool same_owner(const struct permission_facts *f)
{
    for (int i = 0; i < 3; i++)
        if (f->uids[i] != f->own_uid)
            return false;
    return true;
}

static bool same_group(const struct permission_facts *f)
{
    for (int i = 0; i < 3; i++)
        if (f->gids[i] != f->own_gid)
            return false;
    return true;
}

/* Without CAP_SYS_PTRACE all ids must agree. */
static bool judge_owner(const struct permission_facts *f, struct diagnosis *d)
{
    char theirs[96], ours[96];
    if (f->has_cap || (same_owner(f) && same_group(f)))
        return false;
    user_text(f->uids[1], theirs, sizeof(theirs));
    user_text(f->own_uid, ours, sizeof(ours));
    if (f->own_uid == 0)
        refuse(d, "capability",
               "no permission to look into process %d of %s: scry runs as root, but without the "
               "capability CAP_SYS_PTRACE%s",
               f->pid, theirs, f->cap_reachable ? "" : ", which this container withholds");
    else if (same_owner(f))
        refuse(d, "uid",
               "no permission to look into process %d: it runs in group %u and scry in group %u",
               f->pid, f->gids[1], f->own_gid);
    else if (f->uids[1] == f->own_uid)
        refuse(
            d, "uid",
            "no permission to look into process %d: it was started by another user (its uids are "
            "%u, %u and %u) and scry runs as %s",
            f->pid, f->uids[0], f->uids[1], f->uids[2], ours);
    else
        refuse(d, "uid",
               "no permission to look into process %d: it belongs to %s and scry runs as %s",
               f->pid, theirs, ours);
    advise_capability(f, d);
    return true;
}

static bool judge_dumpable(const struct permission_facts *f, struct diagnosis *d)
{
    if (!f->undumpable || f->has_cap)
        return false;
    refuse(d, "not-dumpable",
           "no permission to look into process %d: it has protected itself (it is not dumpable: "
           "prctl(PR_SET_DUMPABLE), or it was started from a setuid or unreadable file)",
           f->pid);
    advise_capability(f, d);
    return true;
}

static bool judge_userns(const struct permission_facts *f, struct diagnosis *d)
{
    if (!f->other_userns)
        return false;
    refuse(d, "userns",
           "no permission to look into process %d: it lives in another user namespace, where the "
           "rights of scry do not count",
           f->pid);
    advise(d, "run scry inside the same container as the program, or as root on the host");
    return true;
}

/* Yama's rules hold for reading memory too, since the kernel counts that as attaching. */
static bool judge_yama(const struct permission_facts *f, struct diagnosis *d)
{
    if (f->yama == 3) {
        refuse(d, "yama",
               "no permission to look into process %d: this kernel forbids it to everyone "
               "(kernel.yama.ptrace_scope is 3)",
               f->pid);
        advise(d, "set kernel.yama.ptrace_scope to a lower value in /etc/sysctl.d and reboot: it "
                  "cannot be lowered in a running system");
        return true;
    }
    if (f->has_cap || f->yama < 1 || f->yama > 2)
        return false;
    if (f->yama == 2)
        refuse(d, "yama",
               "no permission to look into process %d: this system allows it to root only "
               "(kernel.yama.ptrace_scope is 2)",
               f->pid);
    else
        refuse(d, "yama",
               "no permission to look into process %d: this system allows it only to the parent of "
               "a process (kernel.yama.ptrace_scope is 1)",
               f->pid);
    if (!f->cap_reachable)
        advise_container(f, d);
    else if (f->yama == 2)
        advise(d, "run it as root (sudo scry ...), or allow it for this boot: sudo sysctl "
                  "kernel.yama.ptrace_scope=0");
    else
        advise(d, "run it as root (sudo scry ...), start the program through scry (scry record -- "
                  "python ...), or allow it for this boot: sudo sysctl kernel.yama.ptrace_scope=0");
    return true;
}

static bool judge_capabilities(const struct permission_facts *f, struct diagnosis *d)
{
    if (f->has_cap || !f->more_caps)
        return false;
    refuse(d, "capability",
           "no permission to look into process %d: it has capabilities that scry has not, and scry "
           "lacks CAP_SYS_PTRACE",
           f->pid);
    advise_capability(f, d);
    return true;
}

static void judge_rest(const struct permission_facts *f, struct diagnosis *d)
{
    if (f->seccomp) {
        refuse(d, "seccomp",
               "no permission to look into process %d: a seccomp filter around scry refuses "
               "process_vm_readv and /proc/%d/mem is closed too",
               f->pid, f->pid);
        advise(d,
               "run scry outside of this sandbox, or allow process_vm_readv and ptrace in its "
               "profile (docker run --security-opt seccomp=unconfined, or --cap-add SYS_PTRACE)");
        return;
    }
    refuse(d, "lsm",
           "no permission to look into process %d: the kernel refuses it for no reason that /proc "
           "shows, most likely a security module%s%s%s",
           f->pid, f->modules[0] ? " (active: " : "", f->modules, f->modules[0] ? ")" : "");
    advise(d,
           "look for the refusal in the audit log (dmesg, ausearch -m avc); with AppArmor in "
           "Docker: --security-opt apparmor=unconfined; with SELinux: setsebool deny_ptrace off");
}

void permission_judge(const struct permission_facts *f, struct diagnosis *ret)
{
    *ret = (struct diagnosis){.reason = "ok"};
    if (judge_existence(f, ret))
        return;
    ret->can_attach = f->readable;
    if (f->readable || judge_owner(f, ret) || judge_userns(f, ret) || judge_dumpable(f, ret) ||
        judge_yama(f, ret) || judge_capabilities(f, ret))
        return;
    judge_rest(f, ret);
}

void permission_diagnose(pid_t pid, struct diagnosis *ret)
{
    struct permission_facts facts;
    permission_gather(pid, &facts);
    permission_judge(&facts, ret);
}

int permission_error(pid_t pid, struct error *err)
{
    static const struct {
        const char *reason;
        int code;
    } codes[] = {
        {"gone", -SCRY_E_NO_PROCESS},
        {"zombie", -SCRY_E_ZOMBIE},
        {"kernel-thread", -SCRY_E_KERNEL_THREAD},
    };
    struct diagnosis d;
    permission_diagnose(pid, &d);
    if (d.can_attach)
        return 0;
    int code = -SCRY_E_PERMISSION;
    for (size_t i = 0; i < ARRAY_LEN(codes); i++)
        if (!strcmp(d.reason, codes[i].reason))
            code = codes[i].code;
    error_set(err, code, "%s", d.why);
    if (d.remedy[0])
        error_hint(err, "%s", d.remedy);
    return code;
}
