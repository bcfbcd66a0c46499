"""Reads the clock without end and keeps a histogram of the gaps: what a stopped thread sees of its stop."""

import math
from time import perf_counter_ns

from counters import BUCKETS, FIRST_NS, PER_DECADE
from work import begin, ready

counters = begin()


def note(gap):
    counters.gap(min(int(math.log10(gap / FIRST_NS) * PER_DECADE), BUCKETS - 1))


def watch():
    work = 0
    last = perf_counter_ns()
    while True:
        now = perf_counter_ns()
        if now - last >= FIRST_NS:
            note(now - last)
            now = perf_counter_ns()
        last = now
        work += 1
        if not work & 1023:
            counters.set(0, work)


ready()
watch()
