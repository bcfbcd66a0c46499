#include "read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"

#define THREADS_MAX (1u << 20)
#define TASKS_MAX   (WORD_NUMBER_MAX + 1u)
#define LATE_MAX    100u /* a file that is no image has any number of names that are not there */
#define DEPTH_MAX   (1u << 24)

struct thread {
    struct track *track; /* NULL before its first event */
    struct text name;
    uint64_t tid, ident;
    struct call *stack;
    uint32_t depth, stack_cap;
    struct track *spans;
    /* Said about what comes next. */
    uint32_t task;
    struct text args, result, exception;
};

struct task {
    struct track *track;
    struct text name;
    struct call whole; /* from its first step to its last */
    uint64_t last;
    const struct track *thread;
};

struct counter {
    struct track *track;
    uint32_t number;
};

struct source {
    struct read_image image; /* first: writers hold pointers to it */
    const struct image_head *head;
    const struct slot **slots; /* those of events, by lane and sequence */
    size_t slot_count;
    void *mapping;
    size_t mapping_bytes;
    struct read_name *names;
    uint32_t name_cap;
    struct thread *threads;
    uint32_t thread_cap;
    struct task *tasks;
    uint32_t task_cap;
    struct counter *counters;
    uint32_t counter_count;
    struct scale scale;
    bool damaged;
    uint32_t late; /* how often names were looked for again */
};

struct cursor { /* one lane being read */
    struct source *source;
    size_t slot, slot_end; /* in source->slots */
    size_t at;             /* word in the slot */
    uint64_t ticks;        /* of the word before */
    uint64_t next;         /* ns of the word at `at` */
    uint32_t thread;
    bool alone; /* the slot before this one is not there */
    bool over;
};

struct reading {
    struct source **sources;
    size_t source_count;
    struct cursor *cursors;
    size_t cursor_count;
    struct track **tracks;
    size_t track_count, track_cap;
    uint64_t zero; /* ns on the monotonic clock: time 0 */
    uint64_t last; /* the latest time told */
    uint64_t words_done, words_all;
    struct writer *writer;
    struct read_result result;
    bool failed; /* no memory, or the writer does not want more */
};

struct reading *reading_new(void)
{
    return calloc(1, sizeof(struct reading));
}

static void source_free(struct source *s)
{
    for (uint32_t i = 0; i < s->thread_cap; i++)
        free(s->threads[i].stack);
    free(s->threads);
    free(s->tasks);
    free(s->counters);
    free(s->names);
    free(s->slots);
    free(s->image.writer);
    if (s->mapping)
        munmap(s->mapping, s->mapping_bytes);
    free(s);
}

void reading_free(struct reading *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->track_count; i++) {
        free(r->tracks[i]->writer);
        free(r->tracks[i]);
    }
    free(r->tracks);
    for (size_t i = 0; i < r->source_count; i++)
        source_free(r->sources[i]);
    free(r->sources);
    free(r->cursors);
    free(r);
}

/* ---- taking images in ---- */

static bool grow(void **items, uint32_t *cap, uint32_t need, size_t size, uint32_t most)
{
    if (need <= *cap)
        return true;
    if (need > most)
        return false;
    uint64_t more = *cap ? *cap * 2ull : 16;
    if (more < need)
        more = need;
    void *grown = realloc(*items, more * size);
    if (!grown)
        return false;
    memset((char *)grown + (size_t)*cap * size, 0, (size_t)(more - *cap) * size);
    *items = grown;
    *cap = (uint32_t)more;
    return true;
}

#define GROW(items, cap, need, most) grow((void **)&(items), &(cap), need, sizeof(*(items)), most)

static bool take_name(struct source *s, const struct definition *d)
{
    if (d->kind != DEFINE_NAME || d->number > WORD_NUMBER_MAX)
        return true;
    if (!GROW(s->names, s->name_cap, d->number + 1, WORD_NUMBER_MAX + 1))
        return false;
    struct text text = {d->text, d->text_bytes}, file = {d->text + d->text_bytes, d->file_bytes};
    s->names[d->number] = (struct read_name){text, file, d->line};
    return true;
}

