/* pprof: a protobuf message, compressed with gzip. Samples with the same stack in the same thread
 * are added up. A message that is written in pieces reads as one whole, so every sample, location
 * and function goes out by itself, and only what is distinct is held in memory. */
#include "format/writers.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "format/path.h"
#include "format/tracks.h"
#include "format/words.h"
#include "profile.pb-c.h"
#include "util/table.h"
#include "version.h"

#define GZIP_WINDOW     (15 + 16) /* the largest, and a gzip header */
#define PROGRAM_MAPPING 1         /* the first one written */

struct sink {
    ProtobufCBuffer base; /* first: protobuf-c hands it back to us */
    z_stream zip;
    FILE *out;
    bool failed;
};

struct tally {
    uint32_t track, stack;
    uint64_t count;
    scry_nsec time;
};

struct pprof {
    struct recording *recording;
    const struct format_options *options;
    struct sink sink;
    struct tracks tracks;
    struct table places; /* (track, stack) -> tally */
    struct tally *tallies;
    size_t count, cap;
    struct interner strings, functions, locations, mappings;
    uint64_t *location_of; /* frame -> location; 0 = not written yet */
    struct path path;
    struct path roots; /* locations of the root frames of `roots_of`, the outermost first */
    uint32_t roots_of; /* track */
    uint64_t *ids;     /* of one sample */
    size_t id_cap;
    bool failed;
};

/* ---- out ---- */

static void squeeze(struct sink *s, int flush)
{
    unsigned char chunk[16384];
    do {
        s->zip.next_out = chunk;
        s->zip.avail_out = sizeof(chunk);
        if (deflate(&s->zip, flush) == Z_STREAM_ERROR)
            s->failed = true;
        fwrite(chunk, 1, sizeof(chunk) - s->zip.avail_out, s->out);
    } while (s->zip.avail_out == 0 && !s->failed);
}

static void sink_append(ProtobufCBuffer *base, size_t length, const uint8_t *data)
{
    struct sink *s = (struct sink *)base;
    s->zip.next_in = (uint8_t *)data;
    s->zip.avail_in = (uInt)length;
    squeeze(s, Z_NO_FLUSH);
}

static int sink_open(struct sink *s, FILE *out)
{
    *s = (struct sink){.base.append = sink_append, .out = out};
    int r = deflateInit2(&s->zip, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 8,
                         Z_DEFAULT_STRATEGY);
    return r == Z_OK ? 0 : -SCRY_E_NO_MEMORY;
}

static void put(struct pprof *p, const Pprof__Profile *piece)
{
    pprof__profile__pack_to_buffer(piece, &p->sink.base);
}

/* ---- tables ---- */

static int64_t string(struct pprof *p, const char *text)
{
    uint32_t number = interner_add(&p->strings, text, strlen(text), NULL);
    p->failed |= number == INTERN_FAILED;
    return number;
}

/* The number, from 1, of a thing known by `parts`; *ret_new if it must be written. */
static uint64_t numbered(struct pprof *p, struct interner *table, const int64_t *parts,
                         size_t count, bool *ret_new)
{
    uint32_t number = interner_add(table, parts, count * sizeof(*parts), ret_new);
    p->failed |= number == INTERN_FAILED;
    return (uint64_t)number + 1;
}

static uint64_t function(struct pprof *p, const char *name, const char *file, int32_t first_line)
{
    Pprof__Function f = PPROF__FUNCTION__INIT;
    /* No system_name: pprof would take it for C++ and strip "<module>" as if it were a template. */
    f.name = string(p, name);
    f.filename = string(p, file);
    f.start_line = first_line;
    bool new;
    f.id = numbered(p, &p->functions, (int64_t[]){f.name, f.filename, first_line}, 3, &new);
    if (new) {
        Pprof__Profile piece = PPROF__PROFILE__INIT;
        piece.n_function = 1;
        piece.function = (Pprof__Function *[]){&f};
        put(p, &piece);
    }
    return f.id;
}

/* Names are known already: says so, or pprof would look for symbols in the files. */
static uint64_t mapping(struct pprof *p, const char *file)
{
    Pprof__Mapping m = PPROF__MAPPING__INIT;
    m.filename = string(p, file);
    m.has_functions = m.has_filenames = m.has_line_numbers = true;
    bool new;
    m.id = numbered(p, &p->mappings, &m.filename, 1, &new);
    if (new) {
        Pprof__Profile piece = PPROF__PROFILE__INIT;
        piece.n_mapping = 1;
        piece.mapping = (Pprof__Mapping *[]){&m};
        put(p, &piece);
    }
    return m.id;
}

