/* One look at a process. Every stack that is reported existed, and how a thread is read does not
 * depend on what it happens to do at that moment, or the shares would be wrong:
 *
 *   L1  A thread that was asleep and has not been on a CPU since its stack was read still has
 *       that stack: nothing is read.
 *   L2  Any other thread is peeked at (cpython/peek.h): one vectored read for all of them, no
 *       stop. What peek proves is taken.
 *   L3  Where peek finds the stack changing under the reading it is made once more; if that fails,
 *       too, the thread is stopped, alone, and read; unless it happens to wait for the very CPU that
 *       runs scry: then it stands already.
 *   L4  Fast code is caught changing more often than slow code, and what is read after the stop is
 *       a later moment: taking peeks whenever they succeed would make fast code look like its slow
 *       callers. So a thread whose peeks fail more than MOVED_LIMIT of the time (BLIND_LIMIT up to
 *       3.10) is stopped for each look, whatever a peek would say; now and then some are made only
 *       to see whether that is still so, as far as a small share of the time allows. A thread that is
 *       met for the first time counts as one of these.
 *
 * With BLOCKING_NEVER nothing is stopped and what could not be proved is marked torn. With BLOCKING_ALWAYS all threads are
 * stopped first, and only then it is asked which there are and what they were doing: that is the truth which all else is held
 * against. One thread's trouble costs its own sample only. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "access/stop.h"
#include "engine/target_private.h"

#define STOP_LIMIT        (50ULL * 1000 * 1000)
#define MEET_EVERY        (1000 * 1000ULL) /* new threads are noticed within this */
#define MEET_EVERY_ASLEEP (50 * MEET_EVERY)
/* A thread that holds the GIL whenever it is read is taken to run for so long. */
#define ACTIVITY_EVERY (10ULL * 1000 * 1000)
#define MOVED_LIMIT    0.03
#define MOVED_TOO_MUCH                                                                             \
    0.05 /* for a thread that was below the limit: what is measured varies a little */
#define BLIND_LIMIT    0.01   /* where a peek can be fooled; that is strict */
#define MOVED_MEMORY   256    /* moved_share is that of so many peeks */
#define MOVED_PRIOR    64     /* and begins as if there had been so many */
#define LATE_LIMIT     0.0075 /* the share of peeks that may be right only too late; of ... */
#define LATE_MEMORY    256    /* ... so many; half of it to be trusted again */
#define LATE_MOST      0.03   /* to be forgotten in time when it is no longer so */
#define LATE_PRIOR     64     /* it begins as if there had been so many, ... */
#define LATE_FIRST     0.005  /* ... with such a share */
#define STILL_EVIDENCE 0.2    /* where a peek can be fooled; elsewhere by its share of a CPU ... */
#define STILL_SPAN     (8ULL * 1000 * 1000) /* ... over so long, for the kernel counts by ticks */
#define HOPELESS       0.35                 /* such a share, when so many peeks are known, ... */
#define HOPELESS_AFTER 64                   /* ... will not become small soon */
#define PROBE_EVERY    8                    /* looks, at first; then twice as many, and so on ... */
#define PROBE_MOST     128                  /* ... as long as nothing changes */
#define PROBE_PEEKS    7
#define PROMISING      2.5 /* times the limit: such a share may have been bad luck */
#define LEARN_PEEKS    31  /* so many at a time until FIRST_PEEKS are known ... */
#define LEARN_WEIGHT   3   /* ... or a third, where none is fooled: those of one moment are alike */
#define LEARN_AT_FIRST (40ULL * 1000 * 1000) /* nanoseconds to learn, for all threads ... */
#define LEARN_SHARE    500                   /* ... and 1/500 of the time */
#define LEARN_PER_STOP 1 /* ... and as long as stops take, which might be spared */
#define WARM_AFTER     (50 * 1000ULL)
#define SWIFT_TRIES    3
#define SWIFT_BASE                                                                                 \
    20000 /* nanoseconds a reading may take, beyond so many times what it takes usually */
#define SWIFT_TIMES     4
#define SWIFT_MEMORY    16
#define PEEK_TRIES      3
#define LOOK_TRIES      3
#define LOOK_AGAIN      1 /* threads were added meanwhile */
#define NAME_EVERY      (200ULL * 1000 * 1000)
#define STOP_TRIES      4
#define FIRST_PEEKS     512   /* made at every look, to learn quickly */
#define STOP_SHARE      10    /* threads are stopped for at most 1/10 of the time */
#define STOP_CHARGE     20000 /* nanoseconds, for the stop itself */
#define STOP_CREDIT_MAX (200ULL * 1000 * 1000)
#define SWEEP_AT        64
#define AHEAD_MOST      256 /* ranges read ahead of a walk; more would hold the thread for longer */

static struct thread_state *add_state(struct snapshot *s)
{
    if (s->count == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 16;
        struct thread_state *grown = realloc(s->threads, cap * sizeof(*grown));
        if (!grown)
            return NULL;
        s->threads = grown;
        s->cap = cap;
    }
    struct thread_state *state = &s->threads[s->count++];
    *state = (struct thread_state){0};
    return state;
}

