"""Something for every flag to show: a thread that computes, one that waits, a variable, and a process started by it."""

import subprocess
import sys
import threading


def burns(what="a long text " * 20):
    while True:
        sum(range(500))
        sum(range(600))


def sleeps():
    threading.Event().wait()


if len(sys.argv) == 1:
    threading.Thread(target=sleeps, name="sleeper", daemon=True).start()
    child = subprocess.Popen([sys.executable, __file__, "child"], stdout=subprocess.PIPE)
    child.stdout.readline()
print("ready", flush=True)
burns()
