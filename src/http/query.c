#include "http/query.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/buf.h"
#include "util/utf8.h"

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* In place; the text only gets shorter. */
static enum query_fault decode(char *text, bool plus)
{
    char *to = text;
    for (const char *s = text; *s; s++) {
        if (*s == '%') {
            int high = hex(s[1]);
            int low = high < 0 ? -1 : hex(s[2]);
            if (low < 0)
                return QUERY_ESCAPE;
            if (high == 0 && low == 0)
                return QUERY_NUL;
            *to++ = (char)(high << 4 | low);
            s += 2;
        } else {
            *to++ = plus && *s == '+' ? ' ' : *s;
        }
    }
    *to = '\0';
    return utf8_valid(text, strlen(text)) ? QUERY_FINE : QUERY_NOT_UTF8;
}

static enum query_fault add_segment(struct query *q, char *segment)
{
    if (q->segment_count == QUERY_SEGMENTS_MAX)
        return QUERY_LONG;
    enum query_fault fault = decode(segment, false);
    if (fault)
        return fault;
    if (!*segment || strcmp(segment, ".") == 0 || strcmp(segment, "..") == 0 ||
        strpbrk(segment, "/\\"))
        return QUERY_PATH;
    for (const char *s = segment; *s; s++)
        if (iscntrl((unsigned char)*s))
            return QUERY_PATH;
    q->segments[q->segment_count++] = segment;
    return QUERY_FINE;
}

static enum query_fault read_path(struct query *q, char *path)
{
    if (*path != '/')
        return QUERY_PATH;
    char *next = path + 1;
    while (next && *next) {
        char *segment = next;
        next = strchr(segment, '/');
        if (next)
            *next++ = '\0';
        enum query_fault fault = add_segment(q, segment);
        if (fault)
            return fault;
        q->folder = next && !*next;
    }
    return QUERY_FINE;
}

static enum query_fault add_param(struct query *q, char *text, const char **ret_name)
{
    char *value = strchr(text, '=');
    if (value)
        *value++ = '\0';
    *ret_name = text;
    enum query_fault fault = decode(text, true);
    if (!fault && value)
        fault = decode(value, true);
    if (fault)
        return fault;
    if (q->param_count == QUERY_PARAMS_MAX)
        return QUERY_LONG;
    if (query_get(q, text))
        return QUERY_TWICE;
    q->params[q->param_count++] = (struct query_param){.name = text, .value = value ? value : ""};
    return QUERY_FINE;
}

static void say_where(const char *name, char *to, size_t cap)
{
    size_t n = 0;
    for (; *name && n + 1 < cap; name++)
        to[n++] = *name >= ' ' && *name < 0x7f ? *name : '?';
    if (cap)
        to[n] = '\0';
}

static enum query_fault read_params(struct query *q, char *text, char *fault_at, size_t cap)
{
    while (text && *text) {
        char *one = text;
        text = strchr(one, '&');
        if (text)
            *text++ = '\0';
        if (!*one)
            continue;
        const char *name = one;
        enum query_fault fault = add_param(q, one, &name);
        if (fault) {
            say_where(name, fault_at, cap);
            return fault;
        }
    }
    return QUERY_FINE;
}

enum query_fault query_parse(struct query *q, const char *target, char *fault_at, size_t cap)
{
    *q = (struct query){0};
    if (cap)
        fault_at[0] = '\0';
    if (strlen(target) > QUERY_TEXT_MAX)
        return QUERY_LONG;
    q->text = strdup(target);
    if (!q->text)
        return QUERY_MEMORY;
    char *params = strchr(q->text, '?');
    if (params)
        *params++ = '\0';
    enum query_fault fault = read_path(q, q->text);
    return fault ? fault : read_params(q, params, fault_at, cap);
}

void query_done(struct query *q)
{
    free(q->text);
    *q = (struct query){0};
}

const char *query_get(const struct query *q, const char *name)
{
    for (size_t i = 0; i < q->param_count; i++)
        if (strcmp(q->params[i].name, name) == 0)
            return q->params[i].value;
    return NULL;
}

void query_escape(struct buf *to, const char *text)
{
    for (const unsigned char *s = (const unsigned char *)text; *s; s++) {
        if (isalnum(*s) || strchr("-._~", *s))
            buf_add_char(to, (char)*s);
        else
            buf_addf(to, "%%%02X", *s);
    }
}
