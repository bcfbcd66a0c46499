"""Sparse tracing: exactly the time in which a named function is active, whatever kind of callable it is."""

import json

import pytest

MODULE = """
import contextlib, functools

def helper(n=1): return abs(n)

def function(): helper(); return helper(2)
alias = function

def generator():
    helper()
    yield 1
    helper()
    yield 2

async def coroutine():
    helper()
    await Pause()
    helper()

class Pause:
    def __await__(self):
        yield

def decorator(f):
    @functools.wraps(f)
    def wrapper(*args): return f(*args)
    return wrapper

@decorator
def decorated(): helper()

@functools.lru_cache(maxsize=None)
def cached(): return helper()

@contextlib.contextmanager
def manager():
    helper()
    yield

def recursive(n): return helper() if n == 0 else recursive(n - 1)

def raising():
    helper()
    raise ValueError

def outer(): return function()

class Base:
    def method(self): return helper()
    @staticmethod
    def static(): return helper()
    @classmethod
    def of_class(cls): return helper()
    @property
    def value(self): return helper()
    def __call__(self): return helper()
    class Inner:
        def method(self): return helper()

    def __getitem__(self, key): return helper(key)

class Derived(Base):
    pass

def factory():
    def inner(): return helper()
    return inner

made = factory()

async def ticks():
    helper()
    yield 1
    helper()

async def use_ticks():
    async for tick in ticks(): helper()

early = generator()

partial = functools.partial(function)
constant = 5
"""

PROGRAM = """
import json, sys
import perfetto
import scry, scry.trace
import things
from things import alias, function as imported_before, helper

before = {name: value for name, value in vars(things).items()}
names, call, options = json.loads(sys.argv[1])
def drive():
    exec(call, {"things": things, "imported_before": imported_before, "alias": alias, "step": step, "helper": helper})

def step(coroutine, between):
    while True:
        try:
            coroutine.send(None)
        except StopIteration:
            return
        between()

def untraced(): return helper(7)
with scry.trace("out.pftrace", trace_sparse=names, log_exceptions=False, log_gc=False, **options) as tracer:
    untraced()
    drive()
    untraced()
trace = perfetto.load("out.pftrace")
threads = [u for u, t in trace.tracks.items() if t["kind"] == "thread"]
seen = [trace.names(u) for u in threads]
assert {name: value for name, value in vars(things).items()} == before
print(json.dumps([[name.split(".")[-1] for name in names] for names in seen]))
"""

HELPED = ["helper", "abs"]
TABLE = {
    "function": ("things.function", "things.function()", ["function", *HELPED, *HELPED]),
    "alias of it": ("things.function", "alias()", ["function", *HELPED, *HELPED]),
    "imported before": ("things.function", "imported_before()", ["function", *HELPED, *HELPED]),
    "named by its alias": ("things.alias", "things.function()", ["function", *HELPED, *HELPED]),
    "method": ("things.Base.method", "things.Base().method()", ["method", *HELPED]),
    "inherited method": ("things.Derived.method", "things.Derived().method()", ["method", *HELPED]),
    "bound before": ("things.Base.method", "m = things.Base().method; m(); m()", ["method", *HELPED] * 2),
    "static method": ("things.Base.static", "things.Base.static()", ["static", *HELPED]),
    "class method": ("things.Base.of_class", "things.Base.of_class()", ["of_class", *HELPED]),
    "property": ("things.Base.value", "things.Base().value", ["value", *HELPED]),
    "__call__": ("things.Base.__call__", "things.Base()()", ["__call__", *HELPED]),
    "nested class": ("things.Base.Inner.method", "things.Base.Inner().method()", ["method", *HELPED]),
    "generator": (
        "things.generator",
        "for v in things.generator(): things.helper()",
        ["generator", *HELPED, "generator", *HELPED, "generator"],
    ),
    "coroutine": (
        "things.coroutine",
        "step(things.coroutine(), things.helper)",
        ["coroutine", *HELPED, "__await__", "coroutine", "__await__", *HELPED],
    ),
    "decorated": ("things.decorated", "things.decorated()", ["decorated", *HELPED]),
    "cached": ("things.cached", "things.cached(); things.cached()", ["cached", *HELPED]),
    "partial": ("things.partial", "things.partial()", ["function", *HELPED, *HELPED]),
    "context manager": ("things.manager", "with things.manager(): things.helper()", ["manager", *HELPED, "manager"]),
    "recursive": ("things.recursive", "things.recursive(2)", ["recursive"] * 3 + HELPED),
    "raising": (
        "things.raising",
        "try: things.raising()\nexcept ValueError: things.helper()\nthings.raising.__name__; things.helper()",
        ["raising", *HELPED],
    ),
    "called through another": ("things.function", "things.outer()", ["function", *HELPED, *HELPED]),
    "two names, one in the other": (
        ["things.outer", "things.function"],
        "things.outer(); things.helper(); things.function()",
        ["outer", "function", *HELPED, *HELPED, "function", *HELPED, *HELPED],
    ),
    "by lambda": ("things.function", "(lambda: things.function())()", ["function", *HELPED, *HELPED]),
    "subscript": ("things.Base.__getitem__", "b = things.Base()\nfor i in range(20): b[i]", ["__getitem__", *HELPED] * 20),
    "made by a function, again and again": ("things.made", "things.made(); things.factory()()", ["inner", *HELPED] * 2),
    "asynchronous generator": ("things.ticks", "step(things.use_ticks(), print)", ["ticks", *HELPED, "ticks", *HELPED]),
    "generator made before": ("things.generator", "next(things.early); helper()", ["generator", *HELPED]),
    "two generators, one at its end before the other": (
        "things.generator",
        "g = things.generator(); next(g); list(things.generator()); helper(); list(g); helper()",
        ["generator", *HELPED, *["generator", *HELPED] * 2, "generator", "generator", *HELPED, "generator"],
    ),
    "many times": ("things.function", "for i in range(300): things.function(); things.helper()", ["function", *HELPED, *HELPED] * 300),
    "seldom": (
        "things.function",
        "for i in range(3):\n things.function()\n for k in range(300): things.helper()",
        ["function", *HELPED, *HELPED] * 3,
    ),
}  # fmt: skip


