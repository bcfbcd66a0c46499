#include "access/syscalls.h"

#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>

#include "util/types.h"

static const char *const names[] = {
#define NAME(name) [__NR_##name] = #name,
#include "access/syscall_names.inc"
#undef NAME
};

/* By name and not by number: not every machine has all of them. */
static const char *const on_descriptor[] = {
    "accept",    "accept4",  "connect",  "copy_file_range", "fallocate",       "fcntl",
    "fdatasync", "flock",    "fsync",    "ftruncate",       "getdents64",      "ioctl",
    "pread64",   "preadv",   "preadv2",  "pwrite64",        "pwritev",         "pwritev2",
    "read",      "readv",    "recvfrom", "recvmmsg",        "recvmsg",         "sendfile",
    "sendmmsg",  "sendmsg",  "sendto",   "splice",          "sync_file_range", "syncfs",
    "tee",       "vmsplice", "write",    "writev",
};

const char *syscall_name(long number)
{
    return number >= 0 && (size_t)number < ARRAY_LEN(names) ? names[number] : NULL;
}

int syscall_descriptor_arg(long number)
{
    const char *name = syscall_name(number);
    for (size_t i = 0; name && i < ARRAY_LEN(on_descriptor); i++)
        if (!strcmp(name, on_descriptor[i]))
            return 0;
    return -1;
}
