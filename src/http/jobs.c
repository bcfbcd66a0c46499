#include "http/jobs.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "http/child.h"
#include "http/json_in.h"

#define GRACE_SECONDS     30    /* beyond its duration, until a recording is ended by force */
#define UNWATCHED_MS      10000 /* a recording that ends with its watchers waits so long for one */
#define RETRY_SECONDS     5
#define REMOTE_STACK_SIZE (512 << 10)

struct busy { /* a process that is being recorded */
    pid_t pid;
    uint64_t start_time;
};

struct shown {
    pid_t pid; /* 0 = idle */
    char id[STORE_ID_MAX];
};

struct jobs {
    struct jobs_config config;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct job *first; /* that wait or run, or that somebody still looks at; oldest first */
    struct busy *busy; /* one per thread; pid 0 = idle */
    /* The same for who only wants to know what is being recorded: `lock` is held while the store
     * writes, and a list of processes must not wait for a disk. */
    pthread_mutex_t shown_lock;
    struct shown *shown;
    pthread_t *threads;
    unsigned thread_count;
    unsigned coordinators;
    bool stopping;
    uint64_t ended[JOB_CANCELLED + 1];
};

static int64_t monotonic_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void jobs_lock(struct jobs *jobs)
{
    pthread_mutex_lock(&jobs->lock);
}

void jobs_unlock(struct jobs *jobs)
{
    pthread_mutex_unlock(&jobs->lock);
}

void job_changed(struct jobs *jobs, struct job *job)
{
    job->version++;
    pthread_cond_broadcast(&jobs->changed);
}

/* ---- life ---- */

static void job_free(struct job *job)
{
    for (size_t i = 0; i < job->warning_count; i++)
        free(job->warnings[i]);
    free(job->targets);
    free(job);
}

static void unlink_job(struct jobs *jobs, struct job *job)
{
    struct job **at = &jobs->first;
    while (*at && *at != job)
        at = &(*at)->next;
    if (*at)
        *at = job->next;
}

/* With the lock held. */
static void release(struct jobs *jobs, struct job *job)
{
    if (--job->refs > 0)
        return;
    unlink_job(jobs, job);
    job_free(job);
}

void job_release(struct jobs *jobs, struct job *job)
{
    if (!job)
        return;
    jobs_lock(jobs);
    release(jobs, job);
    jobs_unlock(jobs);
}

static void append(struct jobs *jobs, struct job *job)
{
    struct job **at = &jobs->first;
    while (*at)
        at = &(*at)->next;
    *at = job;
}

/* ---- the end of a job ---- */

static void take_sizes(struct jobs *jobs, struct job *job)
{
    job->size = 0;
    for (size_t i = 0; i < job->target_count; i++) {
        char *path = store_path(jobs->config.store, job->id, i);
        struct stat st;
        job->targets[i].size = path && stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
        job->size += job->targets[i].size;
        free(path);
    }
}

/* What the targets came to, together. */
static void conclude(struct jobs *jobs, struct job *job)
{
    size_t good = 0, bad = 0;
    const struct job_target *worst = NULL;
    take_sizes(jobs, job);
    for (size_t i = 0; i < job->target_count; i++) {
        const struct job_target *t = &job->targets[i];
        good += t->state == JOB_DONE;
        if (t->state == JOB_FAILED && !bad++)
            worst = t;
    }
    if (job->cancel)
        job->state = JOB_CANCELLED;
    else
        job->state = good ? JOB_DONE : JOB_FAILED;
    if (worst && !good && !job->cancel)
        job->error = worst->error;
    if (worst && good)
        job_warn(job, "%zu of %zu processes are missing: process %d on %s: %s", bad,
                 job->target_count, worst->pid, worst->node_name, worst->error.message);
    if (job->state == JOB_DONE && job_samples(job) == 0)
        job_warn(job, "%s",
                 job->options.idle ? "there are no samples: no thread was there to be seen"
                                   : "there are no samples: the process was idle; record it with "
                                     "idle to see where it waits");
}

