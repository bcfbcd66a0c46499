"""A very deep stack: argv[1] frames of `down` in one thread."""
import os
import sys
import threading

from report import HOLD, OUT, Thread, here

DEPTH = int(sys.argv[1])


def down(arrived, left):
    if left:
        return down(arrived, left - 1)
    arrived(), os.read(HOLD, 1)


sys.setrecursionlimit(DEPTH + 1000)
threading.stack_size(1 << 30)  # before 3.11 every Python frame is also a C frame; only touched pages count
Thread("deep", lambda arrived: down(arrived, DEPTH - 1)).wait_until_parked()
os.write(OUT, here()), os.read(HOLD, 1)
os._exit(0)
