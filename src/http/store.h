/* The recordings that are kept: one SQLite file with what is known about each, and beside it their
 * data, a file per target. A recording is entered before its first byte is written, and its files
 * get their names only when they are whole; so after a crash everything that was finished is there,
 * and what was not is known to have been interrupted.
 *
 * All functions may be called from any thread. */
#ifndef SCRY_HTTP_STORE_H
#define SCRY_HTTP_STORE_H

#include "util/buf.h"
#include "util/error.h"
#include "util/types.h"

#define STORE_ID_MAX 48

struct store;

struct store_limits {
    uint64_t bytes;
    uint64_t days;
};

/* Makes the folder if need be (mode 0700) and takes it for this process alone. */
int store_open(const char *folder, const struct store_limits *limits, struct store **ret,
               struct error *err);
void store_close(struct store *s);

/* A new id, made of the time and something random: ids sort by time. */
void store_new_id(char to[static STORE_ID_MAX]);
bool store_id_valid(const char *id);
/* The path of target `part`'s data, for the caller to free. */
char *store_path(const struct store *s, const char *id, size_t part);
const char *store_folder(const struct store *s);

struct store_row {
    const char *id, *state;
    int64_t created; /* unix ms */
    uint64_t size;
    bool pinned;
    const char *search; /* what the search looks in, lower case */
    const char *places; /* " node:pid node:pid ": what the filters look in */
    const char *doc;    /* JSON */
};

/* Enter or replace. */
int store_put(struct store *s, const struct store_row *row, struct error *err);
/* The same for one that is there; `created` is left alone. */
int store_update(struct store *s, const struct store_row *row, struct error *err);
/* The document; -SCRY_E_NO_PROCESS when there is none. */
int store_get(struct store *s, const char *id, struct buf *doc, struct error *err);
int store_remove(struct store *s, const char *id, struct error *err);

struct store_filter {
    const char *q, *state, *node, *before; /* NULL = any */
    int64_t pid;                           /* 0 = any */
    size_t limit;
};
/* Calls `each` with the documents, newest first; `ret_total` counts all that match, on all pages. */
int store_list(struct store *s, const struct store_filter *filter,
               void (*each)(void *context, const char *id, const char *doc), void *context,
               size_t *ret_total, struct error *err);

/* Remove what is too old, and the oldest while it is too much. Pinned ones stay. */
void store_tidy(struct store *s);
/* For the metrics. */
void store_usage(struct store *s, uint64_t *ret_bytes, uint64_t *ret_recordings);
/* Can it be written to? */
bool store_works(struct store *s);
/* Documents that were not finished when the last process ended, one by one; for store_open's
 * caller to mend. */
int store_unfinished(struct store *s, void (*each)(void *context, const char *doc), void *context);

#endif