int look_report(struct target *t, const struct look *look, struct known_thread *k)
{
    struct thread_state *state = add_state(&t->private->snapshot);
    if (!state)
        return -SCRY_E_NO_MEMORY;
    *state = (struct thread_state){
        .python = &k->python,
        .tid = k->tid,
        .ns_tid = k->ns_tid,
        .name = k->name,
        .name_version = k->name_version,
        .memo = &k->memo,
        .run_time = k->watched ? k->watch.run_time : 0,
        .run_before = k->run_before,
        .active = k->activity != TASK_BLOCKED,
        .owns_gil = k->python.owns_gil,
        .torn = k->torn,
        .merged = look->native && k->native ? &k->native->merged : NULL,
    };
    if (look->wait_reasons && !state->active && k->tid > 0)
        task_wait_reason(t->process, k->tid, state->wait, sizeof(state->wait));
    return 0;
}

/* ---- does it run? ---- */

/* A thread that was running a moment ago and holds the GIL is running still, as far as a look in
 * between can tell; asking the kernel each time would cost more than reading its stack. */
static bool surely_runs(const struct known_thread *k, scry_nsec now)
{
    return k->activity == TASK_RUNNING && k->python.owns_gil &&
           now - k->activity_at < ACTIVITY_EVERY;
}

/* What it did when it was stopped, whatever the kernel says of it now. */
static void take_frozen_activity(const struct freeze *f, struct known_thread *k, scry_nsec now)
{
    bool ran;
    if (k->watched)
        task_watch_look(&k->watch, &ran);
    k->activity = freeze_activity(f, k->tid);
    k->activity_at = now;
}

/* Whether it may have run since its stack was read (L1). */
static bool has_moved_on(const struct target_private *p, struct known_thread *k, scry_nsec now)
{
    k->ran = true;
    if (p->freeze.count) {
        take_frozen_activity(&p->freeze, k, now);
        return true;
    }
    if (!k->watched) {
        k->activity = TASK_UNKNOWN;
        return true;
    }
    if (surely_runs(k, now))
        return true;
    bool ran;
    k->activity = task_watch_look(&k->watch, &ran);
    k->activity_at = now;
    k->ran = ran || k->activity != TASK_BLOCKED;
    return ran || k->activity != TASK_BLOCKED || !k->has_stack;
}

static bool reserve_ranges(struct target_private *p, size_t count)
{
    if (p->range_cap >= count)
        return true;
    struct mem_range *grown = realloc(p->ranges, (count + 64) * sizeof(*grown));
    if (!grown)
        return false;
    p->ranges = grown;
    p->range_cap = count + 64;
    return true;
}

/* ---- reading one thread ---- */

/* `ret_late`: only its frames were read; what runs in them is left to end_walk(), when it may go on. NULL = not to be
 * left. */
static int walk_and_visit(struct target *t, const struct look *look, struct known_thread *k,
                          bool *ret_late)
{
    peek_invalidate(k->peek);
    int r = python_walk_begin(t->python, &k->python);
    bool late =
        r == 0 && ret_late && !look->visit && !look->native && python_walk_may_end_late(t->python);
    if (ret_late)
        *ret_late = late;
    if (r == 0 && !late)
        r = python_walk_end(t->python, &k->python, false);
    if (r == 0 && look->visit)
        look->visit(t, &k->python, look->visit_context);
    return r;
}

static int end_walk(struct target *t, struct known_thread *k, int r, bool late)
{
    return r == 0 && late ? python_walk_end(t->python, &k->python, true) : r;
}

/* The same of a thread that stands still, or is yet to be proved to have stood: where its last stack lay is read
 * beforehand, by one system call. */
static int walk_still(struct target *t, const struct look *look, struct known_thread *k,
                      bool *ret_late)
{
    struct target_private *p = t->private;
    int count = peek_still_count(k->peek);
    if (!count || count > AHEAD_MOST || !reserve_ranges(p, (size_t)count))
        count = 0;
    count = count ? peek_still_ranges(k->peek, p->ranges) : 0;
    bool there = mem_ahead_begin(p->ahead_mem, p->ranges, count);
    int r = walk_and_visit(t, look, k, ret_late);
    mem_ahead_end(p->ahead_mem);
    if (!there)
        peek_forget(k->peek);
    return r;
}

/* The outermost frame; 0 = no frames. */
static scry_addr root_of(const struct known_thread *k)
{
    return k->python.frame_count ? k->python.frames[k->python.frame_count - 1].addr : 0;
}

/* A chain that is broken or begins elsewhere than before: most likely the thread was caught while
 * it linked a frame in or out. If it is so again a moment later, it is really so (greenlets, a new
 * call from C). */
static bool is_doubtful(const struct known_thread *k)
{
    return k->python.incomplete || (k->root && root_of(k) && root_of(k) != k->root);
}

/* The time is counted from the request, which is the most the thread can have stood still. What it is charged
 * for is from when it was seen to stand: on a busy machine it takes long to come to a stop, but it runs until it
 * does. */
