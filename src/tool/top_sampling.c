/* The sampler has a thread of its own: a terminal that takes no more output (Control-S, a slow
 * line) must not hold up a thread of the target. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tool/top.h"

#define REST_LIMIT 50 /* times 10 ms */

static void wake(const struct top_sampling *s)
{
    const unsigned char nothing = 0;
    ssize_t n = write(s->wake, &nothing, 1);
    (void)n; /* a full pipe wakes as well */
}

static bool on_tick(const struct sampler_stats *stats, void *context)
{
    struct top_sampling *s = context;
    pthread_mutex_lock(&s->lock);
    s->stats = *stats;
    pthread_mutex_unlock(&s->lock);
    if (tally_wants_renewal(s->tally)) {
        tally_renew(s->tally);
        sampler_switch(s->sampler, tally_sink(s->tally));
    }
    return false;
}

static void *sample(void *context)
{
    struct top_sampling *s = context;
    struct error err = {0};
    enum sampler_end end = SAMPLER_STOPPED;
    struct sampler *sampler;
    int r = sampler_new(s->pid, &s->options, tally_sink(s->tally), &sampler, &err);
    if (r == 0) {
        pthread_mutex_lock(&s->lock);
        s->sampler = sampler;
        s->started = true;
        pthread_mutex_unlock(&s->lock);
        wake(s);
        r = sampler_run(sampler, on_tick, s, &end, &err);
    }
    pthread_mutex_lock(&s->lock);
    if (s->sampler)
        s->stats = *sampler_stats(s->sampler);
    s->ended = true;
    s->result = r;
    s->end = end;
    s->err = err;
    pthread_mutex_unlock(&s->lock);
    wake(s);
    return NULL;
}

/* Signals are for the thread that watches the terminal. */
int top_sampling_start(struct top_sampling *s, struct error *err)
{
    sigset_t all, former;
    sigfillset(&all);
    pthread_mutex_init(&s->lock, NULL);
    pthread_sigmask(SIG_SETMASK, &all, &former);
    int r = pthread_create(&s->thread, NULL, sample, s);
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    if (r != 0)
        return error_set(err, -SCRY_E_NO_MEMORY, "no thread to sample with: %s", strerror(r));
    s->going = true;
    return 0;
}

struct top_progress top_sampling_progress(struct top_sampling *s)
{
    pthread_mutex_lock(&s->lock);
    struct top_progress p = {.started = s->started, .ended = s->ended, .stats = s->stats};
    pthread_mutex_unlock(&s->lock);
    return p;
}

static struct sampler *sampler_of(struct top_sampling *s)
{
    pthread_mutex_lock(&s->lock);
    struct sampler *sampler = s->sampler;
    pthread_mutex_unlock(&s->lock);
    return sampler;
}

void top_sampling_choose(struct top_sampling *s, const struct top_view *view)
{
    struct sampler *sampler = sampler_of(s);
    tally_choose(s->tally, view->gil_only, view->idle);
    if (sampler)
        sampler_choose(sampler, view->gil_only, view->idle);
}

void top_sampling_pause(struct top_sampling *s, bool paused)
{
    struct sampler *sampler = sampler_of(s);
    if (sampler)
        sampler_pause(sampler, paused);
}

void top_sampling_rest(struct top_sampling *s)
{
    const struct timespec moment = {.tv_nsec = 10 * 1000 * 1000};
    struct sampler *sampler = sampler_of(s);
    top_sampling_pause(s, true);
    for (int i = 0; sampler && i < REST_LIMIT && !sampler_rests(sampler); i++) {
        if (top_sampling_progress(s).ended)
            return;
        nanosleep(&moment, NULL);
    }
}

void top_sampling_end(struct top_sampling *s)
{
    if (!s->going)
        return;
    struct sampler *sampler = sampler_of(s);
    if (sampler)
        sampler_stop(sampler);
    pthread_join(s->thread, NULL);
    sampler_free(s->sampler);
    s->sampler = NULL;
    s->going = false;
    pthread_mutex_destroy(&s->lock);
}
