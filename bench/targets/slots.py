"""A clock that can be read from a profile: for each half millisecond there is a function, and it alone runs then.

The lowest number in a profile says when its first sample was taken, whatever the tool. Says when slot 0 begins, in
nanoseconds of CLOCK_MONOTONIC.
"""

import time

from work import begin, ready

STEP_NS = 500_000
SLOTS = 12_000
TEXT = "def slot_{0}():\n    while clock() < {1} + start: pass\n"

counters = begin()
space = {"clock": time.monotonic_ns}
functions = []
for number in range(SLOTS):
    exec(TEXT.format(number, (number + 1) * STEP_NS), space)
    functions.append(space[f"slot_{number}"])

space["start"] = start = time.monotonic_ns()
ready(start)
while (now := (time.monotonic_ns() - start) // STEP_NS) < SLOTS:
    functions[now]()
