"""Files for the Firefox Profiler: every number points at something, times and stacks are those of the samples, and that
program itself reads the same out of them."""

import json
import os
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
NODE = TESTS.parent / ".venv/bin/node"
PROFILER = TESTS / "node_modules/@firefox-devtools/profiler-cli/dist/profiler-cli.js"
COLORS = (
    "transparent grey purple yellow orange lightblue blue brown magenta red lightred green".split()
)

CASES = ["basic", "empty", "hostile", "deep", "web", "cpu", "varied", "waiting"]
OPTIONS = [(), ("--nolineno",), ("--threads", "--processes"), ("--function",)]


def load(path):
    text = path.read_text()
    assert text.count("\n") == 1 and text.endswith("}\n")
    return json.loads(text)


def check_table(table):
    """Every column has as many rows as the table says. Returns the columns."""
    columns = {key: value for key, value in table.items() if isinstance(value, list)}
    assert {len(column) for column in columns.values()} <= {table["length"]}, table
    return columns


def check_indexes(column, count, *others):
    for value in column:
        assert value in others or (isinstance(value, int) and 0 <= value < count), value


def check_thread(thread, profile):
    strings = thread["stringArray"]
    assert len(set(strings)) == len(strings)
    stacks, frames = check_table(thread["stackTable"]), check_table(thread["frameTable"])
    functions, resources = check_table(thread["funcTable"]), check_table(thread["resourceTable"])
    samples = check_table(thread["samples"])
    check_table(thread["markers"]), check_table(thread["nativeSymbols"])
    for row, prefix in enumerate(stacks["prefix"]):
        assert prefix is None or 0 <= prefix < row
    for table in (stacks, frames):
        check_indexes(table["category"], len(profile["meta"]["categories"]))
        check_indexes(table["subcategory"], 1)
    check_indexes(stacks["frame"], len(frames["func"]))
    check_indexes(frames["func"], len(functions["name"]))
    check_indexes(frames["line"], 10_000_000, None)
    check_indexes(functions["name"], len(strings))
    check_indexes(functions["fileName"], len(strings), None)
    check_indexes(functions["resource"], len(resources["lib"]), -1)
    check_indexes(resources["lib"], len(profile["libs"]))
    check_indexes(resources["name"], len(strings))
    check_indexes(samples["stack"], len(stacks["frame"]), None)
    assert samples["time"] == sorted(samples["time"]) and samples["stack"][-1] is None
    for key in ("pid", "tid", "name", "processName"):
        assert isinstance(thread[key], str)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("options", OPTIONS)
def test_everything_points_at_something(written, case, options):
    profile = load(written(case, "gecko", *options))
    meta = profile["meta"]
    assert meta["preprocessedProfileVersion"] == 48 and meta["version"] == 29
    assert meta["interval"] == 10 and meta["startTime"] == 1_700_000_000_000
    assert {category["color"] for category in meta["categories"]} <= set(COLORS)
    assert "grey" in {category["color"] for category in meta["categories"]}
    for thread in profile["threads"]:
        check_thread(thread, profile)


def stack_names(thread, stack):
    """Functions from the root."""
    names = []
    while stack is not None:
        function = thread["frameTable"]["func"][thread["stackTable"]["frame"][stack]]
        names.append(thread["stringArray"][thread["funcTable"]["name"][function]])
        stack = thread["stackTable"]["prefix"][stack]
    return names[::-1]


def spans(thread):
    """[(start, end, stack)], the end being where the next one starts."""
    times, stacks = thread["samples"]["time"], thread["samples"]["stack"]
    return list(zip(times, times[1:], stacks))


def test_time_is_real_and_gaps_are_gaps(written, basic):
    profile = load(written("basic", "gecko"))
    assert len(profile["threads"]) == len(basic)
    for thread, samples in zip(profile["threads"], basic.values()):
        seen = [
            (round(end), stack_names(thread, stack))
            for start, end, stack in spans(thread)
            if stack is not None
        ]
        assert seen == [sample for sample in samples if sample[1]]
        for start, end, stack in spans(thread):
            assert stack is None or end - start == pytest.approx(10)


def test_processes_and_threads_are_named(written):
    for options in OPTIONS:
        threads = load(written("basic", "gecko", *options))["threads"]
        told = [(t["pid"], t["tid"], t["name"], t["isMainThread"]) for t in threads]
        assert told == [
            ("100", "100", "MainThread", True),
            ("100", "101", 'worker; "1"', False),
            ("120", "120", "Thread", True),
        ]
    assert [t["processName"] for t in threads] == [
        "python3 app.py",
        "python3 app.py",
        "python -c …",
    ]


