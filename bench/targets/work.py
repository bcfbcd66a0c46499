"""What every target shares: a unit of work of some tens of microseconds, and the start of a target.

The bench puts its own folder on PYTHONPATH, so that counters is found.
"""

import sys

from counters import Counters


def begin(slot=0):
    """The counters named on the command line."""
    counters = Counters(sys.argv[1])
    counters.take(slot)
    return counters


def ready(*words):
    """The target has begun; the bench waits for this line."""
    print("ready", *words, flush=True)


def unit():
    total = 0
    for number in range(1000):
        total += number * number
    return total
