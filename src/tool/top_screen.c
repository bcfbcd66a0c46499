/* Drawing. A screen with few rows loses first what matters least: the empty line, the keys, the
 * figures about sampling, the name of the program; the table stays. */
#include <curses.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "tool/text.h"
#include "tool/top.h"
#include "util/utf8.h"

enum look_of { PLAIN, FUNCTION, FILE_NAME, NUMBER, ALARM, HEADER, SORTED, KEY, DIM, BOLD, FOUND };

struct pen {
    int row, column, width; /* where it writes next; beyond `width` nothing is written */
    bool colours;
};

static attr_t attributes(const struct pen *pen, enum look_of look)
{
    bool c = pen->colours;
    switch (look) {
    case FUNCTION:
        return c ? COLOR_PAIR(1) : A_NORMAL;
    case FILE_NAME:
        return c ? COLOR_PAIR(2) : A_NORMAL;
    case NUMBER:
        return c ? COLOR_PAIR(3) : A_NORMAL;
    case ALARM:
        return c ? COLOR_PAIR(4) | A_BOLD : A_BOLD;
    case HEADER:
        return c ? COLOR_PAIR(6) : A_REVERSE;
    case KEY:
        return c ? COLOR_PAIR(5) : A_REVERSE;
    case DIM:
        return c ? A_DIM : A_NORMAL;
    case BOLD:
        return A_BOLD;
    case FOUND:
        return A_BOLD | A_UNDERLINE;
    default:
        return A_NORMAL;
    }
}

/* ---- text ---- */

static void put_character(struct pen *pen, wchar_t c)
{
    int wide = wcwidth(c);
    if (wide < 0) {
        c = L'?';
        wide = 1;
    }
    if (pen->column + wide > pen->width)
        return;
    /* The last place of the last row makes some terminals scroll. */
    wchar_t text[2] = {c, 0};
    mvaddnwstr(pen->row, pen->column, text, 1);
    pen->column += wide;
}

/* `text` is printable UTF-8; its first `skip` characters are left out. */
static void put_len(struct pen *pen, const char *text, size_t len, enum look_of look, int skip)
{
    attrset(attributes(pen, look));
    while (len > 0) {
        size_t n = utf8_length(text, len);
        wchar_t c = n ? (wchar_t)utf8_decode(text, n) : L'?';
        n = n ? n : 1;
        if (skip-- <= 0)
            put_character(pen, c);
        text += n;
        len -= n;
    }
    attrset(A_NORMAL);
}

static void put(struct pen *pen, const char *text, enum look_of look)
{
    put_len(pen, text, strlen(text), look, 0);
}

static void fill(struct pen *pen, enum look_of look)
{
    while (pen->column < pen->width)
        put(pen, " ", look);
}

static void next_line(struct pen *pen)
{
    pen->row++;
    pen->column = 0;
}

/* ---- the lines above the table ---- */

static void draw_bar(struct pen *pen, const char *name, double percent, int width)
{
    char figure[32];
    snprintf(figure, sizeof(figure), " %5.1f%%", percent);
    put(pen, name, BOLD);
    put(pen, " [", DIM);
    for (int i = 0; i < width; i++)
        put(pen, percent * width > 100 * i + 50 ? "|" : " ",
            percent > 99 && i >= width - 1 ? ALARM : FUNCTION);
    put(pen, "]", DIM);
    put(pen, figure, NUMBER);
    put(pen, "  ", PLAIN);
}

static void draw_shares(struct pen *pen, const struct tally_picture *p)
{
    char text[96];
    double gil = top_percent(p->lately.gil, p->lately.looked);
    double active = top_percent(p->lately.active, p->lately.active_looked);
    if (pen->width < 56) {
        snprintf(text, sizeof(text), "GIL %.0f%% Act %.0f%%", gil, active);
        put(pen, text, BOLD);
        return;
    }
    int width = pen->width >= 90 ? 16 : 6;
    draw_bar(pen, "GIL", gil, width);
    draw_bar(pen, "Active", active, width);
    snprintf(text, sizeof(text), "Threads %u (%u active)", p->living_threads, p->active_threads);
    put(pen, text, PLAIN);
    if (p->living_processes > 1) {
        snprintf(text, sizeof(text), "  Processes %u", p->living_processes);
        put(pen, text, PLAIN);
    }
}

/* One line for what is out of the ordinary. */
static void draw_message(struct pen *pen, const struct top_screen *s, const struct top_head *head)
{
    const struct sampler_stats *stats = &head->stats;
    char text[TOP_SEARCH_MAX + 64];
    if (s->paused)
        put(pen, "paused: press p to go on", ALARM);
    else if (stats->ticks > 100 && stats->missed * 10 > stats->ticks)
        put(pen, "behind in sampling: a lower rate (-r) would give truer figures", ALARM);
    else if (s->view.gil_only)
        put(pen, "counting only the thread that holds the GIL", NUMBER);
    else if (s->view.idle)
        put(pen, "counting waiting threads too", NUMBER);
    if (!s->view.search[0] || s->typing)
        return;
    snprintf(text, sizeof(text), "%srows with: %s", pen->column ? "; " : "", s->view.search);
    put(pen, text, NUMBER);
}

