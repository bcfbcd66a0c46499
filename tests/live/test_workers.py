"""`record --subprocesses` on programs with workers: every way to start them, every format they are written in."""

import contextlib
import gzip
import json
import re
import signal

import harness
import pytest
import pythons
from test_record import raw_stacks, recording, until_seen

pytestmark = pytest.mark.one_of_each

FUNCTIONS = {
    "process": "process_worker",
    "pool": "pool_worker",
    "executor": "executor_worker",
    "loader": "loader_fetch",
    "subprocess": "subprocess_worker",
}


def a_few_pythons():
    """Of some versions that differ much, one interpreter each."""
    found = [p for p in pythons.found() if not p.debug]
    by_minor = {p.minor: p for p in reversed(found)}
    chosen = [by_minor[m] for m in ((3, 8), (3, 11), (3, 13), (3, 15)) if m in by_minor]
    return chosen or [found[-1]]


@contextlib.contextmanager
def workers(python, method):
    with harness.run_target(python, "workers.py", method) as target:
        yield target, target.report["pids"]
        assert target.finish() == 0


def kinds_seen(stacks, pids):
    """Which kinds have a stack that ends in their function, below a root of their own process."""
    seen = set()
    for stack in stacks:
        roots = [int(n) for frame in stack for n in re.findall(r"^process (\d+):", frame)]
        for kind, function in FUNCTIONS.items():
            # The outermost frame may be a process that started this one: a fork server, a wrapper.
            if roots and roots[-1] == pids[kind] and any(f.startswith(function) for f in stack):
                seen.add(kind)
    return seen


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("interpreter", a_few_pythons(), ids=lambda p: p.id)
def test_workers_of_every_kind_and_method(interpreter, method, tmp_path):
    out = tmp_path / "out.txt"
    with workers(interpreter, method) as (target, pids):
        root = target.process.pid
        with recording("-s", "-p", root, "-f", "raw", "-o", out, "-r", "200") as process:
            until_seen(process, out, *(f"process {pid}:" for pid in pids.values()))
            until_seen(process, out, *(f";{function} (" for function in FUNCTIONS.values()))
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=harness.PATIENCE)
            assert process.returncode == 0, said
    assert kinds_seen(raw_stacks(out), pids) == set(FUNCTIONS)


def test_workers_that_start_while_it_records(some_python, tmp_path):
    """From the first line of the program on, although none of them is there yet."""
    out = tmp_path / "out.txt"
    argv = some_python.argv(harness.TARGETS / "workers.py", "spawn")
    with harness.start(argv, report=False) as target:
        with recording("-s", "-p", target.pid, "-f", "raw", "-o", out, "-r", "200") as process:
            pids = target.read_report()["pids"]
            until_seen(process, out, *(f"process {pid}:" for pid in pids.values()))
            until_seen(process, out, *(f";{function} (" for function in FUNCTIONS.values()))
            # The recording ends with the program.
            assert target.finish() == 0
            _, said = process.communicate(timeout=harness.PATIENCE)
            assert process.returncode == 0, said
    assert kinds_seen(raw_stacks(out), pids) == set(FUNCTIONS)


# ---- every format ----


@pytest.fixture(scope="module")
def recorded(some_python, tmp_path_factory):
    out = tmp_path_factory.mktemp("workers") / "run.scry"
    with workers(some_python, "spawn") as (target, pids):
        args = ["-s", "-i", "-d", "1.5", "-r", "100", "-f", "scry", "-o", out]
        harness.scry("record", "-p", target.process.pid, *args)
    return out, {"parent": target.process.pid, **pids}


def converted(recorded, form, *flags):
    path = recorded[0].with_suffix("." + form)
    harness.scry("convert", "-f", form, "-o", path, *flags, recorded[0])
    return path.read_bytes()


def test_folded_stacks_have_a_root_for_each_process(recorded):
    converted(recorded, "raw")
    stacks = raw_stacks(recorded[0].with_suffix(".raw"))
    assert kinds_seen(stacks, recorded[1]) == set(FUNCTIONS)
    parent = f"process {recorded[1]['parent']}:"
    assert all(stack[0].startswith(parent) for stack in stacks)


def test_flame_graph_has_a_box_for_each_process(recorded):
    text = converted(recorded, "flamegraph").decode()
    for kind, pid in recorded[1].items():
        assert f"process {pid}:" in text, kind


def test_speedscope_has_a_profile_for_each_process(recorded):
    profiles = json.loads(converted(recorded, "speedscope"))["profiles"]
    names = [profile["name"] for profile in profiles]
    for kind, pid in recorded[1].items():
        assert any(name.startswith(f"Process {pid} Thread {pid} ") for name in names), kind


def test_chrome_trace_has_every_process(recorded):
    events = json.loads(converted(recorded, "chrometrace"))
    events = events if isinstance(events, list) else events["traceEvents"]
    named = {event["pid"] for event in events if event["name"] == "process_name"}
    sliced = {event["pid"] for event in events if event["ph"] in "BX"}
    assert set(recorded[1].values()) <= named & sliced


def test_pprof_has_every_process(recorded):
    data = gzip.decompress(converted(recorded, "pprof"))
    for kind, pid in recorded[1].items():
        assert f"process {pid}:".encode() in data, kind
