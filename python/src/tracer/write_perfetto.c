/* Perfetto's protobuf. Every track is a packet sequence of its own: with its track as the default, names interned,
 * and an incremental clock, so that an event is a dozen bytes. The field numbers are Perfetto's
 * protos/perfetto/trace/trace_packet.proto and those it includes. */
#include "write.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    TRACE_PACKET = 1,

    PACKET_CLOCK_SNAPSHOT = 6,
    PACKET_TIMESTAMP = 8,
    PACKET_SEQUENCE_ID = 10,
    PACKET_TRACK_EVENT = 11,
    PACKET_INTERNED_DATA = 12,
    PACKET_SEQUENCE_FLAGS = 13,
    PACKET_CLOCK_ID = 58,
    PACKET_DEFAULTS = 59,
    PACKET_TRACK_DESCRIPTOR = 60,

    SNAPSHOT_CLOCKS = 1,
    CLOCK_ID = 1,
    CLOCK_TIMESTAMP = 2,
    CLOCK_IS_INCREMENTAL = 3,

    DEFAULTS_TRACK_EVENT = 11,
    DEFAULTS_CLOCK_ID = 58,
    EVENT_DEFAULTS_TRACK = 11,

    INTERNED_EVENT_NAMES = 2,
    NAME_IID = 1,
    NAME_NAME = 2,

    EVENT_ANNOTATIONS = 4,
    EVENT_TYPE = 9,
    EVENT_NAME_IID = 10,
    EVENT_TRACK = 11,
    EVENT_NAME = 23,
    EVENT_DOUBLE_VALUE = 44,
    TYPE_BEGIN = 1,
    TYPE_END = 2,
    TYPE_INSTANT = 3,
    TYPE_COUNTER = 4,

    ANNOTATION_STRING = 6,
    ANNOTATION_JSON = 9,
    ANNOTATION_NAME = 10,
    ANNOTATION_BOOL = 2,

    TRACK_UUID = 1,
    TRACK_NAME = 2,
    TRACK_PROCESS = 3,
    TRACK_THREAD_FIELD = 4,
    TRACK_PARENT = 5,
    TRACK_COUNTER_FIELD = 8,
    PROCESS_PID = 1,
    PROCESS_NAME = 6,
    THREAD_PID = 1,
    THREAD_TID = 2,
    THREAD_NAME = 5,

    ID_BOOTTIME = 6,
    ID_OWN = 64, /* the first that belongs to a sequence */
    FLAG_CLEARED = 1,
};

struct span {
    const struct track *track;
    uint64_t start, end;
    char *name; /* freed; the JSON behind it */
    size_t name_bytes, json_bytes;
};

struct perfetto_writer {
    struct writer writer;
    struct out *out;
    struct bytes packet, part, deep;
    struct span *spans;
    size_t span_count, span_cap;
    uint32_t tracks; /* sequences so far */
};

struct sequence { /* of a track */
    uint64_t last;
    uint64_t uuid;
    uint32_t id;
    uint32_t head_bytes; /* the field that says the sequence's id */
    char head[8];
    uint32_t name_count;
    unsigned char *known; /* a bit per name: it has been defined here */
};

/* ---- protobuf ---- */

static void put_number(struct bytes *b, unsigned field, uint64_t value)
{
    char *to = bytes_room(b, 24);
    if (to)
        b->used += (size_t)(put_varint(put_varint(to, (uint64_t)field << 3), value) - to);
}

static void put_bytes(struct bytes *b, unsigned field, const void *data, size_t count)
{
    char *to = bytes_room(b, 24);
    if (to)
        b->used += (size_t)(put_varint(put_varint(to, (uint64_t)field << 3 | 2), count) - to);
    bytes_put(b, data, count);
}

static void put_message(struct bytes *b, unsigned field, struct bytes *message)
{
    put_bytes(b, field, message->data, message->used);
    b->failed |= message->failed;
    message->used = 0;
}

