/* The table of top, as text: the same for the screen and for --once. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tool/text.h"
#include "tool/top.h"

#define THREAD_WIDTH 22

const char *const top_sort_names[] = {
    [TOP_OWN_PERCENT] = "own-percent",
    [TOP_TOTAL_PERCENT] = "total-percent",
    [TOP_OWN_TIME] = "own-time",
    [TOP_TOTAL_TIME] = "total-time",
    [TOP_NAME] = "name",
    NULL,
};

/* ---- which rows, in which order ---- */

/* Behind a name, where it is; not all native code has a line. */
static void add_place(struct buf *text, const char *file, int32_t line)
{
    if (!*file)
        return;
    buf_add_str(text, " (");
    text_add_printable(text, file);
    if (line > 0)
        buf_addf(text, ":%d", line);
    buf_add_char(text, ')');
}

void top_table_place(struct buf *text, const struct tally_row *row, const struct top_view *view)
{
    const char *file = view->full_filenames ? row->file : row->short_file;
    buf_reset(text);
    text_add_printable(text, row->name);
    add_place(text, *file ? file : row->module, row->line);
}

void top_table_thread(struct buf *text, const struct tally_thread *thread)
{
    buf_reset(text);
    if (thread->tid > 0)
        buf_addf(text, "%" PRId64 "%s", thread->tid, thread->name[0] ? " " : "");
    text_add_printable(text, thread->name);
}

static bool is_searched(const struct tally_picture *p, const struct tally_row *row,
                        const struct top_view *view, struct buf *text)
{
    if (!view->search[0])
        return true;
    top_table_place(text, row, view);
    if (strcasestr(text->data, view->search))
        return true;
    if (row->thread == TALLY_NONE)
        return false;
    top_table_thread(text, &p->threads[row->thread]);
    return strcasestr(text->data, view->search) != NULL;
}

static int compare_times(scry_nsec a, scry_nsec b)
{
    return a < b ? 1 : a > b ? -1 : 0;
}

static int compare_names(const struct tally_row *a, const struct tally_row *b)
{
    int r = strcmp(a->name, b->name);
    if (r == 0)
        r = strcmp(a->file, b->file);
    if (r == 0)
        r = a->line < b->line ? -1 : a->line > b->line;
    if (r == 0)
        r = a->thread < b->thread ? -1 : a->thread > b->thread;
    return r ? r : a->process < b->process ? -1 : a->process > b->process;
}

/* What is equal in the chosen column is ordered by the others, and at last by name, so that rows
 * do not change places for nothing. */
static int compare_rows(const void *left, const void *right, void *context)
{
    const struct tally_row *a = left, *b = right;
    const struct top_view *view = context;
    const int by[] = {
        [TOP_OWN_PERCENT] = compare_times(a->lately.own, b->lately.own),
        [TOP_TOTAL_PERCENT] = compare_times(a->lately.total, b->lately.total),
        [TOP_OWN_TIME] = compare_times(a->overall.own, b->overall.own),
        [TOP_TOTAL_TIME] = compare_times(a->overall.total, b->overall.total),
        [TOP_NAME] = compare_names(a, b),
    };
    int r = view->reverse ? -by[view->sort] : by[view->sort];
    if (r == 0)
        r = by[TOP_OWN_TIME];
    if (r == 0)
        r = by[TOP_TOTAL_TIME];
    return r ? r : by[TOP_NAME];
}

void top_table_arrange(struct tally_picture *p, const struct top_view *view)
{
    SCOPED_BUF text;
    buf_init(&text);
    size_t kept = 0;
    for (size_t i = 0; i < p->row_count; i++)
        if (is_searched(p, &p->rows[i], view, &text))
            p->rows[kept++] = p->rows[i];
    p->row_count = kept;
    if (kept)
        qsort_r(p->rows, kept, sizeof(*p->rows), compare_rows, (void *)(uintptr_t)view);
}

/* ---- figures ---- */

