/* A pool of native threads that share out pieces of work and meet at the end of each region, as the
 * thread pools of numerical libraries do. They know nothing of Python. */
#include <pthread.h>
#include <stdint.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t begun = PTHREAD_COND_INITIALIZER, ended = PTHREAD_COND_INITIALIZER;
static uint64_t region;
static unsigned threads, working;
static unsigned long steps;
volatile uint64_t native_sink;

static void work(void)
{
    uint64_t x = 88172645463325252u;
    for (unsigned long i = 0; i < steps; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    native_sink = x;
}

static void *worker(void *unused)
{
    (void)unused;
    for (uint64_t seen = 0;;) {
        pthread_mutex_lock(&lock);
        while (region == seen)
            pthread_cond_wait(&begun, &lock);
        seen = region;
        pthread_mutex_unlock(&lock);
        work();
        pthread_mutex_lock(&lock);
        if (--working == 0)
            pthread_cond_signal(&ended);
        pthread_mutex_unlock(&lock);
    }
    return 0;
}

int pool_start(unsigned count, unsigned long steps_each)
{
    steps = steps_each;
    for (; threads < count; threads++) {
        pthread_t thread;
        if (pthread_create(&thread, 0, worker, 0) != 0)
            return -1;
    }
    return 0;
}

/* One region: every thread does its piece, and the caller waits for all. */
void pool_run(void)
{
    pthread_mutex_lock(&lock);
    working = threads;
    region++;
    pthread_cond_broadcast(&begun);
    while (working)
        pthread_cond_wait(&ended, &lock);
    pthread_mutex_unlock(&lock);
}