def prepare(run):
    run.file("things.py", MODULE)
    run.environment["PYTHONPATH"] += f":{run.folder}:{__file__.rsplit('/', 1)[0]}"


@pytest.mark.timeout(300)
def test_every_kind_of_callable(run):
    """One process for each interpreter and row would take minutes: here one runs all rows."""
    prepare(run)
    program = PROGRAM.replace("json.loads(sys.argv[1])", "ROW")
    rows = f"import json, sys\nsource = {program!r}\nresults = {{}}\n"
    rows += "import io, contextlib\n"
    rows += "for key, row in json.load(open('rows.json')).items():\n"
    rows += "    said = io.StringIO()\n"
    rows += "    with contextlib.redirect_stdout(said):\n"
    rows += "        exec(compile(source, 'program', 'exec'), {'ROW': row, '__name__': 'row'})\n"
    rows += "    results[key] = json.loads(said.getvalue())\n"
    rows += "print(json.dumps(results))\n"
    table = dict(TABLE)
    if run.python.debug and run.python.minor == (3, 11):
        del table[
            "subscript"
        ]  # runs them without a word to anybody, and insists on plain functions
    wanted = {
        key: [names if isinstance(names, list) else [names], call, {}]
        for key, (names, call, _) in table.items()
    }
    run.file("rows.json", json.dumps(wanted))
    said = run.code(rows, timeout=250)
    expected = {key: [seen] for key, (_, _, seen) in table.items()}
    assert said == expected


FAILURES = {
    "things.nothing": "'things.nothing' was not found: module 'things' has no 'nothing'",
    "things.Base.nothing": "'things.Base.nothing' was not found: class 'Base' has no 'nothing'",
    "nowhere.function": "there is no module 'nowhere'",
    "things.constant": "'things.constant' cannot be traced: it is an object of type 'int', which is not callable",
    "things.Base": "'things.Base' cannot be traced: it is a class; name a method, for example Base.__init__",
    "builtins.len": "'builtins.len' cannot be traced: it is written in C",
    "builtins.list.append": "it is written in C",
    "things..function": "is not a name like package.module.function",
}


def test_names_that_lead_nowhere_say_so(run):
    prepare(run)
    said = run.code(
        f"""
import json, scry
said = {{}}
for name in {list(FAILURES)!r}:
    try:
        with scry.trace(trace_sparse=name):
            said[name] = "traced"
    except LookupError as error:
        said[name] = str(error)
with scry.trace(trace_sparse="things.function"):
    pass
print(json.dumps(said))
"""
    )
    for name, text in FAILURES.items():
        assert text in said[name]


