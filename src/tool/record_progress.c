/* One line that is rewritten. A launched program writes to the same terminal, and a line in the middle of its
 * output would spoil both: then the last row of the screen is set apart for it, and the program's output scrolls
 * above. Each update is a single write, so that nothing of the program's comes in between. */
#include "tool/record.h"

#include <inttypes.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tool/term.h"

#define ROWS_MIN 4

static struct winsize screen(void)
{
    struct winsize size = {0};
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        size.ws_col = 80;
    return size;
}

static void put(const char *text)
{
    fputs(text, stderr);
    fflush(stderr);
}

/* Make room below the cursor, keep the rows above the last one scrolling, and stay where we were. */
static void set_row_apart(struct progress *p, int rows)
{
    char text[64];
    snprintf(text, sizeof(text), "\n\0337\033[1;%dr\0338\033[1A", rows - 1);
    put(text);
    p->row = rows;
}

void progress_init(struct progress *p, bool wanted, bool launched, scry_nsec duration)
{
    *p = (struct progress){.duration = duration, .shown = wanted && isatty(STDERR_FILENO)};
    p->shares_screen = launched && isatty(STDOUT_FILENO);
    if (p->shares_screen && (!term_moves_cursor() || screen().ws_row < ROWS_MIN))
        p->shown = false;
}

/* "progress SECONDS SAMPLES" */
static void tell(struct progress *p, const struct sampler_stats *stats)
{
    if (p->told && stats->elapsed < p->told + SCRY_NSEC_PER_SEC / 2)
        return;
    p->told = stats->elapsed;
    progress_tell(stats);
}

void progress_tell(const struct sampler_stats *stats)
{
    printf("progress %.3f %" PRIu64 "\n", (double)stats->elapsed / 1e9, stats->samples);
    fflush(stdout);
}

void progress_update(struct progress *p, const struct sampler_stats *stats)
{
    if (p->lines)
        tell(p, stats);
    if (!p->shown)
        return;
    struct winsize size = screen();
    char line[160], text[256], until[32] = "";
    if (p->duration)
        snprintf(until, sizeof(until), " of %g", (double)p->duration / 1e9);
    int len = snprintf(
        line, sizeof(line), "%.1f%s s, %" PRIu64 " samples, %" PRIu64 " torn, %" PRIu64 " late",
        (double)stats->elapsed / 1e9, until, stats->samples, stats->torn, stats->late);
    /* A line that wraps could not be taken back. */
    if (len >= size.ws_col)
        len = size.ws_col - 1;
    if (!p->shares_screen) {
        snprintf(text, sizeof(text), "\r\033[K%.*s", len, line);
    } else {
        if (p->row != size.ws_row)
            set_row_apart(p, size.ws_row);
        snprintf(text, sizeof(text), "\0337\033[%d;1H\033[K%.*s\0338", p->row, len, line);
    }
    put(text);
    p->visible = true;
}

void progress_clear(struct progress *p)
{
    if (!p->visible)
        return;
    char text[64] = "\r\033[K";
    if (p->shares_screen)
        snprintf(text, sizeof(text), "\0337\033[%d;1H\033[K\033[r\0338", p->row);
    put(text);
    p->visible = false;
}
