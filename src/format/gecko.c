/* The format of the Firefox Profiler (its "processed" one, version 48): one thread each with its own
 * tables of strings, functions, frames and stacks, all in columns. A sample's time is the start of
 * the span it stands for, so that charts show spans as they are; a sample without a stack says that
 * the thread was not seen, or ended. Process and thread names are fields of their own, so -t and -s
 * add no frames.
 *
 * A category is a property of a frame, and a thread that waits has its own: so the innermost frame of
 * a waiting thread is another one than that of the same place at work. Python's frames, those of
 * packages and of the standard library and native ones are told apart in the same way.
 *
 * As in a speedscope file each thread's samples stand together: they are sorted once, a few words per
 * sample. */
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

#define PROCESSED_VERSION 48
#define GECKO_VERSION     29 /* of the other format of that program, which goes with it */
#define NO_NUMBER         UINT32_MAX
#define RESOURCE_LIBRARY  1

enum category {
    CATEGORY_OTHER,
    CATEGORY_PYTHON,
    CATEGORY_PACKAGE,
    CATEGORY_STDLIB,
    CATEGORY_NATIVE,
    CATEGORY_IDLE,
    CATEGORY_GC,
};

static const struct {
    const char *name, *color;
} categories[] = {
    [CATEGORY_OTHER] = {"Other", "grey"},
    [CATEGORY_PYTHON] = {"Python", "yellow"},
    [CATEGORY_PACKAGE] = {"Python packages", "green"},
    [CATEGORY_STDLIB] = {"Python standard library", "blue"},
    [CATEGORY_NATIVE] = {"Native", "purple"},
    [CATEGORY_IDLE] = {"Idle", "transparent"},
    [CATEGORY_GC] = {"Garbage collection", "orange"},
};

/* Rows of a thread's tables; each table is an interner, whose texts are these bytes. */
struct function_row {
    uint32_t name, file, resource;
    int32_t line;
};

struct frame_row {
    uint32_t function, category;
    int32_t line;
};

struct stack_row {
    uint32_t prefix, frame;
};

struct entry {
    scry_nsec time, weight;
    uint32_t stack, flags;
};

struct known { /* a stack of the recording in the thread's table */
    uint32_t number, thread;
};

struct gecko {
    struct recording *recording;
    const struct format_options *options;
    struct tracks tracks;
    struct entry *entries; /* by track, then by time */
    size_t *first;         /* track -> its first entry; first[track + 1] ends them */
    struct interner libraries;
    /* of the thread that is being written */
    struct interner strings, functions, frames, stacks, resources;
    uint32_t thread;
    struct known *known; /* by stack of the recording; of this thread if it says so */
    size_t stack_count;
    struct path path;
    struct json json;
    bool failed;
};

/* ---- samples by thread ---- */

static int place_tracks(struct gecko *g)
{
    size_t total = 0;
    g->first = calloc(g->tracks.count + 1, sizeof(*g->first));
    if (!g->first)
        return -SCRY_E_NO_MEMORY;
    for (size_t i = 0; i < g->tracks.count; i++) {
        g->first[i] = total;
        total += g->tracks.items[i].samples;
    }
    g->first[g->tracks.count] = total;
    g->entries = calloc(total + 1, sizeof(*g->entries));
    return g->entries ? 0 : -SCRY_E_NO_MEMORY;
}

static int sort_by_thread(struct gecko *g)
{
    int r = place_tracks(g);
    size_t *next = r < 0 ? NULL : malloc((g->tracks.count + 1) * sizeof(*next));
    if (!next)
        return -SCRY_E_NO_MEMORY;
    memcpy(next, g->first, (g->tracks.count + 1) * sizeof(*next));
    struct rec_sample s;
    while ((r = recording_next(g->recording, &s)) > 0) {
        uint32_t track = tracks_find(&g->tracks, s.thread);
        if (track == NO_TRACK || next[track] == g->first[track + 1])
            continue;
        g->entries[next[track]++] =
            (struct entry){.time = s.time, .weight = s.weight, .stack = s.stack, .flags = s.flags};
    }
    free(next);
    return r;
}

/* ---- a thread's tables ---- */

