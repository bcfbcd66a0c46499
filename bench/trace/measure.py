"""Measures tracers in one process: bare, an empty hook, scry, viztracer and cProfile take turns. Prints JSON.

measure.py FOLDER ROUNDS: FOLDER holds the module with the empty hook, and is written to.
"""

import cProfile
import functools
import gc
import json
import os
import sys
import threading
import time

FOLDER, ROUNDS = sys.argv[1], int(sys.argv[2])
sys.path.insert(0, FOLDER)
import empty  # noqa: E402
import scry.trace  # noqa: E402

try:
    import viztracer
except ImportError:
    viztracer = None

monitoring = getattr(sys, "monitoring", None)
clock = time.perf_counter_ns


# ---- work: each returns how many calls it makes, (in Python, in C) ----


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def hanoi(n, a, b, c):
    if n:
        hanoi(n - 1, a, c, b)
        hanoi(n - 1, c, b, a)


def qsort(values):
    if len(values) <= 1:
        return values
    pivot = values[0]
    low = [v for v in values[1:] if v < pivot]
    high = [v for v in values[1:] if v >= pivot]
    return qsort(low) + [pivot] + qsort(high)


class Counter:
    def __init__(self):
        self.n = 0

    def add(self):
        self.n += 1


def methods(n):
    counter = Counter()
    for _ in range(n):
        counter.add()


def in_c(n):
    values = []
    append = values.append
    for i in range(n):
        append(i)
        len(values)


def numbers(n):
    for i in range(n):  # noqa: UP028
        yield i


def generators(n):
    for _ in numbers(n):
        pass


VALUES = [(i * 7919) % 4001 for i in range(1500)]
WORK = {
    "fib": lambda: fib(19),
    "hanoi": lambda: hanoi(13, 1, 2, 3),
    "qsort": lambda: qsort(VALUES),
    "methods": lambda: methods(10000),
    "in C": lambda: in_c(5000),
    "generators": lambda: generators(10000),
}