struct parts {
    bool program, samples, shares, message, header, keys;
};

static struct parts parts_for(int rows)
{
    return (struct parts){
        .program = rows >= 7,
        .samples = rows >= 9,
        .shares = rows >= 4,
        .message = rows >= 10,
        .header = rows >= 3,
        .keys = rows >= 6,
    };
}

static void draw_head(struct pen *pen, const struct parts *l, const struct top_screen *s,
                      const struct top_head *head, const struct tally_picture *p)
{
    SCOPED_BUF text;
    buf_init(&text);
    if (l->program) {
        top_head_program(&text, head, p);
        put(pen, text.data, BOLD);
        next_line(pen);
    }
    buf_reset(&text);
    if (l->samples) {
        top_head_samples(&text, head, p);
        put(pen, text.data, PLAIN);
        next_line(pen);
    }
    if (l->shares) {
        draw_shares(pen, p);
        next_line(pen);
    }
    if (l->message) {
        draw_message(pen, s, head);
        next_line(pen);
    }
}

/* ---- the pages ---- */

static void draw_place(struct pen *pen, const struct top_screen *s, const char *place)
{
    const char *file = strstr(place, " (");
    const char *found = s->view.search[0] ? strcasestr(place, s->view.search) : NULL;
    size_t len = strlen(place), name = file ? (size_t)(file - place) : len;
    size_t begin = found ? (size_t)(found - place) : len;
    size_t end = found ? begin + strlen(s->view.search) : len;
    int skip = s->shift;
    for (size_t at = 0, n; at < len; at += n) {
        n = utf8_length(place + at, len - at);
        n = n ? n : 1;
        if (skip-- > 0)
            continue;
        bool inside = at >= begin && at < end;
        put_len(pen, place + at, n, inside ? FOUND : at < name ? FUNCTION : FILE_NAME, 0);
    }
}

static void draw_empty(struct pen *pen, const struct top_screen *s, const struct tally_picture *p)
{
    if (s->view.search[0])
        put(pen, "no row holds that text (Escape shows all rows)", PLAIN);
    else if (p->overall.looks == 0)
        put(pen, "looking ...", PLAIN);
    else if (s->view.idle || s->view.gil_only)
        put(pen, "no thread was seen that counts", PLAIN);
    else
        put(pen, "all threads wait (Tab says for what, i counts them too)", PLAIN);
}

static void draw_rows(struct pen *pen, struct top_screen *s, const struct parts *l, int rows,
                      const struct tally_picture *p)
{
    SCOPED_BUF text;
    buf_init(&text);
    struct top_columns columns = top_columns_for(&s->view, pen->width);
    if (l->header) {
        struct top_part sorted;
        top_columns_header(&text, &columns, &s->view, &sorted);
        put_len(pen, text.data, sorted.from, HEADER, 0);
        put_len(pen, text.data + sorted.from, sorted.to - sorted.from, SORTED, 0);
        put(pen, text.data + sorted.to, HEADER);
        fill(pen, HEADER);
        next_line(pen);
        rows--;
    }
    s->row_count = p->row_count;
    s->page_rows = rows > 0 ? (size_t)rows : 0;
    if (s->scroll + s->page_rows > s->row_count)
        s->scroll = s->row_count > s->page_rows ? s->row_count - s->page_rows : 0;
    if (!p->row_count && rows > 0)
        draw_empty(pen, s, p);
    for (size_t i = s->scroll; i < p->row_count && rows-- > 0; i++) {
        const struct tally_row *row = &p->rows[i];
        buf_reset(&text);
        top_columns_row(&text, &columns, p, row, &s->view);
        put(pen, text.data, row->lately.total ? PLAIN : DIM);
        top_table_place(&text, row, &s->view);
        draw_place(pen, s, text.data);
        next_line(pen);
    }
}

static void draw_threads(struct pen *pen, struct top_screen *s, const struct parts *l, int rows,
                         const struct tally_picture *p)
{
    const struct tally_thread **order = calloc(p->thread_count + 1, sizeof(*order));
    if (!order)
        return;
    SCOPED_BUF text;
    buf_init(&text);
    bool processes = p->living_processes > 1;
    if (l->header) {
        top_thread_header(&text, processes);
        put_len(pen, text.data, text.len, HEADER, s->shift);
        fill(pen, HEADER);
        next_line(pen);
        rows--;
    }
    s->row_count = top_thread_order(p, order);
    s->page_rows = rows > 0 ? (size_t)rows : 0;
    if (s->scroll + s->page_rows > s->row_count)
        s->scroll = s->row_count > s->page_rows ? s->row_count - s->page_rows : 0;
    for (size_t i = s->scroll; i < s->row_count && rows-- > 0; i++) {
        buf_reset(&text);
        top_thread_line(&text, p, order[i], processes);
        put_len(pen, text.data, text.len, order[i]->active ? FUNCTION : PLAIN, s->shift);
        next_line(pen);
    }
    free(order);
}

