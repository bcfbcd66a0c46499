/* In each slot of time (slots.h) the sampler looks once. A slot that has gone by is skipped and counted, never made
 * up for. */
#include "engine/sampler.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "access/stop.h"
#include "engine/budget.h"
#include "engine/kernel_look.h"
#include "engine/slots.h"
#include "engine/tree.h"
#include "util/buf.h"
#include "util/table.h"

#define AHEAD_ABOVE                                                                                \
    250000.0 /* per second: slots so short that one system call can look in several */
#define AHEAD        3
#define REPORT_EVERY (100ULL * 1000 * 1000)
#define FLUSH_EVERY  SCRY_NSEC_PER_SEC
#define WHOLE_EVERY  (400ULL * 1000 * 1000)
#define REST         (20ULL * 1000 * 1000)
#define LONGEST_NAP  (50ULL * 1000 * 1000)
#define COLLECT_NAP  (5 * LONGEST_NAP) /* where no children are to be noticed soon as well ... */
#define FAMILY_NAP   (2 * LONGEST_NAP) /* ... and where they are */
#define PRICE_MOST   0.02              /* of a thread's time for reading its stack in the kernel */
#define PRICE_EVER   0.5               /* whoever asks for it: it may be a trap */
#define KERNEL_RATE                                                                                \
    1000.0 /* per second; each sample interrupts the thread, which takes it longer than the reading ... */
#define KERNEL_FASTEST 20000.0           /* ... and if somebody insists: more would take too much */
#define COLLECTOR_KEY  (UINT64_MAX - 1)  /* no frame has it */
#define KERNEL_LEAST   SCRY_NSEC_PER_SEC /* a shorter recording is over before that pays */
#define KERNEL_MEMBERS 8 /* processes of a tree: each has timers of its own on every CPU */
#define OWED_NAP       (1000ULL * 1000) /* while a thread that was told to stop has yet to be let go */

struct sampler {
    struct sampler_options options;
    struct sample_sink *sink;
    uint32_t sinks; /* how many there were before it */
    scry_nsec base; /* where the time of this sink begins, since the start */
    scry_nsec next_whole;
    bool whole;  /* this look has every thread, and what it waits for */
    bool rested; /* since the last look */
    atomic_bool gil_only, idle, paused, resting;
    struct tree tree;
    struct sampler_stats stats;
    struct budget budget; /* with options.overhead */
    struct slots slots;
    uint64_t slot;     /* the one that is next, or was looked in last */
    scry_nsec next;    /* when to look, since the start */
    bool behind;       /* the last look took longer than a slot */
    scry_nsec written; /* the time of the last sample; none may be before it */
    bool collects;     /* all processes are read in the kernel: a slot is when that is collected */
    volatile int stop;
    scry_nsec cpu_start;
    scry_nsec next_report;
    scry_nsec next_flush;
};

static scry_nsec own_cpu_clock(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (scry_nsec)ts.tv_sec * SCRY_NSEC_PER_SEC + (scry_nsec)ts.tv_nsec;
}

int sampler_new(pid_t pid, const struct sampler_options *options, struct sample_sink *sink,
                struct sampler **ret_sampler, struct error *err)
{
    return sampler_new_many(&pid, 1, options, sink, ret_sampler, err);
}

int sampler_new_many(const pid_t *pids, size_t count, const struct sampler_options *options,
                     struct sample_sink *sink, struct sampler **ret_sampler, struct error *err)
{
    struct sampler *s = calloc(1, sizeof(*s));
    if (!s)
        return error_set(err, -SCRY_E_NO_MEMORY, "out of memory");
    s->options = *options;
    s->sink = sink;
    sampler_choose(s, options->gil_only, options->idle);
    budget_init(&s->budget, options->overhead);
    s->stats.rate = options->overhead > 0 ? s->budget.rate : options->rate;
    slots_init(&s->slots, s->stats.rate);
    const struct tree_wish wish = {
        .pids = pids,
        .count = count,
        .any = options->any,
        .follow = options->subprocesses,
        .patience = options->patience,
    };
    int r = tree_open(&s->tree, &wish, err);
    if (r < 0) {
        free(s);
        return r;
    }
    *ret_sampler = s;
    return 0;
}

void sampler_free(struct sampler *s)
{
    if (!s)
        return;
    tree_close(&s->tree);
    slots_done(&s->slots);
    free(s);
}

