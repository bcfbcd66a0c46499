#include "http/rows.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define DEPTH_MAX 32
#define ROWS_MAX  1000000

struct reader {
    const char *at, *end;
    unsigned depth;
};

static void blanks(struct reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r'))
        r->at++;
}

static bool take(struct reader *r, char c)
{
    blanks(r);
    if (r->at >= r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

static bool read_string(struct reader *r, struct slice *ret)
{
    if (!take(r, '"'))
        return false;
    ret->at = r->at;
    for (; r->at < r->end && *r->at != '"'; r->at++) {
        if ((unsigned char)*r->at < ' ')
            return false;
        if (*r->at == '\\') {
            if (r->at + 1 >= r->end || !strchr("\"\\/bfnrtu", r->at[1]))
                return false;
            r->at++;
        }
    }
    if (r->at >= r->end)
        return false;
    ret->len = (uint32_t)(r->at - ret->at);
    r->at++;
    return true;
}

static bool skip_value(struct reader *r);

static bool read_number(struct reader *r, double *ret)
{
    char text[40];
    size_t n = 0;
    blanks(r);
    while (r->at < r->end && n + 1 < sizeof(text) &&
           (isdigit((unsigned char)*r->at) || strchr("+-.eE", *r->at)))
        text[n++] = *r->at++;
    text[n] = '\0';
    char *end;
    *ret = strtod(text, &end);
    return n > 0 && !*end;
}

static bool skip_word(struct reader *r, const char *word)
{
    size_t len = strlen(word);
    if ((size_t)(r->end - r->at) < len || memcmp(r->at, word, len) != 0)
        return false;
    r->at += len;
    return true;
}

static bool skip_array(struct reader *r)
{
    if (take(r, ']'))
        return true;
    do {
        if (!skip_value(r))
            return false;
    } while (take(r, ','));
    return take(r, ']');
}

static bool skip_object(struct reader *r)
{
    struct slice key;
    if (take(r, '}'))
        return true;
    do {
        if (!read_string(r, &key) || !take(r, ':') || !skip_value(r))
            return false;
    } while (take(r, ','));
    return take(r, '}');
}

static bool skip_value(struct reader *r)
{
    struct slice text;
    double number;
    bool ok;
    blanks(r);
    if (r->at >= r->end || r->depth == DEPTH_MAX)
        return false;
    r->depth++;
    switch (*r->at) {
    case '"':
        ok = read_string(r, &text);
        break;
    case '{':
        r->at++;
        ok = skip_object(r);
        break;
    case '[':
        r->at++;
        ok = skip_array(r);
        break;
    case 't':
        ok = skip_word(r, "true");
        break;
    case 'f':
        ok = skip_word(r, "false");
        break;
    case 'n':
        ok = skip_word(r, "null");
        break;
    default:
        ok = read_number(r, &number);
    }
    r->depth--;
    return ok;
}

/* ---- rows ---- */

static bool is(const struct slice *key, const char *name)
{
    return key->len == strlen(name) && memcmp(key->at, name, key->len) == 0;
}

static const char *const text_names[ROW_TEXTS] = {
    [ROW_COMMAND] = "command",
    [ROW_TITLE] = "title",
    [ROW_USER] = "user",
    [ROW_CONTAINER] = "container",
    [ROW_NODE_NAME] = "node_name",
    [ROW_STARTED] = "started",
    [ROW_POD] = "pod",
};
static const char *const number_names[ROW_NUMBERS] = {
    [ROW_PID] = "pid",
    [ROW_CPU] = "cpu_percent",
    [ROW_RSS] = "rss",
    [ROW_THREADS] = "threads",
};

static bool read_member(struct reader *r, struct row *row, const struct slice *key)
{
    blanks(r);
    for (size_t i = 0; i < ROW_NUMBERS; i++)
        if (is(key, number_names[i]))
            return read_number(r, &row->numbers[i]);
    for (size_t i = 0; i < ROW_TEXTS; i++)
        if (is(key, text_names[i])) {
            if (r->at < r->end && *r->at == '"')
                return read_string(r, &row->texts[i]);
            const char *start = r->at;
            if (!skip_value(r))
                return false;
            if (*start == '{')
                row->texts[i] = (struct slice){.at = start, .len = (uint32_t)(r->at - start)};
            return true;
        }
    return skip_value(r);
}

static bool read_row(struct reader *r, struct row *row)
{
    struct slice key;
    *row = (struct row){0};
    blanks(r);
    const char *start = r->at;
    if (!take(r, '{'))
        return false;
    do {
        if (!read_string(r, &key) || !take(r, ':') || !read_member(r, row, &key))
            return false;
    } while (take(r, ','));
    if (!take(r, '}'))
        return false;
    row->whole = (struct slice){.at = start, .len = (uint32_t)(r->at - start)};
    return row->numbers[ROW_PID] > 0;
}

static struct row *new_row(struct rows *rows)
{
    if (rows->count == rows->cap) {
        size_t cap = rows->cap ? 2 * rows->cap : 64;
        struct row *grown = reallocarray(rows->items, cap, sizeof(*grown));
        if (!grown || cap > ROWS_MAX)
            return NULL;
        rows->items = grown;
        rows->cap = cap;
    }
    return &rows->items[rows->count++];
}

static bool read_list(struct reader *r, struct rows *rows)
{
    if (!take(r, '['))
        return false;
    if (take(r, ']'))
        return true;
    do {
        struct row *row = new_row(rows);
        if (!row || !read_row(r, row))
            return false;
    } while (take(r, ','));
    return take(r, ']');
}

static bool read_answer(struct reader *r, struct rows *rows)
{
    struct slice key;
    bool found = false;
    if (!take(r, '{'))
        return false;
    do {
        if (!read_string(r, &key) || !take(r, ':'))
            return false;
        blanks(r);
        const char *start = r->at;
        bool list = is(&key, "processes");
        if (list ? found || !read_list(r, rows) : !skip_value(r))
            return false;
        found |= list;
        if (is(&key, "node") && *start == '{')
            rows->node = (struct slice){.at = start, .len = (uint32_t)(r->at - start)};
    } while (take(r, ','));
    if (!take(r, '}'))
        return false;
    blanks(r);
    return found && r->at == r->end;
}

bool rows_read(struct rows *rows, char *text, size_t len)
{
    *rows = (struct rows){.text = text, .len = len};
    struct reader r = {.at = text, .end = text + len};
    if (text && len < UINT32_MAX && read_answer(&r, rows))
        return true;
    rows_done(rows);
    return false;
}

void rows_done(struct rows *rows)
{
    free(rows->text);
    free(rows->items);
    *rows = (struct rows){0};
}

static bool holds(const struct slice *text, const char *q, size_t len)
{
    if (text->len < len)
        return false;
    int first = tolower((unsigned char)*q);
    for (size_t i = 0; i + len <= text->len; i++)
        if (tolower((unsigned char)text->at[i]) == first && strncasecmp(text->at + i, q, len) == 0)
            return true;
    return false;
}

bool row_matches(const struct row *row, const char *q)
{
    char pid[24];
    size_t len = strlen(q);
    for (size_t i = 0; i < ROW_TEXTS; i++)
        if (i != ROW_STARTED && holds(&row->texts[i], q, len))
            return true;
    snprintf(pid, sizeof(pid), "%.0f", row->numbers[ROW_PID]);
    return strstr(pid, q) != NULL;
}
