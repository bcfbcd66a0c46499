#include "util/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util/utf8.h"

void json_init(struct json *j, FILE *out, int indent)
{
    *j = (struct json){.out = out, .indent = indent};
}

static void new_line(struct json *j)
{
    if (!j->indent)
        return;
    fputc('\n', j->out);
    for (int i = 0; i < j->depth * j->indent; i++)
        fputc(' ', j->out);
}

/* What stands before each value or key: nothing after a key, else a comma and a line break. */
static void separate(struct json *j)
{
    if (j->after_key) {
        j->after_key = false;
        return;
    }
    if (!j->depth)
        return;
    if (j->has_items[j->depth - 1])
        fputc(',', j->out);
    j->has_items[j->depth - 1] = true;
    new_line(j);
}

static void begin(struct json *j, char c)
{
    separate(j);
    fputc(c, j->out);
    if (j->depth < JSON_MAX_DEPTH)
        j->has_items[j->depth++] = false;
}

static void end(struct json *j, char c)
{
    if (!j->depth)
        return;
    bool had = j->has_items[--j->depth];
    if (had)
        new_line(j);
    fputc(c, j->out);
}

void json_begin_object(struct json *j)
{
    begin(j, '{');
}

void json_end_object(struct json *j)
{
    end(j, '}');
}

void json_begin_array(struct json *j)
{
    begin(j, '[');
}

void json_end_array(struct json *j)
{
    end(j, ']');
}

static void quoted(FILE *out, const char *text, size_t len)
{
    const unsigned char *s = (const unsigned char *)text;
    fputc('"', out);
    for (size_t i = 0; i < len;) {
        size_t n = utf8_length(s + i, len - i);
        if (n == 0) {
            fputs("\\ufffd", out);
            i++;
            continue;
        }
        if (n > 1) {
            fwrite(s + i, 1, n, out);
        } else if (s[i] == '"' || s[i] == '\\') {
            fputc('\\', out);
            fputc(s[i], out);
        } else if (s[i] == '\n') {
            fputs("\\n", out);
        } else if (s[i] == '\t') {
            fputs("\\t", out);
        } else if (s[i] < 0x20 || s[i] == 0x7f) {
            fprintf(out, "\\u%04x", s[i]);
        } else {
            fputc(s[i], out);
        }
        i += n;
    }
    fputc('"', out);
}

void json_key(struct json *j, const char *key)
{
    separate(j);
    quoted(j->out, key, strlen(key));
    fputs(j->indent ? ": " : ":", j->out);
    j->after_key = true;
}

void json_string_len(struct json *j, const char *s, size_t len)
{
    separate(j);
    quoted(j->out, s, len);
}

void json_string(struct json *j, const char *s)
{
    if (s)
        json_string_len(j, s, strlen(s));
    else
        json_null(j);
}

void json_int(struct json *j, int64_t value)
{
    separate(j);
    fprintf(j->out, "%" PRId64, value);
}

void json_uint(struct json *j, uint64_t value)
{
    separate(j);
    fprintf(j->out, "%" PRIu64, value);
}

void json_double(struct json *j, double value)
{
    if (!isfinite(value)) {
        json_null(j);
        return;
    }
    separate(j);
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    fputs(text, j->out);
}

void json_bool(struct json *j, bool value)
{
    separate(j);
    fputs(value ? "true" : "false", j->out);
}

void json_null(struct json *j)
{
    separate(j);
    fputs("null", j->out);
}
