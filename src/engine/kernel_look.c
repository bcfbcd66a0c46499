/* A stack that was read by the kernel in the middle of its thread is true as it stands. Two things can be wrong with it: the thread was
 * just linking a frame in or out (then what it stands for is added to its next sample), or a function is gone before its name was read.
 *
 * Threads that began and ended between two collections are not in the interpreter's list when it is read. They are kept in a
 * list of their own for as long as something may come from them. */
#include "engine/kernel_look.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "engine/target_private.h"

#define LEAST_PACE      4.0
#define FIRST_PACE      40.0
#define MOST_PACE       640.0
#define PACE_DECAY      0.9
#define WANTED_FULLNESS 0.125 /* of the room for samples that wait to be collected */
#define LEAST_WHILE     (10ULL * 1000 * 1000)
#define PASSING         256
#define GONE_MEMORY     4096  /* samples */
#define GONE_LIMIT      0.005 /* of them may be without a name */
#define GONE_MOST       8     /* or none of the first ones says anything */
#define TORN_MOST       16    /* samples of a thread, one after the other */
#define PRICE_MEMORY    64
#define IDLE_COST       500.0 /* nanoseconds, as a program with 160 native threads loses them */
#define IDLE_SPAN       (100ULL * 1000 * 1000)
#define IDLE_MEMORY     4 /* collections */

struct kernel_target {
    struct kernel_walk *walk;
    struct kernel_plan plan;
    pthread_t opener; /* of the walk, in the background; it may touch nothing else here until ... */
    atomic_bool opened; /* ... it is done */
    scry_nsec since;    /* samples before that are nobody's */
    struct known_thread *passing[PASSING];
    size_t passing_count, passing_next;
    scry_nsec last;      /* sample */
    scry_nsec collected; /* when */
    uint64_t seed, lost;
    double gone_share, seen;
    bool gone_now;     /* since the last collection */
    bool unreadable;   /* here */
    uint64_t idle;     /* so often it was asked about threads that Python does not know, ... */
    scry_nsec idle_at; /* ... until then ... */
    double nothing;    /* ... and such a share of a CPU's time goes into that, about */
    double price;      /* the share of a thread's time that goes into following its chain, about */
    double pace;       /* collections per second */
    scry_nsec period;
    /* of the collection that is going on */
    struct target *target;
    const struct look *look;
    int (*take)(const struct kernel_seen *, void *);
    void *context;
};

static int plan_walk(struct target *t, scry_nsec period, bool waiting,
                     struct kernel_target **ret_kernel, struct error *err)
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
    k->period = period / 1000 * 1000;
    plan.wait_period = waiting ? k->period : 0;
    plan.begun = k->seed;
    k->plan = plan;
    *ret_kernel = k;
    return 0;
}

static void kernel_target_free(struct kernel_target *k)
{
    kernel_walk_close(k->walk);
    for (size_t i = 0; i < k->passing_count; i++)
        known_thread_free(k->passing[i]);
    free(k);
}

/* From now on; what was seen before that was seen from outside as well. */
static void take_over(struct target *t, struct kernel_target *k)
{
    k->since = k->collected = k->idle_at = clock_now();
    t->private->kernel = k;
}

int target_kernel_begin(struct target *t, scry_nsec period, bool waiting, struct error *err)
{
    struct kernel_target *k;
    int r = plan_walk(t, period, waiting, &k, err);
    if (r < 0)
        return r;
    r = kernel_walk_open(t->process, &k->plan, k->period, &k->walk, err);
    if (r < 0)
        kernel_target_free(k);
    else
        take_over(t, k);
    return r;
}

/* ---- in the background ---- */

static void *open_walk(void *context)
{
    struct kernel_target *k = context;
    if (kernel_walk_open(k->target->process, &k->plan, k->period, &k->walk, NULL) < 0)
        k->walk = NULL;
    atomic_store_explicit(&k->opened, true, memory_order_release);
    return NULL;
}

/* Signals are for those who have always been there. */
static bool start_opening(struct kernel_target *k)
{
    sigset_t all, former;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &former);
    bool started = pthread_create(&k->opener, NULL, open_walk, k) == 0;
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    return started;
}

bool target_kernel_prepare(struct target *t, scry_nsec period, bool waiting)
{
    struct kernel_target *k;
    if (plan_walk(t, period, waiting, &k, NULL) < 0)
        return false;
    if (!start_opening(k)) {
        kernel_target_free(k);
        return false;
    }
    t->private->kernel_opening = k;
    return true;
}