static void count_stop(struct target *t, scry_nsec asked, scry_nsec stopped, scry_nsec end)
{
    struct target_private *p = t->private;
    scry_nsec charge = end - stopped + STOP_CHARGE, most = asked ? end - asked : 0;
    p->stop_credit -= charge < p->stop_credit ? charge : p->stop_credit;
    p->learn_credit += (int64_t)(charge / LEARN_PER_STOP);
    t->stats.stops++;
    t->stats.stop_time += most;
    t->stats.held += charge;
    size_t bucket = (size_t)(most / STOP_STEP);
    t->stats.stop_times[bucket < STOP_BUCKETS ? bucket : STOP_BUCKETS - 1]++;
}

static int stop_and_read(struct target *t, const struct look *look, struct known_thread *k)
{
    struct stop stop = {0};
    struct target_private *p = t->private;
    bool late = false, frozen = freeze_holds(&p->freeze, k->tid);
    int r = frozen ? 0 : stop_thread(&stop, k->tid, look->stop_limit ?: STOP_LIMIT);
    scry_nsec stopped = clock_now();
    if (r == 0)
        r = walk_still(t, look, k, frozen ? NULL : &late);
    if (r == 0 && look->native)
        native_capture(p->native, k->native, t->python, &k->python, k->tid, true, stopped);
    stop_release(&stop);
    scry_nsec end = clock_now();
    if (!frozen)
        count_stop(t, stop.asked, stopped, end);
    if (r == 0 && look->native)
        native_finish(p->native, k->native, &k->python, end);
    return end_walk(t, k, r, late);
}

/* Without permission to stop any, they are looked at as they run. */
static void freeze_all(struct target *t, const struct look *look)
{
    struct target_private *p = t->private;
    if (look->blocking == BLOCKING_ALWAYS &&
        freeze_begin(&p->freeze, t->process, look->stop_limit ?: STOP_LIMIT) == 0)
        p->must_meet |= !python_threads_same(t->python, &p->mark);
}

static void go_on(struct target *t)
{
    struct freeze *f = &t->private->freeze;
    if (!f->count)
        return;
    scry_nsec begun = f->begun;
    size_t count = f->count;
    freeze_end(f);
    for (scry_nsec end = clock_now(); count; count--)
        count_stop(t, begun, begun, end);
}

/* From a thread that stood still. */
static void learn(struct target *t, struct known_thread *k)
{
    peek_learn(k->peek, t->python, &k->python);
    peek_trust(k->peek, t->python, &k->python);
}

static bool is_to_be_read_again(const struct look *look, const struct known_thread *k)
{
    return is_doubtful(k) || (look->native && k->native->want_more);
}

static int read_stopped(struct target *t, const struct look *look, struct known_thread *k)
{
    if (k->tid <= 0)
        return -SCRY_E_TORN;
    int r = stop_and_read(t, look, k);
    for (int i = 1; i < STOP_TRIES && r == 0 && is_to_be_read_again(look, k); i++) {
        k->root = root_of(k);
        /* Stopped again at once it would not have moved. */
        freeze_let_go(&t->private->freeze, k->tid);
        struct timespec pause = {.tv_nsec = 20000L << i};
        nanosleep(&pause, NULL);
        r = stop_and_read(t, look, k);
    }
    k->torn = k->python.incomplete;
    k->root = root_of(k);
    if (r == 0)
        learn(t, k);
    return r;
}

/* Asleep: read it and see that it still sleeps. */
static int read_asleep(struct target *t, const struct look *look, struct known_thread *k,
                       bool *ret_proved)
{
    bool ran, late;
    int r = walk_still(t, look, k, &late);
    if (r == 0 && look->native)
        native_capture(t->private->native, k->native, t->python, &k->python, k->tid, false,
                       clock_now());
    *ret_proved = r == 0 && task_watch_look(&k->watch, &ran) == TASK_BLOCKED && !ran;
    r = end_walk(t, k, r, late);
    *ret_proved = *ret_proved && r == 0 && !k->python.incomplete;
    if (*ret_proved) {
        k->torn = false;
        learn(t, k);
    }
    if (*ret_proved && look->native)
        native_finish(t->private->native, k->native, &k->python, clock_now());
    return r;
}

/* It is ready to run, but it is scry that has the CPU: read it, and see that this was so all the time. On a busy
 * machine that is common, and a stop then takes as long as the thread has to wait. Who has the CPU does not depend on
 * what the thread does, so the shares stay true. */
static int read_waiting(struct target *t, const struct look *look, struct known_thread *k,
                        bool *ret_proved)
{
    uint64_t switches;
    *ret_proved = false;
    if (!k->watched || look->native || !task_watch_waits(&k->watch, &switches))
        return 0;
    bool late;
    int r = walk_still(t, look, k, &late);
    *ret_proved = r == 0 && task_watch_waited(&k->watch, switches);
    r = end_walk(t, k, r, late);
    *ret_proved = *ret_proved && r == 0 && !is_doubtful(k);
    if (*ret_proved) {
        k->torn = false;
        learn(t, k);
    }
    return r;
}

