"""Threads that are born and die all the time, a thousand of them in about a second."""

import threading

from work import begin, ready, unit

counters = begin()


def short_life():
    for _ in range(10):
        unit()


ready()
work = 0
while True:
    threads = [threading.Thread(target=short_life) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    work += len(threads)
    counters.set(0, work)
