#include "lane.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

__thread struct lane *lane_here __attribute__((tls_model("initial-exec")));

static pthread_key_t thread_end;

#define STACK_FIRST 256u
#define STACK_MAX   (1u << 24)

/* In the thread, when it has ended and Python knows nothing of it any more. */
static void on_thread_end(void *lane)
{
    __atomic_store_n(&((struct lane *)lane)->ended, true, __ATOMIC_RELEASE);
}

int lane_init(void)
{
    if (pthread_key_create(&thread_end, on_thread_end) == 0)
        return 0;
    PyErr_NoMemory();
    return -1;
}

/* ---- threads ---- */

#define SOON 32 /* a thread is asked for its name so often in quick succession, then now and then */

/* What threading calls the thread, or NULL. Before a thread has come as far as to enter itself it has no name, and one
 * that Python did not start never gets one, unless it asks for it: then it is called Dummy, and still is when it has ended
 * and its number is another thread's. Such a name is not `ret_sure`. */
static PyObject *thread_name(unsigned long ident, bool *ret_sure)
{
    PyObject *modules = PyImport_GetModuleDict();
    PyObject *threading = modules ? PyDict_GetItemString(modules, "threading") : NULL;
    PyObject *active = threading ? PyObject_GetAttrString(threading, "_active") : NULL;
    PyObject *key = PyLong_FromUnsignedLong(ident);
    PyObject *thread = active && PyDict_Check(active) && key ? PyObject_GetItem(active, key) : NULL;
    PyObject *name = thread ? PyObject_GetAttrString(thread, "_name") : NULL;
    *ret_sure = thread && strcmp(Py_TYPE(thread)->tp_name, "_DummyThread") != 0;
    Py_XDECREF(thread);
    Py_XDECREF(key);
    Py_XDECREF(active);
    PyErr_Clear();
    return name;
}

static void define_thread(struct lane *l, uint64_t tid)
{
    SAVE_ERROR;
    bool sure;
    PyObject *name = thread_name((unsigned long)l->ident, &sure);
    const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    l->named = text != NULL && (sure || l->asked > SOON);
    struct definition d = {
        .kind = DEFINE_THREAD, .number = l->thread, .tid = tid, .ident = l->ident};
    /* What is said once more about a thread without a name would fill the image in the end. */
    if (tid || text) {
        tracer_lock();
        image_define(&tracer.image, &d, text ? text : "", NULL);
        tracer_unlock();
    }
    Py_XDECREF(name);
    PyErr_Clear();
    RESTORE_ERROR;
}

void lanes_name(void)
{
    for (struct lane *l = tracer.lanes; l; l = l->next)
        if (!l->ended && l->generation == tracer.generation)
            define_thread(l, 0);
}

/* ---- making and resetting ---- */

/* The lane of a thread that has ended, with what is left of its slot; else a new one. */
static struct lane *take_lane(void)
{
    struct lane *l;
    for (l = tracer.lanes; l; l = l->next) {
        if (__atomic_load_n(&l->ended, __ATOMIC_ACQUIRE)) {
            l->ended = false;
            return l;
        }
    }
    l = calloc(1, sizeof(*l));
    if (l)
        l->stack = calloc(STACK_FIRST, sizeof(*l->stack));
    if (!l || !l->stack) {
        free(l);
        return NULL;
    }
    l->stack_end = l->stack + STACK_FIRST;
    l->number = tracer.lane_count++;
    l->next = tracer.lanes;
    tracer.lanes = l;
    return l;
}

/* It has no slot, and nothing is open. */
static void prepare(struct lane *l)
{
    l->pos = l->limit = NULL;
    l->slot = NULL;
    l->sequence = 0;
    l->active = 0;
    l->raised = NULL;
    l->top = l->stack;
    l->generation = tracer.generation;
}

static struct lane *new_thread(void)
{
    tracer_lock();
    struct lane *l = take_lane();
    tracer_unlock();
    if (!l || pthread_setspecific(thread_end, l) != 0)
        return NULL;
    lane_here = l;
    l->ident = (uint64_t)PyThread_get_thread_ident();
    l->thread = UINT32_MAX;
    l->top = l->stack;
    l->active = 0;
    l->raised = NULL;
    memset(l->known, 0, sizeof(l->known));
    return l;
}

static uint64_t *limit_of(struct lane *l);

struct lane *lane_enter(void)
{
    struct lane *l = lane_here ? lane_here : new_thread();
    if (!l || !tracer.on || tracer.forked)
        return l;
    if (l->generation != tracer.generation) {
        prepare(l);
        l->thread = UINT32_MAX;
    }
    if (l->thread == UINT32_MAX) {
        l->thread = __atomic_add_fetch(&tracer.thread_count, 1, __ATOMIC_RELAXED) - 1;
        l->asked = 0;
        define_thread(l, (uint64_t)syscall(SYS_gettid));
        if (l->slot && l->pos < l->limit)
            l->limit = limit_of(l);
        if (l->slot && (l->pos < l->limit || lane_room(l, 0)))
            lane_put(l, clock_ticks(), (uint64_t)l->thread << WORD_NUMBER_SHIFT | WORD_THREAD);
    }
    return l;
}