/* As it runs: the last resort where nothing may be stopped. */
static int read_running(struct target *t, const struct look *look, struct known_thread *k)
{
    int r = walk_and_visit(t, look, k, NULL);
    k->torn = true;
    if (r == 0)
        peek_learn(k->peek, t->python, &k->python);
    return r;
}

static bool may_stop(const struct target *t, const struct look *look)
{
    return look->blocking == BLOCKING_ALWAYS || look->visit ||
           (look->blocking == BLOCKING_AUTO && t->private->stop_credit > 0);
}

/* Its native frames could not be had without them, or only a part. */
static bool wants_registers(const struct look *look, const struct known_thread *k)
{
    return look->native && (k->native->need_stop || k->native->want_more);
}

/* By whatever way is left after, or without, a peek. */
static int read_surely(struct target *t, const struct look *look, struct known_thread *k)
{
    if (k->activity == TASK_BLOCKED && look->blocking != BLOCKING_ALWAYS) {
        bool proved;
        int r = read_asleep(t, look, k, &proved);
        if ((proved && !(wants_registers(look, k) && may_stop(t, look))) || r == -SCRY_E_GONE)
            return r;
    }
    if (look->blocking == BLOCKING_AUTO && k->activity != TASK_BLOCKED) {
        bool proved;
        int r = read_waiting(t, look, k, &proved);
        if (proved || r == -SCRY_E_GONE)
            return r;
    }
    if (may_stop(t, look)) {
        int r = read_stopped(t, look, k);
        if (r != -SCRY_E_TORN && r != -SCRY_E_PERMISSION)
            return r;
    }
    return read_running(t, look, k);
}

/* ---- peeking ---- */

/* How much a good peek says during which the thread did not go on: it was in the middle of something long, or it waits
 * for a CPU and does not move for that reason. On a crowded machine nothing. Else of its share of a CPU lately the
 * square, so that what is held up counts for little beside what runs; and nothing, unless it ran since the last one of
 * that kind. */
static double evidence_of_still(const struct target *t, struct known_thread *k)
{
    if (k->watched && (k->watch.crowded || k->watch.run_time == k->still_at))
        return 0;
    scry_nsec now = t->private->last_look, span = now - k->still_since;
    scry_nsec ran = k->watched ? k->watch.run_time - k->still_at : 0;
    bool first = !k->still_since;
    if (!first && span < STILL_SPAN)
        return 0;
    k->still_at = k->watch.run_time;
    k->still_since = now;
    if (!peek_sees_variables(t->python))
        return STILL_EVIDENCE;
    double share = first ? 0 : ran < span ? (double)ran / (double)span : 1;
    return share * share;
}

static void remember(struct known_thread *k, bool moved, double evidence)
{
    k->peeks += evidence;
    double known = MOVED_PRIOR + k->peeks < MOVED_MEMORY ? MOVED_PRIOR + k->peeks : MOVED_MEMORY;
    k->moved_share += ((moved ? 1.0 : 0.0) - k->moved_share) * evidence / known;
}

/* A peek whose guess stays wrong, or is right only when another function runs: what was meant is not seen, and what a stop
 * shows so much later is something else. Where code is made all the time, it is never known while it runs. That is worse
 * than a stack that moves, which is seen a microsecond later: it must be rarer. */
static void remember_late(struct known_thread *k, bool late)
{
    if (!k->late_known) {
        k->late_known = LATE_PRIOR;
        k->late_share = LATE_FIRST;
    }
    if (k->late_known < LATE_MEMORY)
        k->late_known++;
    k->late_share += ((late ? 1.0 : 0.0) - k->late_share) / k->late_known;
    if (k->late_share > LATE_MOST)
        k->late_share = LATE_MOST;
}

static bool is_often_late(const struct known_thread *k)
{
    return k->late_share > (k->trusted ? LATE_LIMIT : LATE_LIMIT / 2);
}

static bool is_hopeless(const struct known_thread *k)
{
    return k->peeks >= HOPELESS_AFTER && k->moved_share > HOPELESS;
}

static double trust_limit(const struct target *t, const struct known_thread *k)
{
    double limit = k->trusted ? MOVED_TOO_MUCH : MOVED_LIMIT;
    return peek_sees_variables(t->python) ? limit : BLIND_LIMIT;
}

static bool is_new(const struct known_thread *k)
{
    return k->peeks < FIRST_PEEKS && !is_hopeless(k);
}

/* Little is known yet, or it is close to the limit: what is learned now may spare many stops. */
static bool is_worth_learning(const struct target *t, const struct known_thread *k)
{
    return k->late_share <= LATE_LIMIT &&
           (is_new(k) || k->moved_share < PROMISING * trust_limit(t, k));
}

/* So many peeks are made at once where it is only to learn. */
static int peeks_at_once(const struct target *t, const struct known_thread *k)
{
    return is_worth_learning(t, k) ? LEARN_PEEKS : PROBE_PEEKS;
}

/* After something was learned (L4). */
static void judge_trust(const struct target *t, struct known_thread *k)
{
    k->trusted = k->moved_share <= trust_limit(t, k) && !is_often_late(k);
}

