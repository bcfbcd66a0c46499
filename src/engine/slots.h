/* When to look: time is cut into slots of one period, and each slot has one moment, at random. So the rate is exact and
 * yet never in step with a program that does things periodically.
 *
 * Times are since the start, which is that of slots_start(). Slots are counted from where the rate was last set. */
#ifndef SCRY_ENGINE_SLOTS_H
#define SCRY_ENGINE_SLOTS_H

#include "util/types.h"

#define SLOTS_ALARMS 8

struct slots {
    double rate; /* slots per second */
    scry_nsec start;
    scry_nsec since; /* when slot 0 begins */
    uint64_t seed;
    struct {
        int fd;        /* a timerfd; -1 = none */
        uint64_t slot; /* whose moment it is set for; UINT64_MAX = none */
    } alarms[SLOTS_ALARMS];
};

void slots_init(struct slots *s, double rate);
void slots_done(struct slots *s);
/* The time begins now. */
void slots_start(struct slots *s);
/* With another rate slots are counted anew, from that time on. */
void slots_set_rate(struct slots *s, double rate, scry_nsec since);

scry_nsec slots_now(const struct slots *s);
scry_nsec slots_period(const struct slots *s);
/* The slot that this time lies in. */
uint64_t slots_at(const struct slots *s, scry_nsec time);
/* The moment of this slot: always the same, until the rate is set. */
scry_nsec slots_moment(const struct slots *s, uint64_t slot);

/* Wait for the moment of this slot, in the way that is best at this rate. May come back early, when a signal comes. */
void slots_await(struct slots *s, uint64_t slot);
/* Sleep until then. May come back early, too. */
void slots_sleep(const struct slots *s, scry_nsec until);

#endif