void sampler_stop(struct sampler *s)
{
    s->stop = 1;
}

void sampler_choose(struct sampler *s, bool gil_only, bool idle)
{
    s->gil_only = gil_only;
    s->idle = idle;
}

void sampler_pause(struct sampler *s, bool paused)
{
    s->paused = paused;
}

bool sampler_rests(struct sampler *s)
{
    return s->resting;
}

scry_nsec sampler_switch(struct sampler *s, struct sample_sink *sink)
{
    s->sink = sink;
    s->sinks++;
    s->base = s->written > s->stats.last_look ? s->written : s->stats.last_look;
    for (size_t i = 0; i < s->tree.count; i++)
        member_forget_numbers(&s->tree.members[i]);
    return s->base;
}

const struct sampler_stats *sampler_stats(const struct sampler *s)
{
    return &s->stats;
}

/* ---- writing what was seen ---- */

static uint32_t process_number(struct sampler *s, struct member *m)
{
    if (m->process_number != REC_NONE)
        return m->process_number;
    const struct process *process = m->target->process;
    const struct python *py = m->target->python;
    char version[32];
    py_version_text(py, version, sizeof(version));
    m->process_number = s->sink->ops->process(s->sink, &(struct rec_process){
                                                           .pid = process->pid,
                                                           .parent = process->parent,
                                                           .command = process->command,
                                                           .python = version,
                                                       });
    s->stats.processes += !m->counted;
    m->counted = true;
    return m->process_number;
}

static uint32_t thread_number(struct sampler *s, struct member *m, const struct thread_state *t)
{
    uint64_t key[4] = {t->python->tstate, t->python->thread_id, (uint64_t)t->tid,
                       hash_bytes(t->name, strlen(t->name), 0)};
    uint64_t hash = hash_bytes(key, sizeof(key), 0), number;
    if (table_get(&m->thread_numbers, hash, &number))
        return (uint32_t)number;
    number = s->sink->ops->thread(s->sink, &(struct rec_thread){
                                               .process = process_number(s, m),
                                               .tid = t->tid,
                                               .thread_id = t->python->thread_id,
                                               .name = t->name,
                                           });
    table_put(&m->thread_numbers, hash, number);
    s->stats.threads += !t->memo->counted;
    t->memo->counted = true;
    return (uint32_t)number;
}

/* The number of a frame that is not to be shown; handed out to none, as there is room for far fewer. */
#define HIDDEN (UINT32_MAX - 1)

static uint32_t frame_number(struct sampler *s, struct member *m, const struct py_frame *f)
{
    uint64_t key = (uint64_t)f->code->serial << 32 | (uint32_t)f->line, number;
    if (table_get(&m->frame_numbers, key, &number))
        return (uint32_t)number;
    const char *short_file = target_short_path(m->target, f->code->filename);
    if (!choice_shows_frame(&s->options.choice, f->code->filename, short_file)) {
        table_put(&m->frame_numbers, key, HIDDEN);
        return HIDDEN;
    }
    number = s->sink->ops->frame(s->sink, &(struct rec_frame){
                                              .name = f->code->qualname,
                                              .file = f->code->filename,
                                              .short_file = short_file,
                                              .line = f->line,
                                              .first_line = f->code->first_line,
                                              .module = "",
                                          });
    table_put(&m->frame_numbers, key, number);
    return (uint32_t)number;
}

/* A frame of its own on top of whatever made the collector run. */
static uint32_t stack_of_collector(struct sampler *s, struct member *m, uint32_t stack)
{
    uint64_t number;
    if (!table_get(&m->frame_numbers, COLLECTOR_KEY, &number)) {
        number = s->sink->ops->frame(s->sink, &(struct rec_frame){
                                                  .name = "[garbage collection]",
                                                  .file = "",
                                                  .short_file = "",
                                                  .module = "gc",
                                              });
        table_put(&m->frame_numbers, COLLECTOR_KEY, number);
    }
    uint32_t above = s->sink->ops->stack(s->sink, stack, (uint32_t)number);
    return above == UINT32_MAX ? stack : above;
}