@pytest.mark.parametrize(
    ("option", "lines"), [((), {7, 9}), (("--function",), {5}), (("--nolineno",), {None})]
)
def test_lines(written, option, lines):
    thread = load(written("basic", "gecko", *option))["threads"][0]
    load_function = thread["funcTable"]["name"].index(thread["stringArray"].index("load"))
    frames = thread["frameTable"]
    assert {
        line for line, function in zip(frames["line"], frames["func"]) if function == load_function
    } == lines


def test_native_code_has_its_library(written):
    profile = load(written("basic", "gecko"))
    thread = profile["threads"][1]
    functions = thread["funcTable"]
    row = functions["name"].index(thread["stringArray"].index("SSL_write"))
    resource = functions["resource"][row]
    assert thread["stringArray"][thread["resourceTable"]["name"][resource]] == "libssl.so.3"
    assert profile["libs"][thread["resourceTable"]["lib"][resource]]["path"] == "/lib/libssl.so.3"
    assert [r for r in functions["resource"] if r != -1] == [resource]


def test_what_a_sample_weighs(written):
    samples = load(written("basic", "gecko"))["threads"][0]["samples"]
    assert samples["weight"] is None and samples["weightType"] == "samples"
    for case in ("cpu", "varied"):
        samples = load(written(case, "gecko"))["threads"][0]["samples"]
        assert samples["weightType"] == "tracing-ms"
        weights = [w for w, stack in zip(samples["weight"], samples["stack"]) if stack is not None]
        assert weights == pytest.approx([10] * 7)


def test_categories(written):
    profile = load(written("basic", "gecko"))
    names = [category["name"] for category in profile["meta"]["categories"]]
    found = {}
    for thread in profile["threads"]:
        for stack, category in enumerate(thread["stackTable"]["category"]):
            found[stack_names(thread, stack)[-1]] = names[category]
    assert found == {
        "<module>": "Python",
        "App.run": "Python",
        "load": "Python",
        "decode": "Python standard library",
        "Thread._bootstrap": "Python standard library",
        "post": "Python packages",
        "SSL_write": "Native",
    }


def test_waiting_and_collecting_are_categories_of_the_same_function(written):
    profile = load(written("waiting", "gecko"))
    names = [category["name"] for category in profile["meta"]["categories"]]
    (thread,) = profile["threads"]
    categories = thread["stackTable"]["category"]
    seen = [(stack_names(thread, stack), names[categories[stack]]) for _, _, stack in spans(thread)]
    get = ["<module>", "get"]
    assert seen == [
        (get, "Python"),
        (get, "Idle"),
        (get, "Idle"),
        (get, "Garbage collection"),
        (get, "Python"),
        (["<module>"], "Idle"),
    ]
    assert thread["funcTable"]["length"] == 2


@pytest.fixture
def short_folder():
    """The path of a socket must be short."""
    with tempfile.TemporaryDirectory(prefix="gecko-") as folder:
        yield folder


@pytest.fixture
def firefox_profiler(short_folder):
    """The Firefox Profiler's own program for the command line: ask(FILE, WORD...) -> what it says, as JSON."""
    if not PROFILER.exists():
        pytest.skip("the Firefox Profiler's command line is not installed")
    environment = dict(os.environ, PROFILER_CLI_SESSION_DIR=short_folder)

    def run(*words):
        return subprocess.run(
            [NODE, PROFILER, *words],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        ).stdout

    def ask(path, *questions):
        run("load", path)
        try:
            return [json.loads(run(*question, "--json")) for question in questions]
        finally:
            run("stop", "--all")

    return ask


def plain(function):
    """It shows LIBRARY!FUNCTION."""
    return function["name"].rpartition("!")[2]


def test_the_firefox_profiler_reads_the_same(written, basic, firefox_profiler, tmp_path):
    path = tmp_path / "basic.json"
    written("basic", "gecko").rename(path)
    questions = [("profile", "info", "--all")]
    questions += [
        ("thread", "samples", "--include-idle", "--thread", f"t-{i}") for i in range(len(basic))
    ]
    about, *threads = firefox_profiler(path, *questions)
    assert about["name"] == "python3 app.py" and about["threadCount"] == 3
    assert [process["pid"] for process in about["processes"]] == ["100", "120"]
    for thread, samples in zip(threads, basic.values()):
        total = Counter(name for _, frames in samples for name in set(frames))
        own = Counter(frames[-1] for _, frames in samples if frames)
        found = thread["topFunctionsByTotal"]
        assert {plain(f): f["totalSamples"] for f in found} == total
        assert {plain(f): f["selfSamples"] for f in found if f["selfSamples"]} == own


def test_the_firefox_profiler_knows_who_waits(written, firefox_profiler, tmp_path):
    path = tmp_path / "waiting.json"
    written("waiting", "gecko").rename(path)
    (thread,) = firefox_profiler(path, ("thread", "samples", "--include-idle"))
    found = {c["name"]: c["samples"] for c in thread["categoryBreakdown"]["categories"]}
    assert found == {"Python": 2, "Idle": 3, "Garbage collection": 1}
