/* A recording as docs/format.md describes it. Each time a thread's stack changes, the stack that it had until then
 * becomes a sample that stands for exactly the time it was there; so a recording of a trace is exact where that of
 * a sampler is an estimate. */
#include "write.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BLOCK_FULL  60000u
#define STACKS_MAX  (1u << 24)
#define FRAMES_MAX  (1u << 22)
#define STRINGS_MAX (1u << 22)

enum {
    TAG_STRING = 1,
    TAG_PROCESS = 2,
    TAG_THREAD = 3,
    TAG_FRAME = 5,
    TAG_STACK = 6,
    TAG_SAMPLE = 0x80,
    HAS_TIME = 1,
    HAS_STACK = 2,
    HAS_WEIGHT = 4,
    HAS_FLAGS = 8,
    SAMPLE_ACTIVE = 1,
    OPTION_IDLE = 1,
    OPTION_SUBPROCESSES = 8,
    OPTION_VARIED = 32, /* samples stand for different spans of time */
};

struct scry_writer {
    struct writer writer;
    struct out *out;
    struct bytes block, body;
    uint64_t time; /* of the last sample */
    uint64_t samples;
    uint32_t strings, frames, stacks; /* defined so far; strings and stacks count from 1 */
    struct stack {
        uint32_t parent, frame;
    } * table;
    uint32_t table_cap;
    uint32_t *buckets;
    uint32_t bucket_mask;
};

struct image_frames { /* of an image: a name's number -> its frame + 1 */
    uint32_t count;
    uint32_t frames[];
};

struct thread_state {
    uint64_t since; /* the stack has been this since then */
    uint64_t last;  /* time of its last sample */
    uint32_t stack, last_stack, last_flags;
    bool begun;
};

/* ---- blocks ---- */

static uint32_t crc32_of(uint32_t crc, const void *data, size_t bytes)
{
    static uint32_t table[256];
    if (!table[1])
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t c = i;
            for (int k = 0; k < 8; k++)
                c = c & 1 ? 0xedb88320u ^ c >> 1 : c >> 1;
            table[i] = c;
        }
    crc = ~crc;
    for (const unsigned char *p = data; bytes--; p++)
        crc = table[(crc ^ *p) & 255] ^ crc >> 8;
    return ~crc;
}

static bool put_block(struct scry_writer *w, char type)
{
    struct bytes *b = &w->block;
    uint32_t head[4] = {(unsigned char)type, (uint32_t)b->used, (uint32_t)b->used, 0};
    head[3] = crc32_of(crc32_of(0, head, 12), b->data, b->used);
    bool ok =
        !b->failed && out_put(w->out, head, sizeof(head)) && out_put(w->out, b->data, b->used);
    b->used = 0;
    return ok;
}

static bool settle(struct scry_writer *w)
{
    return w->block.used < BLOCK_FULL || put_block(w, 'D');
}

static void put_number(struct bytes *b, uint64_t value)
{
    char *to = bytes_room(b, 12);
    if (to)
        b->used += (size_t)(put_varint(to, value) - to);
}

static uint64_t zigzag(int64_t v)
{
    return (uint64_t)v << 1 ^ (uint64_t)(v >> 63);
}

/* The body that was put together, as a definition. */
static bool define(struct scry_writer *w, unsigned tag)
{
    char head = (char)tag;
    bytes_put(&w->block, &head, 1);
    put_number(&w->block, w->body.used);
    bytes_put(&w->block, w->body.data, w->body.used);
    w->block.failed |= w->body.failed;
    w->body.used = 0;
    return settle(w);
}

static uint32_t define_string(struct scry_writer *w, struct text text)
{
    if (!text.bytes || w->strings >= STRINGS_MAX)
        return 0;
    bytes_put_utf8(&w->body, text);
    if (w->body.used > 65535)
        w->body.used = 65535;
    return define(w, TAG_STRING) ? ++w->strings : 0;
}

/* ---- processes, threads, frames, stacks ---- */

static bool on_image(struct writer *base, struct read_image *image)
{
    struct scry_writer *w = (struct scry_writer *)base;
    struct image_frames *f = calloc(1, sizeof(*f) + (image->name_count + 1) * sizeof(f->frames[0]));
    if (!f)
        return false;
    f->count = image->name_count;
    image->writer = f;
    char version[32];
    int n = snprintf(version, sizeof(version), "%u.%u.%u", image->python >> 24,
                     image->python >> 16 & 255, image->python >> 8 & 255);
    uint32_t command = define_string(w, image->command);
    uint32_t python = define_string(w, (struct text){version, (size_t)n});
    put_number(&w->body, zigzag(image->pid));
    put_number(&w->body, zigzag(image->parent));
    put_number(&w->body, command);
    put_number(&w->body, python);
    return define(w, TAG_PROCESS);
}

