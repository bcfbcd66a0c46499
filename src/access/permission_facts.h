/* Gathering what permission.c judges. */
#ifndef SCRY_ACCESS_PERMISSION_FACTS_H
#define SCRY_ACCESS_PERMISSION_FACTS_H

#include "access/permission.h"

void permission_gather(pid_t pid, struct permission_facts *ret);

#endif
