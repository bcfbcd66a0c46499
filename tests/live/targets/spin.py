"""The main thread computes for ever on one line, another waits: who is active, and who has the GIL?

Nobody reads HOLD in the main thread: the test has to kill this one.
"""
import itertools
import os

from report import HOLD, OUT, Thread, here


def wait(arrived):
    arrived(), os.read(HOLD, 1)


def spin():
    for _ in itertools.chain([os.write(OUT, here())], itertools.repeat(None)): pass


Thread("waits", wait, name="waits").wait_until_parked()
spin()
