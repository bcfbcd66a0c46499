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