static uint32_t native_number(struct sampler *s, struct member *m, const struct native_code *code)
{
    uint64_t number;
    if (table_get(&m->native_numbers, code->serial, &number))
        return (uint32_t)number;
    if (!choice_shows_frame(&s->options.choice, native_code_file(code, true),
                            native_code_file(code, false))) {
        table_put(&m->native_numbers, code->serial, HIDDEN);
        return HIDDEN;
    }
    number = s->sink->ops->frame(s->sink, &(struct rec_frame){
                                              .name = code->name,
                                              .file = native_code_file(code, true),
                                              .short_file = native_code_file(code, false),
                                              .line = code->line,
                                              .first_line = code->first_line,
                                              .module = code->module,
                                          });
    table_put(&m->native_numbers, code->serial, number);
    return (uint32_t)number;
}

static bool reserve_stacks(struct thread_memo *memo, size_t count)
{
    if (memo->stack_cap >= count)
        return true;
    uint32_t *grown = realloc(memo->stacks, (count + count / 2 + 16) * sizeof(*grown));
    if (!grown)
        return false;
    memo->stacks = grown;
    memo->stack_cap = count + count / 2 + 16;
    return true;
}

/* The callers that stayed the same have their numbers already. */
static uint32_t stack_number(struct sampler *s, struct member *m, const struct py_thread *t,
                             struct thread_memo *memo)
{
    bool next_version = memo->known && memo->stack_version + 1 == t->stack_version;
    size_t done = next_version ? t->same_callers : 0;
    if (done > memo->stack_count)
        done = memo->stack_count;
    if (!reserve_stacks(memo, t->frame_count))
        return REC_EMPTY_STACK;
    uint32_t stack = done ? memo->stacks[done - 1] : REC_EMPTY_STACK;
    while (done < t->frame_count) {
        const struct py_frame *f = &t->frames[t->frame_count - 1 - done];
        uint32_t frame = frame_number(s, m, f);
        if (frame == HIDDEN) {
            memo->stacks[done++] = stack;
            continue;
        }
        uint32_t next = s->sink->ops->stack(s->sink, stack, frame);
        /* Full: a stack seen less deep, but one that was there. */
        if (next == UINT32_MAX)
            break;
        stack = memo->stacks[done++] = next;
    }
    memo->stack_count = done;
    return stack;
}

static uint32_t merged_number(struct sampler *s, struct member *m, const struct thread_state *t)
{
    uint32_t stack = REC_EMPTY_STACK;
    for (size_t i = t->merged->count; i-- > 0;) {
        const struct merged_frame *f = &t->merged->frames[i];
        uint32_t frame = f->native ? native_number(s, m, f->native)
                                   : frame_number(s, m, &t->python->frames[f->python]);
        if (frame == HIDDEN)
            continue;
        uint32_t next = s->sink->ops->stack(s->sink, stack, frame);
        if (next == UINT32_MAX)
            break;
        stack = next;
    }
    t->memo->stack_count = 0; /* what is known of Python's stack alone is out of date */
    return stack;
}

/* What is the same as last time has its numbers already. */
static const struct thread_memo *numbers_of(struct sampler *s, struct member *m,
                                            const struct thread_state *t)
{
    struct thread_memo *memo = t->memo;
    if (memo->writer != s->sinks) {
        memo->known = false;
        memo->writer = s->sinks;
    }
    uint64_t merged = thread_is_merged(t) ? t->merged->version : 0;
    if (!memo->known || memo->merged_version != merged ||
        memo->stack_version != t->python->stack_version) {
        memo->stack = merged ? merged_number(s, m, t) : stack_number(s, m, t->python, memo);
        memo->stack_version = t->python->stack_version;
        memo->merged_version = merged;
    }
    if (!memo->known || memo->name_version != t->name_version) {
        memo->thread = thread_number(s, m, t);
        memo->name_version = t->name_version;
    }
    memo->known = true;
    return memo;
}

/* With some frames hidden: a thread of which none is left. */
static bool is_hidden(struct sampler *s, struct member *m, const struct thread_state *t)
{
    return choice_of_frames(&s->options.choice) && numbers_of(s, m, t)->stack == REC_EMPTY_STACK;
}

/* Whether native frames are missing that should be there. */
static bool count_native(struct sampler *s, const struct thread_state *t)
{
    enum native_state state = t->merged ? t->merged->state : NATIVE_OFF;
    s->stats.native_cut += state == NATIVE_CUT;
    s->stats.native_unmatched += state == NATIVE_UNMATCHED;
    s->stats.native_missing += state == NATIVE_MISSING;
    return t->merged && state != NATIVE_MERGED;
}

