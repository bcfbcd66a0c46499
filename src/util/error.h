/* Errors: a function that can fail returns 0 or a negative code (-SCRY_E_...). Where a person will
 * read about it, it also takes a `struct error *` (NULL is fine) and fills in the detail. Nothing
 * below tool/ prints. */
#ifndef SCRY_UTIL_ERROR_H
#define SCRY_UTIL_ERROR_H

#include "scry/scry.h"

struct error {
    int code;          /* negative, or 0 when nothing failed */
    char detail[1024]; /* one sentence naming the input, without a final full stop; "" = table's
                          sentence */
    char hint[1024];   /* the remedy; "" = the table's hint */
};

/* Fill in `err` (may be NULL) and return `code`, so that `return error_set(err, -SCRY_E_IO, ...)`
 * works. */
int error_set(struct error *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Set or replace the remedy of an error already set. */
void error_hint(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The texts for a code or error; never NULL, "" when there is no hint. */
const char *error_sentence(int code);
const char *error_text(const struct error *err);
const char *error_hint_text(const struct error *err);
int error_exit_status(int code);

/* "NO_PROCESS" etc.: stable names for JSON and tests. */
const char *error_symbol(int code);

#endif