void job_target_ended(struct jobs *jobs, struct job *job)
{
    for (size_t i = 0; i < job->target_count; i++) {
        const struct job_target *t = &job->targets[i];
        if (t->state == JOB_QUEUED || t->state == JOB_RECORDING) {
            job_changed(jobs, job);
            return;
        }
    }
    if (job_ended(job))
        return;
    conclude(jobs, job);
    job->ended = reply_now();
    jobs->ended[job->state]++;
    struct error err = {0};
    if (job_store(jobs->config.store, job, &err) < 0)
        job_warn(job, "it could not be entered in the store and is lost when the server ends: %s",
                 error_text(&err));
    job_changed(jobs, job);
    release(jobs, job); /* the queue's own reference */
}

/* ---- one target, in a child ---- */

struct run {
    struct jobs *jobs;
    struct job *job;
    struct job_target *target;
    size_t part;
    bool named; /* its file has been given its name already */
};

static bool is_abandoned(const struct job *job)
{
    return job->options.attached && job->watchers == 0 &&
           monotonic_ms() - job->unwatched > UNWATCHED_MS;
}

bool jobs_is_cancelled(struct jobs *jobs, const struct job *job)
{
    jobs_lock(jobs);
    bool over = job->cancel || jobs->stopping || is_abandoned(job);
    jobs_unlock(jobs);
    return over;
}

static enum child_poll poll_run(void *context)
{
    const struct run *run = context;
    return jobs_is_cancelled(run->jobs, run->job) ? CHILD_STOP : CHILD_GO_ON;
}

/* "progress SECONDS SAMPLES" */
static void read_progress(void *context, const char *line)
{
    struct run *run = context;
    double elapsed;
    unsigned long long samples;
    if (sscanf(line, "progress %lf %llu", &elapsed, &samples) != 2)
        return;
    jobs_lock(run->jobs);
    run->target->elapsed = elapsed;
    run->target->samples = samples;
    job_changed(run->jobs, run->job);
    jobs_unlock(run->jobs);
}

static void run_child(struct run *run, const char *path, struct child_result *result)
{
    const struct job_options *o = &run->job->options;
    char pid[16], duration[32], rate[32];
    const char *argv[32];
    size_t n = 0;
    snprintf(pid, sizeof(pid), "%d", run->target->pid);
    snprintf(duration, sizeof(duration), "%g", o->duration);
    snprintf(rate, sizeof(rate), "%g", o->rate);
    const char *fixed[] = {"record",
                           "-p",
                           pid,
                           "-d",
                           duration,
                           "-r",
                           rate,
                           "--mode",
                           job_modes[o->mode],
                           "-f",
                           "scry",
                           "-o",
                           path,
                           "--host",
                           run->jobs->config.node_name,
                           "--hideprogress",
                           "--progress-lines"};
    for (; n < ARRAY_LEN(fixed); n++)
        argv[n] = fixed[n];
    if (o->idle && o->mode != JOB_CPU)
        argv[n++] = "--idle";
    if (o->native)
        argv[n++] = "--native";
    if (o->subprocesses)
        argv[n++] = "--subprocesses";
    argv[n] = NULL;
    struct child_job child = {
        .argv = argv,
        .confine = run->jobs->config.confine,
        .out_fd = -1,
        .limits = {.time = (scry_nsec)((o->duration + GRACE_SECONDS) * 1e9),
                   .memory = run->jobs->config.memory,
                   .file = run->jobs->config.file_bytes,
                   .cpu_seconds = (unsigned)(o->duration * 2) + GRACE_SECONDS},
        .poll = poll_run,
        .line = read_progress,
        .context = run,
    };
    child_run(&child, result);
}

static void note_result(struct run *run, const struct child_result *result)
{
    struct job_target *t = run->target;
    char word[32];
    if (result->end == CHILD_OK) {
        t->state = run->job->cancel || run->jobs->stopping ? JOB_CANCELLED : JOB_DONE;
        if (!result->stopped && t->elapsed + 0.3 < run->job->options.duration)
            job_warn(run->job, "process %d ended after %.1f s of the recording", t->pid,
                     t->elapsed);
        return;
    }
    if (result->end == CHILD_CANCELLED) {
        t->state = JOB_CANCELLED;
        return;
    }
    t->state = JOB_FAILED;
    job_error_word(result->code, word);
    job_error_set(&t->error, word, result->message, result->hint);
}

