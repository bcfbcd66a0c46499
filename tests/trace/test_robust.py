"""What happens at the edges: threads, memory that runs out, code that is gone, other tools, forks, many starts."""

import os
import subprocess
from pathlib import Path

import perfetto
import pytest
from conftest import Run, built, chosen, few

HEAD = f"""
import gc, json, os, sys, threading
sys.path.append({os.path.dirname(__file__)!r})
import perfetto
import scry, scry.trace
gc.disable()

def load(path="out.pftrace"):
    return perfetto.load(path)
"""


def loaded(run, path="out.pftrace"):
    """Large ones are read here: a debug build takes its time."""
    return perfetto.load(str(run.folder / path))


def test_threads_have_their_own_tracks_and_names(run):
    said = run.code(
        HEAD
        + """
def work(n): return n and work(n - 1)
def run(n):
    for i in range(n): work(5)
with scry.trace("out.pftrace", ignore_c_function=True) as tracer:
    threads = [threading.Thread(target=run, args=(i,), name="worker %d" % i) for i in range(1, 9)]
    for t in threads: t.start()
    for t in threads: t.join()
    short = [threading.Thread(target=work, args=(1,), name="short") for i in range(30)]
    for t in short: t.start(); t.join()
trace = load()
names = {}
for uuid, track in trace.tracks.items():
    if track["kind"] == "thread":
        names.setdefault(track["name"], []).append(trace.names(uuid).count("work"))
print(json.dumps([names, len({t["tid"] for t in trace.tracks.values() if "tid" in t}), tracer._native.statistics()["lanes"]]))
"""
    )
    names, _, lanes = said
    assert names.pop("MainThread") == [0]
    assert names.pop("short") == [2] * 30
    assert names == {f"worker {i}": [6 * i] for i in range(1, 9)}
    assert lanes <= 12, "the lanes of threads that have ended are used again"


def test_a_thread_is_not_called_what_one_before_it_was(run):
    """threading remembers a thread that it did not start for longer than that thread lives, and its number comes back."""
    said = run.code(
        HEAD
        + """
import _thread
def work(n): return n and work(n - 1)
def foreign():
    threading.current_thread()
    done.release()
done = _thread.allocate_lock()
done.acquire()
_thread.start_new_thread(foreign, ())
done.acquire()
before = {t.name for t in threading.enumerate()}
with scry.trace("out.pftrace", ignore_c_function=True):
    for i in range(20):
        thread = threading.Thread(target=work, args=(20,), name="mine")
        thread.start()
        thread.join()
trace = load()
print(json.dumps([trace.names(u).count("work") for u, t in trace.tracks.items() if t.get("name") == "mine"]))
"""
    )
    assert said == [21] * 20


def test_a_thread_without_a_name_leaves_the_memory_to_its_events(run_few):
    """It is asked for its name again and again, and what it did not say must not be written down each time."""
    said = run_few.code(
        HEAD
        + """
import _thread
def work(n): return n and work(n - 1)
def foreign():
    ready.release()
    go.acquire()
    for i in range(30000): work(50)
    done.release()
ready, go, done = [_thread.allocate_lock() for i in range(3)]
for lock in (ready, go, done): lock.acquire()
_thread.start_new_thread(foreign, ())
ready.acquire()
with scry.trace("out.pftrace", entries=10000, ignore_c_function=True) as tracer:
    go.release()
    done.acquire()
print(json.dumps(tracer.last.calls))
"""
    )
    assert said > 9000


def test_nothing_is_lost_below_the_limit_and_what_is_dropped_is_counted(run_few):
    said = run_few.code(
        HEAD
        + """
def leaf(): pass
def outer(n):
    for i in range(n): leaf()
results = []
for n, entries, path in ((60000, 100000, "whole.pftrace"), (200000, 50000, "cut.pftrace")):
    with scry.trace(path, entries=entries, ignore_c_function=True) as tracer:
        outer(n)
    results.append([tracer.last.calls, tracer.last.dropped])
print(json.dumps(results))
"""
    )
    for result, path in zip(said, ("whole.pftrace", "cut.pftrace")):
        events = loaded(run_few, path).thread()
        begins = [name.split(" (")[0] for _, kind, name, _ in events if kind == "B"]
        result += [begins.count("leaf"), begins[0]]
    whole, cut = said
    assert whole == [60001, 0, 60000, "outer"]
    calls, dropped, leaves, first = cut
    assert first == "outer", "what was open when the oldest events were dropped is still there"
    assert leaves == calls - 1 and 40000 <= leaves <= 60000
    # What was open where the first slot begins is counted on both sides.
    assert 200001 <= calls + dropped <= 200003


