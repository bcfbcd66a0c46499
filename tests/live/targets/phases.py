"""Two kinds of work in turn, each for half of the time by the clock, until HOLD is closed; then the time of each.

To look at the one costs more than at the other: its stack is deep and never the same.
"""

import json
import os
import select
import time

from report import HOLD, OUT, here

PHASE = 0.4
spent = {"shallow": 0.0, "deep": 0.0}


def shallow(end):
    while time.monotonic() < end:
        sum(range(1000))


def down(depth, end):
    if depth > 0:
        down(depth - 1, end)
    elif time.monotonic() < end:
        sum(range(100))


def deep(end):
    while time.monotonic() < end:
        down(300, end)


os.write(OUT, here())
while not select.select([HOLD], [], [], 0)[0]:
    for work in (shallow, deep):
        start = time.monotonic()
        work(start + PHASE)
        spent[work.__name__] += time.monotonic() - start
os.write(OUT, json.dumps(spent).encode() + b"\n")
