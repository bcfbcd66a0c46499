"""A process with a child of another user; both are busy."""

import os
import subprocess
import sys

NOBODY = 65534


def busy_child():
    print("ready", flush=True)
    while True:
        pass


def busy_parent():
    while True:
        pass


if "child" in sys.argv:
    busy_child()
command = [os.path.realpath(sys.executable), "-", "child"]
with open(__file__) as source:  # the child may not read the folder
    child = subprocess.Popen(
        command, stdin=source, stdout=subprocess.PIPE, user=NOBODY, group=NOBODY, extra_groups=[], cwd="/"
    )
child.stdout.readline()
print(f"ready {os.getpid()} {child.pid}", flush=True)
busy_parent()
