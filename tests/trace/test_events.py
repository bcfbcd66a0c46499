"""What is recorded beside calls: tasks, collections, exceptions, values, events of the program's own; and what is left out."""

import json
import os

import pytest

HEAD = f"""
import asyncio, gc, json, sys, threading, time
sys.path.append({os.path.dirname(__file__)!r})
import perfetto
import scry, scry.trace
gc.disable()

def seen(path="out.pftrace"):
    # For each track its kind, its name and its events: what, name, notes.
    trace, found = perfetto.load(path), []
    for uuid, track in trace.tracks.items():
        events = [
            (kind, name.split(" (")[0] if isinstance(name, str) else name, notes)
            for _, kind, name, notes in trace.events.get(uuid, [])
        ]
        found.append((track["kind"], track["name"], events))
    return found
"""


def begun(events):
    return [name for kind, name, _ in events if kind == "B"]


def test_each_task_is_a_track_with_its_steps(run):
    said = run.code(
        HEAD
        + """
async def leaf(n): await asyncio.sleep(0)
async def job(n):
    await leaf(n)
    return n
async def main():
    tasks = []
    for n in range(3):
        tasks.append(asyncio.ensure_future(job(n)))
        tasks[n].set_name("job %d" % n)
    assert await asyncio.gather(*tasks) == [0, 1, 2]
    del tasks
    again = asyncio.ensure_future(job(5))
    again.set_name("later")
    await again
with scry.trace("out.pftrace", ignore_stdlib=True, ignore_c_function=True):
    asyncio.run(main())
print(json.dumps(seen()))
"""
    )
    tasks = {name: begun(events) for kind, name, events in said if kind == "track"}
    steps = ["job", "leaf", "job", "leaf"]
    assert {name: tasks[name] for name in ("job 0", "job 1", "job 2", "later")} == {
        name: [name, *steps] for name in ("job 0", "job 1", "job 2", "later")
    }
    main = [names for names in tasks.values() if "main" in names]
    assert len(main) == 1 and set(main[0][1:]) == {"main"}
    threads = [begun(events) for kind, name, events in said if kind == "thread"]
    assert all("job" not in names and "leaf" not in names for names in threads)


def test_tasks_can_be_left_in_their_threads(run_few):
    said = run_few.code(
        HEAD
        + """
async def job(): await asyncio.sleep(0)
with scry.trace("out.pftrace", ignore_stdlib=True, ignore_c_function=True, log_async=False):
    asyncio.run(job())
print(json.dumps(seen()))
"""
    )
    (events,) = [events for kind, name, events in said if kind == "thread"]
    assert begun(events).count("job") == 2
    assert [kind for kind, _, _ in said if kind == "track"] == []


def test_garbage_collections_are_in_the_trace(run):
    said = run.code(
        HEAD
        + """
with scry.trace("out.pftrace", ignore_stdlib=True): gc.collect(); gc.collect(0)
first = seen()
with scry.trace("out.pftrace", ignore_stdlib=True, log_gc=False): gc.collect()
print(json.dumps([first, seen()]))
"""
    )
    with_, without = (
        [begun(events) for kind, _, events in tracks if kind == "thread"][0] for tracks in said
    )
    assert with_ == [
        *("gc.collect", "garbage collection, generation 2"),
        *("gc.collect", "garbage collection, generation 0"),
    ]
    assert without == ["gc.collect"]


def test_exceptions_are_marked_once_and_on_each_call_that_they_end(run):
    said = run.code(
        HEAD
        + """
def fails(n): raise KeyError(n)
def middle(n): fails(n)
def outer(n):
    try: middle(n)
    except KeyError: pass
def catches(): int("x")
with scry.trace("out.pftrace"):
    for n in range(3): outer(n)  # the same address again and again, maybe
    try: catches()
    except ValueError: pass
print(json.dumps(seen()))
"""
    )
    (events,) = [events for kind, _, events in said if kind == "thread"]
    typed = run.python.minor >= (3, 12)
    marks = [name for kind, name, _ in events if kind == "I"]
    assert marks == (["raised KeyError"] * 3 + ["raised ValueError"] if typed else [])
    ended, stack = [], []
    for kind, name, notes in events:
        if kind == "B":
            stack.append(name)
        elif kind == "E":
            name = stack.pop()
            if "exception" in notes:
                ended.append((name, notes["exception"]))
    names = ["fails", "middle"] * 3
    assert [name for name, _ in ended if name in ("fails", "middle")] == names
    assert "catches" in [name for name, _ in ended]
    assert "outer" not in [name for name, _ in ended]
    if typed:
        assert {what for name, what in ended if name == "fails"} == {"KeyError"}


