"""A busy loop: two frames, no call that lasts shorter than a unit of work."""

from work import begin, ready, unit

counters = begin()
ready()
work = 0
while True:
    unit()
    work += 1
    counters.set(0, work)
