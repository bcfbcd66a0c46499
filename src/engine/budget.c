/* What a look costs is not known beforehand and changes with the target. So the rate follows what
 * was spent lately, and stays a little below what is allowed. What was overspent, as when the first
 * look meets everything for the first time, is made up for by spending half until it is repaid. */
#include "engine/budget.h"

#define EVERY       (SCRY_NSEC_PER_SEC / 5)
#define ENOUGH      10 /* looks */
#define AT_LAST     (2 * SCRY_NSEC_PER_SEC)
#define AIM         0.85
#define AIM_IN_DEBT 0.5
#define FIRST       1e4 /* a guess: 100 a second for one percent */
#define RISE        1.5
#define MEMORY      0.7 /* of what was learnt, from one time to the next */

static double larger(scry_nsec a, scry_nsec b)
{
    return (double)(a > b ? a : b);
}

static double between(double low, double value, double high)
{
    return value < low ? low : value > high ? high : value;
}

void budget_init(struct budget *b, double share)
{
    *b = (struct budget){
        .share = share,
        .rate = between(BUDGET_RATE_MIN, share * FIRST, BUDGET_RATE_FIRST),
    };
}

bool budget_is_due(const struct budget *b, scry_nsec time, uint64_t looks)
{
    scry_nsec passed = time - b->adapted.time;
    return (passed >= EVERY && looks - b->adapted.looks >= ENOUGH) || passed >= AT_LAST;
}

void budget_adapt(struct budget *b, const struct budget_spent *spent)
{
    const struct budget_spent *then = &b->adapted;
    b->cost = b->cost * MEMORY + larger(spent->own_cpu - then->own_cpu, spent->held - then->held);
    b->looks = b->looks * MEMORY + (double)(spent->looks - then->looks);
    bool in_debt = larger(spent->own_cpu, spent->held) > b->share * (double)spent->time;
    double aim = b->share * (in_debt ? AIM_IN_DEBT : AIM) * (double)SCRY_NSEC_PER_SEC;
    double affordable = b->cost > 0 ? aim * b->looks / b->cost : BUDGET_RATE_MAX;
    if (affordable > b->rate * RISE)
        affordable = b->rate * RISE;
    b->rate = between(BUDGET_RATE_MIN, affordable, BUDGET_RATE_MAX);
    b->adapted = *spent;
}
