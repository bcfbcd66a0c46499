/* The memory map of a process (/proc/PID/maps). */
#ifndef SCRY_ACCESS_MAPS_H
#define SCRY_ACCESS_MAPS_H

#include "access/process.h"

struct mapping {
    scry_addr start;
    scry_addr end;
    uint64_t offset;
    uint64_t inode;
    bool read, write, exec;
    bool deleted; /* the path was followed by " (deleted)", which is taken off */
    const char
        *path; /* "" for anonymous memory; "[heap]" etc. as the kernel says; octal escapes undone */
};

struct maps {
    struct mapping *items; /* by address */
    size_t count;
    char *text; /* what the paths point into */
};

int maps_read(const struct process *process, struct maps *ret_maps, struct error *err);
/* For tests: parse text as the kernel writes it. */
int maps_parse(const char *text, struct maps *ret_maps);
void maps_done(struct maps *maps);
/* The mapping that contains this address, or NULL. */
const struct mapping *maps_find(const struct maps *maps, scry_addr addr);

#endif
