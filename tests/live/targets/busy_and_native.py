"""Three threads: one computes in Python, one in C without the GIL in a single call, one waits.

Nobody answers on HOLD in the first two: the test has to kill this one.
"""
import ctypes
import itertools
import os

from report import HOLD, OUT, Thread, here

LIBC = ctypes.CDLL(None)
# lfind() over elements of no size compares the same two strings again and again, as often as COUNT says.
COUNT = ctypes.c_size_t(2**62)


def waits(arrived):
    arrived(), os.read(HOLD, 1)


def compares(arrived):
    arrived(), LIBC.lfind(b"a", b"b", ctypes.byref(COUNT), ctypes.c_size_t(0), LIBC.strcmp)


def computes():
    for _ in itertools.chain([os.write(OUT, here())], itertools.repeat(None)): pass


Thread("waits", waits, name="waits").wait_until_parked()
Thread("compares", compares, name="compares").wait_until_parked()
computes()
