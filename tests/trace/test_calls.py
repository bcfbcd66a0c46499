"""What is recorded: calls in their order, nested as they were, on every interpreter."""

import pytest

# Traces what runs in traced(), and prints the calls as [depth, name] in the order of their begin.
HEAD = """
import gc, json, sys
import scry

gc.disable()

def calls(path="out.json", thread=None):
    events = [e for e in json.load(open(path))["traceEvents"] if e["ph"] == "X"]
    events.sort(key=lambda e: (e["ts"], -e["dur"]))
    return events

def nested(events):
    # JSON has three decimals: what begins and ends in the same nanosecond is in its place in the file already.
    result, open_ends = [], []
    for e in events:
        while open_ends and round((e["ts"] - open_ends[-1]) * 1000) >= 0:
            open_ends.pop()
        result.append([len(open_ends), e["name"].split(" (")[0]])
        open_ends.append(e["ts"] + e["dur"])
    return result
"""


def test_calls_are_nested_as_they_were(run):
    said = run.code(
        HEAD
        + """
def leaf(): return sum([1, 2])
def middle(): leaf(); leaf()
def top(): middle(); leaf()

with scry.trace("out.json"):
    top()
print(json.dumps(nested(calls())))
"""
    )
    leaf = [["leaf", 0], ["builtins.sum", 1]]
    expected = [["top", 0], ["middle", 1]]
    expected += [[n, d + 2] for n, d in leaf * 2] + [[n, d + 1] for n, d in leaf]
    assert said == [[depth, name] for name, depth in expected]


def test_functions_in_c_can_be_left_out(run):
    said = run.code(
        HEAD
        + """
def f(): return len(str([1]))
with scry.trace("out.json", ignore_c_function=True):
    f()
print(json.dumps(nested(calls())))
"""
    )
    assert said == [[0, "f"]]


@pytest.mark.parametrize("name", ["out.json", "out.json.gz", "out.pftrace", "out.scry"])
def test_every_format_is_written(run_newest, name):
    said = run_newest.code(
        HEAD
        + f"""
import os
with scry.trace("{name}") as tracer:
    sorted([3, 1], key=lambda v: v)
print(json.dumps([tracer.last.calls, os.path.getsize("{name}") == tracer.last.bytes, os.listdir(".")]))
"""
    )
    assert said[:2] == [3, True]
    assert sorted(said[2]) == sorted([name, "program.py"])


def test_a_decorator_traces_each_call_until_its_work_is_done(run):
    """Coroutines until they return, generators until they end; what the function is stays visible."""
    said = run.code(
        HEAD
        + """
import asyncio, inspect
def leaf(n): return abs(n)
tracer = scry.trace("out.json", ignore_c_function=True, ignore_stdlib=True)
@tracer
def plain(a, b=2):
    "documented"
    return leaf(a) + b
@tracer
async def coroutine(a):
    await asyncio.sleep(0)
    return leaf(a)
@tracer
def generator(n):
    got = yield leaf(n)
    yield leaf(got)
    return "end"
@tracer
def fails(): leaf(1); raise KeyError(5)
def seen(): return [name for _, name in nested(calls())]
results = [plain(1), seen(), asyncio.run(coroutine(2)), seen()]
def consume():
    g = generator(3)
    yield next(g)
    yield g.send(4)
    try: next(g)
    except StopIteration as stop: yield stop.value
results += [list(consume()), seen()]
try: fails()
except KeyError as error: results += [error.args, seen()]
async def ticks(): yield 1
try: tracer(ticks)
except TypeError as error: results += [str(error)]
results += [plain.__doc__, str(inspect.signature(plain)), inspect.iscoroutinefunction(coroutine), inspect.isgeneratorfunction(generator)]
print(json.dumps(results))
"""
    )
    plain, seen, awaited, seen_async, values, seen_steps, error, seen_failing, refused, *facts = (
        said
    )
    assert [plain, awaited, values, error] == [3, 2, [3, 4, "end"], [5]]
    assert seen == ["plain", "leaf"]
    assert seen_async.count("coroutine") == 2 and seen_async.count("leaf") == 1
    assert [n for n in seen_steps if n != "consume"] == ["generator", "leaf"] * 2 + ["generator"]
    assert seen_failing == ["fails", "leaf"]
    assert "ticks is an asynchronous generator" in refused
    assert facts == ["documented", "(a, b=2)", True, True]


def test_saving_shows_how_far_it_is_and_leaves_no_trace_of_that(run_newest):
    program = run_newest.file(
        "program.py",
        """
import itertools, types
import scry, scry.trace.output
# A clock on which saving takes long.
scry.trace.output.time = types.SimpleNamespace(monotonic=itertools.count().__next__)
def work(): pass
for wanted in (True, False):
    with scry.trace("out.pftrace", progress=wanted):
        for i in range(2000000): work()
""",
    )
    done = run_newest.words(program)
    shown = done.stderr.split("\n")  # where it went back to the beginning of the line
    shares = [int(part.split(",")[1].strip(" %")) for part in shown if "saving the trace," in part]
    assert len(shares) > 2 and shares == sorted(shares) and 0 <= shares[0] < shares[-1] <= 100
    assert shown[-1] == "\x1b[K", "the line is gone, and the second time there was none"
