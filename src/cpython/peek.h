/* Reading the stack of a thread that runs, without stopping it, and proving that it existed.
 *
 * One vectored read copies everything the stack is expected to consist of, twice: the thread state,
 * the live part of its data stack (3.11+) or its frame objects (up to 3.10), and in between what
 * identifies the code objects. The reading is accepted only if
 *
 *   P1  the current frame is read between the two copies, or is the same in both;
 *   P2  every frame on the chain has the same code, caller and owner in both, and every frame but
 *       the top one stands at the same instruction with the same variables (3.11+);
 *   P3  the chain ends as a chain does (walk_has_end() in walk.h), within bounds, no link
 *       leaves what was copied, and it leads through what the evaluator before the innermost one
 *       runs, where that is known (3.11, 3.12);
 *   P4  every code object is one that is known and still the same (code_places() in code.h; from
 *       3.13 on it is enough that CPython's count of them has not moved), and every instruction lies inside its
 *       code.
 *
 * Where nothing else is needed a reading is quick (3.13+): only the data stack and, in between, the thread state.
 * Then P2 and P3 hold for the callers whose bytes, variables and all, are what they were in the last stack that was
 * proved, and only the frames above them are looked at. (peek_quick.c)
 *
 * What to read is predicted from the last look. A wrong guess costs a second read; a stack that
 * changed under the reading is reported as such, for the caller to stop the thread or to mark the
 * sample. */
#ifndef SCRY_CPYTHON_PEEK_H
#define SCRY_CPYTHON_PEEK_H

#include "access/mem.h"
#include "cpython/python.h"

enum peek_result {
    PEEK_PROVED, /* thread->frames are true */
    PEEK_SAME, /* proved, and the same as last time: thread->frames and stack_version did not change
                */
    PEEK_MISSED, /* the guess was wrong, or code is not known yet: learn, then try again */
    PEEK_MOVED,  /* the stack changed while it was read */
};

struct peek; /* one per thread */

struct peek *peek_new(void);
void peek_free(struct peek *p);

/* Forget the prediction: the thread state was given to another thread. */
void peek_reset(struct peek *p);
/* Take the prediction from what python_walk() has just met. */
void peek_learn(struct peek *p, struct python *py, const struct py_thread *t);
/* What was learned is also true: the thread stood still. */
void peek_trust(struct peek *p, struct python *py, const struct py_thread *t);
/* Something of it is no longer there: start afresh. */
void peek_forget(struct peek *p);
/* The thread's frames are about to be read by other means. */
void peek_invalidate(struct peek *p);
/* Whether a caller that went on and came back to the same instruction can be told by its variables (P2). Up to 3.10
 * it cannot: there a program that is quick enough can fool a peek, and what is proved is sure only of others. */
bool peek_sees_variables(const struct python *py);
/* Whether the thread went on during the last reading, or nothing moved at all. */
bool peek_saw_it_run(const struct peek *p);
/* The innermost frame that the last reading showed, proved or not; 0 = it showed none. */
scry_addr peek_leaf(const struct peek *p);
bool peek_has_guess(const struct peek *p);

/* The memory was not read lately: read it once more beforehand, for the two copies to follow each other faster. */
void peek_warm(struct peek *p, bool warm);
/* Before a reading: what was learned is made into what is to be read. */
void peek_prepare(struct peek *p, struct python *py, const struct py_thread *t);
/* How many ranges the next reading takes, and the ranges themselves. */
int peek_range_count(const struct peek *p);
int peek_ranges(struct peek *p, struct mem_range *ranges);
/* So many readings in a row by the next read; returns how many it will be (one, unless it is a quick one). Call it
 * before peek_range_count(). */
int peek_ahead(struct peek *p, int count);
/* Of a thread that stands still: all that its stack is expected to consist of, once, in the order of addresses. `to`
 * has room for peek_still_count() ranges; the copies belong to the peek and last until its next reading. */
int peek_still_count(const struct peek *p);
int peek_still_ranges(struct peek *p, struct mem_range *to);
/* Judge what was read into the ranges. */
enum peek_result peek_judge(struct peek *p, struct python *py, struct py_thread *t);
/* On to the next reading of the same read, for peek_judge(); false where there is none. */
bool peek_next(struct peek *p);
/* After PEEK_MISSED: if that was a quick reading, the next one is full. False = that would not help. */
bool peek_widen(struct peek *p);
/* After PEEK_MISSED by a full reading: walk the running thread, unproved, only to learn what to read. */
int peek_relearn(struct peek *p, struct python *py, const struct py_thread *t);

#endif
