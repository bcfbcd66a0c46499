"""Hundreds of mapped files, and new mappings made, touched and dropped all the time: whoever reads this process's
memory or its list of mappings competes for the lock of its address space."""

import mmap
import os
import tempfile

from work import begin, ready

FILES = 400
PAGES = 16

counters = begin()
folder = tempfile.TemporaryDirectory()
kept = []
for number in range(FILES):
    with open(os.path.join(folder.name, str(number)), "w+b") as file:
        file.truncate(PAGES * mmap.PAGESIZE)
        kept.append(mmap.mmap(file.fileno(), PAGES * mmap.PAGESIZE))
folder.cleanup()


def map_and_touch():
    fresh = mmap.mmap(-1, PAGES * mmap.PAGESIZE)
    for page in range(PAGES):
        fresh[page * mmap.PAGESIZE] = 1
    fresh.close()


ready()
work = 0
while True:
    map_and_touch()
    work += 1
    counters.set(0, work)
