#include "tool/record_part.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tool/record.h"
#include "util/buf.h"

bool part_is_stream(const struct format *format)
{
    return strcmp(format->name, "scry") == 0;
}

char *part_name(const char *path, unsigned number)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    const char *dot = strrchr(base, '.');
    size_t stem = dot && dot > base ? (size_t)(dot - path) : strlen(path);
    struct buf name;
    buf_init(&name);
    buf_add(&name, path, stem);
    buf_addf(&name, "-%04u%s", number, path + stem);
    return buf_detach(&name);
}

static int open_output(struct part *p, struct error *err)
{
    const struct part_plan *plan = p->plan;
    char *name = plan->numbered ? part_name(plan->path, p->number) : strdup(plan->path);
    if (!name)
        return error_set(err, -SCRY_E_NO_MEMORY, "out of memory");
    int r = outfile_open(&p->out, name, err);
    free(name);
    if (r == 0)
        r = record_check_terminal(plan->format, &p->out, err);
    if (r == 0)
        record_give_to_owner(&p->out);
    return r;
}

int part_open(struct part *p, const struct part_plan *plan, unsigned number, struct error *err)
{
    *p = (struct part){.plan = plan, .number = number};
    int r = open_output(p, err);
    if (r == 0 && part_is_stream(plan->format))
        p->stream = p->out.file;
    else if (r == 0)
        r = record_open_temporary(&p->stream, err);
    if (r < 0)
        part_done(p);
    return r;
}

static struct sampler_stats since(const struct sampler_stats *now, const struct sampler_stats *then)
{
    struct sampler_stats s = *now;
    s.ticks -= then->ticks;
    s.samples -= then->samples;
    s.torn -= then->torn;
    s.late -= then->late;
    s.missed -= then->missed;
    s.errors -= then->errors;
    s.native_cut -= then->native_cut;
    s.native_unmatched -= then->native_unmatched;
    s.native_missing -= then->native_missing;
    s.own_cpu -= then->own_cpu;
    s.held -= then->held;
    return s;
}

int part_end(struct part *p, const struct sampler_stats *totals, scry_nsec end, struct error *err)
{
    p->stats = since(totals, &p->stats);
    p->stats.elapsed = end - p->begun;
    struct rec_summary summary = {
        .complete = true,
        .duration = p->stats.elapsed,
        .samples = p->stats.samples,
        .torn = p->stats.torn,
        .missed = p->stats.missed,
        .late = p->stats.late,
        .errors = p->stats.errors,
        .own_cpu = p->stats.own_cpu,
        .unmerged = p->stats.native_cut + p->stats.native_unmatched + p->stats.native_missing,
    };
    int r = rec_writer_finish(p->writer, &summary);
    if (r < 0 || fflush(p->stream) != 0) {
        r = r < 0 ? r : -SCRY_E_OUTPUT;
        return error_set(err, r, "the recording cannot be written: %s", strerror(errno));
    }
    return 0;
}

static int convert(struct part *p, struct error *err)
{
    struct recording *recording;
    rewind(p->stream);
    int r = recording_open_stream(p->stream, &recording, err);
    if (r < 0)
        return r;
    r = p->plan->format->write(recording, &p->plan->view, p->out.file, err);
    recording_close(recording);
    return r;
}

int part_write(struct part *p, struct error *err)
{
    int r = part_is_stream(p->plan->format) ? 0 : convert(p, err);
    if (r < 0)
        return r;
    if (p->stream == p->out.file)
        p->stream = NULL;
    return outfile_commit(&p->out, err);
}

void part_done(struct part *p)
{
    rec_writer_free(p->writer);
    if (p->stream && p->stream != p->out.file)
        fclose(p->stream);
    outfile_abandon(&p->out);
    *p = (struct part){0};
}

int part_snapshot(const struct part *p, struct part *ret_snapshot, struct error *err)
{
    struct part s = {.plan = p->plan, .number = p->number};
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fileno(p->stream));
    int r = open_output(&s, err);
    /* Opened again it has a position of its own, even without a name. */
    s.stream = r == 0 ? fopen(path, "re") : NULL;
    if (r == 0 && !s.stream)
        r = error_set(err, -SCRY_E_IO, "the recording so far cannot be read: %m");
    if (r < 0)
        part_done(&s);
    else
        *ret_snapshot = s;
    return r;
}

/* ---- in a thread of its own ---- */

static void *write_it(void *context)
{
    struct part_writing *w = context;
    w->result = part_write(&w->part, &w->err);
    atomic_store(&w->ended, true);
    return NULL;
}

int part_writing_start(struct part_writing *w, struct part *part, struct error *err)
{
    part_done(&w->part);
    w->part = *part;
    *part = (struct part){0};
    snprintf(w->path, sizeof(w->path), "%s", w->part.out.path);
    w->err = (struct error){0};
    atomic_store(&w->ended, false);
    /* Signals are for the thread that samples. */
    sigset_t all, former;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &former);
    int why = pthread_create(&w->thread, NULL, write_it, w);
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    if (why)
        return error_set(err, -SCRY_E_NO_MEMORY, "no thread can be started: %s", strerror(why));
    w->going = true;
    return 0;
}

int part_writing_finish(struct part_writing *w, struct error *err)
{
    if (!w->going)
        return 0;
    pthread_join(w->thread, NULL);
    w->going = false;
    if (w->result < 0 && err)
        *err = w->err;
    return w->result;
}
