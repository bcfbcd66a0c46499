"""Threads with names that compute; garbage that is collected; exceptions that are raised and handled. Ends with HOLD."""

import gc
import os
import threading

from report import HOLD, OUT, here

end, littered = threading.Event(), threading.Event()


class Knot:
    def __init__(self):
        self.me = self


def compute():
    while not end.is_set():
        sum(range(1000))


def litter():
    """Most of its time is the collector's."""
    gc.disable()
    keep = [Knot() for _ in range(100000)]
    littered.set()
    while not end.is_set():
        gc.collect()
    del keep


def handles():
    for _ in range(200):
        sum(range(1000))


def fails():
    while not end.is_set():
        try:
            raise ValueError
        except ValueError:
            handles()


def plainly():
    while not end.is_set():
        sum(range(1000))


def nested():
    """In a generator that runs within an except block, and one that handles an exception of its own."""

    def generator():
        while True:
            yield sum(range(1000))

    while not end.is_set():
        try:
            raise ValueError
        except ValueError:
            for _ in zip(range(200), generator()):
                pass


WORKS = {"compute": compute, "litter": litter, "fails": fails, "plainly": plainly, "nested": nested}
for work in os.environ["SCRY_TEST_WORKS"].split():
    threading.Thread(target=WORKS[work], name="worker-" + work, daemon=True).start()
if "litter" in os.environ["SCRY_TEST_WORKS"]:
    littered.wait()
os.write(OUT, here()), os.read(HOLD, 1)
end.set()
os._exit(0)
