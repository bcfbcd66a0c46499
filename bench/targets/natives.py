"""Compresses, serialises and sorts: most of the time in C, some of it in Python called from C."""

import json
import zlib

from work import begin, ready

counters = begin()
data = bytes((i * i >> 3) & 255 for i in range(1 << 12))
numbers = [(i * 7919) % 1009 for i in range(200)]


def key(number):
    return -number


def compress():
    return zlib.compress(data, 6)


def serialise():
    return json.loads(json.dumps(numbers))


def arrange():
    return sorted(numbers, key=key)


ready()
work = 0
while True:
    compress()
    serialise()
    arrange()
    work += 1
    counters.set(0, work)