static uint32_t add_row(struct gecko *g, struct interner *table, const void *row, size_t size)
{
    uint32_t number = interner_add(table, row, size, NULL);
    g->failed |= number == INTERN_FAILED;
    return number;
}

static uint32_t add_string(struct gecko *g, const char *text)
{
    return add_row(g, &g->strings, text, strlen(text));
}

static const void *row_at(const struct interner *table, uint32_t number)
{
    return interner_get(table, number, NULL);
}

static enum category category_of(const struct rec_frame *f)
{
    switch (words_origin(f)) {
    case ORIGIN_USER:
        return CATEGORY_PYTHON;
    case ORIGIN_PACKAGE:
        return CATEGORY_PACKAGE;
    case ORIGIN_STDLIB:
        return CATEGORY_STDLIB;
    case ORIGIN_NATIVE:
        return CATEGORY_NATIVE;
    default:
        return CATEGORY_OTHER;
    }
}

/* The library a native function is in, by its number among all libraries. */
static uint32_t add_resource(struct gecko *g, const struct rec_frame *f)
{
    if (!f->module[0])
        return NO_NUMBER;
    uint32_t library = add_row(g, &g->libraries, f->module, strlen(f->module));
    return add_row(g, &g->resources, &library, sizeof(library));
}

static uint32_t add_frame(struct gecko *g, uint32_t frame, enum category category)
{
    const struct rec_frame *f = recording_frame(g->recording, frame);
    struct function_row function = {
        .name = add_string(g, f->name),
        .file = f->file[0] ? add_string(g, f->file) : NO_NUMBER,
        .resource = add_resource(g, f),
        .line = f->first_line,
    };
    struct frame_row row = {
        .function = add_row(g, &g->functions, &function, sizeof(function)),
        .category = category,
        .line = words_line(f, g->options->lines),
    };
    return add_row(g, &g->frames, &row, sizeof(row));
}

static uint32_t add_stack(struct gecko *g, uint32_t prefix, uint32_t frame, enum category category)
{
    struct stack_row row = {.prefix = prefix, .frame = add_frame(g, frame, category)};
    return add_row(g, &g->stacks, &row, sizeof(row));
}

static bool is_known(const struct gecko *g, uint32_t stack)
{
    return g->known[stack].thread == g->thread;
}

/* The number of a stack in the thread's table; those it hangs on are added first. */
static uint32_t number_of(struct gecko *g, uint32_t stack)
{
    uint32_t parent, frame;
    g->path.count = 0;
    for (; stack != REC_EMPTY_STACK && !is_known(g, stack); stack = parent) {
        if (!path_push(&g->path, stack)) {
            g->failed = true;
            return NO_NUMBER;
        }
        recording_stack(g->recording, stack, &parent, &frame);
    }
    uint32_t number = stack == REC_EMPTY_STACK ? NO_NUMBER : g->known[stack].number;
    while (g->path.count) {
        stack = g->path.items[--g->path.count];
        recording_stack(g->recording, stack, &parent, &frame);
        number = add_stack(g, number, frame, category_of(recording_frame(g->recording, frame)));
        g->known[stack] = (struct known){.number = number, .thread = g->thread};
    }
    return number;
}

/* A thread that waits, or collects garbage, does so in its innermost frame. */
static uint32_t stack_of(struct gecko *g, const struct entry *e)
{
    uint32_t parent, frame;
    if (e->stack == REC_EMPTY_STACK || e->stack >= g->stack_count)
        return NO_NUMBER;
    bool idle = !(e->flags & REC_ACTIVE);
    if (!idle && !(e->flags & REC_GC))
        return number_of(g, e->stack);
    recording_stack(g->recording, e->stack, &parent, &frame);
    return add_stack(g, number_of(g, parent), frame, idle ? CATEGORY_IDLE : CATEGORY_GC);
}

static void forget_thread(struct gecko *g)
{
    struct interner *tables[] = {&g->strings, &g->functions, &g->frames, &g->stacks, &g->resources};
    for (size_t i = 0; i < ARRAY_LEN(tables); i++)
        interner_done(tables[i]);
}

/* ---- columns ---- */

