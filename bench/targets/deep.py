"""A busy loop below as many frames as the second argument says."""

import sys

from work import begin, ready, unit

counters = begin()
depth = int(sys.argv[2])
sys.setrecursionlimit(depth + 100)


def down(left):
    if left > 0:
        return down(left - 1)
    work = 0
    while True:
        unit()
        work += 1
        counters.set(0, work)


ready()
down(depth - 4)  # below the module, above the unit