def test_deep_recursion(run_few):
    run_few.code(
        HEAD
        + """
sys.setrecursionlimit(30000)
threading.stack_size(256 << 20)
def deep(n): return n and deep(n - 1)
def shallow_then_deep():
    for i in range(3): deep(20000)
with scry.trace("out.pftrace", ignore_c_function=True) as tracer:
    t = threading.Thread(target=shallow_then_deep, name="deep"); t.start(); t.join()
"""
    )
    depth = most = begun = 0
    for _, kind, name, _ in loaded(run_few).thread("deep"):
        depth += {"B": 1, "E": -1}.get(kind, 0)
        most = max(most, depth)
        begun += kind == "B" and name.startswith("deep (")
    assert [most >= 20001, begun] == [True, 60003]


def test_code_that_is_gone_keeps_its_name(run):
    said = run.code(
        HEAD
        + """
def make(i):
    space = {}
    exec(compile("def made_%d(): return %d" % (i, i), "made_%d.py" % i, "exec"), space)
    return space["made_%d" % i]
with scry.trace("out.pftrace", ignore_c_function=True):
    for i in range(500):
        make(i)()
gc.collect()
names = [n for _, k, n, _ in load().thread() if k == "B" and "made" in n and "module" not in n]
print(json.dumps(names == ["made_%d (made_%d.py:1)" % (i, i) for i in range(500)]))
"""
    )
    assert said is True


def test_code_made_again_and_again_takes_no_memory(run_newest):
    said = run_newest.code(
        HEAD
        + """
def rss(): return int(open("/proc/self/statm").read().split()[1])
def make():
    space = {}
    exec("def made(): return 1", space)
    space["made"]()
with scry.trace(entries=10000) as tracer:
    gc.enable()
    for i in range(3000): make()
    gc.collect()
    before = rss()
    for i in range(30000): make()
    gc.collect()
    after = rss()
print(json.dumps([after - before]))
"""
    )
    assert said[0] < 1500  # pages


def test_ten_thousand_starts_leak_nothing(run_few):
    said = run_few.code(
        HEAD
        + """
def work(n): return n and work(n - 1)
def cycle(count):
    tracer = scry.trace.Tracer(memory="1M")
    for i in range(count):
        tracer.start(); work(3); tracer.stop()
    tracer.clear()
def rss(): return int(open("/proc/self/statm").read().split()[1])
cycle(500)
gc.collect()
files, pages, objects = len(os.listdir("/proc/self/fd")), rss(), len(gc.get_objects())
total = getattr(sys, "gettotalrefcount", lambda: 0)()
cycle(10000)
gc.collect()
print(json.dumps([len(os.listdir("/proc/self/fd")) - files, rss() - pages, len(gc.get_objects()) - objects,
                  getattr(sys, "gettotalrefcount", lambda: 0)() - total]))
"""
    )
    files, pages, objects, references = said
    assert files == 0 and pages < 300 and objects < 50 and references < 500


def test_pause_and_resume(run):
    said = run.code(
        HEAD
        + """
def f(): pass
def paused_inside(tracer):
    tracer.pause()
    f()
def g(tracer):
    f()
    paused_inside(tracer)
    f()
    tracer.resume()
    f()
with scry.trace("out.pftrace", ignore_c_function=True) as tracer:
    g(tracer)
    f()
print(json.dumps([(k, (n or "").split(" (")[0]) for _, k, n, _ in load().thread()]))
"""
    )
    ends = ["E", ""]
    assert said == [
        *(["B", "g"], ["B", "f"], ends, ["B", "paused_inside"], ends),
        *(["B", "f"], ends, ends, ["B", "f"], ends),
    ]


def test_every_place_is_heard_again_after_a_pause_of_any_length(run):
    """Where the interpreter can, it is told not to tell of a place any more while nobody listens."""
    said = run.code(
        HEAD
        + """
def numbers():
    while True:
        try: yield 1
        except KeyError: pass
def fails(): raise ValueError
def work(g):
    next(g)
    g.throw(KeyError)
    try: fails()
    except ValueError: pass
    return sorted([2, 1], key=leaf)
def leaf(n): return abs(n)
with scry.trace("out.pftrace", log_exceptions=False) as tracer:
    g = numbers()
    next(g)
    for times in [300, 0, 1, 300, 20] * 5:
        tracer.pause()
        for i in range(times): work(g)
        tracer.resume()
        work(g)
print(json.dumps(load().names()))
"""
    )
    one = ["work", "builtins.next", "numbers", "generator.throw", "numbers", "fails"]
    one += ["builtins.sorted", "leaf", "builtins.abs", "leaf", "builtins.abs"]
    assert said == ["builtins.next", "numbers"] + one * 25


