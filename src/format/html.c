/* One page that holds everything: the recording as JSON, and a script that draws it (report.js). It fetches nothing.
 *
 * The page gets the totals of each stack for each thread, exactly, and a time line of each thread in so many steps, each
 * with the stack that filled most of it: what it holds grows with what is distinct, not with time. Source is read from
 * the files that the frames name, if they are there; see read_source(). */
#include "format/writers.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report_assets.h"
#include "format/tracks.h"
#include "format/words.h"
#include "util/json.h"
#include "util/table.h"
#include "version.h"

#define STEPS       1500 /* of a time line */
#define LINES_MAX   200  /* time lines */
#define SOURCE_MAX  (512u << 10)
#define SOURCES_MAX (6u << 20)

struct total {
    uint32_t track, stack;
    uint64_t samples;
    scry_nsec time;
};

struct step { /* the stack that has the majority, if any has, and all of the time that was seen */
    uint32_t stack;
    scry_nsec lead, seen;
};

struct report {
    struct recording *recording;
    const struct format_options *options;
    struct tracks tracks;
    struct table known; /* (track, stack) -> index in totals */
    struct total *totals;
    size_t count, cap;
    struct step *steps; /* STEPS for each of the first LINES_MAX tracks */
    size_t line_count;
    scry_nsec end; /* of the last sample */
    struct interner files;
    size_t source_bytes;
    struct json json;
    struct buf text;
};

/* ---- adding up ---- */

static struct total *total_of(struct report *r, uint32_t track, uint32_t stack)
{
    uint64_t key = (uint64_t)track << 32 | stack, index;
    if (table_get(&r->known, key, &index))
        return &r->totals[index];
    if (r->count == r->cap) {
        size_t cap = r->cap ? r->cap * 2 : 1024;
        struct total *grown = reallocarray(r->totals, cap, sizeof(*grown));
        if (!grown)
            return NULL;
        r->totals = grown;
        r->cap = cap;
    }
    if (!table_put(&r->known, key, r->count))
        return NULL;
    r->totals[r->count] = (struct total){.track = track, .stack = stack};
    return &r->totals[r->count++];
}

static void add_to_step(struct step *step, uint32_t stack, scry_nsec part)
{
    step->seen += part;
    if (step->stack == stack) {
        step->lead += part;
    } else if (part > step->lead) {
        step->stack = stack;
        step->lead = part - step->lead;
    } else {
        step->lead -= part;
    }
}

/* All steps that the span of the sample touches, each with its part of it. */
static void add_steps(struct report *r, uint32_t track, const struct rec_sample *s)
{
    if (track >= r->line_count || !r->end)
        return;
    double width = (double)r->end / STEPS;
    double from = (double)(s->time - s->weight), to = (double)s->time;
    for (size_t i = (size_t)(from / width); i < STEPS && (double)i * width < to; i++) {
        double begin = (double)i * width, end = begin + width;
        double part = (to < end ? to : end) - (from > begin ? from : begin);
        if (part >= 1)
            add_to_step(&r->steps[track * STEPS + i], s->stack, (scry_nsec)part);
    }
}

static int read_all(struct report *r, struct error *err)
{
    int result = tracks_read(&r->tracks, r->recording, err);
    if (result < 0)
        return result;
    for (size_t i = 0; i < r->tracks.count; i++)
        if (r->tracks.items[i].last > r->end)
            r->end = r->tracks.items[i].last;
    r->line_count = r->tracks.count < LINES_MAX ? r->tracks.count : LINES_MAX;
    r->steps = calloc(r->line_count * STEPS + 1, sizeof(*r->steps));
    if (!r->steps)
        return error_set(err, -SCRY_E_NO_MEMORY, "out of memory");
    struct rec_sample s;
    while ((result = recording_next(r->recording, &s)) > 0) {
        uint32_t track = tracks_find(&r->tracks, s.thread);
        if (track == NO_TRACK || s.stack == REC_EMPTY_STACK)
            continue;
        struct total *total = total_of(r, track, s.stack);
        if (!total)
            return error_set(err, -SCRY_E_NO_MEMORY, "out of memory");
        total->samples++;
        total->time += s.weight;
        add_steps(r, track, &s);
    }
    return result < 0 ? error_set(err, result, "the recording could not be read") : 0;
}

