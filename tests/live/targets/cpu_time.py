"""Threads that use known amounts of CPU time, by their own clocks, once HOLD is closed; then their account of it.

"small" and "large" compute all the time, "large" twice as long; "bursts" computes for a moment and sleeps for a
longer one, again and again; "sleeps" only waits. argv: which of them, all if not given.
"""

import json
import os
import sys
import threading
import time

from report import HOLD, OUT, here

spent = {}


def burn(until):
    while time.thread_time() < until:
        sum(range(500))


def small():
    burn(0.5)


def large():
    burn(1.0)


def doze():
    time.sleep(0.003)


def bursts():
    for round in range(1, 201):
        burn(round * 0.001)
        doze()


def account(name, work):
    work()
    # Its time on a CPU, and ready to run but without one.
    with open("/proc/thread-self/schedstat") as file:
        waited = int(file.read().split()[1]) / 1e9
    spent[name] = [time.thread_time(), waited]


os.write(OUT, here())
os.read(HOLD, 1)
before = time.process_time()
over = threading.Event()
works = {"small": small, "large": large, "bursts": bursts, "sleeps": over.wait}
threads = [
    threading.Thread(target=account, args=(name, work), name=name)
    for name, work in works.items()
    if name in sys.argv[1:] or len(sys.argv) == 1
]
for thread in threads:
    thread.start()
for thread in threads:
    if thread.name != "sleeps":
        thread.join()
over.set()
for thread in threads:
    thread.join()
spent["process"] = time.process_time() - before
os.write(OUT, json.dumps(spent).encode() + b"\n")
