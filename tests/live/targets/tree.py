"""A family of processes: forked, spawned, a grandchild, one that is not Python, one that has ended.

Each Python process writes its own report; the parent starts the next one when the last has done so, so that
the lines do not mix. The parent's line comes last and says which pid is what.
"""
import multiprocessing
import os
import subprocess
import sys

from report import HOLD, OUT, here

SYNC_READ, SYNC_WRITE = map(int, os.environ["SCRY_TEST_SYNC"].split()) if len(sys.argv) > 1 else os.pipe()
GRANDCHILD_READ, GRANDCHILD_WRITE = os.pipe()


def stand(role, sync=SYNC_WRITE):
    os.write(OUT, here(role=role)), os.write(sync, b"."), os.read(HOLD, 1)


def wait_for_one():
    os.read(SYNC_READ, 1)


def grandchild():
    stand("grandchild", GRANDCHILD_WRITE)


def fork(function):
    pid = os.fork()
    if pid == 0:
        try:
            function()
        finally:
            os._exit(0)
    return pid


def forked():
    fork(grandchild)
    os.read(GRANDCHILD_READ, 1)
    stand("forked")


def pooled(role):
    stand(role)


def zombie():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    # It has ended once it can be waited for; WNOWAIT leaves it a zombie.
    if hasattr(os, "waitid"):
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return pid


def spawned():
    env = dict(os.environ, SCRY_TEST_SYNC="%d %d" % (SYNC_READ, SYNC_WRITE))
    if hasattr(os, "set_inheritable"):
        os.set_inheritable(SYNC_READ, True)
        os.set_inheritable(SYNC_WRITE, True)
    return subprocess.Popen([sys.executable, __file__, "spawned"], env=env, close_fds=False)


def main():
    children = {"forked": fork(forked)}
    wait_for_one()
    process = spawned()
    children["spawned"] = process.pid
    wait_for_one()
    if hasattr(multiprocessing, "get_context"):
        multi = multiprocessing.get_context("fork").Process(target=pooled, args=("multiprocessing",))
    else:
        multi = multiprocessing.Process(target=pooled, args=("multiprocessing",))
    multi.start()
    children["multiprocessing"] = multi.pid
    wait_for_one()
    cat = subprocess.Popen(["cat"], stdin=HOLD)
    children["cat"] = cat.pid
    children["zombie"] = zombie()
    os.write(OUT, here(role="parent", children=children)), os.read(HOLD, 1)
    for child in (process, cat):
        child.wait()


if len(sys.argv) > 1:
    stand("spawned")
else:
    main()
os._exit(0)
