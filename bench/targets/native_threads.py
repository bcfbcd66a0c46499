"""160 native threads that do pieces of work for one Python thread, which works a little itself in between.

The second argument names the compiled native.c.
"""

import ctypes
import sys

from work import begin, ready, unit

counters = begin()
pool = ctypes.CDLL(sys.argv[2])
assert pool.pool_start(160, ctypes.c_ulong(20_000)) == 0


def region():
    pool.pool_run()


ready()
work = 0
while True:
    region()
    for _ in range(20):
        unit()
    work += 1
    counters.set(0, work)
