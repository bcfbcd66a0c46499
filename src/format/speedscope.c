/* The file format of speedscope: one "sampled" profile per thread on one clock, in real seconds.
 * One entry per sample, weighted with the time it stands for; time in which a thread was not seen
 * is an empty entry, so that gaps stay gaps. CPU time is its own clock, without gaps. Keys stand in the order people's scripts know from
 * py-spy.
 *
 * The file wants each thread's samples together, the recording has them by time: they are sorted by
 * thread once, a few words per sample. */
#include "format/writers.h"

#include <stdlib.h>
#include <string.h>

#include "format/path.h"
#include "format/timeline.h"
#include "format/tracks.h"
#include "format/words.h"
#include "util/json.h"
#include "util/table.h"
#include "version.h"

struct entry {
    scry_nsec time, weight;
    uint32_t stack;
};

struct scope {
    struct recording *recording;
    const struct format_options *options;
    struct tracks tracks;
    struct entry *entries;  /* by track, then by time */
    size_t *first;          /* track -> its first entry; first[track + 1] ends them */
    struct interner frames; /* name NUL file NUL line -> number in the file */
    uint32_t *numbers;      /* frame of the recording -> number + 1 */
    size_t number_count;
    struct path path, roots; /* of one stack, leaf first; of one thread, outermost first */
    struct buf text;
    struct json json;
    bool failed;
};

/* ---- samples by thread ---- */

static int place_tracks(struct scope *s)
{
    size_t total = 0;
    s->first = calloc(s->tracks.count + 1, sizeof(*s->first));
    if (!s->first)
        return -SCRY_E_NO_MEMORY;
    for (size_t i = 0; i < s->tracks.count; i++) {
        s->first[i] = total;
        total += s->tracks.items[i].samples;
    }
    s->first[s->tracks.count] = total;
    s->entries = calloc(total + 1, sizeof(*s->entries));
    return s->entries ? 0 : -SCRY_E_NO_MEMORY;
}

static int sort_by_thread(struct scope *s)
{
    int r = place_tracks(s);
    size_t *next = r < 0 ? NULL : malloc((s->tracks.count + 1) * sizeof(*next));
    if (!next)
        return -SCRY_E_NO_MEMORY;
    memcpy(next, s->first, (s->tracks.count + 1) * sizeof(*next));
    struct rec_sample sample;
    while ((r = recording_next(s->recording, &sample)) > 0) {
        uint32_t track = tracks_find(&s->tracks, sample.thread);
        if (track == NO_TRACK || next[track] == s->first[track + 1])
            continue;
        s->entries[next[track]++] =
            (struct entry){.time = sample.time, .weight = sample.weight, .stack = sample.stack};
    }
    free(next);
    return r;
}

/* ---- frames ---- */

static uint32_t add_frame(struct scope *s, const char *name, const char *file, int32_t line)
{
    buf_reset(&s->text);
    buf_add_str(&s->text, name);
    buf_add_char(&s->text, '\0');
    buf_add_str(&s->text, file);
    buf_add_char(&s->text, '\0');
    buf_add(&s->text, &line, sizeof(line));
    uint32_t number = interner_add(&s->frames, s->text.data, s->text.len, NULL);
    s->failed |= s->text.failed || number == INTERN_FAILED;
    return number;
}

static uint32_t frame_number(struct scope *s, uint32_t frame)
{
    if (!s->numbers[frame]) {
        const struct rec_frame *f = recording_frame(s->recording, frame);
        s->numbers[frame] = add_frame(s, f->name, f->file, words_line(f, s->options->lines)) + 1;
    }
    return s->numbers[frame] - 1;
}

static void put_frames(struct scope *s)
{
    struct json *j = &s->json;
    json_begin_array(j);
    for (uint32_t i = 0; i < s->frames.count; i++) {
        size_t length;
        const char *name = interner_get(&s->frames, i, &length);
        const char *file = name + strlen(name) + 1;
        int32_t line;
        memcpy(&line, name + length - sizeof(line), sizeof(line));
        json_begin_object(j);
        json_key(j, "name");
        json_string(j, name);
        json_key(j, "file");
        json_string(j, file);
        json_key(j, "line");
        if (s->options->lines == LINES_NONE)
            json_null(j);
        else
            json_int(j, line);
        json_key(j, "col");
        json_null(j);
        json_end_object(j);
    }
    json_end_array(j);
}

/* ---- profiles ---- */

static int add_root(void *context, const char *text)
{
    struct scope *s = context;
    return path_push(&s->roots, add_frame(s, text, "", 0)) ? 0 : -SCRY_E_NO_MEMORY;
}

static void find_roots(struct scope *s, const struct track *track)
{
    s->roots.count = 0;
    s->failed |= words_roots(s->recording, track, s->options, add_root, s) < 0;
}

static void put_stack(struct scope *s, uint32_t stack)
{
    struct json *j = &s->json;
    s->failed |= !path_read(&s->path, s->recording, stack);
    json_begin_array(j);
    for (size_t i = 0; s->path.count && i < s->roots.count; i++)
        json_uint(j, s->roots.items[i]);
    for (size_t i = s->path.count; i-- > 0;)
        json_uint(j, frame_number(s, s->path.items[i]));
    json_end_array(j);
}