static void begin_column(struct gecko *g, const char *name)
{
    json_key(&g->json, name);
    json_begin_array(&g->json);
}

static void end_column(struct gecko *g)
{
    json_end_array(&g->json);
}

static void put_number(struct gecko *g, uint32_t number)
{
    if (number == NO_NUMBER)
        json_null(&g->json);
    else
        json_uint(&g->json, number);
}

static void put_line(struct gecko *g, int32_t line)
{
    if (line > 0 && g->options->lines != LINES_NONE)
        json_int(&g->json, line);
    else
        json_null(&g->json);
}

enum constant { ALL_NULL, ALL_ZERO, ALL_MINUS_ONE, ALL_FALSE };

/* What a column holds that means nothing here. */
static void put_constant(struct gecko *g, const char *name, enum constant what, size_t count)
{
    begin_column(g, name);
    for (size_t i = 0; i < count; i++) {
        if (what == ALL_NULL)
            json_null(&g->json);
        else if (what == ALL_FALSE)
            json_bool(&g->json, false);
        else
            json_int(&g->json, what == ALL_ZERO ? 0 : -1);
    }
    end_column(g);
}

static void begin_table(struct gecko *g, const char *name, size_t length)
{
    json_key(&g->json, name);
    json_begin_object(&g->json);
    json_key(&g->json, "length");
    json_uint(&g->json, length);
}

static void put_stack_table(struct gecko *g)
{
    const struct interner *t = &g->stacks;
    begin_table(g, "stackTable", t->count);
    begin_column(g, "prefix");
    for (uint32_t i = 0; i < t->count; i++)
        put_number(g, ((const struct stack_row *)row_at(t, i))->prefix);
    end_column(g);
    begin_column(g, "frame");
    for (uint32_t i = 0; i < t->count; i++)
        put_number(g, ((const struct stack_row *)row_at(t, i))->frame);
    end_column(g);
    begin_column(g, "category");
    for (uint32_t i = 0; i < t->count; i++) {
        const struct stack_row *row = row_at(t, i);
        put_number(g, ((const struct frame_row *)row_at(&g->frames, row->frame))->category);
    }
    end_column(g);
    put_constant(g, "subcategory", ALL_ZERO, t->count);
    json_end_object(&g->json);
}

static void put_frame_table(struct gecko *g)
{
    const struct interner *t = &g->frames;
    begin_table(g, "frameTable", t->count);
    begin_column(g, "func");
    for (uint32_t i = 0; i < t->count; i++)
        put_number(g, ((const struct frame_row *)row_at(t, i))->function);
    end_column(g);
    begin_column(g, "line");
    for (uint32_t i = 0; i < t->count; i++)
        put_line(g, ((const struct frame_row *)row_at(t, i))->line);
    end_column(g);
    begin_column(g, "category");
    for (uint32_t i = 0; i < t->count; i++)
        put_number(g, ((const struct frame_row *)row_at(t, i))->category);
    end_column(g);
    put_constant(g, "subcategory", ALL_ZERO, t->count);
    put_constant(g, "address", ALL_MINUS_ONE, t->count);
    put_constant(g, "inlineDepth", ALL_ZERO, t->count);
    put_constant(g, "nativeSymbol", ALL_NULL, t->count);
    put_constant(g, "innerWindowID", ALL_ZERO, t->count);
    put_constant(g, "implementation", ALL_NULL, t->count);
    put_constant(g, "column", ALL_NULL, t->count);
    json_end_object(&g->json);
}