static bool stops_each_time(const struct known_thread *k, const struct look *look)
{
    return look->blocking == BLOCKING_AUTO && !k->trusted;
}

static bool wants_peek(const struct target *t, struct known_thread *k, const struct look *look)
{
    if (look->blocking == BLOCKING_ALWAYS || look->visit || !peek_has_guess(k->peek))
        return false;
    if (look->native && (look->blocking != BLOCKING_NEVER || k->activity == TASK_BLOCKED))
        return false;
    if (!stops_each_time(k, look))
        return true;
    /* What follows is only to learn, unless there is no credit for stops. */
    if (t->private->learn_credit <= 0 && may_stop(t, look))
        return false;
    if (is_worth_learning(t, k) && !k->learns_nothing)
        return true;
    if (k->probe_in > 0) {
        k->probe_in--;
        return false;
    }
    k->probe_gap = k->probe_gap ? 2 * k->probe_gap : PROBE_EVERY;
    if (k->probe_gap > PROBE_MOST)
        k->probe_gap = PROBE_MOST;
    k->probe_in = k->probe_gap;
    return true;
}

/* A reading during which scry itself was put off the CPU is made again: the longer it takes, the more often a
 * program can have come back to where it was, and that has nothing to do with what the program does. One that is still
 * slow then proves nothing (judge()). */
static int read_swiftly(struct target *t, int count)
{
    struct target_private *p = t->private;
    scry_nsec limit = SWIFT_BASE + SWIFT_TIMES * p->usual_read;
    scry_nsec start = clock_now();
    int got = 0;
    for (int i = 0; i < SWIFT_TRIES; i++) {
        got = mem_readv(t->mem, p->ranges, count);
        scry_nsec end = clock_now(), took = end - start;
        p->slow = took >= limit;
        p->usual_read -= p->usual_read / SWIFT_MEMORY;
        p->usual_read += (p->slow ? limit : took) / SWIFT_MEMORY;
        p->read_at = start;
        p->read_until = end;
        if (!p->slow)
            break;
        start = end;
    }
    return got;
}

/* New threads need not be noticed at once. That a state belongs to another thread must be, and is seen in the state
 * itself, where it bears the kernel's id of its thread. */
static bool wants_marks(const struct target *t)
{
    return t->private->last_look - t->private->met_at >= MEET_EVERY ||
           t->python->layout.ts_native_thread_id == LAYOUT_NONE;
}

/* One vectored read for all, and for what tells whether threads were added. Those whose memory is gone (a stale
 * guess) are left out and the rest is read again; ok[i] says whose copies are complete. `ahead`:
 * so many readings of each, where they can be had. */
static int read_peeks(struct target *t, struct known_thread **readers, size_t count, int ahead,
                      bool *ok, bool *ret_new_threads)
{
    struct target_private *p = t->private;
    bool with_marks = wants_marks(t);
    uint64_t marks[THREADS_MARK_MAX];
    size_t first = 0;
    memset(ok, 0, count * sizeof(*ok));
    for (size_t i = 0; i < count; i++) {
        peek_prepare(readers[i]->peek, t->python, &readers[i]->python);
        peek_warm(readers[i]->peek, p->looked_before > WARM_AFTER);
        p->ahead_count = peek_ahead(readers[i]->peek, ahead);
    }
    while (first < count) {
        size_t total = THREADS_MARK_MAX;
        for (size_t i = first; i < count; i++)
            total += (size_t)peek_range_count(readers[i]->peek);
        if (!reserve_ranges(p, total))
            return -SCRY_E_NO_MEMORY;
        int mark_count = with_marks ? threads_mark_ranges(&p->mark, marks, p->ranges) : 0;
        int n = mark_count;
        for (size_t i = first; i < count; i++)
            n += peek_ranges(readers[i]->peek, p->ranges + n);
        int got = read_swiftly(t, n);
        if (got < 0)
            return got;
        *ret_new_threads = with_marks && (got < mark_count || !threads_mark_same(&p->mark, marks));
        got -= mark_count;
        for (; first < count && got >= peek_range_count(readers[first]->peek); first++) {
            got -= peek_range_count(readers[first]->peek);
            ok[first] = true;
        }
        if (first < count)
            peek_forget(readers[first++]->peek);
    }
    return 0;
}

/* What the copies of a thread that was just read say. */
static enum peek_result judge(struct target *t, struct known_thread *k)
{
    return t->private->slow ? PEEK_MOVED : peek_judge(k->peek, t->python, &k->python);
}

/* A wrong guess says nothing about how fast the stack changes: learn, and peek again. */
static enum peek_result peek_again(struct target *t, struct known_thread *k)
{
    enum peek_result result = PEEK_MISSED;
    for (int i = 1; i < PEEK_TRIES && result == PEEK_MISSED; i++) {
        bool ok, new_threads;
        t->stats.missed++;
        if ((!peek_widen(k->peek) && peek_relearn(k->peek, t->python, &k->python) < 0) ||
            read_peeks(t, &k, 1, 1, &ok, &new_threads) < 0 || !ok)
            return PEEK_MISSED;
        result = judge(t, k);
    }
    return result;
}