/* ---- the data ---- */

static void put_clean(struct report *r, const char *text)
{
    buf_reset(&r->text);
    words_clean(&r->text, text);
    json_string(&r->json, r->text.data);
}

static void put_frames(struct report *r)
{
    struct json *j = &r->json;
    json_begin_array(j);
    for (uint32_t i = 0; i < recording_frame_count(r->recording); i++) {
        const struct rec_frame *f = recording_frame(r->recording, i);
        json_begin_array(j);
        put_clean(r, f->name);
        put_clean(r, r->options->full_filenames ? f->file : f->short_file);
        json_int(j, words_line(f, r->options->lines));
        json_int(j, f->first_line);
        json_int(j, (int64_t)words_origin(f));
        json_uint(j, interner_add(&r->files, f->file, strlen(f->file), NULL));
        json_end_array(j);
    }
    json_end_array(j);
}

static void put_stacks(struct report *r)
{
    struct json *j = &r->json;
    size_t count = recording_stack_count(r->recording);
    for (int column = 0; column < 2; column++) {
        json_key(j, column ? "frame" : "parent");
        json_begin_array(j);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t parent = 0, frame = 0;
            if (i != REC_EMPTY_STACK)
                recording_stack(r->recording, i, &parent, &frame);
            json_uint(j, column ? frame : parent);
        }
        json_end_array(j);
    }
}

static void put_line(struct report *r, size_t track)
{
    struct json *j = &r->json;
    json_begin_array(j);
    for (size_t i = 0; track < r->line_count && i < STEPS; i++) {
        const struct step *s = &r->steps[track * STEPS + i];
        if (!s->seen)
            continue;
        json_uint(j, i);
        json_uint(j, s->stack);
        json_uint(j, (uint64_t)(100.0 * (double)s->seen * STEPS / (double)r->end + 0.5));
    }
    json_end_array(j);
}

static void put_tracks(struct report *r)
{
    struct json *j = &r->json;
    json_begin_array(j);
    for (size_t i = 0; i < r->tracks.count; i++) {
        const struct track *track = &r->tracks.items[i];
        const struct rec_process *process = recording_process(r->recording, track->process);
        json_begin_object(j);
        json_key(j, "thread");
        buf_reset(&r->text);
        words_thread(&r->text, track);
        json_string(j, r->text.data);
        json_key(j, "process");
        buf_reset(&r->text);
        buf_addf(&r->text, "%d ", process->pid);
        words_program(&r->text, process->command);
        json_string(j, r->text.data);
        json_key(j, "line");
        put_line(r, i);
        json_end_object(j);
    }
    json_end_array(j);
}

/* One row after another: track, stack, samples, microseconds. */
static void put_totals(struct report *r)
{
    json_begin_array(&r->json);
    for (size_t i = 0; i < r->count; i++) {
        const struct total *t = &r->totals[i];
        json_uint(&r->json, t->track);
        json_uint(&r->json, t->stack);
        json_uint(&r->json, t->samples);
        json_uint(&r->json, (t->time + 500) / 1000);
    }
    json_end_array(&r->json);
}

/* What a file is called was said by the program that was looked at, and whoever reads the page need not be who may read
 * that file. So: only what is called like source, itself and no link to something else, and no more than so much. */
static bool read_source(const char *path, struct buf *to)
{
    size_t len = strlen(path);
    struct stat st;
    bool source = len > 3 && path[0] == '/' && strcmp(path + len - 3, ".py") == 0;
    int fd = source ? open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;
    bool good = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= SOURCE_MAX;
    buf_reset(to);
    while (good && to->len <= SOURCE_MAX) {
        char piece[8192];
        ssize_t got = read(fd, piece, sizeof(piece));
        if (got <= 0)
            break;
        buf_add(to, piece, (size_t)got);
    }
    if (fd >= 0)
        close(fd);
    return good && !to->failed && to->len <= SOURCE_MAX;
}

static void put_files(struct report *r)
{
    struct json *j = &r->json;
    json_begin_array(j);
    for (uint32_t i = 0; i < r->files.count; i++) {
        const char *path = interner_get(&r->files, i, NULL);
        json_begin_array(j);
        put_clean(r, path);
        bool wanted = !r->options->no_source && r->source_bytes < SOURCES_MAX;
        if (wanted && read_source(path, &r->text)) {
            r->source_bytes += r->text.len;
            json_string_len(j, r->text.data, r->text.len);
        } else {
            json_null(j);
        }
        json_end_array(j);
    }
    json_end_array(j);
}

