"""One busy thread and a hundred that wait for something that never comes."""

import threading

from work import begin, ready, unit

counters = begin()
never = threading.Event()


def wait_for_it():
    never.wait()


for _ in range(100):
    threading.Thread(target=wait_for_it, daemon=True).start()
ready()
work = 0
while True:
    unit()
    work += 1
    counters.set(0, work)
