/* What each key does. py-spy's keys (1 2 3 4 l r ? x) mean the same here. */
#include <curses.h>
#include <string.h>

#include "tool/top.h"

#define ESCAPE 27

const struct top_help top_help_lines[] = {
    {"Order", NULL},
    {"1 2", "by %Own, %Total: the share of time lately, in itself or with its calls"},
    {"3 4", "by OwnTime, TotalTime: the same as time since the start"},
    {"5 !", "by name; the other way round"},
    {"What is shown", NULL},
    {"l", "lines or functions"},
    {"t s", "a column with the thread, with the process"},
    {"Tab", "the list of threads: what they do and what they wait for"},
    {"/", "only rows with a text; Enter keeps it, Escape shows all again"},
    {"f", "whole paths or short ones"},
    {"%", "percentages of the time, or of what was counted"},
    {"o", "what the launched program printed"},
    {"What is counted", NULL},
    {"i", "waiting threads too"},
    {"g", "only the thread that holds the interpreter lock (GIL)"},
    {"r", "start counting anew"},
    {"p Space", "pause: nothing is looked at meanwhile"},
    {"Moving and leaving", NULL},
    {"Up Down", "by a row; also k and j"},
    {"PgUp PgDn", "by a screen; Home and End to the ends"},
    {"Left Right", "when names are longer than the screen is wide"},
    {"q", "quit; Control-C too"},
    {"? x", "open and close this help"},
    {NULL, NULL},
};

static void type(struct top_screen *s, int key)
{
    char *text = s->view.search;
    size_t len = strlen(text);
    if (key == '\r' || key == '\n' || key == KEY_ENTER) {
        s->typing = false;
    } else if (key == ESCAPE) {
        s->typing = false;
        text[0] = '\0';
    } else if (key == KEY_BACKSPACE || key == 127 || key == '\b') {
        /* A character may be several bytes. */
        while (len > 0 && ((unsigned char)text[--len] & 0xc0) == 0x80)
            ;
        text[len] = '\0';
    } else if (key == ('u' & 31)) {
        text[0] = '\0';
    } else if (key >= ' ' && key < 256 && key != 127 && len + 1 < TOP_SEARCH_MAX) {
        text[len] = (char)key;
        text[len + 1] = '\0';
    }
    s->scroll = 0;
}

static void move_to(struct top_screen *s, long row)
{
    long last = (long)s->row_count - (long)s->page_rows;
    if (row > last)
        row = last;
    s->scroll = row > 0 ? (size_t)row : 0;
}

static bool moves(struct top_screen *s, int key)
{
    long row = (long)s->scroll, screen = s->page_rows > 1 ? (long)s->page_rows - 1 : 1;
    switch (key) {
    case KEY_UP:
    case 'k':
        move_to(s, row - 1);
        return true;
    case KEY_DOWN:
    case 'j':
        move_to(s, row + 1);
        return true;
    case KEY_PPAGE:
        move_to(s, row - screen);
        return true;
    case KEY_NPAGE:
        move_to(s, row + screen);
        return true;
    case KEY_HOME:
        move_to(s, 0);
        return true;
    case KEY_END:
        move_to(s, (long)s->row_count);
        return true;
    case KEY_LEFT:
        s->shift = s->shift > 8 ? s->shift - 8 : 0;
        return true;
    case KEY_RIGHT:
        s->shift += s->shift < 4096 ? 8 : 0;
        return true;
    default:
        return false;
    }
}

static void show_page(struct top_screen *s, enum top_page page)
{
    s->page = s->page == page ? TOP_ROWS : page;
    s->scroll = 0;
    s->shift = 0;
}

static bool sorts(struct top_screen *s, int key)
{
    if (key == '!') {
        s->view.reverse = !s->view.reverse;
    } else if (key >= '1' && key <= '5') {
        s->view.sort = (enum top_sort)(key - '1');
        s->view.reverse = false;
    } else {
        return false;
    }
    s->scroll = 0;
    return true;
}

static void choose(struct top_screen *s, int key)
{
    struct top_view *v = &s->view;
    switch (key) {
    case 'l':
    case 'L':
        v->by = v->by == TALLY_LINES ? TALLY_FUNCTIONS : TALLY_LINES;
        break;
    case 't':
        v->split ^= TALLY_THREADS;
        break;
    case 's':
        v->split ^= TALLY_PROCESSES;
        break;
    case 'f':
        v->full_filenames = !v->full_filenames;
        break;
    case '%':
        v->of_samples = !v->of_samples;
        break;
    case 'i':
        v->idle = !v->idle;
        s->chosen = true;
        break;
    case 'g':
        v->gil_only = !v->gil_only;
        s->chosen = true;
        break;
    case 'r':
    case 'R':
        s->fresh = true;
        break;
    case 'p':
    case ' ':
        s->paused = !s->paused;
        break;
    default:
        break;
    }
}

void top_screen_key(struct top_screen *s, int key)
{
    if (s->typing) {
        type(s, key);
        return;
    }
    if (moves(s, key))
        return;
    if (s->page == TOP_HELP && strchr("qQxX?\033", key) && key > 0 && key < 128) {
        show_page(s, TOP_HELP);
        return;
    }
    if (s->page != TOP_ROWS && key == ESCAPE) {
        show_page(s, s->page);
        return;
    }
    switch (key) {
    case 'q':
    case 'Q':
        s->quit = true;
        return;
    case '?':
        show_page(s, TOP_HELP);
        return;
    case '\t':
        show_page(s, TOP_THREAD_LIST);
        return;
    case 'o':
        if (s->has_output)
            show_page(s, TOP_OUTPUT);
        return;
    case '/':
        s->page = TOP_ROWS;
        s->typing = true;
        s->scroll = 0;
        return;
    case ESCAPE:
        s->view.search[0] = '\0';
        return;
    default:
        break;
    }
    if (!sorts(s, key))
        choose(s, key);
}