static void put_text(struct bytes *b, unsigned field, struct text text)
{
    struct bytes clean = {0};
    bytes_put_utf8(&clean, text);
    put_message(b, field, &clean);
    free(clean.data);
}

static void put_double(struct bytes *b, unsigned field, double value)
{
    char *to = bytes_room(b, 24);
    if (!to)
        return;
    char *at = put_varint(to, (uint64_t)field << 3 | 1);
    memcpy(at, &value, sizeof(value));
    b->used += (size_t)(at + sizeof(value) - to);
}

/* The packet that was put together; larger than the output's buffer only with absurd names. */
static bool put_packet(struct perfetto_writer *w)
{
    struct bytes *p = &w->packet;
    char head[12];
    head[0] = TRACE_PACKET << 3 | 2;
    size_t n = (size_t)(put_varint(head + 1, p->used) - head);
    bool ok = !p->failed && p->used < OUT_SIZE / 2 && out_put(w->out, head, n) &&
              out_put(w->out, p->data, p->used);
    p->used = 0;
    return ok;
}

/* ---- tracks ---- */

/* Not by chance equal to that of another file, so that files can be put together. */
static uint64_t uuid_of(const struct read_image *image, uint32_t number)
{
    uint64_t h = ((uint64_t)(uint32_t)image->pid << 32 | number) ^ image->wall_ns;
    h ^= h >> 31;
    h *= 0x9e3779b97f4a7c15ull;
    h ^= h >> 29;
    return h ? h : 1;
}

static bool on_image(struct writer *base, struct read_image *image)
{
    struct perfetto_writer *w = (struct perfetto_writer *)base;
    put_number(&w->deep, PROCESS_PID, (uint64_t)(uint32_t)image->pid);
    put_text(&w->deep, PROCESS_NAME, image->command);
    put_number(&w->part, TRACK_UUID, uuid_of(image, 0));
    put_message(&w->part, TRACK_PROCESS, &w->deep);
    put_message(&w->packet, PACKET_TRACK_DESCRIPTOR, &w->part);
    return put_packet(w);
}

static void put_descriptor(struct perfetto_writer *w, const struct track *t, uint64_t uuid)
{
    put_number(&w->part, TRACK_UUID, uuid);
    if (t->kind == TRACK_THREAD) {
        put_number(&w->deep, THREAD_PID, (uint64_t)(uint32_t)t->image->pid);
        put_number(&w->deep, THREAD_TID, t->tid ? t->tid : t->index + 1);
        if (t->name.bytes)
            put_text(&w->deep, THREAD_NAME, t->name);
        put_message(&w->part, TRACK_THREAD_FIELD, &w->deep);
    } else {
        struct bytes name = {0};
        bytes_put_utf8(&name, t->name);
        if (t->kind == TRACK_SPANS)
            bytes_put(&name, " (events)", 9);
        put_message(&w->part, TRACK_NAME, &name);
        free(name.data);
        if (t->kind == TRACK_COUNTER)
            put_bytes(&w->part, TRACK_COUNTER_FIELD, "", 0);
    }
    put_number(&w->part, TRACK_PARENT, uuid_of(t->image, 0));
    put_message(&w->packet, PACKET_TRACK_DESCRIPTOR, &w->part);
}

/* A clock of the sequence's own, which begins where the trace does. */
static void put_clock(struct perfetto_writer *w, uint64_t time)
{
    put_number(&w->deep, CLOCK_ID, ID_OWN);
    put_number(&w->deep, CLOCK_TIMESTAMP, time);
    put_number(&w->deep, CLOCK_IS_INCREMENTAL, 1);
    put_message(&w->part, SNAPSHOT_CLOCKS, &w->deep);
    put_number(&w->deep, CLOCK_ID, ID_BOOTTIME);
    put_number(&w->deep, CLOCK_TIMESTAMP, time);
    put_message(&w->part, SNAPSHOT_CLOCKS, &w->deep);
    put_message(&w->packet, PACKET_CLOCK_SNAPSHOT, &w->part);
}

