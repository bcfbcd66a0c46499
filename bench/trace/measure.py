"""Measures tracers in one process: bare, an empty hook, scry, viztracer and cProfile take turns. Prints JSON.

measure.py FOLDER ROUNDS: FOLDER holds the module with the empty hook, and is written to.

A round is a few milliseconds long, of many the best counts, and calls are timed by the CPU time of the process: what else the
machine does meanwhile is then hardly seen.
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
import rows  # noqa: E402
import scry.trace  # noqa: E402

try:
    import viztracer
except ImportError:
    viztracer = None

monitoring = getattr(sys, "monitoring", None)
clock = time.perf_counter_ns  # for what may wait: a disk
cpu_clock = time.process_time_ns


def undisturbed():
    """On one CPU, and ahead of what else wants it, where that is allowed."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError:
        return False
    return True


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
    workers = [threading.Thread(target=fib, args=(18,)) for _ in range(4)]
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
    PYTHON = ("PY_START", "PY_RESUME", "PY_RETURN", "PY_YIELD", "PY_UNWIND", "PY_THROW")
    C = ("CALL", "C_RETURN", "C_RAISE")  # the last two come with the first

    def __init__(self, c):
        self.wanted = [*self.PYTHON, *self.C[:1]] if c else self.PYTHON

    def start(self):
        if not monitoring:
            threading.setprofile(lambda *a: empty.on())
            empty.on()
            return
        monitoring.use_tool_id(self.TOOL, "empty")
        bits = vars(monitoring.events)
        for name in (*self.PYTHON, *self.C):
            monitoring.register_callback(self.TOOL, bits[name], empty.nothing)
        monitoring.set_events(self.TOOL, sum(bits[name] for name in self.wanted))

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


TRACERS = {
    rows.BARE: Bare,
    rows.AGAIN: Bare,
    rows.EMPTY: Empty,
    rows.SCRY: Scry,
    rows.CPROFILE: CProfile,
}
if viztracer:
    TRACERS[rows.VIZTRACER] = Viz


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


class Row:
    """Tracers that take turns with one piece of work."""

    def __init__(self, kinds, work, calls, warm=False):
        self.kinds, self.work, self.calls, self.warm = kinds, work, calls, warm
        self.best = dict.fromkeys(kinds, float("inf"))  # ns per call

    def turn(self, number):
        """One round: each has its turn, another one first each time."""
        labels = list(self.kinds)
        first = number % len(labels)
        for label in labels[first:] + labels[:first]:
            tracer = self.kinds[label]()
            tracer.start()
            if self.warm:
                self.work()  # the first time each place is told that nobody listens
            begun = cpu_clock()
            self.work()
            taken = cpu_clock() - begun
            tracer.stop()
            tracer.clear()
            self.best[label] = min(self.best[label], taken / self.calls)


class Pairs:
    """As a row, where a hundredth counts: each round is a comparison of its own, with bare in the same few milliseconds, so
    that a processor that is slower for a while is so for both. What a round says is the share that each took more."""

    def __init__(self, kinds, work):
        self.kinds, self.work = kinds, work
        self.best = {label: [] for label in kinds if label != rows.BARE}

    def turn(self, number):
        labels = list(self.kinds)
        first = number % len(labels)
        taken = {
            label: self.timed(self.kinds[label]()) for label in labels[first:] + labels[:first]
        }
        for label, shares in self.best.items():
            shares.append(round(taken[label] / taken[rows.BARE] - 1, 5))

    def timed(self, tracer):
        tracer.start()
        self.work()
        taken = float("inf")
        for _ in range(3):  # what comes between does so in one of them, mostly
            begun = cpu_clock()
            self.work()
            taken = min(taken, cpu_clock() - begun)
        tracer.stop()
        tracer.clear()
        return taken


def per_call():
    found = {}
    for name, work in WORK.items():
        for c in (False, True):
            if name == "in C" and not c:
                continue
            kinds = {label: functools.partial(kind, c) for label, kind in TRACERS.items()}
            found[rows.calls(name, c)] = Row(kinds, work, calls_of(work, c))
    return found


def excluded():
    """What code costs that a filter leaves out."""
    here = os.path.abspath(__file__)
    kinds = {
        rows.BARE: lambda: Bare(True),
        rows.AGAIN: lambda: Bare(True),
        rows.SCRY: lambda: Scry(True, exclude_files=[here]),
    }
    if viztracer:
        kinds[rows.VIZTRACER] = lambda: Viz(True, exclude_files=[here])
    return {
        name: Row(kinds, WORK[name], calls_of(WORK[name], True), warm=True)
        for name in ("fib", "methods", "in C", "generators")
    }


PAIRS = 16  # or several times as many: in each sixteenth long pause scry waits whether it is long
BLOCKS = 12  # of pairs, in a turn
WARM = 4  # before each block: events were just turned on or off, and the interpreter has to get used to it


