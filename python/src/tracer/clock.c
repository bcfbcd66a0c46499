#include "clock.h"

#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

bool clock_is_tsc;

#if defined(__x86_64__)
/* The processor promises an even rate; that the counters of all processors agree the kernel has found out, if it
 * keeps its own time by them. */
static bool tsc_is_good(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(0x80000007, &a, &b, &c, &d) || !(d & 1u << 8))
        return false;
    char text[32] = "";
    FILE *file = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");
    if (!file)
        return true; /* no /sys here, as in a bare container: the processor's word must do */
    bool got = fgets(text, sizeof(text), file) != NULL;
    fclose(file);
    return got && (strcmp(text, "tsc\n") == 0 || strcmp(text, "kvm-clock\n") == 0 ||
                   strcmp(text, "hyperv_clocksource_tsc_page\n") == 0);
}
#endif

void clock_init(void)
{
#if defined(__x86_64__)
    clock_is_tsc = tsc_is_good();
#endif
}

/* The narrowest of a few attempts: whoever is put off the processor between the two would be off by as much. */
struct anchor clock_anchor(void)
{
    struct anchor best = {0, 0};
    uint64_t narrowest = UINT64_MAX;
    for (int i = 0; i < 4; i++) {
        uint64_t before = clock_ticks();
        uint64_t ns = clock_ns(CLOCK_MONOTONIC);
        uint64_t width = clock_ticks() - before;
        if (width < narrowest) {
            narrowest = width;
            best = (struct anchor){before + width / 2, ns};
        }
    }
    if (!clock_is_tsc)
        best.ticks = best.ns;
    return best;
}

struct scale scale_between(struct anchor first, struct anchor last)
{
    struct scale s = {first.ticks, first.ns, 1ull << 32};
    if (last.ticks > first.ticks && last.ns > first.ns) {
        unsigned __int128 ns = (unsigned __int128)(last.ns - first.ns) << 32;
        unsigned __int128 m = ns / (last.ticks - first.ticks);
        if (m > 0 && m < (unsigned __int128)1 << 48)
            s.multiplier = (uint64_t)m;
    }
    return s;
}
