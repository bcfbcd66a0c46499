/* The container a process lives in, as far as one can tell from outside. */
#ifndef SCRY_ACCESS_CONTAINER_H
#define SCRY_ACCESS_CONTAINER_H

#include "access/process.h"

/* "docker 1a2b3c4d5e6f", "lxc web", "chroot", "other root" (a root folder of its own, made
 * otherwise); "" if none. Letters, digits and a few signs only. */
void process_container(const struct process *process, char *to, size_t cap);
/* The same from the text of /proc/PID/cgroup alone; false when it names none. */
bool container_parse(const char *cgroup, char *to, size_t cap);

#endif