static void run_target(struct jobs *jobs, struct job *job, size_t part)
{
    struct run run = {.jobs = jobs, .job = job, .target = &job->targets[part], .part = part};
    struct child_result result;
    child_result_init(&result);
    char *path = store_path(jobs->config.store, job->id, part);
    if (path)
        run_child(&run, path, &result);
    else
        result.end = CHILD_NOT_STARTED;
    free(path);
    jobs_lock(jobs);
    if (is_abandoned(job) || jobs->stopping)
        job->cancel = true;
    note_result(&run, &result);
    job_target_ended(jobs, job);
    jobs_unlock(jobs);
    child_result_done(&result);
}

void job_begins(struct jobs *jobs, struct job *job)
{
    if (job->state == JOB_QUEUED) {
        job->state = JOB_RECORDING;
        job->started = reply_now();
        job_store(jobs->config.store, job, NULL); /* for the search; it is entered already */
    }
    job_changed(jobs, job);
}

/* ---- the threads ---- */

static bool is_busy(const struct jobs *jobs, const struct job_target *t)
{
    for (unsigned i = 0; i < jobs->thread_count; i++)
        if (jobs->busy[i].pid == t->pid && jobs->busy[i].start_time == t->start_time)
            return true;
    return false;
}

/* The oldest target that can be seen to now. */
static struct job *next_target(struct jobs *jobs, size_t *ret_part)
{
    for (struct job *job = jobs->first; job; job = job->next) {
        for (size_t i = 0; i < job->target_count && !job_ended(job); i++) {
            const struct job_target *t = &job->targets[i];
            if (t->remote || t->state != JOB_QUEUED || (!job->cancel && is_busy(jobs, t)))
                continue;
            *ret_part = i;
            return job;
        }
    }
    return NULL;
}

static void show(struct jobs *jobs, const struct busy *busy, pid_t pid, const char *id)
{
    struct shown *shown = &jobs->shown[busy - jobs->busy];
    pthread_mutex_lock(&jobs->shown_lock);
    shown->pid = pid;
    snprintf(shown->id, sizeof(shown->id), "%s", id);
    pthread_mutex_unlock(&jobs->shown_lock);
}

/* With the lock held; gives it up while the target is recorded. */
static void see_to(struct jobs *jobs, struct busy *busy, struct job *job, size_t part)
{
    struct job_target *t = &job->targets[part];
    job->refs++;
    if (job->cancel || jobs->stopping || is_abandoned(job)) {
        job->cancel = true;
        t->state = JOB_CANCELLED;
        job_target_ended(jobs, job);
    } else {
        *busy = (struct busy){.pid = t->pid, .start_time = t->start_time};
        t->state = JOB_RECORDING;
        job_begins(jobs, job);
        show(jobs, busy, t->pid, job->id);
        jobs_unlock(jobs);
        run_target(jobs, job, part);
        jobs_lock(jobs);
        show(jobs, busy, 0, "");
        *busy = (struct busy){0};
        pthread_cond_broadcast(&jobs->changed);
    }
    release(jobs, job);
}

struct worker {
    struct jobs *jobs;
    unsigned number;
};

static void wait_ms(struct jobs *jobs, unsigned ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_cond_timedwait(&jobs->changed, &jobs->lock, &until);
}

static void *work(void *context)
{
    struct worker *worker = context;
    struct jobs *jobs = worker->jobs;
    struct busy *busy = &jobs->busy[worker->number];
    free(worker);
    jobs_lock(jobs);
    for (;;) {
        size_t part;
        struct job *job = next_target(jobs, &part);
        if (job)
            see_to(jobs, busy, job, part);
        else if (jobs->stopping)
            break;
        else
            pthread_cond_wait(&jobs->changed, &jobs->lock);
    }
    jobs_unlock(jobs);
    return NULL;
}

static bool start_thread(struct jobs *jobs)
{
    struct worker *worker = malloc(sizeof(*worker));
    if (!worker)
        return false;
    *worker = (struct worker){.jobs = jobs, .number = jobs->thread_count};
    if (pthread_create(&jobs->threads[jobs->thread_count], NULL, work, worker) != 0) {
        free(worker);
        return false;
    }
    jobs->thread_count++;
    return true;
}

