/* The tracer's clock: the time stamp counter where it runs evenly on all processors, else CLOCK_MONOTONIC. */
#ifndef SCRY_TRACER_CLOCK_H
#define SCRY_TRACER_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "words.h"

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

extern bool clock_is_tsc; /* set once, by clock_init() */

void clock_init(void);

static inline uint64_t clock_ns(clockid_t which)
{
    struct timespec t;
    clock_gettime(which, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t clock_ticks(void)
{
#if defined(__x86_64__)
    if (likely(clock_is_tsc))
        return __builtin_ia32_rdtsc();
#endif
    return clock_ns(CLOCK_MONOTONIC);
}

/* Both clocks at (nearly) one moment. */
struct anchor clock_anchor(void);

/* From ticks to nanoseconds, from two anchors; `ticks` clocks only. */
struct scale {
    uint64_t ticks, ns;
    uint64_t multiplier; /* nanoseconds per tick << 32 */
};
struct scale scale_between(struct anchor first, struct anchor last);

static inline uint64_t scale_ns(const struct scale *s, uint64_t ticks)
{
    if (ticks >= s->ticks)
        return s->ns + (uint64_t)((unsigned __int128)(ticks - s->ticks) * s->multiplier >> 32);
    uint64_t back = (uint64_t)((unsigned __int128)(s->ticks - ticks) * s->multiplier >> 32);
    return back < s->ns ? s->ns - back : 0;
}

#endif