static void put_function_table(struct gecko *g)
{
    const struct interner *t = &g->functions;
    begin_table(g, "funcTable", t->count);
    begin_column(g, "name");
    for (uint32_t i = 0; i < t->count; i++)
        put_number(g, ((const struct function_row *)row_at(t, i))->name);
    end_column(g);
    begin_column(g, "fileName");
    for (uint32_t i = 0; i < t->count; i++)
        put_number(g, ((const struct function_row *)row_at(t, i))->file);
    end_column(g);
    begin_column(g, "lineNumber");
    for (uint32_t i = 0; i < t->count; i++)
        put_line(g, ((const struct function_row *)row_at(t, i))->line);
    end_column(g);
    begin_column(g, "resource"); /* -1 is none */
    for (uint32_t i = 0; i < t->count; i++)
        json_int(&g->json, (int32_t)((const struct function_row *)row_at(t, i))->resource);
    end_column(g);
    put_constant(g, "columnNumber", ALL_NULL, t->count);
    put_constant(g, "isJS", ALL_FALSE, t->count);
    put_constant(g, "relevantForJS", ALL_FALSE, t->count);
    json_end_object(&g->json);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static const char *library_path(const struct gecko *g, uint32_t resource)
{
    uint32_t library;
    memcpy(&library, row_at(&g->resources, resource), sizeof(library));
    return row_at(&g->libraries, library);
}

static void put_resource_table(struct gecko *g)
{
    size_t count = g->resources.count;
    begin_table(g, "resourceTable", count);
    begin_column(g, "lib");
    for (uint32_t i = 0; i < count; i++)
        put_number(g, *(const uint32_t *)row_at(&g->resources, i));
    end_column(g);
    begin_column(g, "name");
    for (uint32_t i = 0; i < count; i++)
        put_number(g, add_string(g, base_name(library_path(g, i))));
    end_column(g);
    put_constant(g, "host", ALL_NULL, count);
    begin_column(g, "type");
    for (uint32_t i = 0; i < count; i++)
        json_int(&g->json, RESOURCE_LIBRARY);
    end_column(g);
    json_end_object(&g->json);
}

static void put_strings(struct gecko *g)
{
    begin_column(g, "stringArray");
    for (uint32_t i = 0; i < g->strings.count; i++) {
        size_t len;
        const char *text = interner_get(&g->strings, i, &len);
        json_string_len(&g->json, text, len);
    }
    end_column(g);
}

static void put_empty_tables(struct gecko *g)
{
    static const char *const markers[] = {"category", "data",      "endTime", "name",
                                          "phase",    "startTime", NULL};
    static const char *const symbols[] = {"address", "functionSize", "libIndex", "name", NULL};
    begin_table(g, "markers", 0);
    for (const char *const *name = markers; *name; name++)
        put_constant(g, *name, ALL_NULL, 0);
    json_end_object(&g->json);
    begin_table(g, "nativeSymbols", 0);
    for (const char *const *name = symbols; *name; name++)
        put_constant(g, *name, ALL_NULL, 0);
    json_end_object(&g->json);
}

/* ---- samples ---- */

static double in_milliseconds(scry_nsec span)
{
    return (double)span / 1e6;
}

enum column { COLUMN_STACK, COLUMN_TIME, COLUMN_WEIGHT };

static void put_value(struct gecko *g, enum column column, const struct entry *e, scry_nsec time,
                      scry_nsec weight)
{
    if (column == COLUMN_STACK)
        put_number(g, e ? stack_of(g, e) : NO_NUMBER);
    else
        json_double(&g->json, in_milliseconds(column == COLUMN_TIME ? time : weight));
}

/* One column of a thread's samples, with those that say that it was not seen. Time on a CPU has no place on
 * the wall clock: there each sample stands where it was taken. Returns how many there are. */
static size_t put_samples_column(struct gecko *g, size_t track, enum column column)
{
    bool cpu = words_measure(g->recording) == MEASURE_CPU;
    struct timeline line = {0};
    size_t count = 0;
    for (size_t i = g->first[track]; i < g->first[track + 1]; i++) {
        const struct entry *e = &g->entries[i];
        struct stretch at = timeline_next(&line, e->time, e->weight);
        if (at.gap && !cpu) {
            put_value(g, column, NULL, at.start - at.gap, at.gap);
            count++;
        }
        put_value(g, column, e, cpu ? e->time : at.start, cpu ? e->weight : at.end - at.start);
        count++;
    }
    put_value(g, column, NULL, line.end, 0);
    return count + 1;
}

static void put_samples(struct gecko *g, size_t track)
{
    struct json *j = &g->json;
    bool equal = words_measure(g->recording) == MEASURE_SAMPLES;
    json_key(j, "samples");
    json_begin_object(j);
    begin_column(g, "stack");
    put_samples_column(g, track, COLUMN_STACK);
    end_column(g);
    begin_column(g, "time");
    size_t count = put_samples_column(g, track, COLUMN_TIME);
    end_column(g);
    json_key(j, "weight");
    if (equal) {
        json_null(j);
    } else {
        json_begin_array(j);
        put_samples_column(g, track, COLUMN_WEIGHT);
        json_end_array(j);
    }
    json_key(j, "weightType");
    json_string(j, equal ? "samples" : "tracing-ms");
    json_key(j, "length");
    json_uint(j, count);
    json_end_object(j);
}

/* ---- threads ---- */

static void put_text(struct gecko *g, const char *key, const struct buf *text)
{
    g->failed |= text->failed;
    json_key(&g->json, key);
    json_string(&g->json, text->failed ? "" : text->data);
}

/* A pid may come back, and recordings of several hosts may be merged: then it is told which one. */
static void put_pid(struct gecko *g, uint32_t process)
{
    int32_t pid = recording_process(g->recording, process)->pid;
    unsigned same = 0;
    for (uint32_t i = 0; i < process; i++)
        same += recording_process(g->recording, i)->pid == pid;
    SCOPED_BUF text;
    buf_init(&text);
    buf_addf(&text, "%d", pid);
    if (same)
        buf_addf(&text, ".%u", same);
    put_text(g, "pid", &text);
}

static void put_process_name(struct gecko *g, const struct rec_process *process)
{
    SCOPED_BUF text;
    buf_init(&text);
    words_program(&text, process->command);
    if (g->options->hosts && process->host && process->host[0])
        buf_addf(&text, " on %s", process->host);
    put_text(g, "processName", &text);
}

static void put_names(struct gecko *g, const struct track *track)
{
    struct json *j = &g->json;
    const struct rec_process *process = recording_process(g->recording, track->process);
    SCOPED_BUF text;
    buf_init(&text);
    words_thread_id(&text, track);
    put_text(g, "tid", &text);
    put_pid(g, track->process);
    put_process_name(g, process);
    json_key(j, "isMainThread");
    json_bool(j, track->tid == process->pid);
    json_key(j, "name");
    json_string(j, track->name[0] ? track->name : "Thread");
    json_key(j, "processType");
    json_string(j, "default");
    json_key(j, "processStartupTime");
    json_int(j, 0);
    json_key(j, "processShutdownTime");
    json_null(j);
    json_key(j, "registerTime");
    json_double(j, in_milliseconds(track->first));
    json_key(j, "unregisterTime");
    json_double(j, in_milliseconds(track->last));
    put_constant(g, "pausedRanges", ALL_NULL, 0);
}

/* The samples fill the tables, which are written after them. */
static void put_thread(struct gecko *g, size_t track)
{
    g->thread = (uint32_t)track + 1;
    json_begin_object(&g->json);
    put_names(g, &g->tracks.items[track]);
    put_samples(g, track);
    put_stack_table(g);
    put_frame_table(g);
    put_function_table(g);
    put_resource_table(g);
    put_empty_tables(g);
    put_strings(g);
    json_end_object(&g->json);
    forget_thread(g);
}

static void put_libraries(struct gecko *g)
{
    struct json *j = &g->json;
    begin_column(g, "libs");
    for (uint32_t i = 0; i < g->libraries.count; i++) {
        const char *path = row_at(&g->libraries, i);
        static const char *const names[] = {"name", "debugName"}, *const paths[] = {"path",
                                                                                    "debugPath"};
        json_begin_object(j);
        for (size_t k = 0; k < ARRAY_LEN(names); k++) {
            json_key(j, names[k]);
            json_string(j, base_name(path));
            json_key(j, paths[k]);
            json_string(j, path);
        }
        json_key(j, "arch");
        json_string(j, "");
        json_key(j, "breakpadId");
        json_string(j, "");
        json_key(j, "codeId");
        json_null(j);
        json_end_object(j);
    }
    end_column(g);
}

/* ---- about the whole ---- */

static void put_categories(struct gecko *g)
{
    struct json *j = &g->json;
    begin_column(g, "categories");
    for (size_t i = 0; i < ARRAY_LEN(categories); i++) {
        json_begin_object(j);
        json_key(j, "name");
        json_string(j, categories[i].name);
        json_key(j, "color");
        json_string(j, categories[i].color);
        begin_column(g, "subcategories");
        json_string(j, "Other");
        end_column(g);
        json_end_object(j);
    }
    end_column(g);
}

static void put_product(struct gecko *g)
{
    const char *title = g->options->title;
    SCOPED_BUF text;
    buf_init(&text);
    if (title && title[0])
        buf_add_str(&text, title);
    else if (g->tracks.count)
        words_program(&text, recording_process(g->recording, g->tracks.items[0].process)->command);
    if (!text.len)
        buf_add_str(&text, "scry profile");
    put_text(g, "product", &text);
}

static void put_times(struct gecko *g)
{
    struct json *j = &g->json;
    const struct rec_info *info = recording_info(g->recording);
    scry_nsec end = 0;
    for (size_t i = 0; i < g->tracks.count; i++)
        if (g->tracks.items[i].last > end)
            end = g->tracks.items[i].last;
    json_key(j, "interval");
    json_double(j, info->rate > 0 ? 1000 / info->rate : 1);
    json_key(j, "startTime");
    json_double(j, in_milliseconds(info->start_unix_ns));
    json_key(j, "profilingStartTime");
    json_int(j, 0);
    json_key(j, "profilingEndTime");
    json_double(j, in_milliseconds(end));
}

static void put_meta(struct gecko *g)
{
    static const struct {
        const char *name;
        bool value;
    } flags[] = {{"debug", false},
                 {"symbolicated", true}, /* there is nothing to be looked up */
                 {"symbolicationNotSupported", true},
                 {"usesOnlyOneStackType", true},
                 {"doesNotUseFrameImplementation", true},
                 {"sourceCodeIsNotOnSearchfox", true},
                 {"keepProfileThreadOrder", true}};
    struct json *j = &g->json;
    json_key(j, "meta");
    json_begin_object(j);
    json_key(j, "version");
    json_int(j, GECKO_VERSION);
    json_key(j, "preprocessedProfileVersion");
    json_int(j, PROCESSED_VERSION);
    put_product(g);
    json_key(j, "importedFrom");
    json_string(j, "scry " SCRY_VERSION);
    put_times(g);
    json_key(j, "processType");
    json_int(j, 0);
    json_key(j, "stackwalk");
    json_int(j, 1);
    for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
        json_key(j, flags[i].name);
        json_bool(j, flags[i].value);
    }
    put_categories(g);
    put_constant(g, "markerSchema", ALL_NULL, 0);
    json_end_object(j);
}

