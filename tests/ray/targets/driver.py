"""A job with three tasks and an actor: busy, asleep, with a forked child that is busy; and an actor that waits.

driver.py ADDRESS FOLDER     says "ready" when all run, and ends when its standard input is closed
"""

import ctypes
import os
import signal
import sys
import time
from pathlib import Path

import ray

HERE = Path(sys.argv[2])


def say(name):
    (HERE / name).write_text(str(os.getpid()))


def busy_inside():
    return sum(i * i for i in range(2000))


@ray.remote(num_cpus=0.01)
def busy_task():
    say("busy_task")
    while True:
        busy_inside()


def sleeps_inside():
    time.sleep(3600)


@ray.remote(num_cpus=0.01)
def sleeping_task():
    say("sleeping_task")
    sleeps_inside()


def forked_work():
    while True:
        sum(i * i for i in range(2000))


def awaits_child(child):
    os.waitpid(child, 0)


@ray.remote(num_cpus=0.01)
def forking_task():
    child = os.fork()
    if child == 0:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        forked_work()
    say("forking_task")
    awaits_child(child)


@ray.remote(num_cpus=0.01)
class Waiter:
    def wait_inside(self):
        say("Waiter")
        sleeps_inside()


def main():
    ray.init(address=sys.argv[1], log_to_driver=False, namespace="scry-test")
    waiters = [Waiter.options(name=f"waiter-{i}").remote() for i in range(2)]
    running = [w.wait_inside.remote() for w in waiters]
    running += [busy_task.remote(), sleeping_task.remote(), forking_task.remote()]
    names = {"busy_task", "sleeping_task", "forking_task", "Waiter"}
    while not names <= {path.name for path in HERE.iterdir()}:
        ended, _ = ray.wait(running, timeout=0.2)
        if ended:
            ray.get(ended[0])
    print("ready", flush=True)
    sys.stdin.read()


main()
