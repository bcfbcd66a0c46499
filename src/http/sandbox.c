#include "http/sandbox.h"

#include <cap-ng.h>
#include <errno.h>
#include <linux/capability.h>
#include <seccomp.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>

#include "util/types.h"

/* What looking into the processes of other users takes, if we have it:
 *   SYS_PTRACE          to read their memory and their /proc entries
 *   DAC_READ_SEARCH     to read their files: executables below folders that are theirs alone
 *   CHECKPOINT_RESTORE  to read files that are mapped, but deleted
 * and PERFMON for the kernel's account of what threads do. */
static const unsigned kept[] = {CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, CAP_CHECKPOINT_RESTORE,
                                CAP_PERFMON};

static int drop_capabilities(struct error *err)
{
    bool have[ARRAY_LEN(kept)];
    if (capng_get_caps_process() != 0)
        return error_set(err, -SCRY_E_INTERNAL, "the capabilities of this process are not known");
    for (size_t i = 0; i < ARRAY_LEN(kept); i++)
        have[i] = capng_have_capability(CAPNG_PERMITTED, kept[i]);
    bool may_bound = capng_have_capability(CAPNG_EFFECTIVE, CAP_SETPCAP);
    capng_clear(may_bound ? CAPNG_SELECT_ALL : CAPNG_SELECT_CAPS | CAPNG_SELECT_AMBIENT);
    for (size_t i = 0; i < ARRAY_LEN(kept); i++)
        if (have[i])
            /* Ambient, too: children of somebody who is not root get it that way. */
            capng_update(CAPNG_ADD,
                         CAPNG_EFFECTIVE | CAPNG_PERMITTED | CAPNG_INHERITABLE | CAPNG_AMBIENT |
                             (may_bound ? CAPNG_BOUNDING_SET : 0),
                         kept[i]);
    if (may_bound && capng_apply(CAPNG_SELECT_BOUNDS) != 0)
        return error_set(err, -SCRY_E_INTERNAL, "capabilities cannot be dropped: %s",
                         strerror(errno));
    if (capng_apply(CAPNG_SELECT_CAPS) != 0 || capng_apply(CAPNG_SELECT_AMBIENT) != 0)
        return error_set(err, -SCRY_E_INTERNAL, "capabilities cannot be dropped: %s",
                         strerror(errno));
    return 0;
}

/* ---- system calls ---- */

static const char *const allowed[] = {
#include "http/sandbox_calls.inc"
};

/* To stop a thread, read its registers and let it go; nothing that writes. */
static const int requests[] = {
    PTRACE_SEIZE,       PTRACE_INTERRUPT, PTRACE_CONT,       PTRACE_DETACH,
    PTRACE_LISTEN,      PTRACE_GETREGSET, PTRACE_GETSIGINFO, PTRACE_SETOPTIONS,
    PTRACE_GETEVENTMSG, PTRACE_PEEKTEXT,  PTRACE_PEEKDATA,   PTRACE_PEEKUSER,
#ifdef __SANITIZE_ADDRESS__
    PTRACE_ATTACH, /* at its end a sanitizer stops all threads and looks for leaks */
#ifdef __x86_64__
    PTRACE_GETREGS, /* ... in its own way, which other machines do not have */
#endif
#endif
};

static int add_ptrace(scmp_filter_ctx filter)
{
    int r = 0;
    for (size_t i = 0; i < ARRAY_LEN(requests) && r == 0; i++) {
        struct scmp_arg_cmp is = {
            .arg = 0, .op = SCMP_CMP_EQ, .datum_a = (scmp_datum_t)requests[i], .datum_b = 0};
        r = seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, SCMP_SYS(ptrace), 1, &is);
    }
    return r;
}

static int filter_calls(struct error *err)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    int r = filter ? 0 : -ENOMEM;
    for (size_t i = 0; i < ARRAY_LEN(allowed) && r == 0; i++) {
        int number = seccomp_syscall_resolve_name(allowed[i]);
        /* Calls this machine or this library does not know cannot be made either. */
        if (number == __NR_SCMP_ERROR || number < 0)
            continue;
        r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 0);
        if (r == -EEXIST)
            r = 0;
    }
    if (r == 0)
        r = add_ptrace(filter);
    /* The C library takes ENOSYS for "use the older call", and EPERM for a refusal. */
    if (r == 0)
        r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    if (r == 0)
        r = seccomp_load(filter);
    seccomp_release(filter);
    return r ? error_set(err, -SCRY_E_INTERNAL,
                         "the filter of system calls cannot be installed: %s", strerror(-r))
             : 0;
}

int sandbox_enter(struct error *err)
{
    int r = drop_capabilities(err);
    if (r == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        r = error_set(err, -SCRY_E_INTERNAL, "no_new_privs: %s", strerror(errno));
    if (r == 0)
        r = filter_calls(err);
    return r;
}