/* The stack changed under the reading, which takes a microsecond: the next one mostly succeeds, and what it sees is
 * as far from the moment that was meant as what a stop would show, or nearer. Not where a peek can be fooled. */
static enum peek_result peek_once_more(struct target *t, struct known_thread *k)
{
    bool ok, new_threads;
    if (!peek_sees_variables(t->python) || read_peeks(t, &k, 1, 1, &ok, &new_threads) < 0 || !ok)
        return PEEK_MOVED;
    return judge(t, k);
}

/* Peeks made only to learn how often they fail: where a thread is stopped for each look they cost it nothing, and
 * the sooner it is known the fewer stops there are. */
static void try_peeks(struct target *t, struct known_thread *k)
{
    int count = peeks_at_once(t, k);
    int weight = peek_sees_variables(t->python) ? LEARN_WEIGHT : 1;
    for (int i = 0; i < count; i += weight) {
        bool ok, new_threads;
        if (read_peeks(t, &k, 1, 1, &ok, &new_threads) < 0 || !ok)
            return;
        enum peek_result result = judge(t, k);
        if (t->private->slow || result == PEEK_MISSED ||
            (result != PEEK_MOVED && !peek_saw_it_run(k->peek)))
            return;
        remember(k, result == PEEK_MOVED, weight);
    }
}

static bool is_proved(struct known_thread *k, enum peek_result result)
{
    if (result != PEEK_PROVED && result != PEEK_SAME)
        return false;
    if (!is_doubtful(k))
        return true;
    peek_reset(k->peek);
    return false;
}

/* The time since then went into what is only to be learned: the reading, for one. */
static void charge_learning(struct target_private *p, scry_nsec since)
{
    p->learn_credit -= (int64_t)(clock_now() - since);
}

static int finish_peek(struct target *t, const struct look *look, struct known_thread *k,
                       enum peek_result result)
{
    bool stopped_anyway = stops_each_time(k, look);
    scry_nsec start = t->private->read_at;
    double known = k->peeks;
    bool late = false;
    if (result == PEEK_MISSED) {
        scry_addr leaf = peek_leaf(k->peek);
        result = peek_again(t, k);
        late = result == PEEK_MISSED || (leaf && leaf != peek_leaf(k->peek));
    }
    bool proved = is_proved(k, result), still = proved && !peek_saw_it_run(k->peek);
    /* More peeks would see the same. But only at first: where it is close to the limit, what was seen while it ran must
     * decide. */
    int alike = !still || !stopped_anyway || !peek_sees_variables(t->python) ? 1
                : is_new(k)                                                  ? LEARN_PEEKS
                                                                             : PROBE_PEEKS;
    if (!t->private->slow) {
        remember(k, !proved, still ? alike * evidence_of_still(t, k) : 1);
        remember_late(k, late);
    }
    if (result == PEEK_MISSED)
        t->private->must_meet = true;
    t->stats.moved += !proved;
    if (stopped_anyway) {
        if (!still)
            try_peeks(t, k);
        /* What waits for a CPU tells nothing of itself; ever more such peeks would only take time from it. */
        k->learns_nothing = k->watched && k->watch.crowded && k->peeks == known;
        if (proved && !k->learns_nothing)
            k->probe_gap = 0;
        charge_learning(t->private, start);
    } else if (result == PEEK_MOVED) {
        proved = is_proved(k, peek_once_more(t, k));
    }
    judge_trust(t, k);
    /* Without credit left for a stop, a true stack is better than a torn one. */
    if (proved && (!stopped_anyway || !may_stop(t, look))) {
        k->torn = stopped_anyway && !peek_sees_variables(t->python);
        t->stats.peeked++;
        return 0;
    }
    return read_surely(t, look, k);
}

/* ---- the look ---- */

static bool is_wanted(const struct target_private *p, const struct look *look,
                      struct known_thread *k, scry_nsec now, bool *ret_read)
{
    *ret_read = has_moved_on(p, k, now) || look->visit || look->blocking == BLOCKING_ALWAYS;
    if (look->gil_only)
        return k->python.owns_gil;
    return !look->skip_idle || k->activity != TASK_BLOCKED;
}

static int prepare_native(struct target *t, const struct look *look, struct known_thread *k)
{
    struct target_private *p = t->private;
    if (!p->native)
        p->native = native_new(t->process, t->mem, t->python, look->native_all);
    if (!k->native)
        k->native = native_thread_new();
    if (!p->native || !k->native)
        return -SCRY_E_NO_MEMORY;
    native_forget(k->native);
    return 0;
}

/* It was taken to run because it had the GIL. It no longer has, so it is asked after all; what was read before that
 * is not what it sleeps with. */
static void ask_activity_late(struct target *t, const struct look *look, struct known_thread *k)
{
    bool ran;
    scry_nsec now = t->private->last_look;
    if (!k->watched || k->activity_at == now || k->python.owns_gil || t->private->freeze.count)
        return;
    k->activity = task_watch_look(&k->watch, &ran);
    k->activity_at = now;
    k->has_stack = false;
    k->wanted = !look->skip_idle || k->activity != TASK_BLOCKED;
}

