"""Several threads; one of them, deep in calls, is told to crash in C, on the very line on which it waited."""

import ctypes
import json
import os
import threading

OUT, HOLD = int(os.environ["SCRY_TEST_OUT"]), int(os.environ["SCRY_TEST_HOLD"])
FOREVER = threading.Event()
READY = threading.Barrier(3)


def dies(depth, text):
    if depth:
        return dies(depth - 1, text + "!")
    READY.wait()
    return os.read(HOLD, 1) or ctypes.memmove(8, 8, 1)


def waits(numbers):
    READY.wait()
    FOREVER.wait()
    return numbers


threading.Thread(target=waits, name="waits-αβ", args=([1, 2, 3],), daemon=True).start()
dying = threading.Thread(target=dies, name="dies", args=(5, "no"), daemon=True)
dying.start()
READY.wait()
os.write(OUT, (json.dumps({"pid": os.getpid()}) + "\n").encode())
dying.join()
