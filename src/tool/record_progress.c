#include "tool/record.h"

#include <inttypes.h>
#include <unistd.h>

#include "tool/term.h"

void progress_init(struct progress *p, bool wanted, bool launched, scry_nsec duration)
{
    bool terminal = isatty(STDERR_FILENO) && !(launched && isatty(STDOUT_FILENO));
    *p = (struct progress){.shown = wanted && terminal, .duration = duration};
}

void progress_update(struct progress *p, const struct sampler_stats *stats)
{
    if (!p->shown)
        return;
    char line[160], until[32] = "";
    if (p->duration)
        snprintf(until, sizeof(until), " of %g", (double)p->duration / 1e9);
    int len = snprintf(
        line, sizeof(line), "%.1f%s s, %" PRIu64 " samples, %" PRIu64 " torn, %" PRIu64 " late",
        (double)stats->elapsed / 1e9, until, stats->samples, stats->torn, stats->late);
    /* A line that wraps could not be taken back. */
    int room = term_width(stderr, 80) - 1;
    if (len > room)
        len = room;
    fprintf(stderr, "\r\033[K%.*s", len, line);
    fflush(stderr);
    p->visible = true;
}

void progress_clear(struct progress *p)
{
    if (!p->visible)
        return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    p->visible = false;
}
