"""Work in two functions, three parts of the time in one and one in the other, until HOLD is closed.

The slices have random lengths, so that no sampling rate can fall in step with them. At the end it reports how
long it was in each, by its own clock. argv[1], if given, is how many seconds to work; then HOLD does not matter.
"""
import json
import os
import random
import select
import sys
import time

from report import HOLD, OUT, here

clock = getattr(time, "perf_counter", time.time)
spent = {"heavy": 0.0, "light": 0.0}
dice = random.Random(7)
limit = float(sys.argv[1]) if len(sys.argv) > 1 else None


def heavy(seconds):
    start = clock()
    while clock() - start < seconds:
        pass
    return clock() - start


def light(seconds):
    start = clock()
    while clock() - start < seconds:
        pass
    return clock() - start


def work():
    began = clock()
    while limit is None or clock() - began < limit:
        spent["heavy"] += heavy(dice.expovariate(1 / 0.0015))
        spent["light"] += light(dice.expovariate(1 / 0.0005))
        if limit is None and select.select([HOLD], [], [], 0)[0]:
            break


os.write(OUT, here())
work()
os.write(OUT, (json.dumps(spent) + "\n").encode("ascii"))
os._exit(0)