@pytest.mark.parametrize("functions", [3, 40])
def test_functions_that_run_on_through_a_pause_are_heard_again(run, functions):
    """In other threads, further up the stack, and suspended, whether few functions were told to be silent, or many. Nothing of
    that is left on them in the end."""
    said = run.code(
        HEAD
        + f"functions = {functions}"
        + """
exec("".join("def f%d(n): return abs(n)\\n" % i for i in range(functions)))
every = [globals()["f%d" % i] for i in range(functions)]
def all_of_them():
    for f in every: f(1)
def suspended():
    while True:
        all_of_them()
        yield
turn, done = threading.Lock(), threading.Lock()  # in C: no further functions
turn.acquire(), done.acquire()
def elsewhere():
    for times in (100, 1, 100, 1):
        turn.acquire()
        for i in range(times): all_of_them(), ord("a")
        done.release()
def step():
    turn.release()
    done.acquire()
def inner(tracer, g):
    for i in range(101):
        if i == 100:
            step()
            tracer.resume()
            step()
        all_of_them(), next(g), ord("a")
def outer(tracer, g):
    next(g)
    tracer.pause()
    inner(tracer, g)
with scry.trace("out.pftrace") as tracer:
    thread = threading.Thread(target=elsewhere, name="elsewhere")
    g = suspended()
    thread.start()
    for again in range(2): outer(tracer, g)
    thread.join()
trace = load()
tracks = {track["name"]: uuid for uuid, track in trace.tracks.items() if track["kind"] == "thread"}
wanted = ["all_of_them", "suspended", "elsewhere", "inner", "outer", "next", "ord", "abs"]
def counts(uuid):
    names = [n.split(".")[-1] for n in trace.names(uuid)]
    return {name: names.count(name) for name in wanted + ["f0", "f%d" % (functions - 1)]}
main = next(uuid for name, uuid in tracks.items() if name != "elsewhere")
codes = [f.__code__ for f in every + [all_of_them, suspended, elsewhere, inner, outer]]
local = [sys.monitoring.get_local_events(4, code) for code in codes] if hasattr(sys, "monitoring") else [0]
print(json.dumps([counts(main), counts(tracks["elsewhere"]), any(local)]))
"""
    )
    main, elsewhere, left = said
    last = f"f{functions - 1}"
    none = dict.fromkeys(main, 0)
    # Each time once before the pause, and twice after it: called, and in the generator.
    times = {"all_of_them": 6, "f0": 6, last: 6, "abs": 6 * functions}
    assert main == {**none, **times, "suspended": 4, "next": 4, "ord": 2, "outer": 2}
    times = {"all_of_them": 2, "f0": 2, last: 2, "abs": 2 * functions}
    assert elsewhere == {**none, **times, "ord": 2, "elsewhere": 1}
    assert not left


def test_exceptions_go_into_excluded_generators_as_usual(run):
    said = run.code(
        HEAD
        + """
import contextlib, asyncio
def numbers():
    while True:
        try: yield 1
        except KeyError: pass
async def sleeps():
    try: await asyncio.sleep(100)
    except asyncio.CancelledError: return "cancelled"
async def main():
    task = asyncio.ensure_future(sleeps())
    await asyncio.sleep(0)
    task.cancel()
    return await task
for options in ({"exclude_files": [__file__]}, {"ignore_stdlib": True}, {"include_files": ["/nothing"], "log_args": True}):
    with scry.trace(**options) as tracer:
        g = numbers()
        next(g)
        assert [g.throw(KeyError()) for i in range(3)] == [1, 1, 1]
        with contextlib.suppress(OSError):
            @contextlib.contextmanager
            def manager():
                with contextlib.ExitStack(): yield
            with manager(): raise OSError
        assert asyncio.run(main()) == "cancelled"
    tracer.clear()
print(json.dumps("fine"))
"""
    )
    assert said == "fine"