/* Every track gets a thread, so that the numbers agree; only those of threads are used. */
static bool on_track(struct writer *base, struct track *t)
{
    struct scry_writer *w = (struct scry_writer *)base;
    t->writer = calloc(1, sizeof(struct thread_state));
    if (!t->writer)
        return false;
    uint32_t name = define_string(w, t->name);
    put_number(&w->body, t->image->index);
    put_number(&w->body, zigzag(t->kind == TRACK_THREAD ? (int64_t)t->tid : 0));
    put_number(&w->body, t->kind == TRACK_THREAD ? t->ident : t->index);
    put_number(&w->body, name);
    return define(w, TAG_THREAD);
}

static struct text short_file(struct text file)
{
    size_t at = file.bytes;
    while (at > 0 && file.at[at - 1] != '/')
        at--;
    return (struct text){file.at + at, file.bytes - at};
}

static uint32_t frame_of(struct scry_writer *w, const struct call *c)
{
    const struct read_image *image = c->track->image;
    struct image_frames *f = image->writer;
    uint32_t number = c->number < f->count ? c->number : 0;
    if (f->frames[number] || w->frames >= FRAMES_MAX)
        return f->frames[number] ? f->frames[number] - 1 : 0;
    static const struct read_name unknown = {{"?", 1}, {NULL, 0}, 0};
    const struct read_name *n =
        number && image->names[number].name.bytes ? &image->names[number] : &unknown;
    uint32_t name = define_string(w, n->name);
    uint32_t file = define_string(w, n->file);
    uint32_t shorter = define_string(w, short_file(n->file));
    put_number(&w->body, name);
    put_number(&w->body, file);
    put_number(&w->body, shorter);
    put_number(&w->body, zigzag(n->line));
    put_number(&w->body, zigzag(n->line));
    put_number(&w->body, 0);
    if (!define(w, TAG_FRAME))
        return 0;
    f->frames[number] = ++w->frames;
    return w->frames - 1;
}

static uint32_t hash_of(uint32_t parent, uint32_t frame)
{
    uint64_t h = ((uint64_t)parent << 32 | frame) * 0x9e3779b97f4a7c15ull;
    return (uint32_t)(h >> 32);
}

static bool grow_stacks(struct scry_writer *w)
{
    if (w->stacks + 1 >= w->table_cap) {
        uint32_t cap = w->table_cap ? w->table_cap * 2 : 1024;
        struct stack *grown = realloc(w->table, cap * sizeof(*grown));
        if (!grown)
            return false;
        w->table = grown;
        w->table_cap = cap;
    }
    if (w->bucket_mask && w->stacks < w->bucket_mask / 2)
        return true;
    uint32_t size = w->bucket_mask ? (w->bucket_mask + 1) * 2 : 4096;
    uint32_t *fresh = calloc(size, sizeof(*fresh));
    if (!fresh)
        return false;
    for (uint32_t n = 1; n <= w->stacks; n++) {
        uint32_t at = hash_of(w->table[n].parent, w->table[n].frame) & (size - 1);
        while (fresh[at])
            at = (at + 1) & (size - 1);
        fresh[at] = n;
    }
    free(w->buckets);
    w->buckets = fresh;
    w->bucket_mask = size - 1;
    return true;
}

/* The stack `parent` with `frame` on top; UINT32_MAX: no memory. Beyond the limit it is the parent. */
static uint32_t stack_of(struct scry_writer *w, uint32_t parent, uint32_t frame)
{
    if (!grow_stacks(w))
        return UINT32_MAX;
    uint32_t at = hash_of(parent, frame) & w->bucket_mask;
    for (; w->buckets[at]; at = (at + 1) & w->bucket_mask) {
        const struct stack *s = &w->table[w->buckets[at]];
        if (s->parent == parent && s->frame == frame)
            return w->buckets[at];
    }
    if (w->stacks >= STACKS_MAX - 1)
        return parent;
    uint32_t number = ++w->stacks;
    w->table[number] = (struct stack){parent, frame};
    w->buckets[at] = number;
    put_number(&w->body, number - parent);
    put_number(&w->body, frame);
    return define(w, TAG_STACK) ? number : UINT32_MAX;
}

/* ---- samples ---- */