double top_percent(scry_nsec part, scry_nsec whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

struct top_percents top_table_percents(const struct tally_picture *p, const struct tally_row *row,
                                       const struct top_view *view)
{
    scry_nsec whole = view->of_samples ? p->lately.counted : p->lately.looked;
    return (struct top_percents){top_percent(row->lately.own, whole),
                                 top_percent(row->lately.total, whole)};
}

void top_table_seconds(char *to, size_t cap, scry_nsec time)
{
    double seconds = (double)time / 1e9;
    int digits = seconds < 1 ? 3 : seconds < 100 ? 2 : seconds < 1000 ? 1 : 0;
    snprintf(to, cap, "%.*fs", digits, seconds);
}

/* ---- columns ---- */

struct top_columns top_columns_for(const struct top_view *view, int width)
{
    struct top_columns c = {
        .total_percent = width >= 34,
        .times = width >= 54,
        .process = (view->split & TALLY_PROCESSES) && width >= 42,
        .thread = (view->split & TALLY_THREADS) && width >= 64,
    };
    c.width = 7 + 8 * c.total_percent + (9 + 11) * c.times + 9 * c.process +
              (THREAD_WIDTH + 2) * c.thread + 2;
    return c;
}

static void pad_to(struct buf *text, size_t from, int columns)
{
    int n = 0;
    for (size_t i = from; i < text->len; i++)
        n += ((unsigned char)text->data[i] & 0xc0) != 0x80;
    for (; n < columns; n++)
        buf_add_char(text, ' ');
}

void top_columns_header(struct buf *text, const struct top_columns *c, const struct top_view *view,
                        struct top_part *ret_sorted)
{
    static const char *const titles[] = {"%Own", "%Total", "OwnTime", "TotalTime"};
    static const int widths[] = {7, 8, 9, 11};
    struct top_part parts[TOP_NAME + 1] = {0};
    for (int i = 0; i < 4; i++) {
        if ((i == 1 && !c->total_percent) || (i >= 2 && !c->times))
            continue;
        parts[i].from = text->len;
        buf_addf(text, "%*s", widths[i], titles[i]);
        parts[i].to = text->len;
    }
    if (c->process)
        buf_addf(text, "%9s", "Process");
    if (c->thread) {
        buf_add_str(text, "  ");
        size_t from = text->len;
        buf_add_str(text, "Thread");
        pad_to(text, from, THREAD_WIDTH);
    }
    buf_add_str(text, "  ");
    parts[TOP_NAME].from = text->len;
    buf_add_str(text, view->by == TALLY_LINES ? "Line (filename:line)" : "Function (filename:def)");
    parts[TOP_NAME].to = text->len;
    if (ret_sorted)
        *ret_sorted = parts[view->sort];
}

static void add_thread(struct buf *text, const struct tally_picture *p, uint32_t thread)
{
    SCOPED_BUF name;
    buf_init(&name);
    top_table_thread(&name, &p->threads[thread]);
    size_t from = text->len;
    int columns = 0;
    for (size_t i = 0; i < name.len; i++) {
        columns += ((unsigned char)name.data[i] & 0xc0) != 0x80;
        if (columns > THREAD_WIDTH)
            break;
        buf_add_char(text, name.data[i]);
    }
    pad_to(text, from, THREAD_WIDTH);
}

void top_columns_row(struct buf *text, const struct top_columns *c, const struct tally_picture *p,
                     const struct tally_row *row, const struct top_view *view)
{
    struct top_percents percents = top_table_percents(p, row, view);
    char time[32];
    buf_addf(text, "%7.2f", percents.own);
    if (c->total_percent)
        buf_addf(text, "%8.2f", percents.total);
    if (c->times) {
        top_table_seconds(time, sizeof(time), row->overall.own);
        buf_addf(text, "%9s", time);
        top_table_seconds(time, sizeof(time), row->overall.total);
        buf_addf(text, "%11s", time);
    }
    if (c->process && row->process != TALLY_NONE) {
        int32_t pid = p->processes[row->process].pid;
        if (pid > 0)
            buf_addf(text, "%9d", pid);
        else
            buf_addf(text, "%9s", "(ended)");
    }
    if (c->thread && row->thread != TALLY_NONE) {
        buf_add_str(text, "  ");
        add_thread(text, p, row->thread);
    }
    buf_add_str(text, "  ");
}

/* ---- threads ---- */

void top_thread_header(struct buf *text, bool processes)
{
    if (processes)
        buf_addf(text, "%9s", "Process");
    buf_addf(text, "%9s  %-10s %8s %6s  %-16s %s", "Thread", "State", "%Active", "%GIL", "Name",
             "Where [what it waits for]");
}

void top_thread_line(struct buf *text, const struct tally_picture *p,
                     const struct tally_thread *thread, bool processes)
{
    const char *state = !thread->active ? "idle" : thread->gil ? "active+gil" : "active";
    char tid[24] = "?";
    if (thread->tid > 0)
        snprintf(tid, sizeof(tid), "%" PRId64, thread->tid);
    if (processes)
        buf_addf(text, "%9d", p->processes[thread->process].pid);
    buf_addf(text, "%9s  %-10s %8.1f %6.1f  ", tid, state,
             top_percent(thread->active_lately, p->lately.active_looked),
             top_percent(thread->gil_lately, p->lately.looked));
    size_t from = text->len;
    text_add_printable(text, thread->name[0] ? thread->name : "-");
    pad_to(text, from, 17);
    if (text->len > from + 17)
        buf_add_char(text, ' ');
    text_add_printable(text, thread->where_name);
    add_place(text, thread->where_file, thread->where_line);
    if (!thread->active && thread->wait[0]) {
        buf_add_str(text, " [");
        text_add_printable(text, thread->wait);
        buf_add_char(text, ']');
    }
}

static int compare_threads(const void *left, const void *right)
{
    const struct tally_thread *a = *(const struct tally_thread *const *)left;
    const struct tally_thread *b = *(const struct tally_thread *const *)right;
    int r = compare_times(a->active_lately, b->active_lately);
    if (r == 0)
        r = (int)b->active - (int)a->active;
    if (r == 0)
        r = a->process < b->process ? -1 : a->process > b->process;
    return r ? r : a->tid < b->tid ? -1 : a->tid > b->tid;
}

size_t top_thread_order(const struct tally_picture *p, const struct tally_thread **ret)
{
    size_t count = 0;
    for (size_t i = 0; i < p->thread_count; i++)
        if (p->threads[i].alive)
            ret[count++] = &p->threads[i];
    if (count)
        qsort(ret, count, sizeof(struct tally_thread *), compare_threads);
    return count;
}

/* ---- the lines above ---- */

static const struct tally_process *root_process(const struct top_head *head,
                                                const struct tally_picture *p)
{
    for (size_t i = 1; i < p->process_count; i++)
        if (p->processes[i].pid == head->pid)
            return &p->processes[i];
    return p->process_count > 1 ? &p->processes[1] : NULL;
}

void top_head_program(struct buf *text, const struct top_head *head, const struct tally_picture *p)
{
    const struct tally_process *process = root_process(head, p);
    buf_addf(text, "%s top: process %d", head->tool, head->pid);
    if (head->subprocesses)
        buf_add_str(text, " and its descendants");
    if (!process)
        return;
    buf_add_str(text, ": ");
    text_add_printable(text, process->command);
    buf_addf(text, " (Python %s)", process->python);
}

void top_head_samples(struct buf *text, const struct top_head *head, const struct tally_picture *p)
{
    const struct sampler_stats *stats = &head->stats;
    buf_addf(text,
             "%" PRIu64 " samples at %g per second, %" PRIu64 " torn, %" PRIu64 " late, %" PRIu64
             " missed",
             p->overall.samples, head->rate, p->overall.torn, stats->late, stats->missed);
    if (stats->errors)
        buf_addf(text, ", %" PRIu64 " errors", stats->errors);
    if (stats->elapsed)
        buf_addf(text, ", %.1f%% of a CPU used by %s",
                 100 * (double)stats->own_cpu / (double)stats->elapsed, head->tool);
}

void top_head_shares(struct buf *text, const struct tally_picture *p)
{
    buf_addf(text, "GIL: %.2f%%, Active: %.2f%%, Threads: %u (%u active)",
             top_percent(p->lately.gil, p->lately.looked),
             top_percent(p->lately.active, p->lately.active_looked), p->living_threads,
             p->active_threads);
    if (p->living_processes > 1)
        buf_addf(text, ", Processes: %u", p->living_processes);
}