static int write_thread(struct sampler *s, struct member *m, const struct thread_state *t,
                        scry_nsec time, scry_nsec weight)
{
    const struct thread_memo *numbers = numbers_of(s, m, t);
    bool collects = s->options.gc && t->python->in_gc;
    uint32_t stack = collects ? stack_of_collector(s, m, numbers->stack) : numbers->stack;
    s->stats.samples++;
    s->stats.torn += t->torn;
    bool unmerged = count_native(s, t);
    return s->sink->ops->sample(
        s->sink, &(struct rec_sample){
                     .time = time - s->base,
                     .weight = weight,
                     .thread = numbers->thread,
                     .stack = stack,
                     .flags = (t->active ? REC_ACTIVE : 0u) | (t->owns_gil ? REC_GIL : 0u) |
                              (t->torn ? REC_TORN : 0u) | (collects ? REC_GC : 0u) |
                              (unmerged ? REC_UNMERGED : 0u),
                 });
}

/* What a thread has run and no sample stands for yet, in whole microseconds. A thread that ran and
 * sleeps again is not written: what it ran is added to its next sample, or code that sleeps between
 * short bursts would seem to run where it sleeps. */
static scry_nsec take_run_time(const struct thread_state *t)
{
    struct thread_memo *memo = t->memo;
    if (memo->run_counted < t->run_before)
        memo->run_counted = t->run_before;
    if (t->run_time <= memo->run_counted)
        return 0;
    scry_nsec ran = (t->run_time - memo->run_counted) / 1000 * 1000;
    memo->run_counted += ran;
    return ran;
}

static int write_snapshot(struct sampler *s, struct member *m, const struct snapshot *snapshot,
                          scry_nsec time, scry_nsec weight)
{
    for (size_t i = 0; i < snapshot->count; i++) {
        const struct thread_state *t = &snapshot->threads[i];
        if (s->options.cpu && !(weight = take_run_time(t)))
            continue;
        if (is_hidden(s, m, t))
            continue;
        int r = write_thread(s, m, t, time, weight);
        if (r < 0)
            return r;
        if (s->whole)
            s->sink->ops->waiting(s->sink, t->memo->thread, t->wait);
    }
    return 0;
}

/* ---- time ---- */

/* Slots that went by without a look: `first` and those after it, up to but not with `end`. */
static void count_missed(struct sampler *s, uint64_t first, uint64_t end)
{
    if (end > first && !s->collects)
        s->stats.missed += end - first;
}

/* A look stands for the time since the last one; a gap far beyond the rate (the machine slept, scry
 * was stopped) is nobody's. */
static scry_nsec weight_at(struct sampler *s, scry_nsec time)
{
    scry_nsec period = slots_period(&s->slots);
    scry_nsec gap = s->stats.ticks && !s->rested ? time - s->stats.last_look : period;
    scry_nsec longest = 10 * period > SCRY_NSEC_PER_SEC ? 10 * period : SCRY_NSEC_PER_SEC;
    return gap > longest ? period : gap;
}

/* Returns what the look stands for. */
static scry_nsec begin_look(struct sampler *s, scry_nsec time)
{
    const struct sink_ops *ops = s->sink->ops;
    scry_nsec weight = weight_at(s, time);
    s->stats.last_look = time;
    s->stats.ticks++;
    s->rested = false;
    s->whole = ops->waiting && time >= s->next_whole;
    if (s->whole)
        s->next_whole = time + WHOLE_EVERY;
    if (ops->look)
        ops->look(s->sink, weight, s->whole);
    return weight;
}

/* Whole microseconds: enough for any rate, and shorter in the stream. */
static scry_nsec rounded(scry_nsec time)
{
    return time / 1000 * 1000;
}

/* ---- looking ---- */

/* Whether several looks are to be taken by one system call: one by one they take longer than the slots. Each still has a
 * slot of its own. */
static bool wants_ahead(const struct sampler *s)
{
    return s->behind && s->slots.rate > AHEAD_ABOVE && s->tree.count == 1 && !s->sink->ops->waiting;
}