def test_events_from_code(run):
    said = run.code(
        HEAD
        + """
scry.trace.instant("nobody listens")
with scry.trace.event("nor here"): scry.trace.counter("none", 1)
with scry.trace("out.pftrace", ignore_stdlib=True) as tracer:
    with scry.trace.event("load", {"rows": 5, "name": "\\u00fc\\"", "inf": 1e999}):
        for n in (3, 4.5, -1): scry.trace.counter("queue", n)
        scry.trace.instant("cache miss", {"key": [1, 2]})
        with tracer.event("inner"): pass
print(json.dumps(seen()))
"""
    )
    tracks = {(kind, name): events for kind, name, events in said}
    assert [value for _, value, _ in tracks["counter", "queue"]] == [3.0, 4.5, -1.0]
    (spans,) = [events for (kind, name), events in tracks.items() if kind == "track"]
    assert begun(spans) == ["load", "inner"]
    assert json.loads(spans[0][2]["args"]) == {"rows": 5, "name": 'ü"', "inf": "inf"}
    (mark,) = [e for e in tracks["thread", "MainThread"] if e[0] == "I"]
    assert mark[1] == "cache miss" and json.loads(mark[2]["args"]) == {"key": "[1, 2]"}
    assert "nobody listens" not in json.dumps(said)


def test_values_are_short_texts_and_never_an_error(run):
    said = run.code(
        HEAD
        + """
class Bad:
    def __repr__(self): raise ValueError("no")
class Huge:
    def __repr__(self): return "x" * 1000000
def takes(a, b=2, *rest, key=None, **more): return a
deep = []
for i in range(100000): deep = [deep]
with scry.trace("out.pftrace", log_args=True, log_returns=True, ignore_c_function=True):
    takes(Bad(), Huge(), 3, key=deep, z=list(range(1000)))
    takes(10 ** 100000, "\\udcff\\x00" * 1000)
while deep: deep = deep.pop()
print(json.dumps(seen()))
"""
    )
    (events,) = [events for kind, _, events in said if kind == "thread"]
    calls = [(kind, notes) for kind, name, notes in events if name in ("takes", None)]
    first, ended, second = json.loads(calls[0][1]["args"]), calls[1][1], calls[2][1]
    assert first["a"] == ended["return"] == "<Bad: repr failed with ValueError>"
    assert len(first["b"]) <= 121 and "1000 in all" in first["more"] and first["rest"] == "(3)"
    assert first["key"].count("[") < 10
    assert "bits" in json.loads(second["args"])["a"] and len(json.loads(second["args"])["b"]) < 300


def test_what_a_repr_of_ones_own_says(run_few):
    said = run_few.code(
        HEAD
        + """
def takes(a): return a
with scry.trace("out.pftrace", log_args=True, log_returns=True, ignore_c_function=True, repr=lambda v: "mine"):
    takes(1)
print(json.dumps(seen()))
"""
    )
    (events,) = [events for kind, _, events in said if kind == "thread"]
    assert [json.loads(events[0][2]["args"]), events[1][2]["return"]] == [{"a": "mine"}, "mine"]


LEFT_OUT = {
    "min_duration": ({"min_duration": "5ms"}, ["outer", "slow"]),
    "max_stack_depth": ({"max_stack_depth": 1}, ["outer"]),
    "ignore_stdlib": ({"ignore_stdlib": True}, ["outer", "quick", "slow", "quick"]),
    "exclude_files": ({"exclude_files": ["program.py"]}, ["dumps"]),
    "include_files": ({"include_files": ["program.py"]}, ["outer", "quick", "slow", "quick"]),
}


@pytest.mark.parametrize("filtered", LEFT_OUT)
def test_what_is_left_out(run, filtered):
    options, expected = LEFT_OUT[filtered]
    said = run.code(
        HEAD
        + f"""
def quick(): pass
def slow(): time.sleep(0.02); quick()
def outer(): quick(); slow(); return json.dumps([])
json.dumps({{}})
with scry.trace("out.pftrace", ignore_c_function=True, log_gc=False, **{options!r}):
    outer()
print(json.dumps(seen()))
"""
    )
    (events,) = [events for kind, _, events in said if kind == "thread"]
    assert [name for name in begun(events) if name in ("outer", "quick", "slow", "dumps")] == (
        expected
    )
