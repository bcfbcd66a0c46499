/* The memory events are written to: anonymous, or a file that other processes can read and that outlives this one. Not
 * locked: the caller sees to it that one thread at a time is in here. */
#ifndef SCRY_TRACER_IMAGE_H
#define SCRY_TRACER_IMAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "words.h"

#define WINDOW_SLOTS 64u

struct image {
    int fd;               /* -1: anonymous */
    uint32_t max_slots;   /* then the oldest are taken again; UINT32_MAX: never */
    uint32_t slot_count;  /* handed out so far, the head included */
    char **windows;       /* WINDOW_SLOTS slots each; NULL when no longer needed here */
    uint32_t *unfinished; /* per window: slots that are still written to or not handed out yet */
    uint32_t window_count, window_cap;
    uint32_t *full; /* a queue of slots that may be taken again, oldest first */
    uint32_t full_first, full_count;
    struct image_head *head;
    struct slot *definitions; /* the slot they go to, and how far it is filled */
    size_t definitions_used;
    uint32_t definition_slots;
};

/* `path` NULL: anonymous. 0 or an errno. `memory` is in bytes; 0: without a limit, which needs a path. */
int image_open(struct image *i, const char *path, uint64_t memory);
void image_close(struct image *i);

/* A zeroed slot to write events to, or NULL. When memory is used up, the oldest finished one, whose calls are
 * counted as dropped. *ret_number names it. */
struct slot *image_take_slot(struct image *i, uint32_t *ret_number);
/* Nobody writes to it any more. */
void image_finish_slot(struct image *i, uint32_t number);

/* False when there is no room: it is then unknown to readers. Texts are cut to DEFINITION_TEXT_MAX. */
bool image_define(struct image *i, const struct definition *d, const char *text, const char *file);

/* The slots of an image of this process, for the reader; NULL for those that are not mapped. */
const struct slot *image_slot(const struct image *i, uint32_t number);

#endif