bool target_kernel_prepares(const struct target *t)
{
    return t->private->kernel_opening;
}

bool target_kernel_ready(struct target *t)
{
    struct kernel_target *k = t->private->kernel_opening;
    if (!k || !atomic_load_explicit(&k->opened, memory_order_acquire))
        return false;
    pthread_join(k->opener, NULL);
    t->private->kernel_opening = NULL;
    if (k->walk)
        take_over(t, k);
    else
        kernel_target_free(k);
    return t->private->kernel;
}

static void stop_opening(struct target *t)
{
    struct kernel_target *k = t->private->kernel_opening;
    if (!k)
        return;
    pthread_join(k->opener, NULL);
    t->private->kernel_opening = NULL;
    kernel_target_free(k);
}

/* ---- */

bool target_kernel_sees_waiting(const struct target *t)
{
    return kernel_walk_sees_waiting(t->private->kernel->walk);
}

bool target_kernel_runs(const struct target *t)
{
    return t->private->kernel;
}

/* What the kernel has told of counts for whoever looks from outside. */
static void hand_back(struct known_thread *thread)
{
    scry_nsec owed = thread->kernel_ran, at = thread->kernel_ran_at;
    if (thread->kernel_seen && at > owed && at - owed > thread->memo.run_counted)
        thread->memo.run_counted = at - owed;
    thread->kernel_seen = false;
}

void target_kernel_end(struct target *t)
{
    struct target_private *p = t->private;
    stop_opening(t);
    if (!p->kernel)
        return;
    for (size_t i = 0; i < p->known_count; i++)
        hand_back(p->known[i]);
    kernel_target_free(p->kernel);
    p->kernel = NULL;
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
    return k->unreadable || (k->seen * k->gone_share >= GONE_MOST && k->gone_share > GONE_LIMIT);
}

double target_kernel_pace(const struct target *t)
{
    return t->private->kernel->pace;
}