static void put_facts(struct report *r)
{
    static const char *const units[] = {"samples", "wall", "cpu"};
    const struct rec_info *info = recording_info(r->recording);
    const struct rec_summary *sum = recording_summary(r->recording);
    struct json *j = &r->json;
    json_key(j, "version");
    json_string(j, SCRY_VERSION);
    json_key(j, "program");
    buf_reset(&r->text);
    if (recording_process_count(r->recording))
        words_program(&r->text, recording_process(r->recording, 0)->command);
    json_string(j, r->text.data);
    json_key(j, "host");
    put_clean(r, info->host);
    json_key(j, "start");
    json_double(j, (double)info->start_unix_ns / 1e9);
    json_key(j, "rate");
    json_double(j, info->rate);
    json_key(j, "unit");
    json_string(j, units[words_measure(r->recording)]);
    json_key(j, "seconds");
    json_double(j, (double)(sum->duration > r->end ? sum->duration : r->end) / 1e9);
    json_key(j, "end");
    json_double(j, (double)r->end / 1e9);
    json_key(j, "steps");
    json_uint(j, STEPS);
    const struct {
        const char *name;
        uint64_t value;
    } counts[] = {{"samples", sum->samples}, {"torn", sum->torn},     {"missed", sum->missed},
                  {"late", sum->late},       {"errors", sum->errors}, {"complete", sum->complete}};
    for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
        json_key(j, counts[i].name);
        json_uint(j, counts[i].value);
    }
}

static void put_data(struct report *r)
{
    struct json *j = &r->json;
    json_begin_object(j);
    put_facts(r);
    json_key(j, "frames");
    put_frames(r);
    put_stacks(r);
    json_key(j, "tracks");
    put_tracks(r);
    json_key(j, "totals");
    put_totals(r);
    json_key(j, "files");
    put_files(r);
    json_end_object(j);
}

/* ---- the page ---- */

/* Within a script element nothing may look like its end: < is only in strings, and is written as JSON allows. */
static void put_safely(FILE *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        size_t plain = 0;
        while (i + plain < len && text[i + plain] != '<')
            plain++;
        fwrite(text + i, 1, plain, out);
        i += plain;
        if (i < len) {
            fputs("\\u003c", out);
            i++;
        }
    }
}

static int put_page(struct report *r, FILE *out)
{
    char *data = NULL;
    size_t len = 0;
    FILE *memory = open_memstream(&data, &len);
    if (!memory)
        return -SCRY_E_NO_MEMORY;
    json_init(&r->json, memory, 0);
    put_data(r);
    bool failed = ferror(memory) != 0;
    failed |= fclose(memory) != 0;
    if (!failed && !r->text.failed) {
        fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
              "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
              "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n"
              "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
              "<meta name=\"referrer\" content=\"no-referrer\">\n<title>scry</title>\n<style>\n",
              out);
        fputs(report_css, out);
        fputs("</style>\n</head>\n<body>\n<noscript>This report is drawn by a script, which this "
              "browser does not run.</noscript>\n<script type=\"application/json\" id=\"data\">",
              out);
        put_safely(out, data, len);
        fputs("</script>\n<script>\n", out);
        fputs(report_js, out);
        fputs("</script>\n</body>\n</html>\n", out);
    }
    free(data);
    return failed || r->text.failed ? -SCRY_E_NO_MEMORY : 0;
}

int html_write(struct recording *recording, const struct format_options *options, FILE *out,
               struct error *err)
{
    struct report r = {.recording = recording, .options = options};
    buf_init(&r.text);
    table_init(&r.known);
    interner_init(&r.files);
    int result = read_all(&r, err);
    if (result == 0 && put_page(&r, out) < 0)
        result = error_set(err, -SCRY_E_NO_MEMORY, "out of memory");
    tracks_done(&r.tracks);
    table_done(&r.known);
    interner_done(&r.files);
    free(r.totals);
    free(r.steps);
    buf_done(&r.text);
    return result < 0 ? result : writers_check(out, err);
}
