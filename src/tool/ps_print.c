#include <string.h>

#include "tool/ps.h"
#include "tool/text.h"
#include "util/json.h"
#include "util/utf8.h"

#define EXPLAINED_MAX 32 /* reasons there are */

static const char *or_dash(const char *text)
{
    return text[0] ? text : "-";
}

static const char *attach_word(const struct ps_row *row)
{
    return row->access.can_attach ? "yes" : row->access.reason;
}

static int wider(int width, const char *text)
{
    int len = (int)strlen(text);
    return len > width ? len : width;
}

struct widths {
    int pid, version, container, attach;
};

static struct widths measure(const struct ps_rows *rows)
{
    struct widths w = {.pid = 5, .version = 7, .container = 9, .attach = 6};
    for (size_t i = 0; i < rows->count; i++) {
        char pid[16];
        snprintf(pid, sizeof(pid), "%d", rows->items[i].pid);
        w.pid = wider(w.pid, pid);
        w.version = wider(w.version, rows->items[i].version);
        w.container = wider(w.container, rows->items[i].container);
        w.attach = wider(w.attach, attach_word(&rows->items[i]));
    }
    return w;
}

/* The command line on what is left of the line. */
static void print_command(FILE *out, const char *command, int room)
{
    SCOPED_BUF text;
    buf_init(&text);
    text_add_printable(&text, command);
    size_t len = text.len;
    if (room > 0) {
        /* By characters: what is printable takes about one column each. */
        size_t at = 0;
        for (int columns = 0; at < text.len && columns < room; columns++)
            at += utf8_length(text.data + at, text.len - at) ?: 1;
        len = at;
    }
    fwrite(text.data, 1, len, out);
}

static void print_row(FILE *out, const struct style *style, int width, const struct widths *w,
                      const struct ps_row *row)
{
    char threads[24] = "-";
    if (row->threads)
        snprintf(threads, sizeof(threads), "%zu", row->threads);
    int used = w->pid + 2 + w->version + 2 + 7 + 2 + w->container + 2 + w->attach + 2;
    fprintf(out, "%*d  %-*s  %7s  %-*s  %s%-*s%s  ", w->pid, row->pid, w->version,
            or_dash(row->version), threads, w->container, or_dash(row->container),
            row->access.can_attach ? style->literal : style->number, w->attach, attach_word(row),
            style->end);
    print_command(out, row->command, width ? (width > used + 10 ? width - used : 10) : 0);
    fputc('\n', out);
}

/* Each reason once, in the words of the first process that has it. */
static void explain(FILE *out, const struct style *style, const struct ps_rows *rows)
{
    const char *done[EXPLAINED_MAX];
    size_t done_count = 0;
    for (size_t i = 0; i < rows->count; i++) {
        const struct diagnosis *d = &rows->items[i].access;
        bool seen = d->can_attach || done_count == EXPLAINED_MAX;
        for (size_t j = 0; !seen && j < done_count; j++)
            seen = !strcmp(done[j], d->reason);
        if (seen)
            continue;
        done[done_count++] = d->reason;
        fprintf(out, "\n%s%s%s: ", style->number, d->reason, style->end);
        text_print(out, d->why);
        fputc('\n', out);
        if (d->remedy[0]) {
            fputs("  what helps: ", out);
            text_print(out, d->remedy);
            fputc('\n', out);
        }
    }
}

void ps_text(FILE *out, const struct style *style, int width, const struct ps_rows *rows)
{
    if (!rows->count) {
        fputs("no Python process is to be seen\n", out);
        return;
    }
    struct widths w = measure(rows);
    fprintf(out, "%s%*s  %-*s  THREADS  %-*s  %-*s  COMMAND%s\n", style->heading, w.pid, "PID",
            w.version, "VERSION", w.container, "CONTAINER", w.attach, "ATTACH", style->end);
    for (size_t i = 0; i < rows->count; i++)
        print_row(out, style, width, &w, &rows->items[i]);
    explain(out, style, rows);
}

static void text_or_null(struct json *j, const char *key, const char *text)
{
    json_key(j, key);
    json_string(j, text && text[0] ? text : NULL);
}

static void json_row(struct json *j, const struct ps_row *row)
{
    json_begin_object(j);
    json_key(j, "pid");
    json_int(j, row->pid);
    json_key(j, "parent");
    json_int(j, row->parent);
    text_or_null(j, "version", row->version);
    text_or_null(j, "command", row->command);
    text_or_null(j, "executable", row->exe);
    json_key(j, "threads");
    json_uint(j, row->threads);
    text_or_null(j, "container", row->container);
    json_key(j, "can_attach");
    json_bool(j, row->access.can_attach);
    text_or_null(j, "reason", row->access.reason);
    text_or_null(j, "why", row->access.why);
    text_or_null(j, "remedy", row->access.remedy);
    json_end_object(j);
}

void ps_json(FILE *out, const struct ps_rows *rows)
{
    struct json j;
    json_init(&j, out, 2);
    json_begin_array(&j);
    for (size_t i = 0; i < rows->count; i++)
        json_row(&j, &rows->items[i]);
    json_end_array(&j);
    fputc('\n', out);
}