static int read_thread(struct target *t, const struct look *look, struct known_thread *k,
                       bool peeked, bool complete)
{
    k->has_stack = false;
    t->stats.reads++;
    int r = look->native ? prepare_native(t, look, k) : 0;
    if (r < 0)
        return r;
    if (!peeked)
        r = read_surely(t, look, k);
    else
        r = finish_peek(t, look, k, complete ? judge(t, k) : PEEK_MISSED);
    k->has_stack = r == 0 && !k->torn;
    ask_activity_late(t, look, k);
    return r;
}

static bool is_chosen(struct target *t, const struct look *look, const struct known_thread *k)
{
    if (look->choice && !choice_takes_thread(look->choice, k->tid, k->name))
        return false;
    return !look->exceptions || python_has_exception(t->python, &k->python);
}

struct plan {
    struct known_thread **read; /* those to be read: first the peeks, then the others */
    bool *complete;
    size_t peeks, others;
    size_t wanted; /* also those that need not be read */
    bool any_ran;  /* of the known threads */
};

static bool reserve_plan(struct target_private *p, struct plan *plan)
{
    if (p->reader_cap < p->known_count || !p->readers) {
        size_t cap = p->known_count + 16;
        struct known_thread **grown =
            realloc(p->readers, cap * (2 * sizeof(*grown) + sizeof(bool)));
        if (!grown)
            return false;
        p->readers = grown;
        p->reader_cap = cap;
    }
    *plan = (struct plan){.read = p->readers, .complete = (bool *)(p->readers + 2 * p->reader_cap)};
    return true;
}

/* Which threads are reported as they are, peeked at, or read otherwise. The others fill the array
 * from its end. */
static int plan_look(struct target *t, const struct look *look, scry_nsec now, struct plan *plan)
{
    struct target_private *p = t->private;
    if (!reserve_plan(p, plan))
        return -SCRY_E_NO_MEMORY;
    for (size_t i = 0; i < p->known_count; i++) {
        struct known_thread *k = p->known[i];
        bool read;
        k->wanted = is_wanted(p, look, k, now, &read);
        plan->any_ran |= k->ran;
        k->wanted = k->wanted && is_chosen(t, look, k);
        if (k->activity == TASK_UNKNOWN && k->watched)
            p->must_meet = true;
        if (!k->wanted)
            continue;
        plan->wanted++;
        t->stats.reused += !read;
        if (read && wants_peek(t, k, look))
            plan->read[plan->peeks++] = k;
        else if (read)
            plan->read[p->reader_cap + plan->others++] = k;
    }
    return 0;
}

/* The one thread there is to look at, if several looks are wanted at once and peeks are good enough for each. */
static struct known_thread *ahead_of(const struct look *look, const struct plan *plan)
{
    return look->ahead > 1 && plan->wanted == 1 && plan->peeks == 1 &&
                   !stops_each_time(plan->read[0], look)
               ? plan->read[0]
               : NULL;
}

static int carry_out(struct target *t, const struct look *look, const struct plan *plan)
{
    struct target_private *p = t->private;
    bool new_threads = false;
    p->ahead = ahead_of(look, plan);
    p->ahead_at = 0;
    int r = plan->peeks ? read_peeks(t, plan->read, plan->peeks, p->ahead ? look->ahead : 1,
                                     plan->complete, &new_threads)
                        : 0;
    if (r < 0)
        return r;
    if (new_threads) {
        p->must_meet = true;
        return LOOK_AGAIN;
    }
    if (plan->peeks && wants_marks(t))
        p->met_at = p->last_look;
    const bool slow = p->slow;
    for (size_t i = 0; i < plan->peeks + plan->others; i++) {
        bool peeked = i < plan->peeks;
        p->slow = slow; /* not that of a reading which somebody before needed for himself */
        struct known_thread *k =
            peeked ? plan->read[i] : plan->read[p->reader_cap + i - plan->peeks];
        r = read_thread(t, look, k, peeked, peeked && plan->complete[i]);
        if (r == -SCRY_E_NO_MEMORY)
            return r;
        if (r < 0) {
            k->wanted = false;
            p->must_meet = true;
        }
    }
    return 0;
}

/* Codes that were replaced are freed once no stack that is kept speaks of them. */
static void sweep_codes(struct target *t)
{
    struct target_private *p = t->private;
    if (t->python->codes.retired_count < SWEEP_AT)
        return;
    for (size_t i = 0; i < p->known_count; i++)
        for (size_t f = 0; f < p->known[i]->python.frame_count; f++)
            code_cache_mark(p->known[i]->python.frames[f].code);
    if (p->kernel)
        kernel_look_mark_codes(p->kernel);
    code_cache_sweep(&t->python->codes);
}

static void earn_credit(struct target_private *p, scry_nsec now)
{
    if (p->last_look)
        p->stop_credit += (now - p->last_look) / STOP_SHARE;
    else
        p->stop_credit = STOP_CREDIT_MAX;
    if (p->stop_credit > STOP_CREDIT_MAX)
        p->stop_credit = STOP_CREDIT_MAX;
    p->learn_credit +=
        (int64_t)(p->last_look ? (now - p->last_look) / LEARN_SHARE : LEARN_AT_FIRST);
    if (p->learn_credit > (int64_t)LEARN_AT_FIRST)
        p->learn_credit = (int64_t)LEARN_AT_FIRST;
    p->looked_before = now - p->last_look;
    p->last_look = now;
}

