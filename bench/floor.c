/* What the machine takes away from a program that does next to nothing.
 *
 *   floor slots RATE SECONDS    the share of slots of 1/RATE s in which it does not get to read the clock even once,
 *                               although it does nothing else
 *   floor wake RATE SECONDS     nanoseconds of CPU time for a sleep until the next of RATE moments a second
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

static uint64_t now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static double slots(double rate, double seconds)
{
    uint64_t start = now(CLOCK_MONOTONIC), end = (uint64_t)(seconds * rate), slot = 0, missed = 0;
    while (slot < end) {
        uint64_t at = (uint64_t)((double)(now(CLOCK_MONOTONIC) - start) * rate / 1e9);
        missed += at > slot + 1 ? at - slot - 1 : 0;
        slot = at;
    }
    return (double)missed / (double)end;
}

static double wake(double rate, double seconds)
{
    uint64_t count = (uint64_t)(seconds * rate), start = now(CLOCK_MONOTONIC);
    uint64_t cpu = now(CLOCK_PROCESS_CPUTIME_ID);
    prctl(PR_SET_TIMERSLACK, 1ul);
    for (uint64_t i = 1; i <= count; i++) {
        uint64_t until = start + (uint64_t)((double)i * 1e9 / rate);
        struct timespec t = {(time_t)(until / 1000000000u), (long)(until % 1000000000u)};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
    }
    return (double)(now(CLOCK_PROCESS_CPUTIME_ID) - cpu) / (double)count;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    double rate = atof(argv[2]), seconds = atof(argv[3]);
    printf("%.9g\n", strcmp(argv[1], "slots") == 0 ? slots(rate, seconds) : wake(rate, seconds));
    return 0;
}
