/* Who listens on a port. The kernel's table of a network's sockets has the port and the number of each; a process's
 * descriptors have the numbers. */
#ifndef SCRY_HTTP_LISTENERS_H
#define SCRY_HTTP_LISTENERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* From the text of /proc/PID/net/tcp or tcp6: the number of the socket that listens on the port; 0 = none does. */
uint64_t listeners_parse(const char *table, uint16_t port);
/* The same of the network a process lives in. */
uint64_t listeners_find(pid_t pid, uint16_t port);
/* Whether the process has the socket of that number open. */
bool listeners_holds(pid_t pid, uint64_t number);

#endif
