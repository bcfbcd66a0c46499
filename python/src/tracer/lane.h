/* A lane: where one thread writes its events, and what is open on its stack. Only the thread itself writes to it while
 * it lives; others touch it only when the tracer starts and stops, when no hook runs. */
#ifndef SCRY_TRACER_LANE_H
#define SCRY_TRACER_LANE_H

#include "names.h"
#include "tracer.h"

struct open {        /* a call that has begun */
    const void *key; /* the code object or method it was called by: compared, never looked into */
    uint32_t number; /* its name's, with flags */
    uint32_t kind;   /* the word it began with; 0: it is not written, nor is its end */
    /* Set by the longer way only: what to go back to if it turns out too short to be kept. */
    uint64_t begun;
    uint64_t before;     /* `last` before its words */
    uint64_t *from, *to; /* its words */
};

struct known { /* a name looked up before; holds while the epoch does */
    const void *key;
    uint32_t number;
    uint32_t epoch;
};
#define KNOWN_SIZE 512u

struct lane {
    uint64_t *pos, *limit; /* room for LANE_MARGIN words more is behind the limit */
    uint64_t last;         /* ticks of the last word */
    struct open *top;      /* the innermost open call; stack[0] stands for none, its key is NULL */
    struct open *stack, *stack_end;
    const void *raised; /* the exception that was marked last: compared, never looked into */
    uint32_t active;    /* open calls of functions that sparse tracing waits for */
    bool ended;         /* its thread has */
    bool named;
    uint32_t asked; /* how often its name was asked for */
    uint32_t number;
    uint32_t thread;
    uint32_t slot_number;
    struct slot *slot;
    uint64_t sequence;
    uint32_t generation; /* start of the tracer it has been made ready for */
    uint64_t ident;
    struct lane *next;
    struct known known[KNOWN_SIZE];
};

#define LANE_MARGIN 8u

extern __thread struct lane *lane_here __attribute__((tls_model("initial-exec")));

int lane_init(void);
/* This thread's lane, made or made ready; NULL when there is no memory. */
struct lane *lane_enter(void);
/* Get room for `words` words more; false: there is none, or the tracer is off. */
bool lane_room(struct lane *l, size_t words);
/* Time that does not fit into a word, or that went back; returns what is left for the word itself. */
uint64_t lane_far(struct lane *l, uint64_t *now);
/* Make the stack larger; false: it stays as it is. */
bool lane_grow(struct lane *l);
/* Something of kind DATA_..., before the next word. Cut to DATA_BYTES_MAX. */
void lane_data(struct lane *l, enum data_kind kind, const void *head, size_t head_bytes,
               const char *text, size_t text_bytes);
/* The tracer starts: nothing is open anywhere. Stops: no lane has room any more. */
void lanes_reset(void);
void lanes_close(void);
/* In a forked child: the others' threads are not there; this one's calls are still open. */
void lanes_forked(void);
/* In the child, once it has an image of its own. */
void lane_reopen(struct lane *l);
/* Names of the threads that are still nameless, and new names. */
void lanes_name(void);

/* The number and flags of a code object; tells the lane to remember. */
uint32_t lane_name_code(struct lane *l, PyObject *code);
uint32_t lane_name_c(struct lane *l, const PyMethodDef *method, PyObject *callable);

static inline struct known *lane_known(struct lane *l, const void *key)
{
    uintptr_t k = (uintptr_t)key;
    return &l->known[(k >> 4 ^ k >> 12) & (KNOWN_SIZE - 1)];
}

static inline uint32_t lane_code(struct lane *l, PyObject *code)
{
    const struct known *k = lane_known(l, code);
    if (likely(k->key == code && k->epoch == __atomic_load_n(&tracer.epoch, __ATOMIC_RELAXED)))
        return k->number;
    return lane_name_code(l, code);
}

static inline void lane_put(struct lane *l, uint64_t now, uint64_t low)
{
    uint64_t ticks = now - l->last;
    if (unlikely(ticks >> WORD_TICKS_BITS))
        ticks = lane_far(l, &now);
    *l->pos++ = ticks << WORD_TICKS_SHIFT | low;
    l->last = now;
}

/* A call begins. The number comes without flags. */
static inline void lane_begin(struct lane *l, const void *key, uint32_t number, unsigned kind)
{
    if (unlikely(l->top + 1 == l->stack_end) && !lane_grow(l))
        return;
    /* Before it is on the stack: a slot that begins here does not list it as open. */
    if (likely(l->pos < l->limit) || lane_room(l, 0))
        lane_put(l, clock_ticks(), (uint64_t)number << WORD_NUMBER_SHIFT | kind);
    struct open *o = ++l->top;
    o->key = key;
    o->number = number;
    o->kind = kind;
}

/* The innermost call ends. */
static inline void lane_end(struct lane *l, unsigned kind)
{
    if (likely(l->pos < l->limit) || lane_room(l, 0))
        lane_put(l, clock_ticks(), kind);
    l->top--;
}

/* The longer ways, for options that need them: depth, shortest duration, arguments. */
struct prelude {      /* what is said about a call before it begins */
    uint32_t task;    /* the number of the task it is a step of; 0: none */
    const char *args; /* NULL: not asked for */
    size_t args_bytes;
};
void lane_begin_full(struct lane *l, const void *key, uint32_t number, unsigned kind,
                     const struct prelude *prelude);
void lane_end_full(struct lane *l, unsigned kind);

/* A call ends that is not the innermost one: what is above it on the stack was left without a word. False if it is
 * not on the stack at all. */
bool lane_unwind_to(struct lane *l, const void *key);
/* The end of a call that began before the tracer did. */
void lane_left(struct lane *l, uint32_t number);

#endif
