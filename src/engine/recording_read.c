#include "engine/recording_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>
#include <zstd.h>

#include "util/utf8.h"

/* A stretch of bytes being taken apart. Reading past its end sets `bad` and gives 0, so that a
 * record is checked once, after its last field. */
struct cursor {
    const unsigned char *at, *end;
    bool bad;
};

static uint64_t get(struct cursor *c)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64 && c->at < c->end; shift += 7) {
        unsigned char byte = *c->at++;
        if (shift == 63 && byte > 1)
            break;
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return v;
    }
    c->bad = true;
    return 0;
}

static uint32_t get_u32(struct cursor *c)
{
    uint64_t v = get(c);
    if (v > UINT32_MAX)
        c->bad = true;
    return (uint32_t)v;
}

static int32_t get_i32(struct cursor *c)
{
    int64_t v = wire_unzigzag(get(c));
    if (v < INT32_MIN || v > INT32_MAX)
        c->bad = true;
    return (int32_t)v;
}

/* A number of the file's, as the recording's. */
static uint32_t get_number(struct cursor *c, const struct numbers *numbers)
{
    uint64_t n = get(c);
    if (n < numbers->count)
        return numbers->items[n];
    c->bad = true;
    return 0;
}

static struct cursor get_part(struct cursor *c, uint64_t len)
{
    if (len > (uint64_t)(c->end - c->at)) {
        c->bad = true;
        len = 0;
    }
    struct cursor part = {.at = c->at, .end = c->at + len};
    c->at += len;
    return part;
}

/* ---- blocks ---- */

/* What can come of reading on; negative: an error. */
enum step {
    STEP_OVER,    /* the file ends here, properly or between two blocks */
    STEP_ON,      /* there is more */
    STEP_DAMAGED, /* what follows makes no sense: the end, as far as we can read */
};

/* n bytes, or STEP_OVER if there is none, or STEP_DAMAGED if there are fewer. */
static int read_bytes(struct source *s, void *to, size_t n)
{
    size_t got = fread(to, 1, n, s->file);
    if (got == n)
        return STEP_ON;
    if (ferror(s->file))
        return -SCRY_E_IO;
    return got ? STEP_DAMAGED : STEP_OVER;
}

/* Blocks are mostly far below their limit, so room is made for what comes. */
static bool make_room(struct room *room, size_t need)
{
    if (need <= room->cap)
        return true;
    unsigned char *grown = realloc(room->data, need);
    if (!grown)
        return false;
    room->data = grown;
    room->cap = need;
    return true;
}

static int unpack(struct source *s, unsigned coding, size_t stored, size_t raw)
{
    if (!make_room(&s->raw, raw ? raw : 1))
        return -SCRY_E_NO_MEMORY;
    if (coding == WIRE_STORED) {
        if (stored != raw)
            return STEP_DAMAGED;
        memcpy(s->raw.data, s->stored.data, raw);
    } else if (coding == WIRE_ZSTD) {
        if (!s->zstd && !(s->zstd = ZSTD_createDCtx()))
            return -SCRY_E_NO_MEMORY;
        if (ZSTD_decompressDCtx(s->zstd, s->raw.data, raw, s->stored.data, stored) != raw)
            return STEP_DAMAGED;
    } else {
        return STEP_DAMAGED;
    }
    s->pos = 0;
    s->len = raw;
    return STEP_ON;
}

static int read_block(struct source *s, unsigned char *ret_type)
{
    unsigned char header[WIRE_BLOCK_HEADER];
    int step = read_bytes(s, header, sizeof(header));
    if (step != STEP_ON)
        return step;
    uint32_t stored = wire_get_u32(header + 4), raw = wire_get_u32(header + 8);
    if (stored > raw || raw > WIRE_MAX_BLOCK || header[2] || header[3])
        return STEP_DAMAGED;
    if (!make_room(&s->stored, stored ? stored : 1))
        return -SCRY_E_NO_MEMORY;
    step = stored ? read_bytes(s, s->stored.data, stored) : STEP_ON;
    if (step != STEP_ON)
        return step == STEP_OVER ? STEP_DAMAGED : step;
    uint32_t crc = (uint32_t)crc32(0, header, WIRE_CRC_OFFSET);
    crc = (uint32_t)crc32(crc, s->stored.data, stored);
    if (crc != wire_get_u32(header + WIRE_CRC_OFFSET))
        return STEP_DAMAGED;
    *ret_type = header[0];
    return unpack(s, header[1], stored, raw);
}