/* On a start all lanes are strangers to it; lane_enter() makes each ready in its own thread. So that hooks get there,
 * those have no room. */
void lanes_reset(void)
{
    lanes_close();
}

void lanes_close(void)
{
    for (struct lane *l = tracer.lanes; l; l = l->next) {
        l->pos = l->limit = NULL;
        l->slot = NULL;
        l->top = l->stack;
        l->active = 0;
    }
}

void lanes_forked(void)
{
    for (struct lane *l = tracer.lanes; l; l = l->next) {
        l->pos = l->limit = NULL;
        l->slot = NULL;
        if (l != lane_here)
            l->ended = true;
    }
}

void lane_reopen(struct lane *l)
{
    struct open *top = l->top;
    uint32_t active = l->active;
    prepare(l);
    l->top = top;
    l->active = active;
    l->thread = UINT32_MAX;
    for (const struct open *o = l->stack + 1; o <= top; o++)
        name_define_again(o->number & WORD_NUMBER_MAX);
    lane_enter();
}

/* ---- room ---- */

static unsigned open_kind(const struct open *o)
{
    return o->kind ? o->kind : WORD_BEGIN;
}

/* The calls that are open where a slot begins (W3). */
static void put_open(struct lane *l)
{
    uint32_t depth = 0;
    for (const struct open *o = l->stack + 1; o <= l->top; o++)
        depth += o->kind != 0;
    l->slot->depth = depth;
    uint32_t skip = depth > SNAPSHOT_MAX ? depth - SNAPSHOT_MAX : 0;
    for (const struct open *o = l->stack + 1; o <= l->top; o++) {
        if (!o->kind || (skip && skip--))
            continue;
        *l->pos++ = (uint64_t)open_kind(o) << WORD_TICKS_SHIFT |
                    (uint64_t)(o->number & WORD_NUMBER_MAX) << WORD_NUMBER_SHIFT | WORD_OPEN;
    }
}

/* What was remembered about words in the old slot is of no use any more. */
static void forget_words(struct lane *l)
{
    for (struct open *o = l->stack + 1; o <= l->top; o++)
        o->from = o->to = NULL;
}

static bool next_slot(struct lane *l)
{
    tracer_lock();
    if (l->slot)
        image_finish_slot(&tracer.image, l->slot_number);
    l->slot = image_take_slot(&tracer.image, &l->slot_number);
    if (!l->slot) {
        l->pos = l->limit = NULL;
        l->sequence++; /* a gap, for readers */
        tracer.lost++;
        tracer_unlock();
        return false;
    }
    l->slot->lane = l->number;
    l->slot->sequence = l->sequence++;
    l->slot->thread = l->thread;
    l->slot->base = clock_anchor();
    tracer_unlock();
    l->last = l->slot->base.ticks;
    l->pos = l->slot->words;
    put_open(l);
    forget_words(l);
    /* Only now: who reads a slot while it is written finds all of its head. */
    __atomic_store_n(&l->slot->kind, SLOT_EVENTS, __ATOMIC_RELEASE);
    return true;
}

/* A few words on, a new thread will have entered itself: time to ask for its name again. */
static uint64_t *limit_of(struct lane *l)
{
    uint64_t *end = l->slot->words + SLOT_WORDS - LANE_MARGIN;
    if (l->named)
        return end;
    /* It soon has one, or never will. */
    uint64_t *soon = l->pos + (l->asked < SOON ? 4 : 1024);
    l->asked++;
    return soon < end ? soon : end;
}

bool lane_room(struct lane *l, size_t words)
{
    if (!tracer.on || tracer.forked)
        return false;
    if (l->generation != tracer.generation || l->thread == UINT32_MAX)
        lane_enter();
    uint64_t *end = l->slot ? l->slot->words + SLOT_WORDS - LANE_MARGIN : NULL;
    if (l->slot && !l->named)
        define_thread(l, 0);
    if ((!l->slot || l->pos + words >= end) && !next_slot(l))
        return false;
    l->limit = limit_of(l);
    return true;
}

uint64_t lane_far(struct lane *l, uint64_t *now)
{
    uint64_t ticks = *now - l->last;
    if ((int64_t)ticks < 0) {
        *now = l->last; /* counters of two processors differ by a little */
        return 0;
    }
    *l->pos++ = ticks << 4 | WORD_TIME;
    l->last = *now;
    return 0;
}

bool lane_grow(struct lane *l)
{
    size_t size = (size_t)(l->stack_end - l->stack), top = (size_t)(l->top - l->stack);
    if (size >= STACK_MAX)
        return false;
    struct open *grown = malloc(size * 2 * sizeof(*grown));
    if (!grown)
        return false;
    memcpy(grown, l->stack, (top + 1) * sizeof(*grown));
    free(l->stack);
    l->stack = grown;
    l->stack_end = grown + size * 2;
    l->top = grown + top;
    return true;
}

/* ---- names ---- */

