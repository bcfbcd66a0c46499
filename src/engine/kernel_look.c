/* A stack that was read by the kernel in the middle of its thread is true as it stands. Two things can be wrong with it: the thread was
 * just linking a frame in or out (then what it stands for is added to its next sample), or a function is gone before its name was read.
 *
 * Threads that began and ended between two collections are not in the interpreter's list when it is read. They are kept in a
 * list of their own for as long as something may come from them. */
#include "engine/kernel_look.h"

#include <stdlib.h>
#include <string.h>

#include "engine/target_private.h"

#define LEAST_PACE   10.0
#define FIRST_PACE   40.0
#define MOST_PACE    640.0
#define PASSING      256
#define JITTER_EVERY (100ULL * 1000 * 1000)
#define TICK         (10ULL * 1000 * 1000) /* the longest there is */
#define GONE_MEMORY  512                   /* samples */
#define GONE_LIMIT   0.0075                /* of them may be without a name */
#define GONE_MOST    8                     /* in the first ones */
#define ACCOUNT_FIRST                                                                              \
    4 /* times what threads may owe: then it is looked whether all is accounted for, ... */
#define ACCOUNT_EXACT 32  /* ... and then more exactly */
#define NODE_PRICE    200 /* nanoseconds a node takes, about */
#define PRICE_MEMORY  64

struct kernel_target {
    struct kernel_walk *walk;
    struct known_thread *passing[PASSING];
    size_t passing_count, passing_next;
    scry_nsec last;     /* sample */
    scry_nsec jittered; /* when */
    uint64_t seed, lost;
    double gone_share, seen;
    bool gone_now;      /* since the last collection */
    scry_nsec cpu, ran; /* the process's own time, and what is accounted for */
    bool escape;        /* threads do */
    double price;       /* the share of a thread's time that goes into following its chain, about */
    scry_nsec period;
    double pace; /* collections per second */
    /* of the collection that is going on */
    struct target *target;
    const struct look *look;
    int (*take)(const struct kernel_seen *, void *);
    void *context;
};

int target_kernel_begin(struct target *t, scry_nsec period, struct error *err)
{
    struct kernel_plan plan;
    int r = in_kernel_plan(t->python, &plan, err);
    if (r < 0)
        return r;
    struct kernel_target *k = calloc(1, sizeof(*k));
    if (!k)
        return error_set(err, -SCRY_E_NO_MEMORY, "out of memory");
    k->target = t;
    k->seed = clock_now();
    k->pace = FIRST_PACE;
    k->period = period;
    r = kernel_walk_open(t->process, &plan, period, &k->walk, err);
    if (r < 0) {
        free(k);
        return r;
    }
    k->cpu = process_cpu_time(t->process);
    t->private->kernel = k;
    return 0;
}

bool target_kernel_runs(const struct target *t)
{
    return t->private->kernel;
}

void target_kernel_end(struct target *t)
{
    struct kernel_target *k = t->private->kernel;
    if (!k)
        return;
    kernel_walk_close(k->walk);
    for (size_t i = 0; i < k->passing_count; i++)
        known_thread_free(k->passing[i]);
    free(k);
    t->private->kernel = NULL;
}

uint64_t target_kernel_lost(struct target *t)
{
    struct kernel_target *k = t->private->kernel;
    uint64_t lost = kernel_walk_lost(k->walk), before = k->lost;
    k->lost = lost;
    return lost - before;
}

bool target_kernel_fails(const struct target *t)
{
    const struct kernel_target *k = t->private->kernel;
    return k->escape || (k->seen * k->gone_share >= GONE_MOST && k->gone_share > GONE_LIMIT);
}

double target_kernel_pace(const struct target *t)
{
    return t->private->kernel->pace;
}

/* Codes that a passing thread's stack speaks of are kept. */
void kernel_look_mark_codes(const struct kernel_target *k)
{
    for (size_t i = 0; i < k->passing_count; i++)
        for (size_t f = 0; f < k->passing[i]->python.frame_count; f++)
            code_cache_mark(k->passing[i]->python.frames[f].code);
}

