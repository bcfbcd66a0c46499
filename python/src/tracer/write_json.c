/* Chrome's Trace Event Format: one complete event per call. */
#include "write.h"

#include <stdio.h>
#include <stdlib.h>

struct image_names;

struct json_writer {
    struct writer writer;
    struct out *out;
    bool any;
    struct bytes scratch;
    struct image_names *images;
};

/* What is the same in every event of an image: the ends of events by name's number. */
struct image_names {
    struct image_names *next; /* of the writer's other images */
    struct bytes *tails;
    uint32_t count;
};

struct track_head {
    size_t bytes;
    char text[96]; /* {"ph":"X","pid":1,"tid":2,"ts": */
};

#define TASK_TIDS 0x40000000u /* above the kernel's: numbers for tracks that are no threads */

static uint64_t tid_of(const struct track *t)
{
    if (t->kind == TRACK_THREAD)
        return t->tid ? t->tid : t->index + 1;
    return TASK_TIDS + t->index;
}

/* Microseconds with three decimals. */
static char *put_time(char *to, uint64_t ns)
{
    char digits[24];
    uint64_t whole = ns / 1000;
    unsigned rest = (unsigned)(ns % 1000);
    int n = 0;
    do
        digits[n++] = (char)('0' + whole % 10);
    while (whole /= 10);
    while (n)
        *to++ = digits[--n];
    *to++ = '.';
    *to++ = (char)('0' + rest / 100);
    *to++ = (char)('0' + rest / 10 % 10);
    *to++ = (char)('0' + rest % 10);
    return to;
}

static bool separate(struct json_writer *w)
{
    bool any = w->any;
    w->any = true;
    return !any || out_put(w->out, ",\n", 2);
}

/* Everything in the scratch buffer is one event. */
static bool put_scratch(struct json_writer *w)
{
    struct bytes *b = &w->scratch;
    size_t used = b->used;
    b->used = 0;
    if (b->failed || !separate(w))
        return false;
    for (size_t at = 0; at < used; at += OUT_SIZE / 2) {
        size_t part = used - at < OUT_SIZE / 2 ? used - at : OUT_SIZE / 2;
        if (!out_put(w->out, b->data + at, part))
            return false;
    }
    return true;
}

static void put_text(struct bytes *b, const char *text)
{
    bytes_put(b, text, strlen(text));
}

static void put_key(struct bytes *b, const char *phase, const struct track *t)
{
    put_text(b, "{\"ph\":\"");
    put_text(b, phase);
    put_text(b, "\",\"pid\":");
    bytes_put_number(b, (uint64_t)(t->image->pid > 0 ? t->image->pid : 0));
    put_text(b, ",\"tid\":");
    bytes_put_number(b, tid_of(t));
}

static bool put_metadata(struct json_writer *w, const struct track *t, const char *kind,
                         struct text name, const char *after)
{
    struct bytes *b = &w->scratch;
    put_key(b, "M", t);
    put_text(b, ",\"ts\":0,\"name\":\"");
    put_text(b, kind);
    put_text(b, "\",\"args\":{\"name\":\"");
    bytes_put_json(b, name);
    put_text(b, after);
    put_text(b, "\"}}");
    return put_scratch(w);
}

static bool on_track(struct writer *base, struct track *t)
{
    struct json_writer *w = (struct json_writer *)base;
    struct track_head *head = malloc(sizeof(*head));
    if (!head)
        return false;
    t->writer = head;
    head->bytes = (size_t)snprintf(head->text, sizeof(head->text),
                                   "{\"ph\":\"X\",\"pid\":%d,\"tid\":%llu,\"ts\":", t->image->pid,
                                   (unsigned long long)tid_of(t));
    if (t->kind == TRACK_COUNTER || (t->kind == TRACK_THREAD && !t->name.bytes))
        return true;
    return put_metadata(w, t, "thread_name", t->name,
                        t->kind == TRACK_TASK    ? " (task)"
                        : t->kind == TRACK_SPANS ? " (events)"
                                                 : "");
}

static bool on_image(struct writer *base, struct read_image *image)
{
    struct json_writer *w = (struct json_writer *)base;
    struct image_names *names = malloc(sizeof(*names) + image->name_count * sizeof(struct bytes));
    if (!names)
        return false;
    names->count = image->name_count;
    names->tails = (struct bytes *)(names + 1);
    memset(names->tails, 0, image->name_count * sizeof(struct bytes));
    names->next = w->images;
    w->images = names;
    image->writer = names;
    struct track main = {.image = image, .tid = (uint64_t)image->pid};
    return put_metadata(w, &main, "process_name", image->command, "");
}

/* ,"name":"f (/a.py:3)"} */
static const struct bytes *tail_of(struct json_writer *w, const struct call *c)
{
    const struct image_names *names = c->track->image->writer;
    struct bytes *b =
        c->kind != WORD_TASK && c->number < names->count ? &names->tails[c->number] : &w->scratch;
    if (b->used)
        return b;
    put_text(b, ",\"name\":\"");
    bytes_put_name(b, c->track->image, c, true);
    put_text(b, "\"}");
    return b->failed ? NULL : b;
}