static int sample_ahead(struct sampler *s, struct member *m, const struct look *look)
{
    scry_nsec when;
    int r = 0;
    while (r == 0 && target_advance(m->target, &when)) {
        const struct snapshot *snapshot;
        scry_nsec time = when - s->slots.start;
        uint64_t slot = slots_at(&s->slots, time);
        if (slot <= s->slot)
            continue;
        count_missed(s, s->slot + 1, slot);
        s->slot = slot;
        scry_nsec weight = begin_look(s, rounded(time));
        r = target_look_ahead(m->target, look, &snapshot);
        if (r == 0)
            r = write_snapshot(s, m, snapshot, rounded(time), weight);
    }
    return r;
}

static int sample_member(struct sampler *s, struct member *m, scry_nsec now, scry_nsec time,
                         scry_nsec weight)
{
    const struct look look = {
        .blocking = s->options.blocking,
        .gil_only = !s->whole && s->gil_only,
        .choice = s->options.choice.threads.count ? &s->options.choice : NULL,
        .exceptions = s->options.exceptions,
        .collectors = s->options.gc,
        .skip_idle = !s->whole && !s->idle,
        .wait_reasons = s->whole,
        .native = s->options.native,
        .native_all = s->options.native_all,
        .now = now,
        .ahead = wants_ahead(s) ? AHEAD : 1,
    };
    const struct snapshot *snapshot;
    int r = target_look(m->target, &look, &snapshot);
    if (r == -SCRY_E_NO_MEMORY)
        return r;
    if (r < 0) {
        /* A process that ends or execs is without its memory before it is seen to have done so; if it
         * goes on it will be met again. */
        m->ended = r == -SCRY_E_GONE || process_space_lost(m->target->process);
        s->stats.errors += !m->ended;
        return 0;
    }
    r = write_snapshot(s, m, snapshot, time, weight);
    return r == 0 && look.ahead > 1 ? sample_ahead(s, m, &look) : r;
}

/* ---- looking from inside the kernel ---- */

/* What cannot be had there; NULL = all can. */
static const char *only_from_outside(const struct sampler_options *o)
{
    return o->native                        ? "--native"
           : o->idle                        ? "--idle"
           : o->gc                          ? "--gc"
           : o->exceptions                  ? "--exception"
           : o->overhead > 0                ? "--overhead"
           : o->rate > KERNEL_FASTEST       ? "a rate above 20000"
           : o->blocking == BLOCKING_ALWAYS ? "--blocking always"
                                            : NULL;
}

static scry_nsec kernel_period(const struct sampler *s)
{
    return (scry_nsec)((double)SCRY_NSEC_PER_SEC / s->options.rate);
}

/* What waits for a CPU takes time on the wall, but no CPU time. */
static bool wants_waiting(const struct sampler *s)
{
    return !s->options.cpu;
}

/* Who does not insist on the kernel has those counted that wait for a CPU, there or from outside. */
static void check_waiting(struct sampler *s, struct member *m)
{
    if (target_kernel_runs(m->target) && wants_waiting(s) && s->options.reader == READER_AUTO &&
        !target_kernel_sees_waiting(m->target))
        target_kernel_end(m->target);
}

static int check_reader(const struct sampler *s, struct error *err)
{
    const char *hindrance = only_from_outside(&s->options);
    if (s->options.reader != READER_KERNEL || !hindrance)
        return 0;
    return error_set(err, -SCRY_E_USAGE, "the kernel cannot be asked for %s", hindrance);
}

/* Whoever insists on the kernel waits for it. */
static int begin_in_kernel(struct sampler *s, struct error *err)
{
    for (size_t i = 0; i < s->tree.count; i++) {
        struct member *m = &s->tree.members[i];
        int r = target_kernel_begin(m->target, kernel_period(s), wants_waiting(s), err);
        if (r < 0 && r != -SCRY_E_GONE)
            return r;
        m->reader_chosen = true;
    }
    return 0;
}

/* Whether it pays to have the kernel asked, and everything that was asked for can be had there. */
static bool may_ask_kernel(const struct sampler *s)
{
    const struct sampler_options *o = &s->options;
    bool brief = o->duration && o->duration < KERNEL_LEAST;
    if (o->reader == READER_AUTO && (brief || o->rate > KERNEL_RATE))
        return false;
    return o->reader != READER_MEMORY && !only_from_outside(o) && !s->sink->ops->waiting;
}

