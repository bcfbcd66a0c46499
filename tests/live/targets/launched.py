"""Says that it is there, computes until HOLD is closed, then ends in the way argv says: exit N or signal N."""
import os
import select
import sys

from report import HOLD, OUT, here

os.write(OUT, here())
while not select.select([HOLD], [], [], 0)[0]:
    pass
how, number = sys.argv[1], int(sys.argv[2])
if how == "signal":
    os.kill(os.getpid(), number)
os._exit(number)
