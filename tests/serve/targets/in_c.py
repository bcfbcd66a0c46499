"""Busy in the C library's qsort, which calls back into Python; asleep in another thread. Says so in one line."""

import ctypes
import os
import threading
import time

COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))


def compare(a, b):
    return a[0] - b[0]


def sort_in_c():
    numbers = (ctypes.c_int * 500)(*range(500, 0, -1))
    ctypes.CDLL(None).qsort(numbers, len(numbers), ctypes.sizeof(ctypes.c_int), COMPARE(compare))


threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
print(f"pid {os.getpid()} child 0", flush=True)
while True:
    sort_in_c()
