#include "http/turnstile.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define WAIT_MS 20000
#define STEP_MS 200

struct turnstile {
    pthread_mutex_t lock;
    pthread_cond_t left;
    unsigned inside, waiting, inside_max, waiting_max;
};

int turnstile_new(unsigned inside, unsigned waiting, struct turnstile **ret)
{
    struct turnstile *t = calloc(1, sizeof(*t));
    if (!t)
        return -SCRY_E_NO_MEMORY;
    t->inside_max = inside;
    t->waiting_max = waiting;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->left, NULL);
    *ret = t;
    return 0;
}

void turnstile_free(struct turnstile *t)
{
    if (!t)
        return;
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->left);
    free(t);
}

static void wait_a_bit(struct turnstile *t)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += STEP_MS * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    pthread_cond_timedwait(&t->left, &t->lock, &until);
}

bool turnstile_enter(struct turnstile *t, const struct request *rq, struct reply *re)
{
    bool gone = false;
    pthread_mutex_lock(&t->lock);
    bool full = t->inside >= t->inside_max && t->waiting >= t->waiting_max;
    t->waiting++;
    for (unsigned waited = 0; !full && !gone && t->inside >= t->inside_max; waited += STEP_MS) {
        full = waited >= WAIT_MS;
        if (!full)
            wait_a_bit(t);
        gone = request_gone(rq);
    }
    t->waiting--;
    bool entered = !full && !gone;
    t->inside += entered;
    pthread_mutex_unlock(&t->lock);
    if (!entered) {
        reply_error(re, 429, "busy", NULL, "try again in a moment", "the server is busy");
        reply_header(re, "Retry-After", "2");
    }
    return entered;
}

void turnstile_leave(struct turnstile *t)
{
    pthread_mutex_lock(&t->lock);
    t->inside--;
    pthread_cond_signal(&t->left);
    pthread_mutex_unlock(&t->lock);
}
