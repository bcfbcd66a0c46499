"""Random programs: what the tracer saw equals what a profile function in plain Python saw, event by event."""

import functools
import json
import subprocess
from pathlib import Path

import pytest
from conftest import Run, built
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

HERE = Path(__file__).parent

# Before 3.13 a profile function in Python keeps the local variables of the frames it sees alive a little longer, so
# that a generator which is only forgotten would end unseen: here they are closed.
# Functions call only functions with a higher number, so every program ends.
COUNT = 5


@functools.cache
def simple(number):
    callee = st.integers(number + 1, COUNT).map(lambda n: f"f{n}(a)")
    return st.one_of(
        callee,
        callee,
        st.sampled_from(
            [
                "len('abc')",
                "[].append(a)",
                "sorted([3, 1, 2], key=lambda v: -v)",
                "list(map(str, (1, 2)))",
                "sum(v for v in (1, 2, 3))",
                "max([a, 2], key=key)",
                "Thing(a).method(2)",
                "Thing.static(a)",
                "Thing.of_class(a)",
                "Thing(a).value",
                "Thing(a) + 1",
                "' '.join(['a', 'b'])",
                "{1: 2}.get(a)",
                "getattr(Thing(a), 'method')(1)",
                "recurse(4)",
                "recurse(200)",
                "gone('first', a)",
                "gone('second', a)",
                "[inner(v) for inner in (key, abs) for v in (1, -2)]",
                "next(numbers(a), None)",
                "list(numbers(3))",
                "dict(zip('ab', numbers(2)))",
                "stepped(a)",
                "wrapped(a)",
                "isinstance(a, int)",
                "int('7')",
            ]
        ),
    )


@functools.cache
def statements(number):
    base = simple(number).map(lambda text: [text])
    raising = st.sampled_from(
        ["raise ValueError(a)", "int('x')", "[][1]", "next(iter(()))", "None()"]
    )

    def nested(inner):
        indented = inner.map(lambda lines: ["    " + line for line in lines])
        return st.one_of(
            st.tuples(inner, inner).map(lambda two: two[0] + two[1]),
            indented.map(lambda lines: ["for i in range(2):", *lines]),
            indented.map(lambda lines: ["with Context():", *lines]),
            st.tuples(indented, raising, indented).map(
                lambda t: ["try:", *t[0], "    " + t[1], "except Exception:", *t[2]]
            ),
            st.tuples(indented, indented).map(lambda t: ["try:", *t[0], "finally:", *t[1]]),
            indented.map(lambda lines: ["def local(a=a):", *lines, "    return a", "local()"]),
            st.just(["g = numbers(5)", "next(g)", "g.close()"]),
            st.just(["g = catching()", "next(g)", "g.throw(KeyError(1))", "list(g)"]),
            st.just(["g = echo()", "next(g)", "g.send(2)", "g.close()"]),
            st.just(["return a"]).map(lambda lines: ["if a > 100:", "    " + lines[0]]),
        )

    return st.recursive(base, nested, max_leaves=6)


@st.composite
def programs(draw):
    lines = [HEAD]
    for number in range(COUNT + 1):
        body = draw(statements(number)) if number < COUNT else ["return abs(a)"]
        kind = draw(st.sampled_from(["plain", "plain", "generator"])) if number < COUNT else "plain"
        lines.append(f"def {'_' if kind == 'generator' else ''}f{number}(a):")
        lines += ["    " + line for line in body]
        if kind == "generator":
            lines += ["    yield a", f"def f{number}(a):", f"    for value in _f{number}(a):"]
            lines += ["        return value"]
    # By the main thread, or by several threads at once, whose calls take turns.
    threads = draw(st.sampled_from([0, 0, 0, 2, 4]))
    lines += [f"def main(): in_threads({threads}, body)" if threads else "def main(): body(0)"]
    lines += ["def body(n):", "    try:", f"        (f0, f1, f2, f3)[n % {COUNT - 1}](1)"]
    lines += ["    except Exception:", "        pass"]
    return "\n".join(lines)


HEAD = """
import functools, threading
def in_threads(count, function):
    threads = [threading.Thread(target=function, args=(n,), name="worker-%d" % n) for n in range(count)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
def gone(name, a):
    space = {}
    exec("def %s(a): return abs(a)" % name, space)  # its code, and where that lay, is free again soon
    return space[name](a)
def key(v): return -v
def recurse(n): return n and recurse(n - 1)
def numbers(n):
    for i in range(n):
        yield i
def catching():
    try:
        yield 1
    except KeyError:
        yield 2
def echo():
    got = yield 1
    while True:
        got = yield got
async def coroutine(n):
    if n: await coroutine(n - 1)
    await Awaitable()
    return n
class Awaitable:
    def __await__(self):
        yield 1
def stepped(n):
    c = coroutine(2)
    try:
        while True: c.send(None)
    except StopIteration:
        pass
def decorate(function):
    @functools.wraps(function)
    def wrapper(*args): return function(*args)
    return wrapper
@decorate
def wrapped(a): return a
class Context:
    def __enter__(self): return self
    def __exit__(self, *e): return False
class Thing:
    def __init__(self, a): self.a = a
    def method(self, b): return self.a
    @staticmethod
    def static(a): return a
    @classmethod
    def of_class(cls, a): return cls(a)
    @property
    def value(self): return self.a
    def __add__(self, other): return self.a
"""


class Worker:
    """An interpreter that runs one program after the other."""

    def __init__(self, run, options):
        run.environment["PYTHONPATH"] += ":" + str(HERE)
        self.process = run.popen(
            HERE / "reference.py",
            run.folder / "out.pftrace",
            json.dumps(options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def ask(self, source):
        self.process.stdin.write(json.dumps(source) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the interpreter died"
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(60) == 0


@pytest.mark.parametrize("way", ["short", "full"])
def test_random_programs(traced, tmp_path, way):
    options = {"short": {}, "full": {"max_stack_depth": 1000, "log_returns": True}}[way]
    worker = Worker(Run(traced, tmp_path, built(traced)), options)

    # As many as a slow, loaded machine has time for; the seed differs from run to run.
    @settings(
        max_examples=60 if way == "short" else 15,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(programs())
    def check(source):
        answer = worker.ask(source)
        assert answer["traced"] == answer["reference"]

    try:
        check()
    finally:
        worker.close()