/* Where the stacks of each process are read, if that is not decided yet: one after the other, and meanwhile from outside. */
static void choose_readers(struct sampler *s)
{
    bool may = may_ask_kernel(s), busy = false;
    size_t there = 0, most = s->options.reader == READER_AUTO ? KERNEL_MEMBERS : SIZE_MAX;
    for (size_t i = 0; i < s->tree.count; i++) {
        struct member *m = &s->tree.members[i];
        if (target_kernel_ready(m->target))
            check_waiting(s, m);
        busy |= target_kernel_prepares(m->target);
        there += target_kernel_runs(m->target);
    }
    for (size_t i = 0; i < s->tree.count && !busy; i++) {
        struct member *m = &s->tree.members[i];
        if (!m->reader_chosen && may && there < most)
            busy = target_kernel_prepare(m->target, kernel_period(s), wants_waiting(s));
        m->reader_chosen = true;
    }
    s->collects = s->tree.count > 0 && there == s->tree.count;
}

struct collection {
    struct sampler *sampler;
    struct member *member;
};

static int take_seen(const struct kernel_seen *seen, void *context)
{
    struct sampler *s = ((struct collection *)context)->sampler;
    struct member *m = ((struct collection *)context)->member;
    const struct thread_state *t = &seen->snapshot->threads[0];
    scry_nsec time = seen->when > s->slots.start ? rounded(seen->when - s->slots.start) : 0;
    if (!time || s->resting || (s->options.duration && time > s->options.duration) ||
        is_hidden(s, m, t))
        return 0;
    /* Those of another process may have been collected before. */
    s->written = time > s->written ? time : s->written;
    if (s->collects)
        s->stats.last_look = s->written;
    s->stats.ticks++;
    return write_thread(s, m, t, s->written, s->options.cpu ? seen->ran : seen->period);
}

static int collect_member(struct sampler *s, struct member *m, scry_nsec time)
{
    struct collection c = {s, m};
    const struct look look = {.gil_only = s->gil_only,
                              .choice =
                                  s->options.choice.threads.count ? &s->options.choice : NULL};
    int r = target_kernel_collect(m->target, &look, take_seen, &c);
    s->stats.missed += target_kernel_lost(m->target);
    m->next_collect = time + (scry_nsec)((double)SCRY_NSEC_PER_SEC / target_kernel_pace(m->target));
    if (r == -SCRY_E_NO_MEMORY || r == -SCRY_E_OUTPUT || r == -SCRY_E_INTERNAL)
        return r;
    m->ended = r == -SCRY_E_GONE || (r < 0 && process_space_lost(m->target->process));
    s->stats.errors += r < 0 && !m->ended;
    double most = s->options.reader == READER_AUTO ? PRICE_MOST : PRICE_EVER;
    if (target_kernel_fails(m->target) || target_kernel_price(m->target) > most) {
        target_kernel_end(m->target);
        s->collects = false;
    }
    return 0;
}

/* Of all processes, `anyway` or where it is time. */
static int collect(struct sampler *s, scry_nsec time, bool anyway)
{
    int r = 0;
    for (size_t i = 0; i < s->tree.count && r == 0; i++) {
        struct member *m = &s->tree.members[i];
        if (target_kernel_runs(m->target) && (anyway || s->collects || time >= m->next_collect))
            r = collect_member(s, m, time);
    }
    return r;
}

#define WAITED_MOST 64

/* Until then, or until something is to be collected at once; then the slot is now. */
static void await_collection(struct sampler *s, scry_nsec until)
{
    struct pollfd fds[WAITED_MOST];
    nfds_t count = 0;
    for (size_t i = 0; i < s->tree.count && count < WAITED_MOST; i++)
        fds[count++] =
            (struct pollfd){.fd = target_kernel_fd(s->tree.members[i].target), .events = POLLIN};
    scry_nsec now = slots_now(&s->slots), left = until > now ? until - now : 0;
    struct timespec limit = {.tv_sec = (time_t)(left / SCRY_NSEC_PER_SEC),
                             .tv_nsec = (long)(left % SCRY_NSEC_PER_SEC)};
    if (ppoll(fds, count, &limit, NULL) > 0)
        s->next = slots_now(&s->slots);
}

static scry_nsec longest_collect(const struct sampler *s)
{
    return s->options.subprocesses ? FAMILY_NAP : COLLECT_NAP;
}

