/* Chrome's trace events, for chrome://tracing and Perfetto: a JSON array, one event per line,
 * written as the samples come. A slice is a call as far as samples can tell: it begins with the
 * first sample that has the function at that depth and ends with the first that has not, or where
 * the thread was not seen. Functions are compared, not lines: work inside one call does not cut it.
 * Process and thread names are metadata, so -t and -s add no slices. */
#include "format/writers.h"

#include <stdlib.h>
#include <string.h>

#include "format/path.h"
#include "format/timeline.h"
#include "format/words.h"
#include "util/json.h"
#include "util/table.h"

#define FIRST_MADE_UP_PID 4194304 /* above every pid Linux hands out */

struct lane { /* a thread on its way through time */
    struct timeline line;
    uint32_t stack;   /* the last one */
    struct path open; /* frames of the slices not ended yet, outermost first */
};

struct trace {
    struct recording *recording;
    const struct format_options *options;
    FILE *out;
    struct tracks tracks;
    struct lane *lanes;
    int64_t *pids; /* by process */
    struct interner functions;
    uint32_t *function_of; /* frame -> function + 1 */
    size_t frame_count;
    struct path path;
    bool any, failed;
};

/* ---- who is who ---- */

/* Recordings that were merged may each have a process with the same pid at the same time, from
 * different hosts: the later one gets a number of its own, or their slices would mix. */
static int choose_pids(struct trace *t)
{
    size_t count = recording_process_count(t->recording);
    struct span {
        scry_nsec first, last;
        bool used;
    } *spans = calloc(count + 1, sizeof(*spans));
    t->pids = calloc(count + 1, sizeof(*t->pids));
    if (!spans || !t->pids) {
        free(spans);
        return -SCRY_E_NO_MEMORY;
    }
    for (size_t i = 0; i < t->tracks.count; i++) {
        const struct track *track = &t->tracks.items[i];
        struct span *span = &spans[track->process];
        if (!span->used || track->first < span->first)
            span->first = track->first;
        if (track->last > span->last)
            span->last = track->last;
        span->used = true;
    }
    for (uint32_t i = 0; i < count; i++) {
        t->pids[i] = recording_process(t->recording, i)->pid;
        for (uint32_t j = 0; j < i && spans[i].used; j++)
            if (t->pids[j] == t->pids[i] && spans[j].used && spans[i].first < spans[j].last &&
                spans[j].first < spans[i].last)
                t->pids[i] = FIRST_MADE_UP_PID + (int64_t)i;
    }
    free(spans);
    return 0;
}

static int64_t tid_of(const struct track *track)
{
    return track->tid ? track->tid : (int64_t)(track->thread_id & 0x7fffffff);
}

static bool make_room_for(struct trace *t, uint32_t frame)
{
    if (frame < t->frame_count)
        return true;
    size_t count = recording_frame_count(t->recording);
    uint32_t *grown = reallocarray(t->function_of, count, sizeof(*grown));
    if (!grown)
        return false;
    memset(grown + t->frame_count, 0, (count - t->frame_count) * sizeof(*grown));
    t->function_of = grown;
    t->frame_count = count;
    return true;
}

static uint32_t function_of(struct trace *t, uint32_t frame)
{
    if (!make_room_for(t, frame)) {
        t->failed = true;
        return 0;
    }
    if (t->function_of[frame])
        return t->function_of[frame] - 1;
    const struct rec_frame *f = recording_frame(t->recording, frame);
    SCOPED_BUF key;
    buf_init(&key);
    buf_add_str(&key, f->name);
    buf_add_char(&key, '\0');
    buf_add_str(&key, f->file);
    buf_add_char(&key, '\0');
    buf_add(&key, &f->first_line, sizeof(f->first_line));
    uint32_t function = interner_add(&t->functions, key.data, key.len, NULL);
    t->failed |= key.failed || function == INTERN_FAILED;
    t->function_of[frame] = function + 1;
    return function;
}

/* ---- events ---- */

static void begin_event(struct trace *t, struct json *j)
{
    fputs(t->any ? ",\n" : "[\n", t->out);
    t->any = true;
    json_init(j, t->out, 0);
    json_begin_object(j);
}

static void end_event(struct json *j, const struct trace *t, const struct track *track, char phase,
                      scry_nsec time)
{
    json_key(j, "ph");
    json_string_len(j, &phase, 1);
    json_key(j, "pid");
    json_int(j, t->pids[track->process]);
    json_key(j, "tid");
    json_int(j, tid_of(track));
    json_key(j, "ts");
    json_double(j, (double)time / 1000);
    json_end_object(j);
}