int jobs_new(const struct jobs_config *config, struct jobs **ret, struct error *err)
{
    struct jobs *jobs = calloc(1, sizeof(*jobs));
    if (!jobs)
        return error_set(err, -SCRY_E_NO_MEMORY, "out of memory");
    jobs->config = *config;
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&jobs->changed, &clock);
    pthread_condattr_destroy(&clock);
    pthread_mutex_init(&jobs->lock, NULL);
    pthread_mutex_init(&jobs->shown_lock, NULL);
    jobs->shown = calloc(config->running, sizeof(*jobs->shown));
    jobs->busy = calloc(config->running, sizeof(*jobs->busy));
    jobs->threads = calloc(config->running, sizeof(*jobs->threads));
    jobs_lock(jobs);
    bool started = jobs->busy && jobs->shown && jobs->threads;
    while (started && jobs->thread_count < config->running)
        started = start_thread(jobs);
    jobs_unlock(jobs);
    if (!started) {
        jobs_free(jobs);
        return error_set(err, -SCRY_E_NO_MEMORY, "the threads for recordings cannot be started");
    }
    *ret = jobs;
    return 0;
}

void jobs_free(struct jobs *jobs)
{
    if (!jobs)
        return;
    jobs_lock(jobs);
    jobs->stopping = true;
    pthread_cond_broadcast(&jobs->changed);
    jobs_unlock(jobs);
    for (unsigned i = 0; i < jobs->thread_count; i++)
        pthread_join(jobs->threads[i], NULL);
    jobs_lock(jobs);
    while (jobs->coordinators)
        wait_ms(jobs, 100);
    jobs_unlock(jobs);
    while (jobs->first) {
        struct job *job = jobs->first;
        jobs->first = job->next;
        job_free(job);
    }
    pthread_cond_destroy(&jobs->changed);
    pthread_mutex_destroy(&jobs->lock);
    pthread_mutex_destroy(&jobs->shown_lock);
    free(jobs->shown);
    free(jobs->busy);
    free(jobs->threads);
    free(jobs);
}

/* ---- other nodes ---- */

struct coordination {
    struct jobs *jobs;
    struct job *job;
};

static void *coordinate(void *context)
{
    struct coordination c = *(struct coordination *)context;
    free(context);
    c.jobs->config.remote(c.jobs->config.remote_context, c.jobs, c.job);
    jobs_lock(c.jobs);
    release(c.jobs, c.job);
    c.jobs->coordinators--;
    pthread_cond_broadcast(&c.jobs->changed);
    jobs_unlock(c.jobs);
    return NULL;
}

/* With the lock held. */
static bool start_coordination(struct jobs *jobs, struct job *job)
{
    struct coordination *c = malloc(sizeof(*c));
    pthread_t thread;
    if (!c)
        return false;
    *c = (struct coordination){.jobs = jobs, .job = job};
    job->refs++;
    jobs->coordinators++;
    if (pthread_create(&thread, NULL, coordinate, c) != 0) {
        job->refs--;
        jobs->coordinators--;
        free(c);
        return false;
    }
    pthread_detach(thread);
    return true;
}

/* ---- adding ---- */

static unsigned count_state(const struct jobs *jobs, enum job_state state)
{
    unsigned count = 0;
    for (const struct job *job = jobs->first; job; job = job->next)
        count += job->state == state;
    return count;
}

static bool has_remote(const struct job *job)
{
    for (size_t i = 0; i < job->target_count; i++)
        if (job->targets[i].remote && job->targets[i].state == JOB_QUEUED)
            return true;
    return false;
}

static struct job *new_job(const struct job_options *options, struct job_target *targets,
                           size_t count)
{
    struct job *job = calloc(1, sizeof(*job));
    if (!job)
        return NULL;
    *job = (struct job){
        .options = *options,
        .created = reply_now(),
        .targets = targets,
        .target_count = count,
        .unwatched = monotonic_ms(),
        .refs = 2, /* the queue's and the caller's */
    };
    store_new_id(job->id);
    return job;
}

static void refuse_busy(struct reply *re)
{
    reply_error(re, 429, "busy", NULL, "try again in a moment",
                "too many recordings are waiting already");
    reply_header(re, "Retry-After", "%d", RETRY_SECONDS);
}