static uint64_t location(struct pprof *p, uint64_t function_id, uint64_t mapping_id,
                         int32_t line_number)
{
    Pprof__Line line = PPROF__LINE__INIT;
    Pprof__Location l = PPROF__LOCATION__INIT;
    line.function_id = function_id;
    line.line = line_number;
    l.mapping_id = mapping_id;
    l.n_line = 1;
    l.line = (Pprof__Line *[]){&line};
    bool new;
    int64_t parts[] = {(int64_t)function_id, (int64_t)mapping_id, line_number};
    l.id = numbered(p, &p->locations, parts, 3, &new);
    if (new) {
        Pprof__Profile piece = PPROF__PROFILE__INIT;
        piece.n_location = 1;
        piece.location = (Pprof__Location *[]){&l};
        put(p, &piece);
    }
    return l.id;
}

static uint64_t frame_location(struct pprof *p, uint32_t frame)
{
    if (!p->location_of[frame]) {
        const struct rec_frame *f = recording_frame(p->recording, frame);
        const char *name = f->name[0] ? f->name : "<unknown>";
        p->location_of[frame] = location(p, function(p, name, f->file, f->first_line),
                                         f->module[0] ? mapping(p, f->module) : PROGRAM_MAPPING,
                                         words_line(f, p->options->lines));
    }
    return p->location_of[frame];
}

/* ---- samples ---- */

static struct tally *find_tally(struct pprof *p, uint32_t track, uint32_t stack)
{
    uint64_t key = (uint64_t)track << 32 | stack, at;
    if (table_get(&p->places, key, &at))
        return &p->tallies[at];
    if (p->count == p->cap) {
        size_t cap = p->cap ? p->cap * 2 : 1024;
        struct tally *grown = reallocarray(p->tallies, cap, sizeof(*grown));
        if (!grown)
            return NULL;
        p->tallies = grown;
        p->cap = cap;
    }
    if (!table_put(&p->places, key, p->count))
        return NULL;
    p->tallies[p->count] = (struct tally){.track = track, .stack = stack};
    return &p->tallies[p->count++];
}

static int add_up(struct pprof *p)
{
    struct rec_sample s;
    int more;
    while ((more = recording_next(p->recording, &s)) > 0) {
        uint32_t track = tracks_find(&p->tracks, s.thread);
        if (s.stack == REC_EMPTY_STACK || track == NO_TRACK)
            continue;
        struct tally *t = find_tally(p, track, s.stack);
        if (!t)
            return -SCRY_E_NO_MEMORY;
        t->count++;
        t->time += s.weight;
    }
    return more;
}

static int add_root(void *context, const char *text)
{
    struct pprof *p = context;
    uint64_t id = location(p, function(p, text, "", 0), PROGRAM_MAPPING, 0);
    return path_push(&p->roots, (uint32_t)id) ? 0 : -SCRY_E_NO_MEMORY;
}

static void find_roots(struct pprof *p, uint32_t track)
{
    if (p->roots_of == track)
        return;
    p->roots.count = 0;
    p->roots_of = track;
    p->failed |= words_roots(p->recording, &p->tracks.items[track], p->options, add_root, p) < 0;
}

/* The locations of a stack and its roots, the innermost first. */
static size_t find_ids(struct pprof *p, const struct tally *t)
{
    find_roots(p, t->track);
    p->failed |= !path_read(&p->path, p->recording, t->stack);
    size_t count = 0, need = p->path.count + p->roots.count;
    if (need > p->id_cap) {
        uint64_t *grown = reallocarray(p->ids, need * 2, sizeof(*grown));
        if (!grown) {
            p->failed = true;
            return 0;
        }
        p->ids = grown;
        p->id_cap = need * 2;
    }
    for (size_t i = 0; i < p->path.count; i++)
        p->ids[count++] = frame_location(p, p->path.items[i]);
    for (size_t i = p->roots.count; i-- > 0;)
        p->ids[count++] = p->roots.items[i];
    return count;
}

