"""As many processes as asked for: each starts up to three, which do the same. All together work for 0.8 of the time of
one CPU, or with eight and less each of them for a tenth of the time."""

import subprocess
import sys
import time

from work import begin, ready, unit

BRANCHES = 3

count = int(sys.argv[2])
slot = int(sys.argv[3]) if len(sys.argv) > 3 else 0
children = []
for child in range(BRANCHES * slot + 1, min(count, BRANCHES * slot + 1 + BRANCHES)):
    words = [sys.executable, *sys.argv[:3], str(child)]
    children.append(subprocess.Popen(words, stdout=subprocess.PIPE))
for child in children:
    child.stdout.readline()
counters = begin(slot)
ready()
work = 0
rest = max(10, count / 0.8) - 1
while True:
    began = time.perf_counter()
    for _ in range(50):
        unit()
    work += 1
    counters.set(slot, work)
    time.sleep(rest * (time.perf_counter() - began))