static int read_summary(struct source *s)
{
    struct cursor c = {.at = s->raw.data, .end = s->raw.data + s->len};
    struct rec_summary summary = {.complete = true};
    summary.duration = get(&c);
    summary.samples = get(&c);
    summary.torn = get(&c);
    summary.missed = get(&c);
    summary.late = get(&c);
    summary.errors = get(&c);
    summary.own_cpu = get(&c);
    if (c.at < c.end)
        summary.unmerged = get(&c);
    if (c.bad || summary.duration > WIRE_MAX_TIME)
        return STEP_DAMAGED;
    s->summary = summary;
    return STEP_OVER;
}

/* On to the next block of records. */
static int next_data(struct source *s)
{
    for (;;) {
        unsigned char type;
        int step = read_block(s, &type);
        if (step != STEP_ON)
            return step;
        if (type == WIRE_DATA)
            return STEP_ON;
        s->pos = s->len;
        if (type == WIRE_END)
            return read_summary(s);
        if (!(type & WIRE_MAY_SKIP))
            return STEP_DAMAGED;
    }
}

/* ---- records ---- */

/* The limit also holds for a file that defines the same thing over and over. */
static int add_number(struct numbers *numbers, uint32_t number, size_t max)
{
    if (number == UINT32_MAX || numbers->count >= max)
        return -SCRY_E_NO_MEMORY;
    if (numbers->count == numbers->cap) {
        size_t cap = numbers->cap ? numbers->cap * 2 : 64;
        uint32_t *items = realloc(numbers->items, cap * sizeof(*items));
        if (!items)
            return -SCRY_E_NO_MEMORY;
        numbers->items = items;
        numbers->cap = cap;
    }
    numbers->items[numbers->count++] = number;
    return STEP_ON;
}

static int take_string(struct source *s, struct cursor *c)
{
    size_t len = (size_t)(c->end - c->at);
    if (len > WIRE_MAX_STRING || memchr(c->at, 0, len))
        return STEP_DAMAGED;
    return add_number(&s->strings, recording_add_string(s->recording, c->at, len),
                      WIRE_MAX_STRINGS);
}

static int take_process(struct source *s, struct cursor *c)
{
    struct process_numbers process;
    process.pid = get_i32(c);
    process.parent = get_i32(c);
    process.command = get_number(c, &s->strings);
    process.python = get_number(c, &s->strings);
    process.host = s->info.host ? s->info.host : "";
    if (c->bad)
        return STEP_DAMAGED;
    return add_number(&s->processes, recording_add_process(s->recording, &process),
                      WIRE_MAX_PROCESSES);
}

static int take_thread(struct source *s, struct cursor *c)
{
    struct thread_numbers thread;
    thread.process = get_number(c, &s->processes);
    thread.tid = wire_unzigzag(get(c));
    thread.thread_id = get(c);
    thread.name = get_number(c, &s->strings);
    if (c->bad)
        return STEP_DAMAGED;
    if (s->thread_count == s->thread_cap) {
        size_t cap = s->thread_cap ? s->thread_cap * 2 : 64;
        struct source_thread *threads = realloc(s->threads, cap * sizeof(*threads));
        if (!threads)
            return -SCRY_E_NO_MEMORY;
        s->threads = threads;
        s->thread_cap = cap;
    }
    uint32_t number = recording_add_thread(s->recording, &thread);
    if (number == UINT32_MAX)
        return -SCRY_E_NO_MEMORY;
    s->threads[s->thread_count++] = (struct source_thread){.number = number};
    return STEP_ON;
}

static int take_thread_name(struct source *s, struct cursor *c)
{
    uint64_t thread = get(c);
    uint32_t name = get_number(c, &s->strings);
    if (c->bad || thread >= s->thread_count)
        return STEP_DAMAGED;
    recording_name_thread(s->recording, s->threads[thread].number, name);
    return STEP_ON;
}

static int take_frame(struct source *s, struct cursor *c)
{
    struct frame_numbers frame;
    frame.name = get_number(c, &s->strings);
    frame.file = get_number(c, &s->strings);
    frame.short_file = get_number(c, &s->strings);
    frame.line = get_i32(c);
    frame.first_line = get_i32(c);
    frame.module = get_number(c, &s->strings);
    if (c->bad)
        return STEP_DAMAGED;
    return add_number(&s->frames, recording_add_frame(s->recording, &frame), WIRE_MAX_FRAMES);
}