static void put_sample(struct pprof *p, const struct tally *t)
{
    const struct track *track = &p->tracks.items[t->track];
    Pprof__Label pid = PPROF__LABEL__INIT, tid = PPROF__LABEL__INIT, name = PPROF__LABEL__INIT;
    Pprof__Label *labels[] = {&pid, &tid, &name};
    pid.key = string(p, "pid");
    pid.num = recording_process(p->recording, track->process)->pid;
    tid.key = string(p, "thread id");
    tid.num = track->tid ? track->tid : (int64_t)track->thread_id;
    name.key = string(p, "thread name");
    name.str = string(p, track->name);
    Pprof__Sample s = PPROF__SAMPLE__INIT;
    s.n_location_id = find_ids(p, t);
    s.location_id = p->ids;
    s.n_value = 2;
    s.value = (int64_t[]){(int64_t)t->count, (int64_t)t->time};
    s.n_label = track->name[0] ? 3 : 2;
    s.label = labels;
    Pprof__Profile piece = PPROF__PROFILE__INIT;
    piece.n_sample = 1;
    piece.sample = (Pprof__Sample *[]){&s};
    put(p, &piece);
}

/* ---- the whole ---- */

static void put_kinds(struct pprof *p)
{
    const struct rec_info *info = recording_info(p->recording);
    Pprof__ValueType samples = PPROF__VALUE_TYPE__INIT, wall = PPROF__VALUE_TYPE__INIT;
    samples.type = string(p, "samples");
    samples.unit = string(p, "count");
    wall.type = string(p, words_measure(p->recording) == MEASURE_CPU ? "cpu" : "wall");
    wall.unit = string(p, "nanoseconds");
    int64_t comment = string(p, "Recorded by scry " SCRY_VERSION);
    Pprof__Profile piece = PPROF__PROFILE__INIT;
    piece.n_sample_type = 2;
    piece.sample_type = (Pprof__ValueType *[]){&samples, &wall};
    piece.time_nanos = (int64_t)info->start_unix_ns;
    piece.duration_nanos = (int64_t)recording_summary(p->recording)->duration;
    piece.period_type = &wall;
    piece.period = info->rate > 0 ? (int64_t)((double)SCRY_NSEC_PER_SEC / info->rate) : 0;
    piece.n_comment = 1;
    piece.comment = &comment;
    piece.default_sample_type = wall.type;
    put(p, &piece);
}

/* The first mapping is what pprof calls the profile by. */
static void put_program(struct pprof *p)
{
    SCOPED_BUF program;
    buf_init(&program);
    if (recording_process_count(p->recording))
        words_program(&program, recording_process(p->recording, 0)->command);
    mapping(p, program.data);
}

static void put_strings(struct pprof *p)
{
    for (uint32_t i = 0; i < p->strings.count; i++) {
        char *text = (char *)interner_get(&p->strings, i, NULL);
        Pprof__Profile piece = PPROF__PROFILE__INIT;
        piece.n_string_table = 1;
        piece.string_table = &text;
        put(p, &piece);
    }
}

static int put_profile(struct pprof *p)
{
    int r = add_up(p);
    if (r < 0)
        return r;
    p->location_of = calloc(recording_frame_count(p->recording) + 1, sizeof(*p->location_of));
    if (!p->location_of)
        return -SCRY_E_NO_MEMORY;
    string(p, ""); /* the format wants it first */
    put_kinds(p);
    put_program(p);
    for (size_t i = 0; i < p->count && !p->failed; i++)
        put_sample(p, &p->tallies[i]);
    put_strings(p);
    squeeze(&p->sink, Z_FINISH);
    return p->failed || p->sink.failed ? -SCRY_E_NO_MEMORY : 0;
}

int pprof_write(struct recording *recording, const struct format_options *options, FILE *out,
                struct error *err)
{
    struct pprof p = {.recording = recording, .options = options, .roots_of = UINT32_MAX};
    int r = tracks_read(&p.tracks, recording, err);
    if (r < 0)
        return r;
    r = sink_open(&p.sink, out);
    if (r >= 0) {
        r = put_profile(&p);
        deflateEnd(&p.sink.zip);
    }
    tracks_done(&p.tracks);
    table_done(&p.places);
    free(p.tallies);
    interner_done(&p.strings);
    interner_done(&p.functions);
    interner_done(&p.locations);
    interner_done(&p.mappings);
    free(p.location_of);
    path_done(&p.path);
    path_done(&p.roots);
    free(p.ids);
    return r < 0 ? error_set(err, r, "the recording could not be converted: %s", error_sentence(r))
                 : writers_check(out, err);
}
