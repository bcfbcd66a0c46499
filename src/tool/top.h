/* The parts of `top`: what is chosen to be seen, the table of it, the screen, the terminal, the
 * sampler in its thread. */
#ifndef SCRY_TOOL_TOP_H
#define SCRY_TOOL_TOP_H

#include <pthread.h>
#include <stdio.h>

#include "access/launch.h"
#include "engine/sampler.h"
#include "engine/tally.h"
#include "util/buf.h"

/* ---- what is chosen ---- */

enum top_sort {
    TOP_OWN_PERCENT,
    TOP_TOTAL_PERCENT,
    TOP_OWN_TIME,
    TOP_TOTAL_TIME,
    TOP_NAME,
};
extern const char *const top_sort_names[]; /* ends with NULL */

enum top_page { TOP_ROWS, TOP_THREAD_LIST, TOP_OUTPUT, TOP_HELP };

#define TOP_SEARCH_MAX 128

struct top_view {
    enum tally_by by;
    unsigned split; /* TALLY_THREADS | TALLY_PROCESSES */
    enum top_sort sort;
    bool reverse;
    bool of_samples; /* percentages of the samples that count, not of the time */
    bool full_filenames;
    bool gil_only, idle;
    char search[TOP_SEARCH_MAX]; /* only rows with this; "" = all */
};

/* ---- the sampler in its thread (top_sampling.c) ---- */

struct top_sampling {
    pid_t pid;
    struct sampler_options options;
    struct tally *tally;
    int wake; /* a byte is written here when it has started and when it has ended */

    pthread_t thread;
    bool going; /* the thread is to be waited for */
    pthread_mutex_t lock;
    /* under the lock: */
    bool started, ended;
    struct sampler_stats stats;
    int result; /* when ended */
    enum sampler_end end;
    struct error err;
    struct sampler *sampler; /* once started */
};

int top_sampling_start(struct top_sampling *s, struct error *err);
/* Has it started (1), ended (a 0 or an error in `result`), or neither (0)? */
struct top_progress {
    bool started, ended;
    struct sampler_stats stats;
};
struct top_progress top_sampling_progress(struct top_sampling *s);
/* Tell the sampler and the tally what to count. */
void top_sampling_choose(struct top_sampling *s, const struct top_view *view);
void top_sampling_pause(struct top_sampling *s, bool paused);
/* Pause, and wait until no thread of the target is held: before scry itself is suspended. */
void top_sampling_rest(struct top_sampling *s);
/* Ask it to end and wait for it. `result`, `end` and `err` tell how it went. */
void top_sampling_end(struct top_sampling *s);

/* ---- the table (top_table.c) ---- */

struct top_head { /* what the lines above the table say */
    const char *tool;
    pid_t pid;
    bool subprocesses, launched;
    double rate;
    struct sampler_stats stats;
};

/* Leave out the rows that are not searched for, sort the rest. */
void top_table_arrange(struct tally_picture *p, const struct top_view *view);
/* "walk (tree.py:12)", made printable; `text` is emptied first. */
void top_table_place(struct buf *text, const struct tally_row *row, const struct top_view *view);
/* "4242 worker-1" */
void top_table_thread(struct buf *text, const struct tally_thread *thread);
/* "1.25", "12.3", "8100": as many digits as help. */
void top_table_seconds(char *to, size_t cap, scry_nsec time);

struct top_percents {
    double own, total;
};
struct top_percents top_table_percents(const struct tally_picture *p, const struct tally_row *row,
                                       const struct top_view *view);
double top_percent(scry_nsec part, scry_nsec whole);

/* Columns left of the place, for a table `width` wide: those that do not fit are left out. */
struct top_columns {
    bool total_percent, times, process, thread;
    int width; /* of them all, with the blanks between */
};
struct top_columns top_columns_for(const struct top_view *view, int width);
/* `ret_sorted` (may be NULL) is the part of it that the table is sorted by. */
struct top_part {
    size_t from, to; /* bytes */
};
void top_columns_header(struct buf *text, const struct top_columns *c, const struct top_view *view,
                        struct top_part *ret_sorted);