static void put_defaults(struct perfetto_writer *w, uint64_t uuid)
{
    put_number(&w->part, DEFAULTS_CLOCK_ID, ID_OWN);
    put_number(&w->deep, EVENT_DEFAULTS_TRACK, uuid);
    put_message(&w->part, DEFAULTS_TRACK_EVENT, &w->deep);
    put_message(&w->packet, PACKET_DEFAULTS, &w->part);
}

static bool on_track(struct writer *base, struct track *t)
{
    struct perfetto_writer *w = (struct perfetto_writer *)base;
    uint32_t names = t->kind == TRACK_THREAD || t->kind == TRACK_TASK ? t->image->name_count : 0;
    struct sequence *s = calloc(1, sizeof(*s) + names / 8 + 1);
    if (!s)
        return false;
    t->writer = s;
    s->known = (unsigned char *)(s + 1);
    s->name_count = names;
    s->id = ++w->tracks;
    s->uuid = uuid_of(t->image, t->index + 1);
    s->head[0] = PACKET_SEQUENCE_ID << 3;
    s->head_bytes = (uint32_t)(put_varint(s->head + 1, s->id) - s->head);
    put_descriptor(w, t, s->uuid);
    if (!put_packet(w))
        return false;
    put_clock(w, 0);
    put_number(&w->packet, PACKET_SEQUENCE_ID, s->id);
    put_number(&w->packet, PACKET_SEQUENCE_FLAGS, FLAG_CLEARED);
    put_defaults(w, s->uuid);
    return put_packet(w);
}

/* ---- events ---- */

/* {timestamp, sequence} of the packet that is being put together. */
static void put_when(struct perfetto_writer *w, struct sequence *s, uint64_t time)
{
    put_number(&w->packet, PACKET_TIMESTAMP, time > s->last ? time - s->last : 0);
    bytes_put(&w->packet, s->head, s->head_bytes);
    if (time > s->last)
        s->last = time;
}

/* The usual event, of which nothing is longer than a few bytes, without the detour over buffers. */
static bool put_short(struct perfetto_writer *w, struct sequence *s, uint64_t time, unsigned type,
                      uint32_t iid)
{
    char *start = out_room(w->out, 48);
    if (!start)
        return false;
    char *at = start + 2;
    *at++ = PACKET_TIMESTAMP << 3;
    at = put_varint(at, time > s->last ? time - s->last : 0);
    if (time > s->last)
        s->last = time;
    memcpy(at, s->head, s->head_bytes);
    at += s->head_bytes;
    *at++ = PACKET_TRACK_EVENT << 3 | 2;
    char *length = at++;
    *at++ = EVENT_TYPE << 3;
    *at++ = (char)type;
    if (iid) {
        *at++ = EVENT_NAME_IID << 3;
        at = put_varint(at, iid);
    }
    *length = (char)(at - length - 1);
    start[0] = TRACE_PACKET << 3 | 2;
    start[1] = (char)(at - start - 2); /* below 48: one byte is enough */
    w->out->used += (size_t)(at - start);
    return true;
}

static bool define_name(struct perfetto_writer *w, struct sequence *s, const struct call *c)
{
    struct bytes name = {0};
    bytes_put_name(&name, c->track->image, c, false);
    put_number(&w->deep, NAME_IID, c->number + 1);
    put_message(&w->deep, NAME_NAME, &name);
    free(name.data);
    put_message(&w->part, INTERNED_EVENT_NAMES, &w->deep);
    put_message(&w->packet, PACKET_INTERNED_DATA, &w->part);
    put_number(&w->packet, PACKET_SEQUENCE_ID, s->id);
    s->known[c->number / 8] |= (unsigned char)(1u << c->number % 8);
    return put_packet(w);
}

