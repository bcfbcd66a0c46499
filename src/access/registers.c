#include "access/registers.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

#include "access/procfs.h"

#if defined(__x86_64__)
static void take(const struct user_regs_struct *u, struct registers *ret)
{
    const uint64_t values[] = {u->rax, u->rdx, u->rcx, u->rbx, u->rsi, u->rdi, u->rbp, u->rsp,
                               u->r8,  u->r9,  u->r10, u->r11, u->r12, u->r13, u->r14, u->r15};
    for (unsigned i = 0; i < ARRAY_LEN(values); i++)
        register_set(ret, i, values[i]);
    ret->pc = u->rip;
}
#else
static void take(const struct user_regs_struct *u, struct registers *ret)
{
    for (unsigned i = 0; i < ARRAY_LEN(u->regs); i++)
        register_set(ret, i, u->regs[i]);
    register_set(ret, REGISTER_SP, u->sp);
    ret->pc = u->pc;
}
#endif

/* What the kernel puts where a result would be, until it goes to sleep there once more. */
static bool is_cut_short(int64_t result)
{
    enum { RESTART = -512, RESTART_NO_HANDLER = -514, RESTART_BY_BLOCK = -516 };
    return result == RESTART || result == RESTART_NO_HANDLER || result == RESTART_BY_BLOCK ||
           result == -EINTR;
}

static bool read_set(pid_t tid, int set, void *to, size_t size)
{
    struct iovec room = {to, size};
    return ptrace(PTRACE_GETREGSET, tid, (void *)(uintptr_t)set, &room) == 0 &&
           room.iov_len == size;
}

#if defined(__x86_64__)
bool registers_show_sleep(pid_t tid)
{
    struct user_regs_struct user;
    return read_set(tid, NT_PRSTATUS, &user, sizeof(user)) && (int64_t)user.orig_rax >= 0 &&
           is_cut_short((int64_t)user.rax);
}
#else
bool registers_show_sleep(pid_t tid)
{
    struct user_regs_struct user;
    int number = -1;
    return read_set(tid, NT_ARM_SYSTEM_CALL, &number, sizeof(number)) && number >= 0 &&
           read_set(tid, NT_PRSTATUS, &user, sizeof(user)) && is_cut_short((int64_t)user.regs[0]);
}
#endif

int registers_of_stopped(pid_t tid, struct registers *ret)
{
    struct user_regs_struct user;
    if (!read_set(tid, NT_PRSTATUS, &user, sizeof(user)))
        return -SCRY_E_GONE;
    *ret = (struct registers){0};
    take(&user, ret);
    return 0;
}

int registers_of_dead(const void *data, size_t size, struct registers *ret)
{
    struct user_regs_struct user;
    if (!data || size != sizeof(user))
        return -SCRY_E_BAD_FILE;
    memcpy(&user, data, sizeof(user));
    *ret = (struct registers){0};
    take(&user, ret);
    return 0;
}

/* "NUMBER ARG*6 SP PC" in a system call, "-1 SP PC" asleep elsewhere (a page fault, a stop), or
 * "running". The last two words are what is wanted. */
int registers_parse_blocked(const char *text, struct registers *ret)
{
    uint64_t words[9];
    size_t count = 0;
    char *at;
    strtoll(text, &at, 10);
    if (at == text)
        return -SCRY_E_TORN;
    while (count < ARRAY_LEN(words)) {
        const char *before = at;
        words[count] = strtoull(before, &at, 16);
        if (at == before)
            break;
        count++;
    }
    if (count < 2 || !words[count - 2] || !words[count - 1])
        return -SCRY_E_TORN;
    *ret = (struct registers){.pc = words[count - 1]};
    register_set(ret, REGISTER_SP, words[count - 2]);
    return 0;
}

int registers_of_blocked(const struct process *process, pid_t tid, struct registers *ret)
{
    char path[64], text[256];
    snprintf(path, sizeof(path), "task/%d/syscall", tid);
    ssize_t len = procfs_read_small(process->proc_fd, path, text, sizeof(text));
    if (len < 0)
        return len == -EACCES || len == -EPERM ? -SCRY_E_PERMISSION : -SCRY_E_GONE;
    return registers_parse_blocked(text, ret);
}
