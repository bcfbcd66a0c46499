/* To sleep for less than the time between two ticks of the kernel's clock, it sets the timer of the hardware, and on a
 * virtual machine that takes the host's help: a quarter of all that a wake-up takes. But it sets it only for the
 * earliest of its timers. So at such rates there are always some alarms set beyond the next one: then it is done when the
 * alarm before goes off, once for both, while nobody waits for it. */
#include "engine/slots.h"

#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "util/table.h"

#define ALARMS_FROM 200.0   /* per second: below, a tick of the kernel comes first */
#define SPIN_FROM   10000.0 /* a sleep and its wake-up take longer than a period */
#define NO_SLOT     UINT64_MAX

static scry_nsec clock_read(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (scry_nsec)ts.tv_sec * SCRY_NSEC_PER_SEC + (scry_nsec)ts.tv_nsec;
}

static struct timespec timespec_of(scry_nsec time)
{
    return (struct timespec){.tv_sec = (time_t)(time / SCRY_NSEC_PER_SEC),
                             .tv_nsec = (long)(time % SCRY_NSEC_PER_SEC)};
}

void slots_init(struct slots *s, double rate)
{
    *s = (struct slots){.rate = rate, .seed = clock_read()};
    for (int i = 0; i < SLOTS_ALARMS; i++) {
        s->alarms[i].fd = -1;
        s->alarms[i].slot = NO_SLOT;
    }
}

void slots_done(struct slots *s)
{
    for (int i = 0; i < SLOTS_ALARMS; i++)
        if (s->alarms[i].fd >= 0)
            close(s->alarms[i].fd);
    slots_init(s, s->rate);
}

void slots_start(struct slots *s)
{
    s->start = clock_read();
    slots_set_rate(s, s->rate, 0);
}

void slots_set_rate(struct slots *s, double rate, scry_nsec since)
{
    s->rate = rate;
    s->since = since;
    s->seed = hash_mix(s->seed);
    for (int i = 0; i < SLOTS_ALARMS; i++)
        s->alarms[i].slot = NO_SLOT;
}

scry_nsec slots_now(const struct slots *s)
{
    return clock_read() - s->start;
}

scry_nsec slots_period(const struct slots *s)
{
    return (scry_nsec)((double)SCRY_NSEC_PER_SEC / s->rate);
}

uint64_t slots_at(const struct slots *s, scry_nsec time)
{
    return (uint64_t)((double)(time - s->since) * s->rate / (double)SCRY_NSEC_PER_SEC);
}

scry_nsec slots_moment(const struct slots *s, uint64_t slot)
{
    uint64_t random = hash_mix(s->seed + (slot + 1) * 0x9e3779b97f4a7c15ULL);
    double into = (double)(random >> 11) / (double)(1ULL << 53);
    return s->since + (scry_nsec)(((double)slot + into) * (double)SCRY_NSEC_PER_SEC / s->rate);
}

/* ---- waiting ---- */

void slots_sleep(const struct slots *s, scry_nsec until)
{
    struct timespec ts = timespec_of(s->start + until);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}

static bool set_alarm(struct slots *s, uint64_t slot)
{
    int *fd = &s->alarms[slot % SLOTS_ALARMS].fd;
    struct itimerspec when = {.it_value = timespec_of(s->start + slots_moment(s, slot))};
    if (*fd < 0)
        *fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    bool set = *fd >= 0 && !timerfd_settime(*fd, TFD_TIMER_ABSTIME, &when, NULL);
    s->alarms[slot % SLOTS_ALARMS].slot = set ? slot : NO_SLOT;
    return set;
}

static bool is_set(const struct slots *s, uint64_t slot)
{
    return s->alarms[slot % SLOTS_ALARMS].slot == slot;
}

/* Half of them at a time: what is done in a row takes less. */
static bool set_alarms(struct slots *s, uint64_t slot)
{
    if (is_set(s, slot) && is_set(s, slot + SLOTS_ALARMS / 2))
        return true;
    for (uint64_t i = slot; i < slot + SLOTS_ALARMS; i++)
        if (!is_set(s, i) && !set_alarm(s, i))
            return false;
    return true;
}

static void spin(const struct slots *s, scry_nsec until)
{
    while (slots_now(s) < until)
        ;
}

/* False where there are no alarms to be had. */
static bool await_alarm(struct slots *s, uint64_t slot)
{
    uint64_t times;
    if (!set_alarms(s, slot))
        return false;
    if (read(s->alarms[slot % SLOTS_ALARMS].fd, &times, sizeof(times)) > 0)
        s->alarms[slot % SLOTS_ALARMS].slot = NO_SLOT;
    return true;
}

void slots_await(struct slots *s, uint64_t slot)
{
    scry_nsec moment = slots_moment(s, slot);
    if (s->rate >= SPIN_FROM)
        spin(s, moment);
    else if (s->rate < ALARMS_FROM || !await_alarm(s, slot))
        slots_sleep(s, moment);
}