/* ---- whose is it? ---- */

static bool is_of(const struct known_thread *thread, const struct kernel_sample *sample)
{
    return thread->ns_tid == (pid_t)sample->tid && thread->python.tstate == sample->record;
}

void kernel_look_keep(struct kernel_target *k, struct known_thread *thread)
{
    if (k->passing_count < PASSING) {
        k->passing[k->passing_count++] = thread;
        return;
    }
    known_thread_free(k->passing[k->passing_next]);
    k->passing[k->passing_next] = thread;
    k->passing_next = (k->passing_next + 1) % PASSING;
}

static struct known_thread *add_passing(struct kernel_target *k, const struct kernel_sample *sample)
{
    struct known_thread *thread = calloc(1, sizeof(*thread));
    if (!thread)
        return NULL;
    thread->ns_tid = (pid_t)sample->tid;
    /* In another namespace it had another number here, which nobody can say any more. */
    thread->tid = k->target->process->other_pid_ns ? 0 : thread->ns_tid;
    thread->python.tstate = sample->record;
    thread->python.ns_tid = thread->ns_tid;
    kernel_look_keep(k, thread);
    return thread;
}

static struct known_thread *thread_of(struct kernel_target *k, const struct kernel_sample *sample)
{
    struct target_private *p = k->target->private;
    for (size_t i = 0; i < p->known_count; i++)
        if (is_of(p->known[i], sample))
            return p->known[i];
    for (size_t i = 0; i < k->passing_count; i++)
        if (is_of(k->passing[i], sample))
            return k->passing[i];
    return add_passing(k, sample);
}

static bool is_wanted(const struct kernel_target *k, const struct known_thread *thread)
{
    const struct look *look = k->look;
    if (look->gil_only && !thread->python.owns_gil)
        return false;
    return !look->choice || choice_takes_thread(look->choice, thread->tid, thread->name);
}

/* ---- what was seen ---- */

static void remember_gone(struct kernel_target *k, bool gone)
{
    k->gone_now |= gone;
    if (k->seen < GONE_MEMORY)
        k->seen++;
    k->gone_share += ((gone ? 1 : 0) - k->gone_share) / k->seen;
}

static scry_addr root_of(const struct kernel_sample *sample, const struct kernel_node *nodes)
{
    return sample->count ? nodes[sample->count - 1].addr : 0;
}

/* What it stands for and nobody has been told of yet, in whole microseconds. */
static scry_nsec take_whole(scry_nsec *owed)
{
    scry_nsec whole = *owed / 1000 * 1000;
    *owed -= whole;
    return whole;
}

static int hand_over(struct kernel_target *k, struct known_thread *thread, scry_nsec when)
{
    struct target_private *p = k->target->private;
    p->snapshot.count = 0;
    if (look_report(k->target, k->look, thread) < 0)
        return -SCRY_E_NO_MEMORY;
    k->last = when > k->last ? when : k->last; /* two CPUs may be at it at once */
    return k->take(&(struct kernel_seen){.snapshot = &p->snapshot,
                                         .when = k->last,
                                         .ran = take_whole(&thread->kernel_ran),
                                         .waited = take_whole(&thread->kernel_waited)},
                   k->context);
}

/* Timers that went off late, because a virtual machine was not on a CPU itself, have gone off less often than they should: what is
 * missing for certain is added. */
static void count_time(struct known_thread *thread, const struct kernel_sample *sample)
{
    if (!thread->kernel_seen) {
        thread->kernel_seen = true;
        thread->kernel_waited_at = sample->waited;
        thread->kernel_ran_at = sample->ran;
    }
    thread->kernel_ran += sample->period;
    thread->kernel_ran_at += sample->period;
    if (sample->ran > thread->kernel_ran_at + TICK + sample->period) {
        scry_nsec missing = sample->ran - thread->kernel_ran_at - TICK - sample->period;
        thread->kernel_ran += missing;
        thread->kernel_ran_at += missing;
    }
    /* Nor ahead of the kernel's own account. */
    if (thread->kernel_ran_at > sample->ran + TICK)
        thread->kernel_ran_at = sample->ran + TICK;
    if (sample->waited > thread->kernel_waited_at)
        thread->kernel_waited += sample->waited - thread->kernel_waited_at;
    thread->kernel_waited_at = sample->waited;
}

