/* top --once: the table as text or JSON. */
#include <stdlib.h>
#include <string.h>

#include "tool/term.h"
#include "tool/top.h"
#include "util/json.h"

#define WIDTH 200 /* a file has room for every column */

static void end_line(FILE *out, struct buf *line)
{
    while (line->len && line->data[line->len - 1] == ' ')
        buf_truncate(line, line->len - 1);
    fprintf(out, "%s\n", line->data);
    buf_reset(line);
}

void top_print_rows(FILE *out, const struct tally_picture *p, const struct top_view *view,
                    size_t limit)
{
    SCOPED_BUF line;
    SCOPED_BUF place;
    buf_init(&line);
    buf_init(&place);
    struct top_columns columns = top_columns_for(view, WIDTH);
    top_columns_header(&line, &columns, view, NULL);
    end_line(out, &line);
    for (size_t i = 0; i < p->row_count && i < limit; i++) {
        top_columns_row(&line, &columns, p, &p->rows[i], view);
        top_table_place(&place, &p->rows[i], view);
        buf_add(&line, place.data, place.len);
        end_line(out, &line);
    }
}

static void print_threads(FILE *out, const struct tally_picture *p, struct buf *line)
{
    const struct tally_thread **order = calloc(p->thread_count + 1, sizeof(*order));
    if (!order)
        return;
    size_t count = top_thread_order(p, order);
    bool processes = p->living_processes > 1;
    top_thread_header(line, processes);
    end_line(out, line);
    for (size_t i = 0; i < count; i++) {
        top_thread_line(line, p, order[i], processes);
        end_line(out, line);
    }
    free(order);
}

void top_print_text(FILE *out, const struct top_head *head, const struct tally_picture *p,
                    const struct top_view *view, size_t limit)
{
    SCOPED_BUF line;
    buf_init(&line);
    top_head_program(&line, head, p);
    end_line(out, &line);
    top_head_samples(&line, head, p);
    end_line(out, &line);
    top_head_shares(&line, p);
    end_line(out, &line);
    fputc('\n', out);
    print_threads(out, p, &line);
    fputc('\n', out);
    if (p->row_count)
        top_print_rows(out, p, view, limit);
    else if (p->overall.samples == 0)
        fputs(view->idle || view->gil_only
                  ? "no thread was seen that counts\n"
                  : "every thread was idle (--idle counts those that wait too)\n",
              out);
    else
        fputs("no row holds what was searched for\n", out);
}

/* ---- JSON ---- */

static void number(struct json *j, const char *key, double value)
{
    json_key(j, key);
    json_double(j, value);
}

static void count(struct json *j, const char *key, uint64_t value)
{
    json_key(j, key);
    json_uint(j, value);
}

static void string(struct json *j, const char *key, const char *value)
{
    json_key(j, key);
    json_string(j, value && *value ? value : NULL);
}

static void id(struct json *j, const char *key, int64_t value)
{
    json_key(j, key);
    if (value > 0)
        json_int(j, value);
    else
        json_null(j);
}

static void flag(struct json *j, const char *key, bool value)
{
    json_key(j, key);
    json_bool(j, value);
}

static double seconds(scry_nsec time)
{
    return (double)time / 1e9;
}

static void print_row(struct json *j, const struct tally_picture *p, const struct tally_row *row,
                      const struct top_view *view)
{
    struct top_percents percents = top_table_percents(p, row, view);
    json_begin_object(j);
    string(j, "name", row->name);
    string(j, "filename", row->file);
    string(j, "short_filename", row->short_file);
    string(j, "module", row->module);
    id(j, "line", row->line);
    number(j, "own_percent", percents.own);
    number(j, "total_percent", percents.total);
    number(j, "own_seconds", seconds(row->overall.own));
    number(j, "total_seconds", seconds(row->overall.total));
    if (row->process != TALLY_NONE)
        id(j, "pid", p->processes[row->process].pid);
    if (row->thread != TALLY_NONE) {
        id(j, "os_thread_id", p->threads[row->thread].tid);
        string(j, "thread_name", p->threads[row->thread].name);
    }
    json_end_object(j);
}

static void print_thread(struct json *j, const struct tally_picture *p,
                         const struct tally_thread *thread)
{
    json_begin_object(j);
    id(j, "pid", p->processes[thread->process].pid);
    id(j, "os_thread_id", thread->tid);
    string(j, "thread_name", thread->name);
    flag(j, "active", thread->active);
    flag(j, "owns_gil", thread->gil);
    number(j, "active_percent", top_percent(thread->active_lately, p->lately.active_looked));
    number(j, "gil_percent", top_percent(thread->gil_lately, p->lately.looked));
    string(j, "function", thread->where_name);
    string(j, "short_filename", thread->where_file);
    id(j, "line", thread->where_line);
    string(j, "wait", thread->active ? "" : thread->wait);
    json_end_object(j);
}

static void print_lists(struct json *j, const struct tally_picture *p, const struct top_view *view,
                        size_t limit)
{
    json_key(j, "processes");
    json_begin_array(j);
    for (size_t i = 1; i < p->process_count; i++) {
        json_begin_object(j);
        id(j, "pid", p->processes[i].pid);
        id(j, "parent", p->processes[i].parent);
        string(j, "command", p->processes[i].command);
        string(j, "python", p->processes[i].python);
        json_end_object(j);
    }
    json_end_array(j);
    json_key(j, "threads");
    json_begin_array(j);
    for (size_t i = 0; i < p->thread_count; i++)
        if (p->threads[i].alive)
            print_thread(j, p, &p->threads[i]);
    json_end_array(j);
    json_key(j, view->by == TALLY_LINES ? "lines" : "functions");
    json_begin_array(j);
    for (size_t i = 0; i < p->row_count && i < limit; i++)
        print_row(j, p, &p->rows[i], view);
    json_end_array(j);
}

void top_print_json(FILE *out, const struct top_head *head, const struct tally_picture *p,
                    const struct top_view *view, size_t limit)
{
    struct json j;
    json_init(&j, out, 2);
    json_begin_object(&j);
    id(&j, "pid", head->pid);
    number(&j, "seconds", seconds(head->stats.elapsed));
    number(&j, "rate", head->rate);
    count(&j, "looks", p->overall.looks);
    count(&j, "samples", p->overall.samples);
    count(&j, "torn", p->overall.torn);
    count(&j, "late", head->stats.late);
    count(&j, "missed", head->stats.missed);
    count(&j, "errors", head->stats.errors);
    number(&j, "own_cpu_seconds", seconds(head->stats.own_cpu));
    number(&j, "gil_percent", top_percent(p->lately.gil, p->lately.looked));
    number(&j, "active_percent", top_percent(p->lately.active, p->lately.active_looked));
    print_lists(&j, p, view, limit);
    json_end_object(&j);
    fputc('\n', out);
}