def test_one_tracer_at_a_time_and_others_get_a_clear_error(run):
    said = run.code(
        HEAD
        + """
import cProfile
said = []
def attempt(what):
    try:
        what()
        said.append("fine")
    except (RuntimeError, ValueError) as error:
        said.append(str(error))
with scry.trace():
    attempt(scry.trace.Tracer().start)
    profiler = cProfile.Profile()
    attempt(profiler.enable)
    profiler.disable()
profiler = cProfile.Profile(); profiler.enable()
tracer = scry.trace.Tracer()
attempt(tracer.start)
profiler.disable()
attempt(lambda: tracer.active and tracer.stop())
attempt(scry.trace.Tracer().stop)
if hasattr(sys, "monitoring"):
    for tool in (3, 4): sys.monitoring.use_tool_id(tool, "other")
    attempt(scry.trace.Tracer().start)
print(json.dumps(said))
"""
    )
    assert "already" in said[0]
    if run.python.minor < (3, 12):
        assert "another profiler" in said[2]
    else:
        assert said[1] == said[2] == "fine"
        assert "sys.monitoring" in said[5]
    assert said[4] == "scry is not tracing"


def test_a_debugger_beside_it(run_few):
    said = run_few.code(
        HEAD
        + """
lines = []
def debug(frame, event, arg):
    lines.append(event)
    return debug
def f(): return 1
with scry.trace("out.pftrace", ignore_c_function=True):
    sys.settrace(debug)
    f()
    sys.settrace(None)
print(json.dumps([load().names().count("f"), lines.count("line") > 0]))
"""
    )
    assert said == [1, True]


def test_fork_while_threads_are_traced(run_few):
    said = run_few.code(
        HEAD
        + """
import warnings
warnings.simplefilter("ignore")
stop = threading.Event()
def spin():
    while not stop.wait(0.0005): sum([1])
def child(): return abs(-1)
threads = [threading.Thread(target=spin) for i in range(3)]
tracer = scry.trace.Tracer(children=True)
tracer.start()
for t in threads: t.start()
for i in range(10):
    pid = os.fork()
    if pid == 0:
        child()
        os._exit(0)
    os.waitpid(pid, 0)
stop.set()
for t in threads: t.join()
tracer.stop()
saved = tracer.save("out.pftrace")
trace = load()
counts = [trace.names(u).count("child") for u, t in trace.tracks.items() if t["kind"] == "thread" and t["pid"] != os.getpid()]
folder = tracer._family.folder
tracer.clear()
# And without following them.
with scry.trace() as tracer:
    pid = os.fork()
    if pid == 0:
        child()
        os._exit(0 if not tracer._native.is_on() else 9)
status = os.waitpid(pid, 0)[1]
print(json.dumps([counts, saved.processes, os.path.exists(folder), status]))
"""
    )
    assert said == [[1] * 10, 11, False, 0]


def test_generators_that_are_forgotten_end(run):
    said = run.code(
        HEAD
        + """
def numbers():
    try:
        yield 1
    finally:
        abs(1)
def main():
    g = numbers()
    next(g)
    del g
with scry.trace("out.pftrace"):
    main()
print(json.dumps(load().names()))
"""
    )
    assert said == ["main", "builtins.next", "numbers", "numbers", "builtins.abs"]


def asan():
    """Interpreters of this machine itself, as far as it has them: in a Debian tree the sanitizer's library is not there."""
    found = [p for p in chosen(debug=False) if p.root is None]
    profile = [p for p in found if p.minor < (3, 12)]
    monitoring = [p for p in found if p.minor >= (3, 12)]
    free = [p for p in monitoring if p.free_threaded]
    return [*profile[-1:], *monitoring[:1], *free[-1:]]


@pytest.mark.parametrize("sanitized", asan(), ids=lambda p: p.id)
def test_sanitizers_find_nothing(sanitized, tmp_path):
    """Everything at once: all formats, all options, threads, tasks, sparse, drops."""
    native = built(
        sanitized, "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"
    )
    run = Run(sanitized, tmp_path, native)
    gcc = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True)
    run.environment.update(LD_PRELOAD=gcc.stdout.strip(), ASAN_OPTIONS="detect_leaks=0")
    if not sanitized.free_threaded:
        run.environment["PYTHONMALLOC"] = "malloc"
    done = run.words(Path(__file__).parent / "everything.py", timeout=110)
    assert "ERROR: AddressSanitizer" not in done.stderr and "runtime error" not in done.stderr
    assert done.stdout.strip() == "done"


@pytest.mark.parametrize("checking", [p for p in few() if p.debug], ids=lambda p: p.id)
def test_debug_builds_find_nothing(checking, tmp_path):
    """They check what they are given, and count all references."""
    run = Run(checking, tmp_path, built(checking))
    done = run.words(Path(__file__).parent / "everything.py", timeout=110)
    assert done.stdout.strip() == "done"