/* With the lock held. Takes `targets` over. */
static struct job *add(struct jobs *jobs, const struct job_options *options,
                       struct job_target *targets, size_t count, struct reply *re)
{
    struct error err = {0};
    if (jobs->stopping || count_state(jobs, JOB_QUEUED) >= jobs->config.queue) {
        free(targets);
        if (jobs->stopping)
            reply_error(re, 503, "unavailable", NULL, "", "the server is shutting down");
        else
            refuse_busy(re);
        return NULL;
    }
    struct job *job = new_job(options, targets, count);
    if (!job) {
        free(targets);
        reply_error(re, 503, "unavailable", NULL, "", "out of memory");
        return NULL;
    }
    if (job_store(jobs->config.store, job, &err) < 0) {
        job_free(job);
        reply_error(re, 503, "unavailable", NULL, error_hint_text(&err), "%s", error_text(&err));
        return NULL;
    }
    append(jobs, job);
    if (has_remote(job) && (!jobs->config.remote || !start_coordination(jobs, job)))
        for (size_t i = 0; i < count; i++)
            if (targets[i].remote && targets[i].state == JOB_QUEUED) {
                targets[i].state = JOB_FAILED;
                job_error_set(&targets[i].error, "unavailable", "the other node cannot be asked",
                              "");
            }
    job_target_ended(jobs, job); /* all may have failed before they began */
    return job;
}

struct job *jobs_add(struct jobs *jobs, const struct job_options *options,
                     struct job_target *targets, size_t count, struct reply *re)
{
    jobs_lock(jobs);
    struct job *job = add(jobs, options, targets, count, re);
    jobs_unlock(jobs);
    return job;
}

static bool same_options(const struct job_options *a, const struct job_options *b)
{
    return a->duration == b->duration && a->rate == b->rate && a->mode == b->mode &&
           a->idle == b->idle && a->native == b->native && a->subprocesses == b->subprocesses &&
           a->attached == b->attached && strcmp(a->origin, b->origin) == 0;
}

static struct job *find_same(struct jobs *jobs, const struct job_options *options,
                             const struct job_target *target)
{
    for (struct job *job = jobs->first; job; job = job->next)
        if (job->state == JOB_QUEUED && !job->cancel && job->target_count == 1 &&
            job->targets[0].pid == target->pid &&
            job->targets[0].start_time == target->start_time &&
            same_options(&job->options, options))
            return job;
    return NULL;
}

struct job *jobs_add_or_join(struct jobs *jobs, const struct job_options *options,
                             const struct job_target *target, struct reply *re)
{
    jobs_lock(jobs);
    struct job *job = find_same(jobs, options, target);
    if (job) {
        job->refs++;
    } else {
        struct job_target *copy = malloc(sizeof(*copy));
        if (copy)
            *copy = *target;
        job = copy ? add(jobs, options, copy, 1, re) : NULL;
    }
    jobs_unlock(jobs);
    return job;
}

struct job *jobs_find(struct jobs *jobs, const char *id)
{
    jobs_lock(jobs);
    struct job *job = jobs->first;
    while (job && strcmp(job->id, id) != 0)
        job = job->next;
    if (job)
        job->refs++;
    jobs_unlock(jobs);
    return job;
}

void jobs_cancel(struct jobs *jobs, struct job *job)
{
    jobs_lock(jobs);
    job->cancel = true;
    job_changed(jobs, job);
    jobs_unlock(jobs);
}

/* ---- watching ---- */

void job_watch(struct jobs *jobs, struct job *job)
{
    jobs_lock(jobs);
    job->watchers++;
    jobs_unlock(jobs);
}

void job_unwatch(struct jobs *jobs, struct job *job)
{
    jobs_lock(jobs);
    if (--job->watchers == 0)
        job->unwatched = monotonic_ms();
    jobs_unlock(jobs);
}

void job_touch(struct jobs *jobs, struct job *job)
{
    jobs_lock(jobs);
    job->unwatched = monotonic_ms();
    jobs_unlock(jobs);
}

unsigned job_wait(struct jobs *jobs, struct job *job, unsigned seen, unsigned timeout_ms)
{
    int64_t until = monotonic_ms() + timeout_ms;
    jobs_lock(jobs);
    while (job->version == seen && !job_ended(job)) {
        int64_t left = until - monotonic_ms();
        if (left <= 0)
            break;
        wait_ms(jobs, (unsigned)left);
    }
    unsigned version = job->version;
    jobs_unlock(jobs);
    return version;
}