def nothing():
    pass


class Toggling:
    """pause() and resume() as a pair, with work between them whose own time is not counted: bare has its turn beside it. What is
    left is small beside a long piece of work, so that blocks are short and many: some of either kind are undisturbed."""

    def __init__(self, label, work, pairs):
        self.kind, self.work, self.pairs = TRACERS[label], work, pairs
        self.bare = self.best = float("inf")

    def turn(self):
        tracer = self.kind(True)
        for _ in range(BLOCKS):
            self.bare = min(self.bare, self.alone())
            tracer.start()
            self.best = min(self.best, self.toggled(tracer.tracer))
            tracer.stop()
            tracer.clear()

    def alone(self):
        work = self.work
        for _ in range(WARM):
            work()
        begun = cpu_clock()
        for _ in range(self.pairs):
            work()
        return (cpu_clock() - begun) / self.pairs

    def toggled(self, tracer):
        work = self.work
        for _ in range(WARM):
            tracer.pause()
            work()
            tracer.resume()
        begun = cpu_clock()
        for _ in range(self.pairs):
            tracer.pause()
            work()
            tracer.resume()
        return (cpu_clock() - begun) / self.pairs


def toggling():
    labels = [label for label in (rows.SCRY, rows.VIZTRACER) if label in TRACERS]
    table = {}
    for n in rows.BETWEEN:
        work = functools.partial(methods, n) if n else nothing
        pairs = PAIRS * (1 + 1000 // (n + 100))  # a block takes about a millisecond, or less
        table[rows.between(n)] = {label: Toggling(label, work, pairs) for label in labels}
    for _ in range(ROUNDS):
        for row in table.values():
            for one in row.values():
                one.turn()
    return {
        name: {label: one.best - one.bare for label, one in row.items()}
        for name, row in table.items()
    }


def restarting():
    """What the interpreter takes to turn events on again that were turned off one by one, with nothing else done."""
    if not monitoring:
        return None
    hook, best = Empty(True), float("inf")
    hook.start()
    for _ in range(10 * ROUNDS):
        begun = cpu_clock()
        for _ in range(20):
            monitoring.restart_events()
        best = min(best, (cpu_clock() - begun) / 20)
    hook.stop()
    return best


def instructions_below():
    """Of the functions on this stack: what the interpreter goes through when events are turned on."""
    frame, codes = sys._getframe(), set()
    while frame:
        codes.add(frame.f_code)
        frame = frame.f_back
    return sum(len(code.co_code) // 2 for code in codes)


def never():
    return 1


def never_a_generator():
    yield 1


def sparse():
    """Code outside of the named functions; a generator of one of them is alive."""
    kinds = {
        rows.BARE: lambda: Bare(True),
        rows.AGAIN: lambda: Bare(True),
        rows.SCRY: lambda: Scry(True, trace_sparse="__main__.never"),
        rows.ALIVE: lambda: Scry(True, trace_sparse="__main__.never_a_generator"),
    }
    return {
        name: Pairs(kinds, WORK[name]) for name in ("fib", "qsort", "methods", "in C", "generators")
    }


def saving():
    """Nanoseconds and bytes per call on the way to a file."""
    found = {}
    work = WORK["fib"]
    calls = calls_of(work, False)
    for suffix in rows.FORMATS:
        tracer = Scry(False)
        timed(tracer, work)
        path = os.path.join(FOLDER, f"out.{suffix}")
        taken = float("inf")
        for _ in range(3):
            begun = clock()
            saved = tracer.tracer.save(path)
            taken = min(taken, clock() - begun)
        tracer.clear()
        found[rows.saved(suffix)] = {"ns": taken / calls, "bytes": saved.bytes / calls}
    for way in rows.WAYS if viztracer else ():
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
        size = os.path.getsize(path)
        found[rows.saved_by_viztracer(way)] = {"ns": taken / calls, "bytes": size / calls}
    return found


TURNS = {"sparse": 4}


def in_turns(tables):
    """All rows of all tables in each round, so that a row's rounds are far apart: others disturb some of them, not all."""
    for number in range(ROUNDS):
        for name, table in tables.items():
            for row in table.values():
                for again in range(TURNS.get(name, 1)):
                    row.turn(TURNS.get(name, 1) * number + again)
    return {name: {key: row.best for key, row in table.items()} for name, table in tables.items()}


gc.disable()
ahead = undisturbed()
kept = never_a_generator()
facts = {
    "python": sys.version.split()[0],
    "rounds": ROUNDS,
    "ahead": ahead,
    "viztracer": getattr(viztracer, "__version__", None),
}
facts.update(stack=instructions_below(), restart=restarting())
tables = in_turns({"calls": per_call(), "excluded": excluded(), "sparse": sparse()})
print(json.dumps({**facts, **tables, "toggling": toggling(), "saving": saving()}))