/* How many slots a second there are to be. */
static double wanted_rate(const struct sampler *s)
{
    double pace = 0;
    for (size_t i = 0; i < s->tree.count && s->collects; i++) {
        double p = target_kernel_pace(s->tree.members[i].target);
        pace = p > pace ? p : pace;
    }
    double least = (double)SCRY_NSEC_PER_SEC / (double)longest_collect(s);
    return pace <= 0 ? s->options.rate : pace > least ? pace : least;
}

/* ---- */

static int look_around(struct sampler *s, scry_nsec time)
{
    /* Reading the clock is a good part of a look; for a second process it would be out of date. */
    scry_nsec now = s->slots.start + time;
    time = rounded(time);
    tree_refresh(&s->tree, s->slots.start + time);
    int r = 0;
    if (s->options.reader != READER_MEMORY) {
        choose_readers(s);
        r = collect(s, time, false);
    }
    if (r < 0 || s->collects) {
        tree_drop_ended(&s->tree);
        return r;
    }
    s->written = time = time > s->written ? time : s->written;
    scry_nsec weight = begin_look(s, time);
    for (size_t i = 0; i < s->tree.count && r == 0; i++)
        if (!target_kernel_runs(s->tree.members[i].target))
            r = sample_member(s, &s->tree.members[i], i ? 0 : now, time, weight);
    tree_drop_ended(&s->tree);
    return r;
}

static bool report(struct sampler *s, scry_nsec time,
                   bool (*tick)(const struct sampler_stats *, void *), void *context)
{
    s->stats.elapsed = time;
    if (time >= s->next_flush) {
        s->next_flush = time + FLUSH_EVERY;
        s->sink->ops->flush(s->sink);
    }
    if (time < s->next_report)
        return false;
    s->next_report = time + REPORT_EVERY;
    s->stats.own_cpu = own_cpu_clock() - s->cpu_start;
    return tick && tick(&s->stats, context);
}

static bool time_is_up(const struct sampler *s, scry_nsec time)
{
    return s->options.duration && time >= s->options.duration;
}

static void choose_slot(struct sampler *s, uint64_t slot)
{
    s->slot = slot;
    s->next = slots_moment(&s->slots, slot);
}

/* Nothing is looked at for a moment; the slots that go by are nobody's. */
static void rest(struct sampler *s)
{
    stop_settle();
    scry_nsec until = slots_now(&s->slots) + REST;
    slots_sleep(&s->slots, until);
    tree_refresh(&s->tree, s->slots.start + until);
    collect(s, until, true); /* which is not written */
    s->rested = true;
    choose_slot(s, slots_at(&s->slots, until) + 1);
}

bool sampler_await(struct sampler *s, scry_nsec delay)
{
    scry_nsec until = slots_now(&s->slots) + delay;
    for (;;) {
        scry_nsec now = slots_now(&s->slots);
        tree_refresh(&s->tree, s->slots.start + now);
        if (s->stop || tree_ended(&s->tree))
            return false;
        if (now >= until && !s->paused)
            return true;
        slots_sleep(&s->slots, now + REST < until || now >= until ? now + REST : until);
    }
}

/* For how long the threads of the process that was held most were held since it was last asked. */
static scry_nsec held_lately(struct sampler *s)
{
    scry_nsec most = 0;
    for (size_t i = 0; i < s->tree.count; i++) {
        struct member *m = &s->tree.members[i];
        scry_nsec held = m->target->stats.held - m->held;
        m->held += held;
        most = held > most ? held : most;
    }
    return most;
}

/* With another rate slots are counted anew, from now on. */
static bool rate_changes(struct sampler *s, scry_nsec time)
{
    if (s->options.reader != READER_MEMORY && wanted_rate(s) != s->slots.rate) {
        slots_set_rate(&s->slots, wanted_rate(s), time);
        return true;
    }
    if (s->options.overhead <= 0 || !budget_is_due(&s->budget, time, s->stats.ticks))
        return false;
    s->stats.held += held_lately(s);
    budget_adapt(&s->budget, &(struct budget_spent){
                                 .time = time,
                                 .own_cpu = own_cpu_clock() - s->cpu_start,
                                 .held = s->stats.held,
                                 .looks = s->stats.ticks,
                             });
    s->stats.rate = s->budget.rate;
    slots_set_rate(&s->slots, s->budget.rate, time);
    return true;
}