/* ---- questions ---- */

void jobs_recording_of(struct jobs *jobs, pid_t pid, char to[static STORE_ID_MAX])
{
    to[0] = '\0';
    pthread_mutex_lock(&jobs->shown_lock);
    for (unsigned i = 0; i < jobs->config.running; i++)
        if (jobs->shown[i].pid == pid)
            memcpy(to, jobs->shown[i].id, STORE_ID_MAX);
    pthread_mutex_unlock(&jobs->shown_lock);
}

void jobs_each(struct jobs *jobs, void (*each)(void *context, const struct job *job), void *context)
{
    jobs_lock(jobs);
    for (const struct job *job = jobs->first; job; job = job->next)
        each(context, job);
    jobs_unlock(jobs);
}

void jobs_counts(struct jobs *jobs, struct jobs_counts *ret)
{
    *ret = (struct jobs_counts){0};
    jobs_lock(jobs);
    ret->queued = count_state(jobs, JOB_QUEUED);
    ret->running = count_state(jobs, JOB_RECORDING);
    for (const struct job *job = jobs->first; job; job = job->next)
        for (size_t i = 0; i < job->target_count; i++)
            ret->waiting_targets += job->targets[i].state == JOB_QUEUED;
    memcpy(ret->ended, jobs->ended, sizeof(ret->ended));
    jobs_unlock(jobs);
}

/* ---- after a crash ---- */

static void copy_text(char *to, size_t cap, const json_t *o, const char *name)
{
    const char *text = json_string_value(json_object_get(o, name));
    snprintf(to, cap, "%s", text ? text : "");
}

static bool read_target(struct job_target *t, const json_t *o)
{
    copy_text(t->node, sizeof(t->node), o, "node");
    copy_text(t->node_name, sizeof(t->node_name), o, "node_name");
    copy_text(t->command, sizeof(t->command), o, "command");
    copy_text(t->python, sizeof(t->python), o, "python");
    t->pid = (pid_t)json_integer_value(json_object_get(o, "pid"));
    t->state = JOB_FAILED;
    job_error_set(&t->error, "interrupted", "the server was ended while it recorded this", "");
    return json_is_object(o);
}

static int64_t read_time(const json_t *o, const char *name)
{
    struct tm utc = {0};
    const char *text = json_string_value(json_object_get(o, name));
    return text && strptime(text, "%Y-%m-%dT%H:%M:%S", &utc) ? (int64_t)timegm(&utc) * 1000 : 0;
}

static void mend(void *context, const char *doc)
{
    struct jobs *jobs = context;
    json_t *o = json_loads(doc, 0, NULL);
    const json_t *targets = json_object_get(o, "targets");
    size_t count = json_array_size(targets);
    struct job job = {.state = JOB_FAILED, .target_count = count, .ended = reply_now()};
    copy_text(job.id, sizeof(job.id), o, "id");
    copy_text(job.options.name, sizeof(job.options.name), o, "name");
    job.options.origin = "api";
    job.options.merge = json_is_true(json_object_get(o, "merge"));
    job.options.idle = json_is_true(json_object_get(o, "idle"));
    job.options.native = json_is_true(json_object_get(o, "native"));
    job.options.subprocesses = json_is_true(json_object_get(o, "subprocesses"));
    job.options.duration = json_number_value(json_object_get(o, "duration"));
    job.options.rate = json_number_value(json_object_get(o, "rate"));
    job.created = read_time(o, "created");
    job.started = read_time(o, "started");
    job.targets = calloc(count + 1, sizeof(*job.targets));
    bool fine = store_id_valid(job.id) && job.targets && count <= JOB_TARGETS_MAX;
    for (size_t i = 0; i < count && fine; i++)
        fine = read_target(&job.targets[i], json_array_get(targets, i));
    if (fine) {
        take_sizes(jobs, &job);
        job_error_set(&job.error, "interrupted", "the server was ended while it recorded this",
                      job.size ? "what it had until then can be fetched" : "");
        job_store(jobs->config.store, &job, NULL);
    }
    free(job.targets);
    json_decref(o);
}

void jobs_mend(struct jobs *jobs)
{
    store_unfinished(jobs->config.store, mend, jobs);
}