def test_other_threads_are_not_recorded(run):
    prepare(run)
    said = run.code(
        """
import json, threading, perfetto, scry, things
inside, seen = threading.Event(), threading.Event()

def beside():
    inside.wait()
    for i in range(50): things.helper()
    seen.set()

def named():
    inside.set()
    seen.wait()
    return things.helper()

things.named = named
thread = threading.Thread(target=beside)
with scry.trace("out.pftrace", trace_sparse="things.named", ignore_c_function=True):
    thread.start()
    named()
    thread.join()
trace = perfetto.load("out.pftrace")
print(json.dumps([trace.names(u).count("helper") for u, t in trace.tracks.items() if t["kind"] == "thread"]))
"""
    )
    assert said == [1]


def test_named_functions_are_as_usual_meanwhile_and_afterwards(run):
    """Before 3.12 they are called by another way while they are waited for."""
    prepare(run)
    said = run.code(
        """
import copy, inspect, json, pickle, types
import scry, things

def facts():
    f = things.function
    return [
        pickle.loads(pickle.dumps(f)) is f, copy.deepcopy(f) is f, inspect.isfunction(f), callable(f),
        str(inspect.signature(things.Base.method)), repr(f).split(" at ")[0], f.__name__, f.__defaults__,
        isinstance(f, types.FunctionType), things.Base().method.__func__ is things.Base.method,
    ]

def state():
    return [type(things.function) is types.FunctionType, sorted(vars(things.function)), things.function.__code__]

for i in range(100): things.function()  # so often that the interpreter has specialised the place
before, state_before = facts(), state()
with scry.trace(trace_sparse=["things.function", "things.Base.method"]) as tracer:
    meanwhile = facts()
    for i in range(100): things.function()
for i in range(100): things.function()
assert before == meanwhile == facts()
assert state_before == state()
print(json.dumps(tracer.save("out.json").calls))
"""
    )
    assert said == 500


def test_naming_functions_again_and_again_leaks_nothing(run_few):
    prepare(run_few)
    said = run_few.code(
        """
import gc, json, sys
import scry.trace, things
def cycle(count):
    tracer = scry.trace.Tracer(memory="1M", trace_sparse=["things.function", "things.generator", "things.made"])
    for i in range(count):
        tracer.start(); things.function(); list(things.generator()); things.made(); tracer.stop()
    tracer.clear()
    gc.collect()
def state():
    total = getattr(sys, "gettotalrefcount", lambda: 0)()
    return [len(gc.get_objects()), total, *map(sys.getrefcount, (things.function, things.function.__code__, things.generator.__code__))]
cycle(30)
before = state()
cycle(300)
print(json.dumps([b - a for a, b in zip(before, state())]))
"""
    )
    objects, references, *exact = said
    assert objects < 50 and references < 200 and exact == [0, 0, 0]


@pytest.mark.pythons(since=(3, 9), until=(3, 11))
def test_frames_are_evaluated_as_usual_whenever_that_will_do(run):
    """Before 3.12, also where the names are met only as the program runs; the other way makes all calls slower."""
    run.file(
        "program.py",
        """
import ctypes, json
api = ctypes.pythonapi
api.PyInterpreterState_Get.restype = ctypes.c_void_p
evaluator = api._PyInterpreterState_GetEvalFrameFunc
evaluator.restype, evaluator.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
default = ctypes.cast(api._PyEval_EvalFrameDefault, ctypes.c_void_p).value
said = []
def note(): said.append(evaluator(api.PyInterpreterState_Get()) == default)
note()
def named(): pass
def steps(): yield
note()  # this call finds them
note()
alive = steps()
note()
next(alive)
del alive
note()
named()
note()
print(json.dumps(said))
""",
    )
    words = ["-m", "scry.trace", "-q", "-o", "out.json"]
    words += ["--trace-sparse", "__main__.named,__main__.steps", "program.py"]
    done = run.words(*words)
    said = json.loads(done.stdout)
    if run.python.debug and run.python.minor == (3, 11):
        assert said == [False] * 6, "N1 will not do there, as hooks_named.c says"
    else:
        assert said == [False, True, True, False, True, True]
    events = json.loads((run.folder / "out.json").read_text())["traceEvents"]
    names = [e["name"].split(" (")[0] for e in events if e["ph"] == "X"]
    assert "named" in names and "steps" in names and "note" not in names
