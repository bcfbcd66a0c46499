/* System calls by number, for the machine scry is built for. */
#ifndef SCRY_ACCESS_SYSCALLS_H
#define SCRY_ACCESS_SYSCALLS_H

/* "futex" etc.; NULL for a number this build does not know. */
const char *syscall_name(long number);
/* Which argument is the descriptor that a thread blocked in this call waits for; -1 if none. */
int syscall_descriptor_arg(long number);

#endif
