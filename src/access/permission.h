/* May scry look into this process, and if not, exactly why, and what helps? */
#ifndef SCRY_ACCESS_PERMISSION_H
#define SCRY_ACCESS_PERMISSION_H

#include "util/error.h"
#include "util/types.h"

struct diagnosis {
    bool can_attach;
    const char *reason; /* a stable word: "ok", "yama", "uid", "capability", "seccomp", "userns",
                           "hidepid", "not-dumpable", "lsm", "zombie", "gone", "kernel-thread" */
    char why[512];    /* one sentence, without a full stop; contains the word "permission" if it is
                         one */
    char remedy[512]; /* what to do; "" when nothing helps */
};

/* Tries a harmless read and, if that is refused, finds the cause in /proc. Never stops the target.
 */
void permission_diagnose(pid_t pid, struct diagnosis *ret);
/* The same as an error: -SCRY_E_PERMISSION (or NO_PROCESS, ZOMBIE, KERNEL_THREAD) with why and
 * remedy filled in; 0, and nothing filled in, when nothing is in the way. */
int permission_error(pid_t pid, struct error *err);

/* What the diagnosis is made from; apart, so that every cause can be tested on any machine. */
struct permission_facts {
    pid_t pid;
    char comm[16];
    bool exists;
    bool hidden; /* it exists, but /proc does not show it */
    bool zombie, kernel_thread;
    bool readable;          /* the harmless read worked: nothing else matters */
    uid_t uids[3], own_uid; /* real, effective and saved; ours is the real one */
    gid_t gids[3], own_gid;
    bool has_cap;       /* CAP_SYS_PTRACE, in effect */
    bool cap_reachable; /* in the bounding set: root could have it */
    bool no_new_privs;  /* scry was started so that sudo and setcap have no effect */
    bool seccomp;       /* a filter refuses process_vm_readv, even on ourselves */
    int yama;           /* ptrace_scope; -1 where the kernel has no Yama */
    bool undumpable;    /* the target may not be dumped, hence not be read */
    bool other_userns;
    bool more_caps; /* the target may do things that scry may not */
    bool in_kubernetes;
    bool own_pidns;   /* scry lives in a pid namespace other than the host's */
    char modules[96]; /* security modules of this kernel, "" if unknown */
};
void permission_judge(const struct permission_facts *facts, struct diagnosis *ret);

#endif
