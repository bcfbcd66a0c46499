/* What a descriptor of a target is, in a few words: "pipe", "tcp 127.0.0.1:5432", "/var/log/x". */
#ifndef SCRY_ACCESS_DESCRIPTOR_H
#define SCRY_ACCESS_DESCRIPTOR_H

#include "access/process.h"

/* Appends nothing when /proc does not say. What is appended is as the target chose it: not yet fit
 * to print. */
void descriptor_describe(const struct process *process, pid_t tid, int fd, struct buf *to);

/* The parsers, on the text of /proc/PID/net/tcp (tcp6, udp, udp6) and unix; false when the inode is
 * not there. */
bool socket_find_inet(const char *text, const char *protocol, uint64_t inode, struct buf *to);
bool socket_find_unix(const char *text, uint64_t inode, struct buf *to);

#endif
