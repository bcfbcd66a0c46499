"""Every kind of trace there is, for the browser tests: kinds.py FOLDER

Prints JSON: {name: [its files, of which each holds the same calls]}."""

import asyncio
import gc
import json
import os
import subprocess
import sys
import threading

import scry.trace


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def numbers(n):
    for i in range(n):  # noqa: UP028
        yield i


def fails():
    raise ValueError("no")


async def step():
    await asyncio.sleep(0)


async def steps():
    await asyncio.gather(step(), step())


def work(tracer, n):
    fib(n)
    assert list(numbers(3)) == sorted([2, 1, 0])
    try:
        fails()
    except ValueError:
        gc.collect()
    thread = threading.Thread(target=fib, args=(5,), name="worker </script> 函数")
    thread.start()
    thread.join()
    asyncio.run(steps())
    with tracer.event("phase", {"a": 1, "b": "💩"}):
        tracer.counter("queue", 3)
        tracer.instant("now")


KINDS = {
    "plain": {},
    "values": {"log_args": True, "log_returns": True},
    "filtered": {"max_stack_depth": 4, "min_duration": "1us", "ignore_c_function": True},
    "dropped": {"entries": 400},  # and there are more
    "sparse": {"trace_sparse": ["__main__.fib", "__main__.numbers", "__main__.step"]},
}

CHILDREN = """
import multiprocessing, os, subprocess, sys
def work(): return len("x")
if __name__ == "__main__":
    work()
    subprocess.run([sys.executable, "-c", "def inner(): pass\\ninner()"], check=True)
    child = multiprocessing.get_context("spawn").Process(target=work)
    child.start()
    child.join()
    pid = os.fork()
    if pid == 0:
        work()
        os._exit(0)
    os.waitpid(pid, 0)
"""
KILLED = """
import os, signal
def work(): return 1
def last():
    work()
    os.kill(os.getpid(), signal.SIGKILL)
last()
"""


def of_a_program(name, source, *options):
    """In each format, by a run of its own."""
    with open(f"{name}.py", "w") as file:
        file.write(source)
    files = []
    for suffix in ("json", "pftrace"):
        files.append(f"{name}.{suffix}")
        words = [sys.executable, "-m", "scry.trace", "-q", *options, "-o", files[-1], f"{name}.py"]
        subprocess.run(words, stdout=subprocess.DEVNULL)
    return files


def main():
    os.chdir(sys.argv[1])
    found = {}
    for name, options in KINDS.items():
        suffixes = ("json", "pftrace", "json.gz")[: 3 if name == "plain" else 2]
        found[name] = [f"{name}.{suffix}" for suffix in suffixes]
        tracer = scry.trace.Tracer(progress=False, **options)
        with tracer:
            work(tracer, 20 if name == "dropped" else 8)
        for file in found[name]:
            dropped = tracer.save(file).dropped
            assert bool(dropped) == (name == "dropped")
        tracer.clear()
    found["children"] = of_a_program("children", CHILDREN)
    found["killed"] = of_a_program("killed", KILLED, "--stream")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