int target_kernel_fd(const struct target *t)
{
    return kernel_walk_fd(t->private->kernel->walk);
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

static int hand_over(struct kernel_target *k, struct known_thread *thread, scry_nsec when,
                     scry_nsec waited)
{
    struct target_private *p = k->target->private;
    p->snapshot.count = 0;
    if (look_report(k->target, k->look, thread) < 0)
        return -SCRY_E_NO_MEMORY;
    k->last = when > k->last ? when : k->last; /* two CPUs may be at it at once */
    /* Who has waited for several periods would have been seen so often. */
    uint64_t times = waited / k->period;
    struct kernel_seen seen = {.snapshot = &p->snapshot, .when = k->last, .period = k->period};
    for (int r; times > 1; times--, thread->kernel_stands -= k->period)
        if ((r = k->take(&seen, k->context)) < 0)
            return r;
    seen.period = take_whole(&thread->kernel_stands);
    seen.ran = take_whole(&thread->kernel_ran);
    return k->take(&seen, k->context);
}

/* What the thread has run since its last sample, by the kernel's own account. At its first one, what it has run since the process was
 * first looked at, or since it was seen from outside; or a period, if it has begun since: what it has run so far would leave out those that
 * end before they are seen. */
static void count_time(struct known_thread *thread, const struct kernel_sample *sample)
{
    if (!thread->kernel_seen) {
        scry_nsec counted = thread->memo.run_counted;
        counted = counted > thread->run_before ? counted : thread->run_before;
        thread->kernel_ran_at = counted ? counted : sample->ran;
        thread->kernel_ran = counted ? 0 : sample->period;
    }
    thread->kernel_seen = true;
    if (sample->ran > thread->kernel_ran_at) {
        thread->kernel_ran += sample->ran - thread->kernel_ran_at;
        thread->kernel_ran_at = sample->ran;
    }
    thread->kernel_stands += sample->period;
}

/* Following a chain takes the thread's own time. */
static void check_price(struct kernel_target *k, const struct kernel_sample *sample)
{
    if (sample->period)
        k->price += ((double)sample->took / (double)sample->period - k->price) / PRICE_MEMORY;
}

/* A chain that is broken, or that begins elsewhere than before: most likely the thread was caught while it linked a frame. If it
 * begins there again, it is really so. One that stays broken (it is too long, or lies on pages that are not in memory) cannot be
 * read here. */
static bool is_put_off(struct kernel_target *k, struct known_thread *thread, bool torn,
                       scry_addr root)
{
    bool moved = !torn && thread->root && root != thread->root && !thread->kernel_put_off;
    if (!torn)
        thread->root = root;
    thread->kernel_put_off = torn || moved ? thread->kernel_put_off + 1 : 0;
    k->unreadable |= thread->kernel_put_off > TORN_MOST;
    return torn || moved;
}

static int take_sample(const struct kernel_sample *sample, const struct kernel_node *nodes,
                       void *context)
{
    struct kernel_target *k = context;
    struct target *t = k->target;
    if (sample->time < k->since)
        return 0;
    struct known_thread *thread = thread_of(k, sample);
    if (!thread || (!thread->in_kernel && !(thread->in_kernel = in_kernel_new())))
        return -SCRY_E_NO_MEMORY;
    count_time(thread, sample);
    check_price(k, sample);
    int r = in_kernel_take(thread->in_kernel, t->python, k->walk, sample, nodes, &thread->python);
    if (r == -SCRY_E_NO_MEMORY)
        return r;
    t->stats.reads++;
    if (is_put_off(k, thread, r == -SCRY_E_TORN, root_of(sample, nodes))) {
        t->stats.moved++;
        return 0;
    }
    remember_gone(k, r == -SCRY_E_CORRUPT);
    thread->torn = r < 0;
    thread->activity = TASK_RUNNING;
    t->stats.peeked += r == 0;
    scry_nsec waited = sample->flags & KERNEL_WALK_WAITED ? sample->period : 0;
    if (waited > sample->time - k->since + k->period) {
        thread->kernel_stands -= waited; /* longer than it was looked at: that cannot be */
        return 0;
    }
    return is_wanted(k, thread) ? hand_over(k, thread, sample->time, waited) : 0;
}

/* Seldom, but so often that samples do not want for room, and that functions are still there to be asked for their names. */
static void choose_pace(struct kernel_target *k, scry_nsec now)
{
    scry_nsec since = now - k->collected;
    if (since < LEAST_WHILE)
        since = LEAST_WHILE; /* it was woken; that says little of how fast they come */
    double wanted = kernel_walk_fullness(k->walk) / WANTED_FULLNESS *
                    ((double)SCRY_NSEC_PER_SEC / (double)since);
    k->pace *= k->gone_now ? 2 : PACE_DECAY;
    k->pace = wanted > k->pace ? wanted : k->pace;
    k->pace = k->pace < LEAST_PACE ? LEAST_PACE : k->pace > MOST_PACE ? MOST_PACE : k->pace;
    k->gone_now = false;
    k->collected = now;
}

/* Threads of an interpreter that was not there at first, or too many to be found. */
static bool has_strangers(const struct kernel_target *k)
{
    const struct target_private *p = k->target->private;
    scry_addr last = 0;
    for (size_t i = 0; i < p->known_count; i++) {
        scry_addr head =
            p->known[i]->python.interp + (scry_addr)k->target->python->layout.is_threads_head;
        bool known = head == last;
        for (size_t h = 0; h < KERNEL_WALK_HEADS && !known; h++)
            known = k->plan.heads[h] == head;
        if (!known)
            return true;
        last = head;
    }
    return p->known_count > KERNEL_WALK_RECORDS;
}

/* Native threads by the hundred that wake each other have to pay for the hooks and get nothing for it. */
static void check_idle(struct kernel_target *k, scry_nsec now_at)
{
    scry_nsec since = now_at - k->idle_at;
    if (since < IDLE_SPAN)
        return;
    uint64_t idle = kernel_walk_idle(k->walk);
    double now = (double)(idle - k->idle) * IDLE_COST / (double)since;
    k->idle = idle;
    k->idle_at = now_at;
    k->nothing += (now - k->nothing) / IDLE_MEMORY;
}

double target_kernel_price(const struct target *t)
{
    return t->private->kernel->price + t->private->kernel->nothing;
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
    check_idle(k, now);
    choose_pace(k, now);
    k->unreadable |= has_strangers(k);
    kernel_walk_jitter(k->walk, now, &k->seed);
    return r < 0 ? r : met < 0 && !process_alive(t->process) ? -SCRY_E_GONE : met;
}
