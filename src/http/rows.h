/* A list of processes as another node sends it, taken apart just as far as filtering and sorting
 * need: where each row is, and where a few of its values are. Fifty thousand rows are read in the
 * time it takes to read their bytes; all of the text is checked to be JSON on the way. */
#ifndef SCRY_HTTP_ROWS_H
#define SCRY_HTTP_ROWS_H

#include "util/types.h"

struct slice {
    const char *at;
    uint32_t len;
};

enum row_text {
    ROW_COMMAND,
    ROW_TITLE,
    ROW_USER,
    ROW_CONTAINER,
    ROW_NODE_NAME,
    ROW_STARTED,
    ROW_POD, /* its whole object */
    ROW_TEXTS,
};
enum row_number {
    ROW_PID,
    ROW_CPU,
    ROW_RSS,
    ROW_THREADS,
    ROW_NUMBERS,
};

struct row {
    struct slice whole;
    struct slice texts[ROW_TEXTS]; /* without their quotes, escapes as they are */
    double numbers[ROW_NUMBERS];
};

struct rows {
    char *text; /* what all slices point into */
    size_t len;
    struct row *items;
    size_t count, cap;
    struct slice node; /* the object "node" beside the list; len 0 = none */
};

/* {"processes": [{...}, ...], "node": {...}, ...}. Takes `text` over, also when it fails; false: it
 * is not that, or memory ran out. */
bool rows_read(struct rows *rows, char *text, size_t len);
void rows_done(struct rows *rows);
/* Does any of its texts, or its pid, hold `q`, without regard to case? */
bool row_matches(const struct row *row, const char *q);

#endif
