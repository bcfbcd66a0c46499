"""A small traced program, for the browser tests: traced.py OUTPUT"""

import asyncio
import sys
import threading

import scry.trace


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def outer():
    fib(3)


async def step():
    await asyncio.sleep(0)


tracer = scry.trace.Tracer(sys.argv[1], log_args=True, log_returns=True)
with tracer:
    outer()
    thread = threading.Thread(target=fib, args=(3,), name="worker")
    thread.start()
    thread.join()
    asyncio.run(step())
    with tracer.event("phase"):
        tracer.counter("queue", 3)
        tracer.counter("queue", 5)
    tracer.instant("</script> 函数", {"a": "💩"})
