/* top --stream, for scry serve: a line of JSON per interval, about that interval, in the words of
 * the API (Top in src/http/openapi.json). */
#include "tool/top.h"
#include "util/json.h"

static void number(struct json *j, const char *key, double value)
{
    json_key(j, key);
    json_double(j, (double)(int64_t)(value * 1000 + 0.5) / 1000);
}

static void count(struct json *j, const char *key, uint64_t value)
{
    json_key(j, key);
    json_uint(j, value);
}

static void text(struct json *j, const char *key, const char *value)
{
    json_key(j, key);
    json_string(j, value);
}

static void put_row(struct json *j, const struct tally_picture *p, const struct tally_row *row,
                    const struct top_view *view)
{
    struct top_percents percents = top_table_percents(p, row, view);
    json_begin_object(j);
    text(j, "name", row->name);
    text(j, "file", view->full_filenames ? row->file : row->short_file);
    count(j, "line", row->line > 0 ? (uint64_t)row->line : 0);
    number(j, "own_percent", percents.own);
    number(j, "total_percent", percents.total);
    number(j, "own_seconds", (double)row->overall.own / 1e9);
    number(j, "total_seconds", (double)row->overall.total / 1e9);
    json_end_object(j);
}

static void put_thread(struct json *j, const struct tally_picture *p,
                       const struct tally_thread *thread)
{
    json_begin_object(j);
    count(j, "pid", (uint64_t)p->processes[thread->process].pid);
    text(j, "name", thread->name[0] ? thread->name : NULL);
    count(j, "os_thread_id", (uint64_t)thread->tid);
    number(j, "active_percent", top_percent(thread->active_lately, p->lately.active_looked));
    number(j, "gil_percent", top_percent(thread->gil_lately, p->lately.looked));
    text(j, "wait", !thread->active && thread->wait[0] ? thread->wait : NULL);
    json_end_object(j);
}

void top_print_event(FILE *out, const struct top_head *head, const struct tally_picture *p,
                     const struct top_view *view, size_t limit)
{
    struct json j;
    json_init(&j, out, 0);
    json_begin_object(&j);
    count(&j, "pid", (uint64_t)head->pid);
    number(&j, "elapsed", (double)head->stats.elapsed / 1e9);
    count(&j, "samples", p->lately.samples);
    count(&j, "missed", head->stats.missed);
    number(&j, "active_percent", top_percent(p->lately.active, p->lately.active_looked));
    number(&j, "gil_percent", top_percent(p->lately.gil, p->lately.looked));
    count(&j, "threads", p->living_threads);
    count(&j, "processes", p->living_processes);
    json_key(&j, "functions");
    json_begin_array(&j);
    for (size_t i = 0; i < p->row_count && i < limit; i++)
        put_row(&j, p, &p->rows[i], view);
    json_end_array(&j);
    json_key(&j, "top_threads");
    json_begin_array(&j);
    for (size_t i = 0; i < p->thread_count; i++)
        if (p->threads[i].alive)
            put_thread(&j, p, &p->threads[i]);
    json_end_array(&j);
    json_end_object(&j);
    fputc('\n', out);
    fflush(out);
}
