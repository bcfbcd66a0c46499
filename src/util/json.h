/* A streaming JSON writer over stdio: profiles are too large to build in memory. It places commas
 * and indentation itself and escapes every string; invalid UTF-8 becomes U+FFFD, so that the output
 * is always valid JSON. Write errors are stdio's: check ferror() once, at the end. */
#ifndef SCRY_UTIL_JSON_H
#define SCRY_UTIL_JSON_H

#include <stdio.h>

#include "util/types.h"

#define JSON_MAX_DEPTH 64

struct json {
    FILE *out;
    int indent; /* spaces per level; 0 = everything on one line */
    int depth;
    bool after_key;
    bool has_items[JSON_MAX_DEPTH];
};

void json_init(struct json *j, FILE *out, int indent);
void json_begin_object(struct json *j);
void json_end_object(struct json *j);
void json_begin_array(struct json *j);
void json_end_array(struct json *j);
void json_key(struct json *j, const char *key);
void json_string(struct json *j, const char *s); /* NULL writes null */
void json_string_len(struct json *j, const char *s, size_t len);
void json_int(struct json *j, int64_t value);
void json_uint(struct json *j, uint64_t value);
void json_double(struct json *j,
                 double value); /* shortest text that reads back the same; NaN: null */
void json_bool(struct json *j, bool value);
void json_null(struct json *j);

#endif
