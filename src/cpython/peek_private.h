/* Private to peek.c, which reads all that a stack consists of, and peek_quick.c, which reads only its data stack. */
#ifndef SCRY_CPYTHON_PEEK_PRIVATE_H
#define SCRY_CPYTHON_PEEK_PRIVATE_H

#include "cpython/copies.h"
#include "cpython/peek.h"
#include "cpython/raw.h"
#include "cpython/walk.h"

#define PEEK_RECENT      16
#define PEEK_CHURN_LOOKS 256 /* check code objects one by one for so long after one was freed ... */
#define PEEK_CHURN_NEW   8   /* ... or one was met for the first time */
#define PEEK_AHEAD_MOST  3
#define PEEK_LOWER_MOST  8 /* pieces of the data stack below that of the innermost frame */

/* What a quick reading consists of: the data stack, the thread state, the data stack again; the count of code objects
 * at the end. Several readings in a row share the copies between them.
 *
 * Of a data stack in several pieces `stack` is the one with the innermost frames. Those below it are read before and
 * after it, and do not change as long as there is a frame above them. */
struct quick {
    struct mem_range stack, tstate, generation; /* `to` is not used */
    struct mem_range lower[PEEK_LOWER_MOST];    /* the same */
    int lower_count;
    size_t lower_len;       /* of all */
    int readings;           /* by the next read, or the last one */
    int at;                 /* the one that is judged */
    unsigned char *data[2]; /* read into by turns: one may hold what is kept */
    size_t cap[2];
    int side;
    unsigned char *lower_kept; /* what they held when the last full reading was proved */
    size_t lower_cap;
};

struct peek {
    struct copies full;
    bool full_made;      /* it is what was learned last */
    struct copies still; /* what the last walk met, for the next one */
    struct walk_place *places;
    size_t place_count, place_cap; /* the same, before it was made into ranges */
    struct quick quick;
    bool is_quick; /* the next reading, or the last one */
    bool warm;
    bool saw_it_run;
    scry_addr leaf; /* of the last reading; 0 = it was not seen */
    bool has_guess;

    scry_addr tstate;
    size_t tstate_len;

    struct found_frames found; /* of this reading */
    struct found_frames last;  /* of the last one that was proved */
    bool has_last;
    struct {
        const unsigned char *copy; /* of the data stack when `last` was proved; NULL = none */
        size_t len;                /* of the copy */
        scry_addr addr;
        size_t room;   /* so much was, or is to be, read */
        size_t frames; /* of `last` that lie in it; the others lie in lower pieces */
        uint64_t generation;
    } kept;
    unsigned char *trusted; /* such a copy, by other means */
    size_t trusted_cap;
    int full_for;   /* so many readings before the next quick one */
    int full_after; /* the next quick one that fails */

    scry_addr recent[PEEK_RECENT]; /* frames outside of the data stack that were innermost lately */
    unsigned recent_next;
    scry_addr recent_code[PEEK_RECENT];
    unsigned recent_code_next;
    scry_addr recent_cframes[PEEK_RECENT]; /* of the evaluator's C frames (3.11, 3.12) */
    unsigned recent_cframe_next;
    int churn; /* looks for which code objects are still checked one by one */

    struct py_thread scratch; /* for walks that only learn */
};

/* The two copies of something. */
struct both {
    struct raw first, second;
};

/* A thread state may have been given to another thread, even one with the same pthread_t. */
bool peek_belongs_to(struct raw tstate, const struct layout *l, const struct py_thread *t);
/* One frame of 3.11+, the same in both copies but for the top one's instruction (P2). Returns the caller. */
enum peek_result peek_take_frame(struct peek *p, const struct layout *l, const struct both *b,
                                 scry_addr addr, scry_addr *ret_caller);
/* How many bytes at the beginning are the same, in steps of 8. */
size_t peek_same_bytes(const unsigned char *a, const unsigned char *b, size_t len);
bool peek_same_frame(const struct found_frame *a, const struct found_frame *b);
bool peek_lines_known(const struct py_thread *t, size_t count);
/* Whether the thread has the GIL, where its own state says so. */
void peek_read_gil(struct raw tstate, const struct layout *l, struct py_thread *t);
void peek_check_codes_for(struct peek *p, const struct layout *l, int looks);

/* peek_quick.c: all frames lie in p->kept and in the lower pieces, so the next readings need nothing else. False without
 * memory. */
bool quick_begin(struct peek *p, const struct layout *l, const struct py_thread *t);
/* Which lower pieces there are, each with what it holds; before quick_begin(). */
bool quick_keep_lower(struct quick *q, const struct mem_range *pieces, int count);
void quick_done(struct quick *q);
int quick_range_count(const struct peek *p);
int quick_ranges(struct peek *p, struct mem_range *to);
enum peek_result quick_judge(struct peek *p, struct python *py, struct py_thread *t);

#endif
