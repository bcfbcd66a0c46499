/* Reading the stack of a thread that runs, without stopping it, and proving that it existed.
 *
 * One vectored read copies everything the stack is expected to consist of, twice: the thread state,
 * the live part of its data stack (3.11+) or its frame objects (up to 3.10), and in between what
 * identifies the code objects. The reading is accepted only if
 *
 *   P1  the current frame is the same in both copies;
 *   P2  every frame on the chain has the same code, caller and owner in both, and every frame but
 *       the top one stands at the same instruction with the same variables (3.11+);
 *   P3  the chain ends where a chain ends (from 3.12 on: in a shim), within bounds, and no link
 *       leaves what was copied, and it leads through what the evaluator before the innermost one
 *       runs, where that is known (3.11, 3.12);
 *   P4  every code object is one that is known and still the same (code_places() in code.h; from
 *       3.14 on it is enough that no code object has died), and every instruction lies inside its
 *       code.
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
/* Something of it is no longer there: start afresh. */
void peek_forget(struct peek *p);
/* The thread's frames are about to be read by other means. */
void peek_invalidate(struct peek *p);
/* Whether a caller that went on and came back to the same instruction can be told by its variables (P2). Up to 3.10
 * it cannot: there a program that is quick enough can fool a peek, and what is proved is sure only of others. */
bool peek_sees_variables(const struct python *py);
bool peek_has_guess(const struct peek *p);

/* How many ranges the next reading takes, and the ranges themselves. */
int peek_range_count(const struct peek *p);
int peek_ranges(struct peek *p, struct mem_range *ranges);
/* Judge what was read into the ranges. */
enum peek_result peek_judge(struct peek *p, struct python *py, struct py_thread *t);
/* After PEEK_MISSED: walk the running thread, unproved, only to learn what to read. */
int peek_relearn(struct peek *p, struct python *py, const struct py_thread *t);
/* After PEEK_MOVED, for those who never stop a thread: the stack as the first copy has it,
 * unproved. */
int peek_take_unproved(struct peek *p, struct python *py, struct py_thread *t);

#endif