static double in_seconds(scry_nsec span)
{
    return (double)span / (double)SCRY_NSEC_PER_SEC;
}

/* CPU time has no place on the wall clock: there, one sample follows the other. */
static struct stretch stretch_of(const struct scope *s, struct timeline *line,
                                 const struct entry *e)
{
    if (words_measure(s->recording) == MEASURE_CPU)
        return (struct stretch){.end = e->weight};
    return timeline_next(line, e->time, e->weight);
}

static void put_samples(struct scope *s, size_t track)
{
    struct timeline line = {0};
    find_roots(s, &s->tracks.items[track]);
    json_begin_array(&s->json);
    for (size_t i = s->first[track]; i < s->first[track + 1]; i++) {
        const struct entry *e = &s->entries[i];
        if (stretch_of(s, &line, e).gap)
            put_stack(s, REC_EMPTY_STACK);
        put_stack(s, e->stack);
    }
    json_end_array(&s->json);
}

static void put_weights(struct scope *s, size_t track)
{
    struct timeline line = {0};
    json_begin_array(&s->json);
    for (size_t i = s->first[track]; i < s->first[track + 1]; i++) {
        struct stretch at = stretch_of(s, &line, &s->entries[i]);
        if (at.gap)
            json_double(&s->json, in_seconds(at.gap));
        json_double(&s->json, in_seconds(at.end - at.start));
    }
    json_end_array(&s->json);
}

static void put_name(struct scope *s, const struct track *track)
{
    struct buf *b = &s->text;
    buf_reset(b);
    if (s->options->processes)
        buf_addf(b, "Process %d ", recording_process(s->recording, track->process)->pid);
    buf_add_str(b, "Thread ");
    words_thread_id(b, track);
    buf_addf(b, " \"%s\"", track->name);
    s->failed |= b->failed;
    json_string(&s->json, b->data);
}

/* Where a thread's profile begins and ends. */
static void put_span(struct scope *s, size_t i)
{
    const struct entry *begin = &s->entries[s->first[i]], *end = &s->entries[s->first[i + 1]];
    scry_nsec from = begin->time - begin->weight, to = end[-1].time;
    if (words_measure(s->recording) == MEASURE_CPU) {
        from = to = 0;
        for (const struct entry *e = begin; e < end; e++)
            to += e->weight;
    }
    json_key(&s->json, "startValue");
    json_double(&s->json, in_seconds(from));
    json_key(&s->json, "endValue");
    json_double(&s->json, in_seconds(to));
}

static void put_profile(struct scope *s, size_t i)
{
    struct json *j = &s->json;
    json_begin_object(j);
    json_key(j, "type");
    json_string(j, "sampled");
    json_key(j, "name");
    put_name(s, &s->tracks.items[i]);
    json_key(j, "unit");
    json_string(j, "seconds");
    put_span(s, i);
    json_key(j, "samples");
    put_samples(s, i);
    json_key(j, "weights");
    put_weights(s, i);
    json_end_object(j);
}

static void put_file(struct scope *s)
{
    struct json *j = &s->json;
    const char *title = s->options->title;
    json_begin_object(j);
    json_key(j, "$schema");
    json_string(j, "https://www.speedscope.app/file-format-schema.json");
    json_key(j, "profiles");
    json_begin_array(j);
    for (size_t i = 0; i < s->tracks.count; i++)
        put_profile(s, i);
    json_end_array(j);
    json_key(j, "shared");
    json_begin_object(j);
    json_key(j, "frames");
    put_frames(s);
    json_end_object(j);
    json_key(j, "activeProfileIndex");
    json_int(j, 0); /* the main thread */
    json_key(j, "exporter");
    json_string(j, "scry@" SCRY_VERSION);
    json_key(j, "name");
    json_string(j, title && title[0] ? title : "scry profile");
    json_end_object(j);
}

int speedscope_write(struct recording *recording, const struct format_options *options, FILE *out,
                     struct error *err)
{
    struct scope s = {.recording = recording, .options = options};
    buf_init(&s.text);
    json_init(&s.json, out, 0);
    int r = tracks_read(&s.tracks, recording, err);
    if (r < 0)
        goto out;
    r = sort_by_thread(&s);
    s.number_count = recording_frame_count(recording);
    s.numbers = calloc(s.number_count + 1, sizeof(*s.numbers));
    if (r >= 0 && s.numbers)
        put_file(&s);
    if (r >= 0 && (s.failed || !s.numbers))
        r = -SCRY_E_NO_MEMORY;
    r = r < 0 ? error_set(err, r, "the recording could not be converted: %s", error_sentence(r))
              : writers_check(out, err);
out:
    tracks_done(&s.tracks);
    free(s.entries);
    free(s.first);
    free(s.numbers);
    path_done(&s.path);
    path_done(&s.roots);
    interner_done(&s.frames);
    buf_done(&s.text);
    return r;
}