static int take_stack(struct source *s, struct cursor *c)
{
    uint64_t back = get(c);
    uint32_t frame = get_number(c, &s->frames);
    if (c->bad || back == 0 || back > s->stacks.count)
        return STEP_DAMAGED;
    uint32_t parent = s->stacks.items[s->stacks.count - back];
    return add_number(&s->stacks, recording_add_stack(s->recording, parent, frame),
                      WIRE_MAX_STACKS);
}

static int take_definition(struct source *s, unsigned tag, struct cursor *c)
{
    switch (tag) {
    case WIRE_STRING:
        return take_string(s, c);
    case WIRE_PROCESS:
        return take_process(s, c);
    case WIRE_THREAD:
        return take_thread(s, c);
    case WIRE_THREAD_NAME:
        return take_thread_name(s, c);
    case WIRE_FRAME:
        return take_frame(s, c);
    case WIRE_STACK:
        return take_stack(s, c);
    default:
        return tag & WIRE_OPTIONAL ? STEP_ON : STEP_DAMAGED;
    }
}

static int take_sample(struct source *s, unsigned tag, struct cursor *c, struct rec_sample *ret)
{
    uint64_t thread = get(c);
    if (c->bad || thread >= s->thread_count || (tag & ~(unsigned)WIRE_SAMPLE_BITS) != WIRE_SAMPLE)
        return STEP_DAMAGED;
    struct wire_last *last = &s->threads[thread].last;
    scry_nsec time = s->time, step = 0, weight = 0, unit = tag & WIRE_MICROSECONDS ? 1000 : 1;
    if (tag & WIRE_HAS_TIME &&
        (__builtin_mul_overflow(get(c), unit, &step) || __builtin_add_overflow(time, step, &time)))
        return STEP_DAMAGED;
    uint32_t stack = tag & WIRE_HAS_STACK ? get_number(c, &s->stacks) : last->stack;
    if (!(tag & WIRE_HAS_WEIGHT))
        weight = time - last->time;
    else if (__builtin_mul_overflow(get(c), unit, &weight))
        return STEP_DAMAGED;
    uint32_t flags = tag & WIRE_HAS_FLAGS ? get_u32(c) : last->flags;
    if (c->bad || time > WIRE_MAX_TIME || weight > time)
        return STEP_DAMAGED;
    *ret = (struct rec_sample){
        .time = time,
        .weight = weight,
        .thread = s->threads[thread].number,
        .stack = stack,
        .flags = flags,
    };
    *last = (struct wire_last){.time = time, .stack = stack, .flags = flags};
    s->time = time;
    return STEP_ON;
}

/* Definitions up to and with the next sample of this block; STEP_OVER when the block has no more.
 */
static int next_in_block(struct source *s, struct rec_sample *ret)
{
    struct cursor c = {.at = s->raw.data + s->pos, .end = s->raw.data + s->len};
    int step = STEP_OVER;
    while (c.at < c.end) {
        unsigned tag = *c.at++;
        if (tag & WIRE_SAMPLE) {
            step = take_sample(s, tag, &c, ret);
            break;
        }
        struct cursor body = get_part(&c, get(&c));
        if (c.bad) {
            step = STEP_DAMAGED;
            break;
        }
        /* On a second pass everything is known already, and thread names are at their latest. */
        if (s->defined++ < s->known)
            continue;
        step = take_definition(s, tag, &body);
        if (step != STEP_ON)
            break;
        s->known++;
        step = STEP_OVER;
    }
    s->pos = (size_t)(c.at - s->raw.data);
    return step;
}

int source_next(struct source *s, struct rec_sample *ret)
{
    int step = s->failed ? s->failed : s->ended ? STEP_OVER : STEP_ON;
    while (step == STEP_ON) {
        step = next_in_block(s, ret);
        if (step == STEP_ON) {
            s->summary.samples++;
            s->summary.torn += (ret->flags & REC_TORN) != 0;
            s->summary.unmerged += (ret->flags & REC_UNMERGED) != 0;
            s->summary.duration = s->time;
            return 1;
        }
        if (step == STEP_OVER)
            step = next_data(s);
    }
    if (step < 0)
        return s->failed = step;
    s->ended = true;
    if (step == STEP_DAMAGED)
        s->summary.damaged = true;
    return 0;
}

/* ---- beginning and end ---- */

static int bad_file(struct source *s, struct error *err, const char *what, const char *hint)
{
    error_set(err, -SCRY_E_BAD_FILE, "'%s' %s", s->name, what);
    error_hint(err, "%s", hint);
    return -SCRY_E_BAD_FILE;
}

static int read_failed(struct source *s, struct error *err, int why)
{
    error_set(err, -SCRY_E_IO, "cannot read '%s': %s", s->name, strerror(why));
    error_hint(err, "give a recording made with: scry record -f scry");
    return -SCRY_E_IO;
}