static int meet(struct target *t, scry_nsec now)
{
    struct target_private *p = t->private;
    int r = p->must_meet ? known_threads_meet(t, now) : 0;
    if (r == 0 && (p->met_at == now || now - p->named_at >= NAME_EVERY)) {
        known_threads_name(t, now);
        p->named_at = now;
    }
    return r;
}

int look_meet(struct target *t, scry_nsec now)
{
    struct target_private *p = t->private;
    sweep_codes(t);
    p->must_meet |= !python_threads_same(t->python, &p->mark);
    return meet(t, now);
}

/* A peek finds out by itself whether threads were added; where nobody is peeked at, it is asked for. */
static bool threads_added(struct target *t, const struct plan *plan, scry_nsec now)
{
    struct target_private *p = t->private;
    /* Threads are started by threads that run; hardly ever by one that Python does not know. */
    if (plan->peeks || now - p->met_at < (plan->any_ran ? MEET_EVERY : MEET_EVERY_ASLEEP))
        return false;
    p->must_meet = !python_threads_same(t->python, &p->mark);
    if (!p->must_meet)
        p->met_at = now;
    return p->must_meet;
}

/* Who holds the GIL must be known before it can be looked at alone. */
static void find_gil_holder(struct target *t)
{
    struct target_private *p = t->private;
    scry_addr interp = 0, holder = 0;
    for (size_t i = 0; i < p->known_count; i++) {
        struct py_thread *thread = &p->known[i]->python;
        if (t->python->layout.free_threaded) {
            python_refresh_gil(t->python, thread);
            continue;
        }
        if (thread->interp != interp)
            holder = python_gil_holder(t->python, interp = thread->interp);
        thread->owns_gil = holder == thread->tstate;
    }
}

/* The thread that collects holds the GIL, or has suspended all others. */
static void find_collectors(struct target *t)
{
    struct target_private *p = t->private;
    scry_addr interp = 0;
    bool collecting = false;
    for (size_t i = 0; i < p->known_count; i++) {
        struct py_thread *thread = &p->known[i]->python;
        if (thread->interp != interp)
            collecting = python_collecting(t->python, interp = thread->interp);
        thread->in_gc = collecting && thread->owns_gil;
    }
}

bool target_advance(struct target *t, scry_nsec *ret_when)
{
    struct target_private *p = t->private;
    if (!p->ahead || ++p->ahead_at >= p->ahead_count || !peek_next(p->ahead->peek))
        return false;
    scry_nsec span = (p->read_until - p->read_at) / (scry_nsec)p->ahead_count;
    *ret_when = p->read_at + span * (scry_nsec)(p->ahead_at + 1);
    return true;
}

int target_look_ahead(struct target *t, const struct look *look,
                      const struct snapshot **ret_snapshot)
{
    struct target_private *p = t->private;
    struct known_thread *k = p->ahead;
    p->snapshot.count = 0;
    *ret_snapshot = &p->snapshot;
    int r = read_thread(t, look, k, true, true);
    if (r == -SCRY_E_NO_MEMORY)
        return r;
    p->must_meet |= r < 0;
    return r < 0 || !k->wanted ? 0 : look_report(t, look, k);
}

int target_look(struct target *t, const struct look *look, const struct snapshot **ret_snapshot)
{
    struct target_private *p = t->private;
    scry_nsec now = look->now ? look->now : clock_now();
    struct plan plan;
    p->snapshot.count = 0;
    p->ahead = NULL;
    stop_settle(); /* whoever stopped too late to be read must not stand still until it is wanted
                      again */
    sweep_codes(t);
    earn_credit(p, now);
    freeze_all(t, look);
    int r = LOOK_AGAIN;
    for (int i = 0; i < LOOK_TRIES && r == LOOK_AGAIN; i++) {
        r = meet(t, now);
        if (r == 0 && (look->gil_only || look->collectors))
            find_gil_holder(t);
        if (r == 0 && look->collectors)
            find_collectors(t);
        if (r == 0)
            r = plan_look(t, look, now, &plan);
        if (r == 0)
            r = threads_added(t, &plan, now) ? LOOK_AGAIN : carry_out(t, look, &plan);
    }
    go_on(t);
    t->stats.memory_calls = p->ahead_mem->under->calls;
    if (r == LOOK_AGAIN)
        r = 0;
    if (r < 0)
        return process_alive(t->process) ? r : -SCRY_E_GONE;
    for (size_t i = 0; i < p->known_count && r == 0; i++) {
        struct known_thread *k = p->known[i];
        if (k->wanted && (!look->gil_only || k->python.owns_gil))
            r = look_report(t, look, k);
    }
    if (p->must_meet && !process_alive(t->process))
        return -SCRY_E_GONE;
    *ret_snapshot = &p->snapshot;
    return r;
}