static void put_args(struct bytes *b, const struct call *c, const struct ending *e)
{
    const char *comma = "";
    b->used--; /* the brace */
    put_text(b, ",\"args\":{");
    if (c->args.bytes) {
        put_text(b, "\"args\":");
        bytes_put(b, c->args.at, c->args.bytes);
        comma = ",";
    }
    if (e->result.bytes) {
        put_text(b, comma);
        put_text(b, "\"return\":\"");
        bytes_put_json(b, e->result);
        put_text(b, "\"");
        comma = ",";
    }
    if (e->exception.bytes) {
        put_text(b, comma);
        put_text(b, "\"exception\":\"");
        bytes_put_json(b, e->exception);
        put_text(b, "\"");
        comma = ",";
    } else if (e->kind == WORD_END_RAISE) {
        put_text(b, comma);
        put_text(b, "\"exception\":\"?\"");
        comma = ",";
    }
    if (e->kind == 0) {
        put_text(b, comma);
        put_text(b, "\"unfinished\":true");
    }
    put_text(b, "}}");
}

static bool on_begin(struct writer *base, const struct track *thread, const struct call *c)
{
    (void)base, (void)thread, (void)c;
    return true;
}

/* A task begins and ends with the first and last of its steps, and viewers would have to guess which one lies around the
 * other, from microseconds that they round: these few nanoseconds tell. */
#define TASK_MARGIN 2u

static bool on_end(struct writer *base, const struct track *thread, const struct call *c,
                   uint64_t time, const struct ending *e)
{
    (void)thread;
    struct json_writer *w = (struct json_writer *)base;
    uint64_t margin = c->kind == WORD_TASK ? TASK_MARGIN : 0;
    uint64_t start = c->start > margin ? c->start - margin : 0;
    const struct track_head *head = c->track->writer;
    const struct bytes *tail = tail_of(w, c);
    if (!tail)
        return false;
    if (c->args.bytes || e->result.bytes || e->exception.bytes || e->kind == WORD_END_RAISE ||
        e->kind == 0) {
        if (tail != &w->scratch)
            bytes_put(&w->scratch, tail->data, tail->used);
        put_args(&w->scratch, c, e);
        tail = &w->scratch;
    }
    bool ok = false;
    char *to = separate(w) ? out_room(w->out, head->bytes + 64) : NULL;
    if (to) {
        char *at = to;
        memcpy(at, head->text, head->bytes);
        at = put_time(at + head->bytes, start);
        memcpy(at, ",\"dur\":", 7);
        at = put_time(at + 7, time + margin - start);
        w->out->used += (size_t)(at - to);
        ok = out_put(w->out, tail->data, tail->used);
    }
    w->scratch.used = 0;
    return ok;
}

static void put_ts(struct bytes *b, const char *key, uint64_t ns)
{
    char text[32];
    put_text(b, key);
    bytes_put(b, text, (size_t)(put_time(text, ns) - text));
}

static bool put_named(struct json_writer *w, struct text name, struct text json)
{
    struct bytes *b = &w->scratch;
    put_text(b, ",\"name\":\"");
    bytes_put_json(b, name);
    put_text(b, "\"");
    if (json.bytes) {
        put_text(b, ",\"args\":");
        bytes_put(b, json.at, json.bytes);
    }
    put_text(b, "}");
    return put_scratch(w);
}

static bool on_instant(struct writer *base, const struct track *t, uint64_t time, struct text name,
                       struct text json)
{
    struct json_writer *w = (struct json_writer *)base;
    put_key(&w->scratch, "i", t);
    put_ts(&w->scratch, ",\"s\":\"t\",\"ts\":", time);
    return put_named(w, name, json);
}

static bool on_counter(struct writer *base, const struct track *t, uint64_t time, struct text json)
{
    struct json_writer *w = (struct json_writer *)base;
    put_key(&w->scratch, "C", t);
    put_ts(&w->scratch, ",\"ts\":", time);
    return put_named(w, t->name, json);
}

static bool on_span(struct writer *base, const struct track *t, uint64_t start, uint64_t end,
                    struct text name, struct text json)
{
    struct json_writer *w = (struct json_writer *)base;
    put_key(&w->scratch, "X", t);
    put_ts(&w->scratch, ",\"ts\":", start);
    put_ts(&w->scratch, ",\"dur\":", end - start);
    return put_named(w, name, json);
}

static struct writer *json_new(struct out *out, const struct reading *reading)
{
    struct json_writer *w = calloc(1, sizeof(*w));
    if (!w)
        return NULL;
    w->writer = (struct writer){
        .begin = on_begin,
        .end = on_end,
        .instant = on_instant,
        .counter = on_counter,
        .span = on_span,
        .track = on_track,
        .image = on_image,
    };
    w->out = out;
    char head[160];
    int n = snprintf(head, sizeof(head),
                     "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"tool\":\"scry\","
                     "\"start_unix_ns\":\"%llu\"},\"traceEvents\":[\n",
                     (unsigned long long)reading_wall(reading));
    if (!out_put(out, head, (size_t)n)) {
        free(w);
        return NULL;
    }
    return &w->writer;
}

static bool json_finish(struct writer *base, const struct read_result *result)
{
    struct json_writer *w = (struct json_writer *)base;
    char tail[128];
    int n = snprintf(tail, sizeof(tail), "\n],\"scry\":{\"calls\":%llu,\"dropped\":%llu}}\n",
                     (unsigned long long)result->calls, (unsigned long long)result->dropped);
    return out_put(w->out, tail, (size_t)n);
}

static void json_free(struct writer *base)
{
    struct json_writer *w = (struct json_writer *)base;
    if (!w)
        return;
    for (struct image_names *n = w->images; n; n = n->next)
        for (uint32_t i = 0; i < n->count; i++)
            free(n->tails[i].data);
    free(w->scratch.data);
    free(w);
}

const struct output output_json = {"json", json_new, json_finish, json_free};
