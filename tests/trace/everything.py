"""Uses all of the tracer once, for sanitizers."""

import asyncio
import os
import sys
import threading

sys.path.append(os.path.dirname(__file__))
import perfetto
import scry
import scry.trace


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def numbers(n):
    yield from range(n)


class Strange:
    def __repr__(self):
        raise ValueError("no")


def work(*args, **options):
    fib(8)
    list(numbers(5))
    sorted([3, 1], key=lambda v: -v)
    try:
        int("x")
    except ValueError:
        pass
    return {"a": [1] * 100, "b": "x" * 10000, "c": Strange(), **options}


async def leaf():
    await asyncio.sleep(0)


async def tasks():
    await asyncio.gather(leaf(), leaf(), leaf())


def all_of_it(tracer):
    for i in range(3):
        work(i, "y" * 5000, [Strange()], key=i)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    asyncio.run(tasks())
    with tracer.event("span", {"a": Strange(), "n": 1e400}):
        tracer.counter("count", 3)
        tracer.instant("moment \udcff \x00", {"text": "\udcff"} if False else None)
    tracer.instant("large", {str(i): "z" * 1000 for i in range(40)})


OPTIONS = [
    {},
    {"log_args": True, "log_returns": True},
    {"min_duration": "5us", "max_stack_depth": 6},
    {"memory": 1 << 20, "ignore_c_function": True},
    {"entries": 100},
    {"exclude_files": ["*everything.py"]},
    {"ignore_stdlib": True, "include_files": ["everything.py"]},
    {"trace_sparse": ["__main__.fib", "__main__.numbers", "__main__.leaf"]},
    {"stream": True, "children": True},
]

for options in OPTIONS:
    tracer = scry.trace.Tracer("out.pftrace", **options)
    with tracer:
        all_of_it(tracer)
        if options.get("children"):
            pid = os.fork()
            if pid == 0:
                work()
                os._exit(0)
            os.waitpid(pid, 0)
    perfetto.load("out.pftrace")
    for name in ("out.json", "out.scry", "out.html", "out.json.gz"):
        tracer.save(name)
    tracer.clear()

# Files that are no images, and such as are cut off or spoilt.
tracer = scry.trace.Tracer("out.pftrace", stream=True)
with tracer:
    all_of_it(tracer)
image = tracer._family.paths()[0]
with open(image, "rb") as file:
    whole = bytearray(file.read())
for at in [0, 100, 4096, *range(32768, 32768 + 4000, 191), *range(65536, 65536 + 3000, 173)]:
    spoilt = bytearray(whole[: 1 << 18] if at % 3 else whole[: 70000 + at])
    for i in range(at, min(at + 16, len(spoilt))):
        spoilt[i] ^= (i * 167 + 91) & 255
    with open("spoilt.image", "wb") as file:
        file.write(spoilt)
    for kind in ("json", "perfetto", "scry"):
        tracer._native.convert(
            paths=["spoilt.image"], own=False, output="spoilt", format=kind, progress=print
        )
print("done")