/* The last lines of what the program printed; scrolling goes back from the end. */
static void draw_output(struct pen *pen, struct top_screen *s, int rows,
                        const struct top_output *output)
{
    SCOPED_BUF line;
    buf_init(&line);
    const char *data = output->kept.data;
    size_t count = 0;
    for (size_t i = 0; i < output->kept.len; i++)
        count += data[i] == '\n';
    count += output->kept.len && data[output->kept.len - 1] != '\n';
    s->row_count = count;
    s->page_rows = (size_t)rows;
    size_t first = count > (size_t)rows ? count - (size_t)rows : 0;
    first = s->scroll < first ? s->scroll : first;
    if (!count)
        put(pen, "the program has printed nothing", PLAIN);
    for (size_t i = 0; i < count && rows > 0; i++) {
        size_t len = strcspn(data, "\n");
        if (i >= first) {
            SCOPED_BUF raw;
            buf_init(&raw);
            buf_add(&raw, data, len);
            buf_reset(&line);
            text_add_printable(&line, raw.data);
            put_len(pen, line.data, line.len, PLAIN, s->shift);
            next_line(pen);
            rows--;
        }
        data += len + 1;
    }
}

static void draw_help(struct pen *pen, struct top_screen *s, int rows)
{
    size_t count = 0;
    while (top_help_lines[count].keys)
        count++;
    s->row_count = count;
    s->page_rows = (size_t)rows;
    if (s->scroll + s->page_rows > count)
        s->scroll = count > s->page_rows ? count - s->page_rows : 0;
    for (size_t i = s->scroll; i < count && rows-- > 0; i++) {
        const struct top_help *h = &top_help_lines[i];
        if (h->what) {
            char keys[32];
            snprintf(keys, sizeof(keys), "  %-12s", h->keys);
            put(pen, keys, NUMBER);
            put_len(pen, h->what, strlen(h->what), PLAIN, s->shift);
        } else {
            put(pen, h->keys, BOLD);
        }
        next_line(pen);
    }
}

/* ---- the line below ---- */

static void draw_key(struct pen *pen, const char *key, const char *what)
{
    int need = (int)(strlen(key) + strlen(what)) + 2;
    if (pen->column + need > pen->width)
        return;
    put(pen, key, KEY);
    put(pen, " ", PLAIN);
    put(pen, what, PLAIN);
    put(pen, " ", PLAIN);
}

static void draw_keys(struct pen *pen, const struct top_screen *s)
{
    if (s->page == TOP_HELP) {
        draw_key(pen, "x", "Close");
        return;
    }
    draw_key(pen, "q", "Quit");
    draw_key(pen, "?", "Help");
    if (s->page != TOP_ROWS) {
        draw_key(pen, "Esc", "Functions");
        draw_key(pen, "p", s->paused ? "Go on" : "Pause");
        return;
    }
    draw_key(pen, "/", "Search");
    draw_key(pen, "1-5", "Sort");
    draw_key(pen, "l", s->view.by == TALLY_LINES ? "Functions" : "Lines");
    draw_key(pen, "p", s->paused ? "Go on" : "Pause");
    draw_key(pen, "r", "Reset");
    draw_key(pen, "Tab", "Threads");
    if (s->has_output)
        draw_key(pen, "o", "Output");
    draw_key(pen, "t", "Thread column");
    draw_key(pen, "s", "Process column");
    draw_key(pen, "i", "Idle");
    draw_key(pen, "g", "GIL");
}

/* While a search is typed, or where there is no room for the keys, the last line is a message. */
static void draw_prompt(struct pen *pen, const struct top_screen *s)
{
    SCOPED_BUF text;
    buf_init(&text);
    buf_add_char(&text, '/');
    text_add_printable(&text, s->view.search);
    move(pen->row, 0);
    clrtoeol();
    put(pen, text.data, BOLD);
    put(pen, "_", BOLD);
}

void top_screen_draw(struct top_screen *s, const struct terminal *t, const struct top_head *head,
                     const struct tally_picture *p, const struct top_output *output)
{
    struct pen pen = {.width = COLS, .colours = t->colours};
    struct parts l = parts_for(LINES);
    erase();
    if (s->page != TOP_HELP)
        draw_head(&pen, &l, s, head, p);
    int rows = LINES - pen.row - l.keys;
    if (s->page == TOP_HELP)
        draw_help(&pen, s, rows);
    else if (s->page == TOP_THREAD_LIST)
        draw_threads(&pen, s, &l, rows, p);
    else if (s->page == TOP_OUTPUT)
        draw_output(&pen, s, rows, output);
    else
        draw_rows(&pen, s, &l, rows, p);
    pen.row = LINES - 1;
    pen.column = 0;
    if (s->typing)
        draw_prompt(&pen, s);
    else if (l.keys)
        draw_keys(&pen, s);
    else if (s->paused)
        put(&pen, "paused", ALARM);
    refresh();
}