static void put_annotation(struct bytes *event, struct bytes *deep, const char *name,
                           unsigned field, struct text value)
{
    put_bytes(deep, ANNOTATION_NAME, name, strlen(name));
    put_text(deep, field, value);
    put_message(event, EVENT_ANNOTATIONS, deep);
}

static bool on_begin(struct writer *base, const struct track *thread, const struct call *c)
{
    (void)thread;
    struct perfetto_writer *w = (struct perfetto_writer *)base;
    struct sequence *s = c->track->writer;
    bool interned = c->kind != WORD_TASK && c->number < s->name_count;
    if (interned && !(s->known[c->number / 8] & 1u << c->number % 8) && !define_name(w, s, c))
        return false;
    if (interned && !c->args.bytes)
        return put_short(w, s, c->start, TYPE_BEGIN, c->number + 1);
    put_when(w, s, c->start);
    put_number(&w->part, EVENT_TYPE, TYPE_BEGIN);
    if (interned) {
        put_number(&w->part, EVENT_NAME_IID, c->number + 1);
    } else {
        struct bytes name = {0};
        bytes_put_name(&name, c->track->image, c, false);
        put_message(&w->part, EVENT_NAME, &name);
        free(name.data);
    }
    if (c->args.bytes)
        put_annotation(&w->part, &w->deep, "args", ANNOTATION_JSON, c->args);
    put_message(&w->packet, PACKET_TRACK_EVENT, &w->part);
    return put_packet(w);
}

static bool on_end(struct writer *base, const struct track *thread, const struct call *c,
                   uint64_t time, const struct ending *e)
{
    (void)thread;
    struct perfetto_writer *w = (struct perfetto_writer *)base;
    struct sequence *s = c->track->writer;
    if (!e->result.bytes && !e->exception.bytes && e->kind != WORD_END_RAISE && e->kind)
        return put_short(w, s, time, TYPE_END, 0);
    put_when(w, s, time);
    put_number(&w->part, EVENT_TYPE, TYPE_END);
    if (e->result.bytes)
        put_annotation(&w->part, &w->deep, "return", ANNOTATION_STRING, e->result);
    if (e->exception.bytes)
        put_annotation(&w->part, &w->deep, "exception", ANNOTATION_STRING, e->exception);
    else if (e->kind == WORD_END_RAISE)
        put_annotation(&w->part, &w->deep, "exception", ANNOTATION_STRING, (struct text){"?", 1});
    if (e->kind == 0) {
        put_bytes(&w->deep, ANNOTATION_NAME, "unfinished", 10);
        put_number(&w->deep, ANNOTATION_BOOL, 1);
        put_message(&w->part, EVENT_ANNOTATIONS, &w->deep);
    }
    put_message(&w->packet, PACKET_TRACK_EVENT, &w->part);
    return put_packet(w);
}

static bool put_event(struct perfetto_writer *w, struct sequence *s, uint64_t time, unsigned type,
                      struct text name, struct text json)
{
    put_when(w, s, time);
    put_number(&w->part, EVENT_TYPE, type);
    if (type != TYPE_END)
        put_text(&w->part, EVENT_NAME, name);
    if (json.bytes)
        put_annotation(&w->part, &w->deep, "args", ANNOTATION_JSON, json);
    put_message(&w->packet, PACKET_TRACK_EVENT, &w->part);
    return put_packet(w);
}

static bool on_instant(struct writer *base, const struct track *t, uint64_t time, struct text name,
                       struct text json)
{
    return put_event((struct perfetto_writer *)base, t->writer, time, TYPE_INSTANT, name, json);
}