static char *get_text(struct cursor *c)
{
    struct cursor part = get_part(c, get(c));
    SCOPED_BUF text;
    buf_init(&text);
    for (; part.at < part.end; part.at++) /* not part of the C string that a NUL would end */
        if (*part.at)
            buf_add_char(&text, (char)*part.at);
    SCOPED_BUF clean;
    buf_init(&clean);
    utf8_clean(&clean, text.data, text.len);
    return text.failed ? NULL : buf_detach(&clean);
}

static int read_info(struct source *s, struct error *err)
{
    unsigned char type = 0;
    int step = read_block(s, &type);
    if (step < 0)
        return read_failed(s, err, errno);
    if (step != STEP_ON || type != WIRE_INFO)
        return bad_file(s, err, "is cut off or damaged before the first sample",
                        "nothing in it can be read; record again");
    struct cursor c = {.at = s->raw.data, .end = s->raw.data + s->len};
    s->info.start_unix_ns = get(&c);
    uint64_t rate = get(&c);
    memcpy(&s->info.rate, &rate, sizeof(rate));
    s->info.options = get_u32(&c);
    s->command = get_text(&c);
    s->host = get_text(&c);
    s->pos = s->len;
    if (!s->command || !s->host)
        return error_set(err, -SCRY_E_NO_MEMORY, "out of memory");
    s->info.command = s->command;
    s->info.host = s->host;
    bool sane_rate = s->info.rate >= 0 && s->info.rate < 1e12;
    if (c.bad || !sane_rate || s->info.start_unix_ns > WIRE_MAX_TIME)
        return bad_file(s, err, "is damaged before the first sample",
                        "nothing in it can be read; record again");
    return 0;
}

static int read_header(struct source *s, struct error *err)
{
    unsigned char header[WIRE_HEADER_SIZE];
    errno = 0;
    int step = read_bytes(s, header, sizeof(header));
    if (step < 0)
        return read_failed(s, err, errno);
    if (step != STEP_ON || memcmp(header, WIRE_MAGIC, WIRE_MAGIC_SIZE) != 0)
        return bad_file(s, err, "is not a scry recording",
                        "give a file made with: scry record -f scry");
    uint32_t version = wire_get_u32(header + WIRE_MAGIC_SIZE);
    if (version != WIRE_VERSION)
        return bad_file(s, err, "is in a format that this scry does not know",
                        "read it with the scry that made it, or a newer one");
    return 0;
}

static int allocate(struct source *s, const char *name)
{
    s->name = strdup(name);
    if (!s->name)
        return -SCRY_E_NO_MEMORY;
    /* String 0 is "", stack 0 is empty, in every file. */
    uint32_t empty = recording_add_string(s->recording, "", 0);
    if (add_number(&s->strings, empty, 1) < 0 || add_number(&s->stacks, REC_EMPTY_STACK, 1) < 0)
        return -SCRY_E_NO_MEMORY;
    return 0;
}

int source_open(struct source *s, struct recording *recording, FILE *file, bool close_file,
                const char *name, struct error *err)
{
    *s = (struct source){.recording = recording, .file = file, .close_file = close_file};
    int r = allocate(s, name);
    if (r < 0)
        error_set(err, r, "out of memory");
    else
        r = read_header(s, err);
    if (r == 0)
        r = read_info(s, err);
    if (r == 0) {
        s->data = ftello(file);
        if (s->data < 0)
            r = read_failed(s, err, errno);
    }
    if (r < 0)
        source_close(s);
    return r;
}

int source_rewind(struct source *s)
{
    clearerr(s->file);
    if (fseeko(s->file, s->data, SEEK_SET) != 0)
        return -SCRY_E_IO;
    s->pos = s->len = 0;
    s->defined = 0;
    s->time = 0;
    s->ended = false;
    s->failed = 0;
    s->summary = (struct rec_summary){0};
    for (size_t i = 0; i < s->thread_count; i++)
        s->threads[i].last = (struct wire_last){0};
    return 0;
}

void source_close(struct source *s)
{
    if (s->close_file && s->file)
        fclose(s->file);
    free(s->name);
    free(s->command);
    free(s->host);
    free(s->strings.items);
    free(s->processes.items);
    free(s->frames.items);
    free(s->stacks.items);
    free(s->threads);
    free(s->raw.data);
    free(s->stored.data);
    ZSTD_freeDCtx(s->zstd);
    *s = (struct source){0};
}