static bool put_sample(struct scry_writer *w, uint32_t thread, struct thread_state *t,
                       uint64_t time)
{
    if (time < w->time)
        time = w->time;
    uint64_t weight = time > t->since ? time - t->since : 0;
    if (!weight)
        return true;
    unsigned has = (time != w->time ? HAS_TIME : 0u) |
                   (t->stack != t->last_stack ? HAS_STACK : 0u) |
                   (weight != time - t->last ? HAS_WEIGHT : 0u) |
                   (t->last_flags != SAMPLE_ACTIVE ? HAS_FLAGS : 0u);
    char *start = bytes_room(&w->block, 64);
    if (!start)
        return false;
    char *at = start;
    *at++ = (char)(TAG_SAMPLE | has);
    at = put_varint(at, thread);
    if (has & HAS_TIME)
        at = put_varint(at, time - w->time);
    if (has & HAS_STACK)
        at = put_varint(at, t->stack);
    if (has & HAS_WEIGHT)
        at = put_varint(at, weight);
    if (has & HAS_FLAGS)
        at = put_varint(at, SAMPLE_ACTIVE);
    w->block.used += (size_t)(at - start);
    w->time = t->last = t->since = time;
    t->last_stack = t->stack;
    t->last_flags = SAMPLE_ACTIVE;
    w->samples++;
    return settle(w);
}

static bool on_begin(struct writer *base, const struct track *thread, const struct call *c)
{
    struct scry_writer *w = (struct scry_writer *)base;
    struct thread_state *t = thread->writer;
    if (c->kind == WORD_TASK)
        return true;
    if (t->stack && !put_sample(w, thread->index, t, c->start))
        return false;
    if (!t->stack)
        t->since = c->start > w->time ? c->start : w->time;
    t->stack = stack_of(w, t->stack, frame_of(w, c));
    return t->stack != UINT32_MAX;
}

static bool on_end(struct writer *base, const struct track *thread, const struct call *c,
                   uint64_t time, const struct ending *e)
{
    (void)e;
    struct scry_writer *w = (struct scry_writer *)base;
    struct thread_state *t = thread->writer;
    if (c->kind == WORD_TASK || !t->stack)
        return true;
    bool ok = put_sample(w, thread->index, t, time);
    if (w->table[t->stack].frame == frame_of(w, c)) /* else it was beyond the limit */
        t->stack = w->table[t->stack].parent;
    return ok;
}

static bool on_instant(struct writer *base, const struct track *t, uint64_t time, struct text name,
                       struct text json)
{
    (void)base, (void)t, (void)time, (void)name, (void)json; /* a recording has stacks only */
    return true;
}

static bool on_counter(struct writer *base, const struct track *t, uint64_t time, struct text json)
{
    (void)base, (void)t, (void)time, (void)json;
    return true;
}

static bool on_span(struct writer *base, const struct track *t, uint64_t start, uint64_t end,
                    struct text name, struct text json)
{
    (void)base, (void)t, (void)start, (void)end, (void)name, (void)json;
    return true;
}

/* ---- the file ---- */

static void put_text(struct bytes *b, const char *text)
{
    put_number(b, strlen(text));
    bytes_put(b, text, strlen(text));
}

static struct writer *scry_new(struct out *out, const struct reading *reading)
{
    struct scry_writer *w = calloc(1, sizeof(*w));
    if (!w)
        return NULL;
    w->out = out;
    w->writer = (struct writer){
        .begin = on_begin,
        .end = on_end,
        .instant = on_instant,
        .counter = on_counter,
        .span = on_span,
        .track = on_track,
        .image = on_image,
    };
    char host[256] = "";
    gethostname(host, sizeof(host) - 1);
    put_number(&w->block, reading_wall(reading));
    put_number(&w->block, 0); /* samples per second: none, it is exact */
    put_number(&w->block, OPTION_IDLE | OPTION_VARIED |
                              (reading_images(reading) > 1 ? OPTION_SUBPROCESSES : 0u));
    put_text(&w->block, "scry trace");
    put_text(&w->block, host);
    if (out_put(out, "\x89SCRY\r\n\x1a\1\0\0\0", 12) && put_block(w, 'I'))
        return &w->writer;
    free(w->block.data);
    free(w);
    return NULL;
}

static bool scry_finish(struct writer *base, const struct read_result *result)
{
    struct scry_writer *w = (struct scry_writer *)base;
    if (w->block.used && !put_block(w, 'D'))
        return false;
    put_number(&w->block, result->duration > w->time ? result->duration : w->time);
    put_number(&w->block, w->samples);
    put_number(&w->block, 0);
    put_number(&w->block, result->dropped);
    for (int i = 0; i < 3; i++)
        put_number(&w->block, 0);
    return put_block(w, 'E');
}

static void scry_free(struct writer *base)
{
    struct scry_writer *w = (struct scry_writer *)base;
    if (!w)
        return;
    free(w->block.data);
    free(w->body.data);
    free(w->table);
    free(w->buckets);
    free(w);
}

const struct output output_scry = {"scry", scry_new, scry_finish, scry_free};
