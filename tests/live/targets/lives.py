"""A child that computes, and when told by GO another one under the same pid; it needs the right to choose pids."""

import json
import os
import signal

from report import HOLD, OUT

GO = int(os.environ["SCRY_TEST_GO"])
TRIES = 500


def burn():
    while os.getppid() == PARENT:
        sum(range(1000))


def first_life():
    burn()


def second_life():
    burn()


def fork(function):
    pid = os.fork()
    if pid == 0:
        function()
        os._exit(0)
    return pid


def end(pid):
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def again(pid):
    """A child with this pid, or None. Others may be faster, so again and again."""
    for _ in range(TRIES):
        try:
            with open("/proc/sys/kernel/ns_last_pid", "w") as file:
                file.write(str(pid - 1))
        except (IOError, OSError):
            return None
        child = fork(second_life)
        if child == pid:
            return child
        end(child)
    return None


PARENT = os.getpid()
child = fork(first_life)
os.write(OUT, json.dumps({"pid": PARENT, "child": child}).encode() + b"\n")
os.read(GO, 1)
end(child)
reborn = again(child)
os.write(OUT, json.dumps({"pid": PARENT, "child": reborn}).encode() + b"\n")
os.read(HOLD, 1)
if reborn:
    end(reborn)