/* After a look: the slots that it took too long for are lost. */
static void next_slot(struct sampler *s, scry_nsec time)
{
    uint64_t current = slots_at(&s->slots, time), following = s->slot + 1;
    count_missed(s, following, current);
    s->behind = current > following;
    choose_slot(s, rate_changes(s, time) ? 0 : current > following ? current : following);
}

static int run(struct sampler *s, bool (*tick)(const struct sampler_stats *, void *), void *context,
               enum sampler_end *ret_end, struct error *err)
{
    prctl(PR_SET_TIMERSLACK, 1UL);
    slots_start(&s->slots);
    if (s->collects)
        slots_set_rate(&s->slots, wanted_rate(s), 0);
    s->cpu_start = own_cpu_clock();
    choose_slot(s, 0);
    bool looked = false;
    for (;;) {
        scry_nsec time = slots_now(&s->slots);
        if (looked)
            next_slot(s, time);
        looked = false;
        if (report(s, time, tick, context) || s->stop) {
            *ret_end = SAMPLER_STOPPED;
            return 0;
        }
        if (time_is_up(s, time)) {
            count_missed(s, s->slot, slots_at(&s->slots, s->options.duration));
            *ret_end = SAMPLER_DURATION;
            return 0;
        }
        s->resting = s->paused;
        if (s->resting) {
            rest(s);
            if (tree_ended(&s->tree)) {
                *ret_end = SAMPLER_EXITED;
                return 0;
            }
            continue;
        }
        if (time < s->next) {
            scry_nsec longest = stop_settle() > 0 ? OWED_NAP
                                : s->collects     ? longest_collect(s)
                                                  : LONGEST_NAP;
            scry_nsec until = s->next - time > longest ? time + longest : s->next;
            if (s->options.duration && until > s->options.duration)
                until = s->options.duration;
            if (s->collects)
                await_collection(s, until);
            else if (until == s->next)
                slots_await(&s->slots, s->slot);
            else
                slots_sleep(&s->slots, until);
            if (until < s->next && tree_ended(&s->tree)) {
                *ret_end = SAMPLER_EXITED;
                return 0;
            }
            continue;
        }
        if (time > s->next + slots_period(&s->slots))
            s->stats.late++;
        int r = look_around(s, time);
        if (r < 0)
            return error_set(err, r, "the recording cannot be written: %s", strerror(errno));
        if (tree_ended(&s->tree)) {
            *ret_end = SAMPLER_EXITED;
            return 0;
        }
        looked = true;
    }
}

/* What was seen since the last collection. */
static int collect_last(struct sampler *s, struct error *err)
{
    int r = collect(s, slots_now(&s->slots), true);
    for (size_t i = 0; i < s->tree.count; i++)
        s->stats.in_kernel += target_kernel_runs(s->tree.members[i].target);
    return r < 0 ? error_set(err, r, "the recording cannot be written: %s", strerror(errno)) : 0;
}

/* Without it there would be no sample, and no reason to be seen. */
static int check_account(const struct sampler *s, struct error *err)
{
    SCOPED_BUF text;
    buf_init(&text);
    if (process_read_proc(s->tree.roots[0], "schedstat", 128, &text) == 0 &&
        strtoull(text.data, NULL, 10) > 0)
        return 0;
    error_set(err, -SCRY_E_UNSUPPORTED, "the kernel keeps no account of the CPU time of threads");
    error_hint(err, "record wall time instead: leave --mode cpu out");
    return -SCRY_E_UNSUPPORTED;
}

int sampler_run(struct sampler *s, bool (*tick)(const struct sampler_stats *, void *),
                void *context, enum sampler_end *ret_end, struct error *err)
{
    int r = s->options.cpu ? check_account(s, err) : 0;
    if (r == 0)
        r = check_reader(s, err);
    if (r == 0 && s->options.reader == READER_KERNEL)
        r = begin_in_kernel(s, err);
    choose_readers(s);
    if (r == 0)
        r = run(s, tick, context, ret_end, err);
    if (r == 0)
        r = collect_last(s, err);
    s->stats.held += held_lately(s);
    s->stats.looks = s->tree.ended;
    for (size_t i = 0; i < s->tree.count; i++)
        target_stats_add(&s->stats.looks, &s->tree.members[i].target->stats);
    s->stats.elapsed = slots_now(&s->slots);
    s->stats.own_cpu = own_cpu_clock() - s->cpu_start;
    return r;
}