static bool take_definition(struct source *s, const struct definition *d)
{
    struct text text = {d->text, d->text_bytes};
    if (d->kind == DEFINE_NAME) {
        return take_name(s, d);
    } else if (d->kind == DEFINE_THREAD && d->number < THREADS_MAX) {
        if (!GROW(s->threads, s->thread_cap, d->number + 1, THREADS_MAX))
            return false;
        struct thread *t = &s->threads[d->number];
        if (text.bytes)
            t->name = text;
        if (d->tid)
            t->tid = d->tid;
        t->ident = d->ident;
    } else if (d->kind == DEFINE_TASK && d->number < TASKS_MAX) {
        if (!GROW(s->tasks, s->task_cap, d->number + 1, TASKS_MAX))
            return false;
        s->tasks[d->number].name = text;
    }
    return true;
}

static bool take_definitions(struct source *s, const struct slot *slot,
                             bool (*take)(struct source *, const struct definition *))
{
    const char *at = (const char *)slot->words, *end = at + sizeof(slot->words);
    while (end - at >= (ptrdiff_t)sizeof(struct definition)) {
        const struct definition *d = (const void *)at;
        uint32_t bytes = __atomic_load_n(&d->bytes, __ATOMIC_ACQUIRE);
        if (!bytes)
            break;
        uint64_t need = (uint64_t)sizeof(*d) + d->text_bytes + d->file_bytes;
        if (bytes % 8 || bytes > (size_t)(end - at) || need > bytes) {
            s->damaged = true;
            break;
        }
        if (!take(s, d))
            return false;
        at += bytes;
    }
    return true;
}

static int by_lane_and_sequence(const void *a, const void *b)
{
    const struct slot *x = *(const struct slot *const *)a, *y = *(const struct slot *const *)b;
    if (x->lane != y->lane)
        return x->lane < y->lane ? -1 : 1;
    return x->sequence < y->sequence ? -1 : x->sequence > y->sequence;
}

static bool take_slot(struct source *s, const struct slot *slot)
{
    if (slot->kind == SLOT_DEFINITIONS)
        return take_definitions(s, slot, take_definition);
    if (slot->kind == SLOT_EVENTS && slot->thread < THREADS_MAX)
        s->slots[s->slot_count++] = slot;
    return true;
}

/* Ready to be read: definitions taken in, slots in order. */
static int finish_source(struct reading *r, struct source *s)
{
    const struct image_head *h = s->head;
    struct source **sources = realloc(r->sources, (r->source_count + 1) * sizeof(*sources));
    if (!sources)
        return ENOMEM;
    r->sources = sources;
    if (s->slot_count > 1)
        qsort(s->slots, s->slot_count, sizeof(*s->slots), by_lane_and_sequence);
    s->image = (struct read_image){
        .pid = h->pid,
        .parent = h->parent,
        .python = h->python,
        .finished = h->flags & IMAGE_FINISHED,
        .wall_ns = h->wall_ns,
        .dropped = h->dropped,
        .command = {h->command, strnlen(h->command, sizeof(h->command))},
        .names = s->names,
        .name_count = s->name_cap,
        .index = (uint32_t)r->source_count,
    };
    r->sources[r->source_count++] = s;
    return 0;
}

static int take_image(struct reading *r, struct source *s, const struct image *own, uint32_t slots)
{
    s->slots = calloc(slots ? slots : 1, sizeof(*s->slots));
    if (!s->slots)
        return ENOMEM;
    for (uint32_t i = 1; i < slots; i++) {
        const struct slot *slot =
            own ? image_slot(own, i)
                : (const void *)((const char *)s->mapping + (size_t)i * SLOT_SIZE);
        if (slot && !take_slot(s, slot))
            return ENOMEM;
    }
    return finish_source(r, s);
}

int reading_add_own(struct reading *r, const struct image *image)
{
    struct source *s = calloc(1, sizeof(*s));
    if (!s)
        return ENOMEM;
    s->head = image->head;
    int rc = image->head ? take_image(r, s, image, image->slot_count) : EINVAL;
    if (rc)
        source_free(s);
    return rc;
}