static uint32_t remember(struct lane *l, const void *key, uint32_t number, uint32_t epoch)
{
    *lane_known(l, key) = (struct known){key, number, epoch};
    return number;
}

uint32_t lane_name_code(struct lane *l, PyObject *code)
{
    SAVE_ERROR;
    lane_enter(); /* a definition needs the image to be this start's */
    uint32_t epoch = __atomic_load_n(&tracer.epoch, __ATOMIC_RELAXED);
    uint32_t number = name_of_code((PyCodeObject *)code);
    RESTORE_ERROR;
    return remember(l, code, number, epoch);
}

uint32_t lane_name_c(struct lane *l, const PyMethodDef *method, PyObject *callable)
{
    SAVE_ERROR;
    lane_enter();
    uint32_t epoch = __atomic_load_n(&tracer.epoch, __ATOMIC_RELAXED);
    uint32_t number = name_of_c(method, callable);
    RESTORE_ERROR;
    return remember(l, method, number, epoch);
}

/* ---- data and the longer ways ---- */

static size_t data_words(size_t bytes)
{
    return 1 + (bytes + 7) / 8;
}

static void put_data(struct lane *l, enum data_kind kind, const void *head, size_t head_bytes,
                     const char *text, size_t text_bytes)
{
    size_t bytes = head_bytes + text_bytes;
    uint64_t now = clock_ticks(), ticks = now - l->last;
    if (unlikely(ticks >> WORD_TICKS_BITS))
        ticks = lane_far(l, &now);
    char *to = (char *)(l->pos + 1);
    if (head_bytes)
        memcpy(to, head, head_bytes);
    if (text_bytes)
        memcpy(to + head_bytes, text, text_bytes);
    __atomic_store_n(
        l->pos, ticks << WORD_TICKS_SHIFT | (uint64_t)bytes << 12 | (uint64_t)kind << 4 | WORD_DATA,
        __ATOMIC_RELEASE);
    l->pos += data_words(bytes);
    l->last = now;
}

void lane_data(struct lane *l, enum data_kind kind, const void *head, size_t head_bytes,
               const char *text, size_t text_bytes)
{
    if (text_bytes > DATA_BYTES_MAX - 64)
        text_bytes = DATA_BYTES_MAX - 64;
    size_t words = data_words(head_bytes + text_bytes);
    if (l->pos + words < l->limit || lane_room(l, words))
        put_data(l, kind, head, head_bytes, text, text_bytes);
}

void lane_begin_full(struct lane *l, const void *key, uint32_t number, unsigned kind,
                     const struct prelude *prelude)
{
    if (unlikely(l->top + 1 == l->stack_end) && !lane_grow(l))
        return;
    struct open o = {.key = key, .number = number, .kind = kind};
    uint32_t depth = (uint32_t)(l->top - l->stack);
    size_t args = prelude->args_bytes > DATA_BYTES_MAX ? DATA_BYTES_MAX : prelude->args_bytes;
    size_t words = prelude->args ? data_words(args) : 0;
    if (tracer.options.max_depth && depth >= tracer.options.max_depth) {
        o.kind = 0;
    } else if ((l->pos && l->pos + words < l->limit) || lane_room(l, words)) {
        o.from = l->pos;
        o.before = l->last;
        if (prelude->args)
            put_data(l, DATA_ARGS, NULL, 0, prelude->args, args);
        if (prelude->task)
            lane_put(l, clock_ticks(), (uint64_t)prelude->task << WORD_NUMBER_SHIFT | WORD_TASK);
        lane_put(l, clock_ticks(),
                 (uint64_t)(number & WORD_NUMBER_MAX) << WORD_NUMBER_SHIFT | kind);
        o.to = l->pos;
        o.begun = l->last;
    }
    *++l->top = o;
    if (number & NAME_SPARSE)
        l->active++;
}

void lane_end_full(struct lane *l, unsigned kind)
{
    struct open *o = l->top;
    if (o->kind == 0) {
        /* never written */
    } else if (tracer.min_ticks && o->to && o->to == l->pos &&
               clock_ticks() - o->begun < tracer.min_ticks) {
        memset(o->from, 0, (size_t)((char *)o->to - (char *)o->from));
        l->pos = o->from;
        l->last = o->before;
    } else if (likely(l->pos < l->limit) || lane_room(l, 0)) {
        lane_put(l, clock_ticks(), kind);
    }
    if (o->number & NAME_SPARSE)
        l->active--;
    l->top--;
}

bool lane_unwind_to(struct lane *l, const void *key)
{
    struct open *o = l->top;
    while (o > l->stack && o->key != key)
        o--;
    if (o == l->stack)
        return false;
    while (l->top > o)
        lane_end_full(l, WORD_END);
    return true;
}

void lane_left(struct lane *l, uint32_t number)
{
    if (!tracer.options.left)
        return;
    if (likely(l->pos < l->limit) || lane_room(l, 0))
        lane_put(l, clock_ticks(),
                 (uint64_t)(number & WORD_NUMBER_MAX) << WORD_NUMBER_SHIFT | WORD_LEFT);
}