static void put_begin(struct trace *t, const struct track *track, uint32_t frame, scry_nsec time)
{
    const struct rec_frame *f = recording_frame(t->recording, frame);
    int32_t line = words_line(f, t->options->lines);
    struct json j;
    begin_event(t, &j);
    json_key(&j, "args");
    json_begin_object(&j);
    json_key(&j, "filename");
    json_string(&j, f->file);
    json_key(&j, "line");
    if (line)
        json_int(&j, line);
    else
        json_null(&j);
    json_end_object(&j);
    json_key(&j, "cat");
    json_string(&j, "scry");
    json_key(&j, "name");
    json_string(&j, f->name);
    end_event(&j, t, track, 'B', time);
}

static void put_end(struct trace *t, const struct track *track, uint32_t frame, scry_nsec time)
{
    struct json j;
    begin_event(t, &j);
    json_key(&j, "cat");
    json_string(&j, "scry");
    json_key(&j, "name");
    json_string(&j, recording_frame(t->recording, frame)->name);
    end_event(&j, t, track, 'E', time);
}

static void put_metadata(struct trace *t, const struct track *track, const char *kind,
                         const char *name)
{
    struct json j;
    begin_event(t, &j);
    json_key(&j, "args");
    json_begin_object(&j);
    json_key(&j, "name");
    json_string(&j, name);
    json_end_object(&j);
    json_key(&j, "cat");
    json_string(&j, "__metadata");
    json_key(&j, "name");
    json_string(&j, kind);
    end_event(&j, t, track, 'M', 0);
}

static void put_names(struct trace *t)
{
    for (size_t i = 0; i < t->tracks.count; i++) {
        const struct track *track = &t->tracks.items[i];
        if (i == 0 || track[-1].process != track->process) {
            const struct rec_process *process = recording_process(t->recording, track->process);
            SCOPED_BUF name;
            buf_init(&name);
            words_program(&name, process->command);
            if (t->pids[track->process] != process->pid)
                buf_addf(&name, " (pid %d)", process->pid);
            put_metadata(t, track, "process_name", name.data);
        }
        if (track->name[0])
            put_metadata(t, track, "thread_name", track->name);
    }
}

/* ---- slices ---- */

static void close_to(struct trace *t, size_t lane, size_t depth, scry_nsec time)
{
    struct path *open = &t->lanes[lane].open;
    while (open->count > depth)
        put_end(t, &t->tracks.items[lane], open->items[--open->count], time);
}

static void add_sample(struct trace *t, const struct rec_sample *sample)
{
    uint32_t number = tracks_find(&t->tracks, sample->thread);
    if (number == NO_TRACK)
        return;
    struct lane *lane = &t->lanes[number];
    scry_nsec before = lane->line.end;
    struct stretch at = timeline_next(&lane->line, sample->time, sample->weight);
    if (at.start == at.end)
        return;
    if (at.gap)
        close_to(t, number, 0, before);
    else if (sample->stack == lane->stack)
        return;
    lane->stack = sample->stack;
    t->failed |= !path_read(&t->path, t->recording, sample->stack);
    size_t depth = t->path.count, same = 0;
    while (same < depth && same < lane->open.count &&
           function_of(t, t->path.items[depth - 1 - same]) ==
               function_of(t, lane->open.items[same]))
        same++;
    close_to(t, number, same, at.start);
    for (size_t i = same; i < depth; i++) {
        uint32_t frame = t->path.items[depth - 1 - i];
        put_begin(t, &t->tracks.items[number], frame, at.start);
        t->failed |= !path_push(&lane->open, frame);
    }
}

static int put_trace(struct trace *t)
{
    t->lanes = calloc(t->tracks.count + 1, sizeof(*t->lanes));
    if (!t->lanes)
        return -SCRY_E_NO_MEMORY;
    put_names(t);
    struct rec_sample sample;
    int more = 0;
    while (!t->failed && (more = recording_next(t->recording, &sample)) > 0)
        add_sample(t, &sample);
    for (size_t i = 0; i < t->tracks.count; i++)
        close_to(t, i, 0, t->lanes[i].line.end);
    fputs(t->any ? "\n]\n" : "[]\n", t->out);
    return t->failed ? -SCRY_E_NO_MEMORY : more;
}

int chrometrace_write(struct recording *recording, const struct format_options *options, FILE *out,
                      struct error *err)
{
    struct trace t = {.recording = recording, .options = options, .out = out};
    int r = tracks_read(&t.tracks, recording, err);
    if (r < 0)
        goto out;
    r = choose_pids(&t);
    if (r >= 0)
        r = put_trace(&t);
    r = r < 0 ? error_set(err, r, "the recording could not be converted: %s", error_sentence(r))
              : writers_check(out, err);
out:
    for (size_t i = 0; t.lanes && i < t.tracks.count; i++)
        path_done(&t.lanes[i].open);
    free(t.lanes);
    free(t.pids);
    free(t.function_of);
    path_done(&t.path);
    interner_done(&t.functions);
    tracks_done(&t.tracks);
    return r;
}