static int map_file(struct source *s, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    struct stat facts;
    int rc = fstat(fd, &facts) < 0 ? errno : 0;
    if (!rc && (facts.st_size < (off_t)SLOT_SIZE || !S_ISREG(facts.st_mode)))
        rc = EINVAL;
    if (!rc) {
        s->mapping_bytes = (size_t)facts.st_size;
        s->mapping = mmap(NULL, s->mapping_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        if (s->mapping == MAP_FAILED) {
            s->mapping = NULL;
            rc = errno;
        }
    }
    close(fd);
    return rc;
}

int reading_add_file(struct reading *r, const char *path)
{
    struct source *s = calloc(1, sizeof(*s));
    if (!s)
        return ENOMEM;
    int rc = map_file(s, path);
    s->head = s->mapping;
    if (!rc && (s->head->magic != IMAGE_MAGIC || s->head->slot_size != SLOT_SIZE))
        rc = EINVAL;
    if (!rc) {
        size_t slots = s->mapping_bytes / SLOT_SIZE;
        rc = take_image(r, s, NULL, slots > s->head->slots ? s->head->slots : (uint32_t)slots);
    }
    if (rc)
        source_free(s);
    return rc;
}

/* ---- clocks ---- */

static void later(struct anchor *last, struct anchor a)
{
    if (a.ns > last->ns && a.ticks)
        *last = a;
}

/* All processes of one boot count the same ticks: the earliest and the latest known moment of all of them give the
 * rate. Who reads adds the present moment, if it still is that boot. */
static void choose_scales(struct reading *r)
{
    struct anchor first = {UINT64_MAX, UINT64_MAX}, last = {0, 0};
    for (size_t i = 0; i < r->source_count; i++) {
        const struct source *s = r->sources[i];
        if (s->head->start.ns < first.ns)
            first = s->head->start;
        later(&last, s->head->end);
        for (size_t k = 0; k < s->slot_count; k++)
            later(&last, s->slots[k]->base);
    }
    struct anchor now = clock_anchor();
    bool tsc = r->source_count && (r->sources[0]->head->flags & IMAGE_TSC);
    if (tsc == clock_is_tsc && now.ticks > last.ticks && now.ns > last.ns &&
        now.ns - first.ns < 7 * 86400ull * 1000000000ull)
        later(&last, now);
    r->zero = r->source_count ? first.ns : 0;
    for (size_t i = 0; i < r->source_count; i++) {
        struct source *s = r->sources[i];
        struct anchor same = {first.ns, first.ns};
        s->scale =
            s->head->flags & IMAGE_TSC ? scale_between(first, last) : scale_between(same, same);
    }
}

static uint64_t time_of(const struct reading *r, const struct source *s, uint64_t ticks)
{
    uint64_t ns = scale_ns(&s->scale, ticks);
    return ns > r->zero ? ns - r->zero : 0;
}

size_t reading_images(const struct reading *r)
{
    return r->source_count;
}

uint64_t reading_wall(const struct reading *r)
{
    uint64_t wall = 0, first = UINT64_MAX;
    for (size_t i = 0; i < r->source_count; i++) {
        if (r->sources[i]->head->start.ns < first) {
            first = r->sources[i]->head->start.ns;
            wall = r->sources[i]->head->wall_ns;
        }
    }
    return wall;
}

/* ---- tracks ---- */

static struct track *new_track(struct reading *r, const struct track *like)
{
    if (r->track_count == r->track_cap) {
        size_t cap = r->track_cap ? r->track_cap * 2 : 64;
        struct track **grown = realloc(r->tracks, cap * sizeof(*grown));
        if (!grown)
            return NULL;
        r->tracks = grown;
        r->track_cap = cap;
    }
    struct track *t = malloc(sizeof(*t));
    if (!t)
        return NULL;
    *t = *like;
    t->index = (uint32_t)r->track_count;
    r->tracks[r->track_count++] = t;
    if (!r->writer->track(r->writer, t))
        r->failed = true;
    return t;
}

static struct thread *thread_of(struct reading *r, struct source *s, uint32_t number)
{
    if (!GROW(s->threads, s->thread_cap, number + 1, THREADS_MAX)) {
        r->failed = true;
        return NULL;
    }
    struct thread *t = &s->threads[number];
    if (!t->track) {
        /* A program that does not use threading has a name for its only thread nevertheless. */
        if (!t->name.bytes && t->tid == (uint64_t)s->image.pid)
            t->name = (struct text){"MainThread", 10};
        struct track like = {.kind = TRACK_THREAD,
                             .image = &s->image,
                             .name = t->name,
                             .tid = t->tid,
                             .ident = t->ident};
        t->track = new_track(r, &like);
        r->failed |= !t->track;
    }
    return t->track ? t : NULL;
}

static struct task *task_of(struct reading *r, struct source *s, uint32_t number)
{
    if (!GROW(s->tasks, s->task_cap, number + 1, TASKS_MAX)) {
        r->failed = true;
        return NULL;
    }
    struct task *t = &s->tasks[number];
    if (!t->track) {
        struct track like = {
            .kind = TRACK_TASK, .image = &s->image, .name = t->name, .number = number};
        t->track = new_track(r, &like);
        r->failed |= !t->track;
    }
    return t->track ? t : NULL;
}

static struct track *spans_of(struct reading *r, struct source *s, struct thread *t)
{
    if (!t->spans) {
        struct track like = {
            .kind = TRACK_SPANS, .image = &s->image, .name = t->name, .tid = t->tid};
        t->spans = new_track(r, &like);
        r->failed |= !t->spans;
    }
    return t->spans;
}

static struct text name_text(const struct source *s, uint32_t number)
{
    return number < s->name_cap ? s->names[number].name : (struct text){NULL, 0};
}

static struct track *counter_of(struct reading *r, struct source *s, uint32_t number)
{
    for (uint32_t i = 0; i < s->counter_count; i++)
        if (s->counters[i].number == number)
            return s->counters[i].track;
    struct counter *grown = realloc(s->counters, (s->counter_count + 1) * sizeof(*grown));
    if (!grown) {
        r->failed = true;
        return NULL;
    }
    s->counters = grown;
    struct track like = {
        .kind = TRACK_COUNTER, .image = &s->image, .name = name_text(s, number), .number = number};
    struct track *track = new_track(r, &like);
    r->failed |= !track;
    if (track)
        s->counters[s->counter_count++] = (struct counter){track, number};
    return track;
}

/* ---- calls ---- */

/* Calls that may still turn out too short are told only when they are known not to be. */
static void tell_begin(struct reading *r, struct thread *t, struct call *c)
{
    if (c->written)
        return;
    c->written = true;
    r->result.calls++;
    if (!r->writer->begin(r->writer, t->track, c))
        r->failed = true;
}

static void begin_task(struct reading *r, struct thread *t, struct task *task, uint64_t now)
{
    if (task->whole.track)
        return;
    task->whole = (struct call){.track = task->track, .kind = WORD_TASK, .start = now};
    task->whole.written = true;
    task->thread = t->track;
    if (!r->writer->begin(r->writer, t->track, &task->whole))
        r->failed = true;
}

/* A process that still runs, say multiprocessing's helpers, goes on to write: calls may be met whose names came after the image
 * was taken in. (Threads and tasks have pointers to them, and stay as they are.) */
static void take_late_names(struct source *s)
{
    size_t slots = s->mapping_bytes / SLOT_SIZE;
    if (slots > s->head->slots)
        slots = s->head->slots;
    s->late++;
    for (size_t i = 1; i < slots; i++) {
        const struct slot *slot = (const void *)((const char *)s->mapping + i * SLOT_SIZE);
        if (slot->kind == SLOT_DEFINITIONS && !take_definitions(s, slot, take_name))
            break;
    }
    s->image.names = s->names;
    s->image.name_count = s->name_cap;
}

static void begin_call(struct reading *r, struct source *s, struct thread *t, uint64_t now,
                       uint32_t number, uint32_t kind)
{
    if (!name_text(s, number).bytes && number && s->mapping && !s->image.finished &&
        s->late < LATE_MAX)
        take_late_names(s);
    if (!GROW(t->stack, t->stack_cap, t->depth + 1, DEPTH_MAX)) {
        r->failed = true;
        return;
    }
    struct call *c = &t->stack[t->depth];
    *c = (struct call){
        .track = t->depth ? c[-1].track : t->track,
        .number = number,
        .kind = kind,
        .start = now,
        .args = t->args,
    };
    if (t->task) {
        struct task *task = task_of(r, s, t->task);
        if (task) {
            begin_task(r, t, task, now);
            c->track = task->track;
        }
    }
    t->task = 0;
    t->args = (struct text){NULL, 0};
    t->depth++;
    if (!s->head->min_duration)
        tell_begin(r, t, c);
}

static void end_call(struct reading *r, struct source *s, struct thread *t, uint64_t now,
                     uint32_t kind)
{
    if (!t->depth)
        return;
    struct call *c = &t->stack[t->depth - 1];
    struct ending ending = {kind, t->result, t->exception};
    t->result = t->exception = (struct text){NULL, 0};
    if (!c->written && now - c->start >= s->head->min_duration)
        for (uint32_t i = 0; i < t->depth; i++)
            tell_begin(r, t, &t->stack[i]);
    if (c->written && !r->writer->end(r->writer, t->track, c, now, &ending))
        r->failed = true;
    if (c->track->kind == TRACK_TASK && c->track->number < s->task_cap)
        s->tasks[c->track->number].last = now;
    t->depth--;
}

/* A call ends whose beginning was not seen: it lies around all that was. Where that would have to begin is past, so
 * it is told as an instant. */
static void left_call(struct reading *r, struct source *s, struct thread *t, uint64_t now,
                      uint32_t number)
{
    char text[600] = "returned from ";
    struct text name = name_text(s, number);
    size_t bytes = name.bytes < 500 ? name.bytes : 500;
    memcpy(text + 14, name.at ? name.at : "", bytes);
    struct text whole = {text, 14 + bytes};
    if (!r->writer->instant(r->writer, t->track, now, whole, (struct text){NULL, 0}))
        r->failed = true;
}

/* A slot begins whose predecessor is not there: what is open is what it says. */
static void restart(struct reading *r, struct source *s, struct cursor *c, const struct slot *slot)
{
    struct thread *t = thread_of(r, s, slot->thread);
    uint64_t base = time_of(r, s, slot->base.ticks);
    if (!t)
        return;
    uint32_t same = 0, count = 0;
    while (c->at + count < SLOT_WORDS && WORD_KIND(slot->words[c->at + count]) == WORD_OPEN)
        count++;
    while (same < t->depth && same < count &&
           t->stack[same].number == WORD_NUMBER(slot->words[c->at + same]))
        same++;
    while (t->depth > same)
        end_call(r, s, t, base, 0);
    for (uint32_t i = same; i < count; i++) {
        uint64_t word = slot->words[c->at + i];
        begin_call(r, s, t, base, WORD_NUMBER(word), (uint32_t)(word >> WORD_TICKS_SHIFT) & 15);
    }
}

/* ---- lanes ---- */

static void peek(struct reading *r, struct cursor *c)
{
    const struct slot *slot = c->source->slots[c->slot];
    uint64_t word = c->at < SLOT_WORDS ? slot->words[c->at] : 0;
    uint64_t ticks = WORD_KIND(word) == WORD_TIME   ? word >> 4
                     : WORD_KIND(word) == WORD_OPEN ? 0
                                                    : word >> WORD_TICKS_SHIFT;
    c->ticks += ticks;
    c->next = time_of(r, c->source, c->ticks);
}

static void pass_open(struct reading *r, struct cursor *c)
{
    const struct slot *slot = c->source->slots[c->slot];
    while (c->at < SLOT_WORDS && WORD_KIND(slot->words[c->at]) == WORD_OPEN)
        c->at++;
    peek(r, c);
}

/* Go to the slot at c->slot. `follows`: the one before it was just read. */
static void enter_slot(struct reading *r, struct cursor *c, bool follows)
{
    struct source *s = c->source;
    if (c->slot == c->slot_end) {
        c->over = true;
        return;
    }
    const struct slot *slot = s->slots[c->slot];
    c->at = 0;
    c->thread = slot->thread;
    c->ticks = slot->base.ticks;
    c->alone = !follows;
    c->next = time_of(r, s, c->ticks);
    if (follows)
        pass_open(r, c);
}

static void next_slot(struct reading *r, struct cursor *c)
{
    const struct slot *before = c->source->slots[c->slot];
    r->words_done += SLOT_WORDS;
    c->slot++;
    bool follows = c->slot < c->slot_end &&
                   c->source->slots[c->slot]->sequence == before->sequence + 1 &&
                   c->source->slots[c->slot]->thread == c->thread;
    enter_slot(r, c, follows);
}

static void take_data(struct reading *r, struct source *s, struct thread *t, uint64_t now,
                      uint64_t word, const char *data)
{
    size_t bytes = DATA_BYTES(word);
    struct text text = {data, bytes};
    uint32_t number = 0;
    uint64_t since = 0;
    unsigned kind = DATA_KIND(word);
    size_t head = kind == DATA_SPAN ? 16 : 4;
    if (kind == DATA_ARGS) {
        t->args = text;
    } else if (kind == DATA_RESULT) {
        t->result = text;
    } else if (kind == DATA_EXCEPTION) {
        t->exception = text;
    } else if (kind == DATA_RAISED) {
        char name[256] = "raised ";
        size_t n = bytes < 200 ? bytes : 200;
        memcpy(name + 7, data, n);
        const struct track *track = t->depth ? t->stack[t->depth - 1].track : t->track;
        r->failed |= !r->writer->instant(r->writer, track, now, (struct text){name, 7 + n},
                                         (struct text){NULL, 0});
    } else if (bytes >= head) {
        memcpy(&number, data, sizeof(number));
        struct text json = {data + head, bytes - head};
        struct text name = name_text(s, number);
        if (kind == DATA_INSTANT) {
            r->failed |= !r->writer->instant(r->writer, t->track, now, name, json);
        } else if (kind == DATA_COUNTER) {
            struct track *track = counter_of(r, s, number);
            r->failed |= !track || !r->writer->counter(r->writer, track, now, json);
        } else if (kind == DATA_SPAN) {
            memcpy(&since, data + 8, sizeof(since));
            uint64_t start = time_of(r, s, since);
            struct track *track = spans_of(r, s, t);
            r->failed |= !track || !r->writer->span(r->writer, track, start < now ? start : now,
                                                    now, name, json);
        }
    }
}

static void change_thread(struct reading *r, struct cursor *c, uint32_t number, uint64_t now)
{
    struct thread *old = thread_of(r, c->source, c->thread);
    while (old && old->depth)
        end_call(r, c->source, old, now, 0);
    c->thread = number < THREADS_MAX ? number : 0;
}

/* The word at c->at; then on to the next. */
static void step(struct reading *r, struct cursor *c)
{
    struct source *s = c->source;
    const struct slot *slot = s->slots[c->slot];
    if (c->alone) {
        c->alone = false;
        restart(r, s, c, slot);
        pass_open(r, c);
        return;
    }
    uint64_t word = c->at < SLOT_WORDS ? slot->words[c->at] : 0, now = c->next;
    struct thread *t = thread_of(r, s, c->thread);
    if (!t)
        return;
    c->at++;
    switch (WORD_KIND(word)) {
    case WORD_NONE:
        next_slot(r, c);
        return;
    case WORD_BEGIN:
    case WORD_RESUME:
    case WORD_BEGIN_C:
    case WORD_BEGIN_GC:
        begin_call(r, s, t, now, WORD_NUMBER(word), WORD_KIND(word));
        break;
    case WORD_END:
    case WORD_END_YIELD:
    case WORD_END_RAISE:
        end_call(r, s, t, now, WORD_KIND(word));
        break;
    case WORD_LEFT:
        left_call(r, s, t, now, WORD_NUMBER(word));
        break;
    case WORD_THREAD:
        change_thread(r, c, WORD_NUMBER(word), now);
        break;
    case WORD_TASK:
        t->task = WORD_NUMBER(word);
        break;
    case WORD_DATA: {
        size_t words = (DATA_BYTES(word) + 7) / 8;
        if (c->at + words <= SLOT_WORDS)
            take_data(r, s, t, now, word, (const char *)&slot->words[c->at]);
        else
            s->damaged = true;
        c->at += words;
        break;
    }
    default:
        break;
    }
    if (now > r->last)
        r->last = now;
    if (c->at >= SLOT_WORDS)
        next_slot(r, c);
    else
        peek(r, c);
}

static bool make_cursors(struct reading *r)
{
    size_t slots = 0;
    for (size_t i = 0; i < r->source_count; i++)
        slots += r->sources[i]->slot_count;
    r->words_all = (uint64_t)slots * SLOT_WORDS;
    r->cursors = calloc(slots + 1, sizeof(*r->cursors));
    if (!r->cursors)
        return false;
    for (size_t i = 0; i < r->source_count; i++) {
        struct source *s = r->sources[i];
        for (size_t k = 0; k < s->slot_count;) {
            size_t end = k;
            while (end < s->slot_count && s->slots[end]->lane == s->slots[k]->lane)
                end++;
            r->cursors[r->cursor_count++] =
                (struct cursor){.source = s, .slot = k, .slot_end = end};
            k = end;
        }
    }
    return true;
}

/* The cursor whose turn it is, and until when it may go on alone. */
static struct cursor *earliest(struct reading *r, uint64_t *ret_until)
{
    struct cursor *first = NULL;
    *ret_until = UINT64_MAX;
    for (size_t i = 0; i < r->cursor_count; i++) {
        struct cursor *c = &r->cursors[i];
        if (c->over)
            continue;
        if (!first || c->next < first->next) {
            if (first)
                *ret_until = first->next;
            first = c;
        } else if (c->next < *ret_until) {
            *ret_until = c->next;
        }
    }
    return first;
}

/* What was still open when the image ends. */
static void close_all(struct reading *r)
{
    for (size_t i = 0; i < r->source_count; i++) {
        struct source *s = r->sources[i];
        for (uint32_t k = 0; k < s->thread_cap; k++)
            while (s->threads[k].track && s->threads[k].depth)
                end_call(r, s, &s->threads[k], r->last, 0);
        for (uint32_t k = 0; k < s->task_cap; k++) {
            struct task *t = &s->tasks[k];
            if (t->whole.track &&
                !r->writer->end(r->writer, t->thread, &t->whole, t->last ? t->last : r->last,
                                &(struct ending){WORD_END, {0}, {0}}))
                r->failed = true;
        }
    }
}

static void summarise(struct reading *r, struct read_result *ret)
{
    *ret = r->result;
    ret->images = (uint32_t)r->source_count;
    ret->duration = r->last;
    ret->stopped = r->failed;
    for (size_t i = 0; i < r->source_count; i++) {
        ret->dropped += r->sources[i]->image.dropped;
        ret->damaged += r->sources[i]->damaged;
        ret->unfinished += !r->sources[i]->image.finished;
    }
}

#define PROGRESS_EVERY (1u << 20)

bool reading_run(struct reading *r, struct writer *w, bool (*progress)(void *context, double share),
                 void *context, struct read_result *ret_result)
{
    r->writer = w;
    choose_scales(r);
    r->failed |= !make_cursors(r);
    for (size_t i = 0; i < r->source_count && !r->failed; i++)
        r->failed |= !w->image(w, &r->sources[i]->image);
    for (size_t i = 0; i < r->cursor_count && !r->failed; i++)
        enter_slot(r, &r->cursors[i], false);
    uint64_t asked = 0, until;
    struct cursor *c;
    while (!r->failed && (c = earliest(r, &until))) {
        do
            step(r, c);
        while (!r->failed && !c->over && c->next <= until &&
               r->words_done - asked < PROGRESS_EVERY);
        if (r->words_done - asked >= PROGRESS_EVERY) {
            asked = r->words_done;
            r->failed |= !progress(context, (double)r->words_done / (double)r->words_all);
        }
    }
    if (!r->failed)
        close_all(r);
    summarise(r, ret_result);
    return !r->failed;
}