/* Following a chain takes the thread's own time. */
static void check_price(struct kernel_target *k, const struct kernel_sample *sample)
{
    if (sample->period)
        k->price +=
            ((double)sample->count * NODE_PRICE / (double)sample->period - k->price) / PRICE_MEMORY;
}

static int take_sample(const struct kernel_sample *sample, const struct kernel_node *nodes,
                       void *context)
{
    struct kernel_target *k = context;
    struct target *t = k->target;
    struct known_thread *thread = thread_of(k, sample);
    if (!thread || (!thread->in_kernel && !(thread->in_kernel = in_kernel_new())))
        return -SCRY_E_NO_MEMORY;
    count_time(thread, sample);
    check_price(k, sample);
    int r = in_kernel_take(thread->in_kernel, t->python, sample, nodes, &thread->python);
    if (r == -SCRY_E_NO_MEMORY)
        return r;
    t->stats.reads++;
    scry_addr root = root_of(sample, nodes);
    bool moved = r == -SCRY_E_TORN || (thread->root && root != thread->root);
    thread->root = root;
    if (moved && !thread->kernel_put_off) {
        t->stats.moved++;
        thread->kernel_put_off = true;
        return 0;
    }
    thread->kernel_put_off = false;
    remember_gone(k, r == -SCRY_E_CORRUPT);
    thread->torn = r < 0;
    thread->activity = TASK_RUNNING;
    t->stats.peeked += r == 0;
    return is_wanted(k, thread) ? hand_over(k, thread, sample->time) : 0;
}

/* Seldom, but so often that samples do not want for room, and that functions are still there to be asked for their names. */
static void choose_pace(struct kernel_target *k)
{
    double full = kernel_walk_fullness(k->walk);
    if (full > 0.25 || k->gone_now)
        k->pace *= 2;
    else if (full < 0.0625)
        k->pace /= 2;
    k->pace = k->pace < LEAST_PACE ? LEAST_PACE : k->pace > MOST_PACE ? MOST_PACE : k->pace;
    k->gone_now = false;
}

/* Is the time that the process ran accounted for? Some always is not: of each thread what comes after its timer last went off, or after the tick before. The longer
 * one waits the more exactly it is known. */
static void check_account(struct kernel_target *k)
{
    const struct target_private *p = k->target->private;
    scry_nsec cpu = process_cpu_time(k->target->process), ran = kernel_walk_ran(k->walk);
    scry_nsec owed = (2 * k->period + TICK) * (p->tasks.count + 1), spent = cpu - k->cpu;
    if (!cpu || !k->cpu || spent < ACCOUNT_FIRST * owed)
        return;
    bool exact = spent >= ACCOUNT_EXACT * owed;
    k->escape = ran - k->ran + owed + spent / (exact ? 16 : 4) < spent;
    if (exact) {
        k->cpu = cpu;
        k->ran = ran;
    }
}

double target_kernel_price(const struct target *t)
{
    return t->private->kernel->price;
}

int target_kernel_collect(struct target *t, const struct look *look,
                          int (*take)(const struct kernel_seen *, void *), void *context)
{
    struct kernel_target *k = t->private->kernel;
    scry_nsec now = clock_now();
    int met = look_meet(t, now);
    k->look = look;
    k->take = take;
    k->context = context;
    int r = kernel_walk_drain(k->walk, take_sample, k);
    t->stats.memory_calls = t->private->ahead_mem->under->calls;
    choose_pace(k);
    check_account(k);
    if (now - k->jittered >= JITTER_EVERY) {
        kernel_walk_jitter(k->walk, &k->seed);
        k->jittered = now;
    }
    return r < 0 ? r : met < 0 && !process_alive(t->process) ? -SCRY_E_GONE : met;
}