static void put_file(struct gecko *g)
{
    json_begin_object(&g->json);
    put_meta(g);
    begin_column(g, "threads");
    for (size_t i = 0; i < g->tracks.count && !g->failed; i++)
        put_thread(g, i);
    end_column(g);
    put_libraries(g);
    put_constant(g, "pages", ALL_NULL, 0);
    put_constant(g, "counters", ALL_NULL, 0);
    put_constant(g, "profilerOverhead", ALL_NULL, 0);
    json_end_object(&g->json);
    fputc('\n', g->json.out);
}

int gecko_write(struct recording *recording, const struct format_options *options, FILE *out,
                struct error *err)
{
    struct gecko g = {.recording = recording, .options = options};
    json_init(&g.json, out, 0);
    int r = tracks_read(&g.tracks, recording, err);
    if (r < 0)
        goto out;
    r = sort_by_thread(&g);
    g.stack_count = recording_stack_count(recording);
    g.known = calloc(g.stack_count + 1, sizeof(*g.known));
    if (r >= 0 && g.known)
        put_file(&g);
    if (r >= 0 && (g.failed || !g.known))
        r = -SCRY_E_NO_MEMORY;
    r = r < 0 ? error_set(err, r, "the recording could not be converted: %s", error_sentence(r))
              : writers_check(out, err);
out:
    forget_thread(&g);
    interner_done(&g.libraries);
    tracks_done(&g.tracks);
    path_done(&g.path);
    free(g.entries);
    free(g.first);
    free(g.known);
    return r;
}