void top_columns_row(struct buf *text, const struct top_columns *c, const struct tally_picture *p,
                     const struct tally_row *row, const struct top_view *view);

/* What a line of the list of threads says of one. */
void top_thread_header(struct buf *text, bool processes);
void top_thread_line(struct buf *text, const struct tally_picture *p,
                     const struct tally_thread *thread, bool processes);
/* The living threads, those that run first. `ret` has room for all; returns how many. */
size_t top_thread_order(const struct tally_picture *p, const struct tally_thread **ret);

/* The first lines: program, samples, shares. */
void top_head_program(struct buf *text, const struct top_head *head, const struct tally_picture *p);
void top_head_samples(struct buf *text, const struct top_head *head, const struct tally_picture *p);
void top_head_shares(struct buf *text, const struct tally_picture *p);

/* ---- once (top_print.c) ---- */

void top_print_text(FILE *out, const struct top_head *head, const struct tally_picture *p,
                    const struct top_view *view, size_t limit);
void top_print_json(FILE *out, const struct top_head *head, const struct tally_picture *p,
                    const struct top_view *view, size_t limit);
/* One line, about the time since the last cut. */
void top_print_event(FILE *out, const struct top_head *head, const struct tally_picture *p,
                     const struct top_view *view, size_t limit);
/* The rows with most own time, without the lines above. */
void top_print_rows(FILE *out, const struct tally_picture *p, const struct top_view *view,
                    size_t limit);

/* ---- the launched program's output (top_output.c) ---- */

struct top_output {
    int fd; /* where it can be read; -1 = none, or at its end */
    struct buf kept;
    bool cut; /* the beginning is not there any more */
};
/* A pipe for the program to write to; the other end is for the caller to close after the launch. */
int top_output_open(struct top_output *o, int *ret_write_end, struct error *err);
void top_output_read(struct top_output *o);
void top_output_done(struct top_output *o);

/* ---- the terminal (top_terminal.c) ---- */

struct terminal {
    struct screen *screen; /* of ncurses */
    FILE *in, *out;
    bool close_in;
    bool colours;
    pid_t guard;
    int guard_fd;
};

/* There must be a terminal on standard output that can be drawn on, and one to read keys from. */
int terminal_check(struct terminal *t, struct error *err);
/* Take it, after the check. From here on it is restored whatever becomes of scry: a guard process
 * waits for its end. */
int terminal_open(struct terminal *t, struct error *err);
void terminal_close(struct terminal *t);
void terminal_suspend(struct terminal *t); /* SIGTSTP: back when continued */
void terminal_resize(void);                /* SIGWINCH */

/* ---- signals (top_signals.c) ---- */

/* What came goes into a pipe as one byte each, the signal's number; top_sampling's `wake` writes 0
 * into the same. */
int top_signals_open(int *ret_read_end, int *ret_write_end, struct error *err);
void top_signals_close(void);
/* Whom to let restore the terminal before scry dies of a crash; 0 = nobody any more. */
void top_signals_guard(pid_t guard, int fd);

/* ---- the screen (top_screen.c) and its keys (top_keys.c) ---- */

struct top_screen {
    struct top_view view;
    enum top_page page;
    bool paused;
    bool typing; /* a search */
    bool quit;
    bool fresh;                  /* counts were asked to be reset */
    bool chosen;                 /* gil_only or idle changed */
    bool has_output;             /* a program was launched */
    size_t scroll;               /* of the page shown */
    int shift;                   /* columns the places are moved to the left */
    size_t page_rows, row_count; /* as drawn last */
};

void top_screen_draw(struct top_screen *s, const struct terminal *t, const struct top_head *head,
                     const struct tally_picture *p, const struct top_output *output);
/* A key as ncurses names it. */
void top_screen_key(struct top_screen *s, int key);

struct top_help {
    const char *keys;
    const char *what; /* NULL: `keys` is a heading */
};
extern const struct top_help top_help_lines[]; /* ends with a row without keys */

#endif
