"""A short stack in the main thread and a second thread: what tests of a place or a way to start need."""
import os

from report import HOLD, OUT, Thread, here


def second(arrived):
    arrived(), os.read(HOLD, 1)


def innermost():
    os.write(OUT, here()), os.read(HOLD, 1)


def outer():
    innermost()


Thread("second", second, name="second").wait_until_parked()
outer()
os._exit(0)
