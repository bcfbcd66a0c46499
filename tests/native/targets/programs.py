"""Programs that spend their time in native code, called by Python and calling Python: programs.py NAME [FILE].

Each prints a line when it is about to begin its work, and works until it is killed. Runs on every Python since 2.7.
FILE is a module that the test has compiled.
"""

import ctypes
import json
import os
import sys
import threading
import time
import zlib


def compress():
    data = bytes(bytearray((i * i >> 3) & 255 for i in range(1 << 16)))

    def inner():
        return zlib.compress(data, 6)

    return lambda: inner()


def serialise():
    data = {"k%d" % i: [i, {"x": [str(i)] * 3}, None] for i in range(300)}

    class Odd(object):
        pass

    odd = Odd()

    def fallback(thing):
        return sum(range(50))

    def inner():
        text = json.dumps([data, odd, odd, odd], default=fallback, sort_keys=True)
        return json.loads(text)

    return inner


def sort():
    words = [(i * 7919) % 10007 for i in range(3000)]

    def key(x):
        return str(x)[::-1]

    return lambda: sorted(words, key=key)


def callback():
    """C's qsort calls a Python function."""
    libc = ctypes.CDLL(None)
    numbers = ctypes.c_int * 64
    kind = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int)
    )

    def compare(a, b):
        return a[0] - b[0]

    compare_c = kind(compare)

    def inner():
        array = numbers(*[(i * 37) % 64 for i in range(64)])
        libc.qsort(array, 64, ctypes.sizeof(ctypes.c_int), compare_c)

    return inner


def recurse():
    """Python calls C calls Python, many times over."""

    def inner(depth):
        if depth == 0:
            return sum(i * i for i in range(100))
        return max([depth], key=lambda unused: inner(depth - 1))

    return lambda: inner(40)


def generators():
    def count(n):
        for i in range(n):
            yield i

    def doubled(n):
        for i in count(n):
            yield 2 * i

    return lambda: sum(doubled(500))


def load(name):
    """A compiled module, by the file's name."""
    folder, file = os.path.split(sys.argv[2])
    sys.path.insert(0, folder)
    return __import__(name)


def extension():
    module = load("scry_native")

    def leaf(x):
        return sum(range(100))

    return lambda: module.call_many(leaf, 200)


def signals():
    """C raises a signal, whose handler calls Python."""
    module = load("scry_native")

    def leaf(x):
        return sum(range(x % 100))

    return lambda: module.in_signal(leaf, 20)


def cython():
    module = load("scry_cython")

    def leaf(x):
        return x + 1

    return lambda: module.work(leaf, 2000)


def numpy():
    sys.path.insert(0, sys.argv[2])
    import numpy

    a = numpy.arange(40000, dtype=float).reshape(200, 200)

    def inner():
        numpy.linalg.inv(a + numpy.eye(200))
        return numpy.sort(numpy.sin(a), axis=None)

    return inner


def sleep():
    return lambda: time.sleep(1000)


def threads():
    """Their stacks lie side by side."""
    inside = [threading.Event() for _ in range(8)]

    def wait(event):
        event.set()
        time.sleep(1e6)

    for event in inside:
        thread = threading.Thread(target=wait, args=(event,))
        thread.daemon = True
        thread.start()
    for event in inside:
        event.wait()
    return lambda: time.sleep(1000)


def main():
    work = globals()[sys.argv[1]]()
    waits = threading.Thread(target=lambda: time.sleep(1e6), name="waits")
    waits.daemon = True
    waits.start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        work()


if __name__ == "__main__":
    main()
