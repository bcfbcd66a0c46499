/* How often to look when not a rate is given but a price: the share of time that scry may use of a
 * CPU, and for which it may hold the target's threads, each for itself. */
#ifndef SCRY_ENGINE_BUDGET_H
#define SCRY_ENGINE_BUDGET_H

#include "util/types.h"

#define BUDGET_RATE_FIRST 100.0
#define BUDGET_RATE_MIN   1.0
#define BUDGET_RATE_MAX   9000.0 /* below where waiting means spinning */

struct budget_spent { /* since the start */
    scry_nsec time;
    scry_nsec own_cpu;
    scry_nsec held; /* the threads of the process that was held most */
    uint64_t looks;
};

struct budget {
    double share;                /* allowed: 0.01 is one percent */
    double rate;                 /* looks per second, now */
    struct budget_spent adapted; /* when it last was */
    double cost, looks;          /* lately, what is older counting less */
};

void budget_init(struct budget *b, double share);
/* Whether enough has happened since the last time to learn from. */
bool budget_is_due(const struct budget *b, scry_nsec time, uint64_t looks);
/* Make the rate fit what was spent. */
void budget_adapt(struct budget *b, const struct budget_spent *spent);

#endif
