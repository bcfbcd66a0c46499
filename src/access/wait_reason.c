/* Why a thread waits: the system call it is blocked in, and what the descriptor is that it waits
 * for. */
#include "access/task.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "access/descriptor.h"
#include "access/procfs.h"
#include "access/syscalls.h"
#include "util/utf8.h"

#define ARGS 6

struct blocked_call {
    long number; /* -1: blocked, but not in a system call */
    uint64_t args[ARGS];
};

static bool read_task_file(const struct process *process, pid_t tid, const char *name, char *to,
                           size_t cap)
{
    char path[64];
    snprintf(path, sizeof(path), "task/%d/%s", tid, name);
    return procfs_read_small(process->proc_fd, path, to, cap) > 0;
}

/* "230 0x0 0x0 0x7ffd4cb96f70 ... sp pc"; "-1 sp pc"; "running". */
static bool parse_call(const char *text, struct blocked_call *ret)
{
    char *end;
    *ret = (struct blocked_call){.number = strtol(text, &end, 10)};
    if (end == text)
        return false;
    for (int i = 0; i < ARGS; i++)
        ret->args[i] = strtoull(end, &end, 16);
    return true;
}

/* A wait that was broken off and goes on shows as restart_syscall. Three kinds of calls can be
 * continued so: where in the kernel it sleeps tells futex and poll; the rest are sleeps. */
static const char *restarted_call(const struct process *process, pid_t tid)
{
    char place[64];
    if (!read_task_file(process, tid, "wchan", place, sizeof(place)) || !strcmp(place, "0"))
        return NULL;
    if (strstr(place, "futex"))
        return "futex";
    return strstr(place, "poll") ? "poll" : "clock_nanosleep";
}

static char task_state(const struct process *process, pid_t tid)
{
    char text[PROC_STAT_MAX];
    struct proc_stat stat;
    if (!read_task_file(process, tid, "stat", text, sizeof(text)) || proc_stat_parse(text, &stat))
        return 0;
    return stat.state;
}

/* A socket with a timeout waits in poll, with one descriptor in the list. */
static int polled_descriptor(pid_t tid, const char *name, const struct blocked_call *call)
{
    struct pollfd item;
    if ((strcmp(name, "poll") != 0 && strcmp(name, "ppoll") != 0) || call->args[1] != 1)
        return -1;
    struct iovec local = {&item, sizeof(item)};
    struct iovec remote = {(void *)(uintptr_t)call->args[0], sizeof(item)};
    if (process_vm_readv(tid, &local, 1, &remote, 1, 0) != (ssize_t)sizeof(item))
        return -1;
    return item.fd;
}

static void describe_call(const struct process *process, pid_t tid, const struct blocked_call *call,
                          struct buf *to)
{
    const char *name = syscall_name(call->number);
    if (!name) {
        buf_addf(to, "system call %ld", call->number);
        return;
    }
    if (!strcmp(name, "restart_syscall"))
        name = restarted_call(process, tid) ?: name;
    buf_add_str(to, name);
    int arg = syscall_descriptor_arg(call->number);
    int fd = arg >= 0 ? (int)call->args[arg] : polled_descriptor(tid, name, call);
    size_t before = to->len;
    if (fd < 0)
        return;
    buf_add_char(to, ' ');
    descriptor_describe(process, tid, fd, to);
    if (to->len == before + 1)
        buf_truncate(to, before);
}

/* Control characters, those of Latin-1 too, drive terminals. */
static void silence_controls(struct buf *text)
{
    unsigned char *s = (unsigned char *)text->data;
    for (size_t i = 0; i < text->len; i++) {
        if (s[i] < ' ' || s[i] == 0x7f)
            s[i] = '?';
        if (s[i] == 0xc2 && s[i + 1] >= 0x80 && s[i + 1] < 0xa0)
            s[i] = s[i + 1] = '?';
    }
}

/* Copy what fits, made harmless; of a path that is too long the end says more than the beginning.
 */
static void copy_printable(const struct buf *from, char *to, size_t cap)
{
    static const char gap[] = "...";
    SCOPED_BUF clean;
    buf_init(&clean);
    utf8_clean(&clean, from->data, from->len);
    silence_controls(&clean);
    size_t head = strcspn(clean.data, "/");
    if (clean.len >= cap && clean.data[head] && head + sizeof(gap) + 8 < cap) {
        size_t tail = clean.len - (cap - 1 - head - (sizeof(gap) - 1));
        while (((unsigned char)clean.data[tail] & 0xc0) == 0x80)
            tail++;
        snprintf(to, cap, "%.*s%s%s", (int)head, clean.data, gap, clean.data + tail);
        return;
    }
    size_t keep = utf8_prefix(clean.data, clean.len, cap - 1);
    memcpy(to, clean.data, keep);
    to[keep] = '\0';
}

void task_wait_reason(const struct process *process, pid_t tid, char *to, size_t cap)
{
    char text[256];
    struct blocked_call call;
    SCOPED_BUF words;
    buf_init(&words);
    if (!cap)
        return;
    to[0] = '\0';
    if (!read_task_file(process, tid, "syscall", text, sizeof(text)) || !parse_call(text, &call))
        return;
    /* A thread that was stopped still shows the system call it came from. */
    char state = task_state(process, tid);
    if (state == 'T')
        buf_add_str(&words, "stopped");
    else if (state == 't')
        buf_add_str(&words, "stopped by a debugger");
    else if (call.number >= 0)
        describe_call(process, tid, &call, &words);
    else if (state == 'D')
        buf_add_str(&words, "page fault");
    copy_printable(&words, to, cap);
}
