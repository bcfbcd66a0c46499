"""Eight processes: one that starts three, of which two start two each. Each works a tenth of the time."""

import subprocess
import sys
import time

from work import begin, ready, unit

CHILDREN = {0: [1, 2, 3], 1: [4, 5], 2: [6, 7]}

slot = int(sys.argv[2]) if len(sys.argv) > 2 else 0
children = []
for child in CHILDREN.get(slot, []):
    words = [sys.executable, sys.argv[0], sys.argv[1], str(child)]
    children.append(subprocess.Popen(words, stdout=subprocess.PIPE))
    children[-1].stdout.readline()
counters = begin(slot)
ready()
work = 0
while True:
    began = time.perf_counter()
    for _ in range(50):
        unit()
    work += 1
    counters.set(slot, work)
    time.sleep(9 * (time.perf_counter() - began))