/* A counter's JSON is {"name": number, ...}; the number of each becomes a value of the track. */
static bool on_counter(struct writer *base, const struct track *t, uint64_t time, struct text json)
{
    struct perfetto_writer *w = (struct perfetto_writer *)base;
    char copy[DATA_BYTES_MAX + 1];
    size_t n = json.bytes < DATA_BYTES_MAX ? json.bytes : DATA_BYTES_MAX;
    memcpy(copy, json.at, n);
    copy[n] = 0;
    const char *colon = strrchr(copy, ':');
    double value = colon ? strtod(colon + 1, NULL) : 0;
    put_when(w, t->writer, time);
    put_number(&w->part, EVENT_TYPE, TYPE_COUNTER);
    put_double(&w->part, EVENT_DOUBLE_VALUE, value);
    put_message(&w->packet, PACKET_TRACK_EVENT, &w->part);
    return put_packet(w);
}

/* ---- spans: told at their end, written in the order of their begin ---- */

static bool on_span(struct writer *base, const struct track *t, uint64_t start, uint64_t end,
                    struct text name, struct text json)
{
    struct perfetto_writer *w = (struct perfetto_writer *)base;
    if (w->span_count == w->span_cap) {
        size_t cap = w->span_cap ? w->span_cap * 2 : 64;
        struct span *grown = realloc(w->spans, cap * sizeof(*grown));
        if (!grown)
            return false;
        w->spans = grown;
        w->span_cap = cap;
    }
    char *copy = malloc(name.bytes + json.bytes + 1);
    if (!copy)
        return false;
    memcpy(copy, name.at ? name.at : "", name.bytes);
    memcpy(copy + name.bytes, json.at ? json.at : "", json.bytes);
    w->spans[w->span_count++] = (struct span){t, start, end, copy, name.bytes, json.bytes};
    return true;
}

static int by_track_and_start(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    if (x->track != y->track)
        return x->track->index < y->track->index ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->end > y->end ? -1 : x->end < y->end;
}

#define NESTED_MAX 64

/* One track's spans. Those that overlap without one lying in the other are cut where the outer one ends. */
static bool put_spans(struct perfetto_writer *w, struct span *spans, size_t count)
{
    uint64_t open[NESTED_MAX];
    size_t depth = 0;
    struct sequence *s = spans[0].track->writer;
    static const struct text nothing = {NULL, 0};
    for (size_t i = 0; i < count; i++) {
        struct span *span = &spans[i];
        while (depth && open[depth - 1] <= span->start)
            if (!put_event(w, s, open[--depth], TYPE_END, nothing, nothing))
                return false;
        if (depth == NESTED_MAX)
            continue;
        if (depth && span->end > open[depth - 1])
            span->end = open[depth - 1];
        struct text name = {span->name, span->name_bytes};
        struct text json = {span->name + span->name_bytes, span->json_bytes};
        if (!put_event(w, s, span->start, TYPE_BEGIN, name, json))
            return false;
        open[depth++] = span->end;
    }
    while (depth)
        if (!put_event(w, s, open[--depth], TYPE_END, nothing, nothing))
            return false;
    return true;
}

static bool perfetto_finish(struct writer *base, const struct read_result *result)
{
    (void)result;
    struct perfetto_writer *w = (struct perfetto_writer *)base;
    if (w->span_count)
        qsort(w->spans, w->span_count, sizeof(*w->spans), by_track_and_start);
    for (size_t i = 0, end; i < w->span_count; i = end) {
        for (end = i; end < w->span_count && w->spans[end].track == w->spans[i].track; end++)
            ;
        if (!put_spans(w, w->spans + i, end - i))
            return false;
    }
    return true;
}

static struct writer *perfetto_new(struct out *out, const struct reading *reading)
{
    (void)reading;
    struct perfetto_writer *w = calloc(1, sizeof(*w));
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
    return &w->writer;
}

static void perfetto_free(struct writer *base)
{
    struct perfetto_writer *w = (struct perfetto_writer *)base;
    if (!w)
        return;
    for (size_t i = 0; i < w->span_count; i++)
        free(w->spans[i].name);
    free(w->spans);
    free(w->packet.data);
    free(w->part.data);
    free(w->deep.data);
    free(w);
}

const struct output output_perfetto = {"perfetto", perfetto_new, perfetto_finish, perfetto_free};