def threads():
    """Four at once, each with its own fib."""
    workers = [threading.Thread(target=fib, args=(16,)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


WORK["threads"] = threads


# ---- tracers ----


class Bare:
    def __init__(self, c):
        pass

    def start(self):
        pass

    stop = clear = start


class Empty(Bare):
    """The same events as the tracers ask for, and nothing done with them."""

    TOOL = 3

    def __init__(self, c):
        if monitoring:
            e = monitoring.events
            self.events = (
                e.PY_START | e.PY_RESUME | e.PY_RETURN | e.PY_YIELD | e.PY_UNWIND | e.PY_THROW
            )
            self.events |= e.CALL if c else 0

    def start(self):
        if not monitoring:
            threading.setprofile(lambda *a: empty.on())
            empty.on()
            return
        monitoring.use_tool_id(self.TOOL, "empty")
        e = monitoring.events
        for name in (
            "PY_START",
            "PY_RESUME",
            "PY_RETURN",
            "PY_YIELD",
            "PY_UNWIND",
            "PY_THROW",
            "CALL",
            "C_RETURN",
            "C_RAISE",
        ):
            monitoring.register_callback(self.TOOL, getattr(e, name), empty.nothing)
        monitoring.set_events(self.TOOL, self.events)

    def stop(self):
        if not monitoring:
            threading.setprofile(None)
            empty.off()
            return
        monitoring.set_events(self.TOOL, 0)
        monitoring.free_tool_id(self.TOOL)


class Scry(Bare):
    def __init__(self, c, **options):
        self.tracer = scry.trace.Tracer(
            ignore_c_function=not c, log_gc=False, log_exceptions=False, log_async=False, **options
        )

    def start(self):
        self.tracer.start()

    def stop(self):
        self.tracer.stop()

    def clear(self):
        self.tracer.clear()


class Viz(Bare):
    def __init__(self, c, **options):
        self.tracer = viztracer.VizTracer(ignore_c_function=not c, verbose=0, **options)

    def start(self):
        self.tracer.start()

    def stop(self):
        self.tracer.stop()

    def clear(self):
        self.tracer.clear()


class CProfile(Bare):
    def __init__(self, c):
        self.profile = cProfile.Profile(builtins=c)

    def start(self):
        self.profile.enable()

    def stop(self):
        self.profile.disable()


TRACERS = {"bare": Bare, "bare again": Bare, "empty": Empty, "scry": Scry, "cProfile": CProfile}
if viztracer:
    TRACERS["viztracer"] = Viz


def timed(tracer, work):
    tracer.start()
    try:
        begun = clock()
        work()
        return clock() - begun
    finally:
        tracer.stop()


def calls_of(work, c):
    """How many calls scry records in it: what the time is divided by."""
    tracer = scry.trace.Tracer(ignore_c_function=not c, log_gc=False)
    tracer.start()
    work()
    tracer.stop()
    count = tracer.save(os.path.join(FOLDER, "count.pftrace")).calls
    tracer.clear()
    return count


def per_call():
    found = {}
    for name, work in WORK.items():
        for c in (False, True):
            if name == "in C" and not c:
                continue
            kinds = {label: functools.partial(kind, c) for label, kind in TRACERS.items()}
            key = f"{name}, {'C calls too' if c else 'Python calls'}"
            found[key] = in_turns(kinds, work, calls_of(work, c))
    return found


def in_turns(kinds, work, calls, warm=False):
    """The best time of each kind, in ns per call; each round all have their turn."""
    best = dict.fromkeys(kinds, float("inf"))
    for _ in range(ROUNDS):
        for label, make in kinds.items():
            tracer = make()
            tracer.start()
            if warm:
                work()  # the first time each place is told that nobody listens
            begun = clock()
            work()
            best[label] = min(best[label], (clock() - begun) / calls)
            tracer.stop()
            tracer.clear()
    return best


def excluded():
    """What code costs that a filter leaves out."""
    here = os.path.abspath(__file__)
    kinds = {
        "bare": lambda: Bare(True),
        "bare again": lambda: Bare(True),
        "scry": lambda: Scry(True, exclude_files=[here]),
    }
    if viztracer:
        kinds["viztracer"] = lambda: Viz(True, exclude_files=[here])
    return {
        name: in_turns(kinds, WORK[name], calls_of(WORK[name], True), warm=True)
        for name in ("fib", "methods", "in C", "generators")
    }


def toggled(tracer, between):
    begun = clock()
    for _ in range(200):
        tracer.pause()
        between()
        tracer.resume()
    return (clock() - begun) / 200


def nothing():
    pass


def toggling():
    """pause() and resume(), as a pair, with nothing between, and with a thousand calls which are not counted."""
    found = {}
    works = {"nothing between": nothing, "1000 calls between": lambda: methods(1000)}
    for name, work in works.items():
        bare = float("inf")
        for _ in range(ROUNDS):
            begun = clock()
            for _ in range(200):
                work()
            bare = min(bare, (clock() - begun) / 200)
        found[name] = {}
        for label in ("scry", "viztracer"):
            if label in TRACERS:
                tracer = TRACERS[label](True)
                tracer.start()
                times = [toggled(tracer.tracer, work) for _ in range(ROUNDS)]
                tracer.stop()
                tracer.clear()
                found[name][label] = min(times) - bare
    return found


def never():
    return 1


def never_a_generator():
    yield 1


def sparse():
    """Code outside of the named functions."""
    kept = never_a_generator()  # noqa: F841
    kinds = {
        "bare": lambda: Bare(True),
        "bare again": lambda: Bare(True),
        "scry": lambda: Scry(True, trace_sparse="__main__.never"),
        "scry, a named generator is alive": lambda: Scry(
            True, trace_sparse="__main__.never_a_generator"
        ),
    }
    return {
        name: in_turns(kinds, WORK[name], 1, warm=True)
        for name in ("fib", "qsort", "methods", "in C", "generators")
    }


def saving():
    """Nanoseconds and bytes per call on the way to a file."""
    found = {}
    work = WORK["fib"]
    calls = calls_of(work, False)
    for suffix in ("json", "pftrace", "scry"):
        tracer = Scry(False)
        timed(tracer, work)
        path = os.path.join(FOLDER, f"out.{suffix}")
        taken = float("inf")
        for _ in range(3):
            begun = clock()
            saved = tracer.tracer.save(path)
            taken = min(taken, clock() - begun)
        tracer.clear()
        found[f"scry .{suffix}"] = {"ns": taken / calls, "bytes": saved.bytes / calls}
    for way in ("save", "dump") if viztracer else ():
        taken = float("inf")
        path = os.path.join(FOLDER, f"viz-{way}.json")
        for _ in range(3):
            tracer = Viz(False)
            timed(tracer, work)
            begun = clock()
            if way == "save":
                tracer.tracer.save(path, file_info=False)
            else:
                tracer.tracer.dump(path)
            taken = min(taken, clock() - begun)
            tracer.clear()
        found[f"viztracer {way}()"] = {"ns": taken / calls, "bytes": os.path.getsize(path) / calls}
    return found


gc.disable()
print(
    json.dumps(
        {
            "python": sys.version.split()[0],
            "rounds": ROUNDS,
            "viztracer": getattr(viztracer, "__version__", None),
            "calls": per_call(),
            "excluded": excluded(),
            "toggling": toggling(),
            "sparse": sparse(),
            "saving": saving(),
        }
    )
)
