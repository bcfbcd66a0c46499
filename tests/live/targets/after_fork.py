"""A process forked from a thread: only that thread lives on in the child, with its stack."""
import os

from report import HOLD, OUT, Thread, here, register


def stay(arrived):
    arrived(), os.read(HOLD, 1)


def child():
    register("forked", None)
    os.write(OUT, here()), os.read(HOLD, 1)
    os._exit(0)


def forks(arrived):
    pid = os.fork()
    if pid == 0:
        child()
    arrived(), os.waitpid(pid, 0)


Thread("stays", stay, name="stays").wait_until_parked()
Thread("forks", forks, name="forks").wait_until_parked()
os.read(HOLD, 1)
os._exit(0)
