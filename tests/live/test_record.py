"""`record` on known workloads: what it measures, when it ends, and what it leaves behind."""

import collections
import contextlib
import gzip
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree

import harness
import pytest

pytestmark = pytest.mark.one_of_each

FORMATS = ["flamegraph", "raw", "speedscope", "chrometrace", "gecko", "pprof", "scry"]


def raw_stacks(path):
    """{stack as a tuple of frame texts: samples}"""
    stacks = collections.Counter()
    for line in path.read_text().splitlines():
        stack, count = line.rsplit(" ", 1)
        stacks[tuple(stack.split(";"))] += int(count)
    return stacks


def record(target, out, *flags, **options):
    return harness.scry("record", "-p", target.pid, "-o", out, *flags, **options)


def raw(target, tmp_path, *flags):
    out = tmp_path / "out.txt"
    record(target, out, "-f", "raw", *flags)
    return raw_stacks(out)


def samples_in(stacks, name):
    """Samples with this function on top."""
    return sum(count for stack, count in stacks.items() if stack[-1].split(" (")[0] == name)


def numbers_at_the_end(text):
    """The figures of the closing line: samples, torn, missed, late."""
    found = re.search(r"(\d+) samples, (\d+) torn, (\d+) missed, (\d+) late", text)
    assert found, text
    return dict(zip(("samples", "torn", "missed", "late"), map(int, found.groups())))


@contextlib.contextmanager
def recording(*args):
    """scry record in the background, from its first tick on."""
    process = harness.start_scry("record", *args)
    try:
        line = process.stderr.readline()
        assert "sampling process" in line, line + process.stderr.read()
        until_ticks(process.pid, 5)
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def switches(pid):
    text = (harness.pathlib.Path(f"/proc/{pid}/status")).read_text()
    return int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", text, re.MULTILINE).group(1))


def until_ticks(pid, count):
    """The sampler sleeps between ticks, so its voluntary context switches count them."""
    start = switches(pid)
    harness.until(lambda: switches(pid) >= start + count, "the sampler ticks")


def until_seen(process, out, *texts):
    """Have what there is so far written again and again until all of this is in it."""
    deadline = time.monotonic() + harness.PATIENCE
    while True:
        process.send_signal(signal.SIGUSR1)
        said = process.stderr.readline()
        assert "so far" in said, said + process.stderr.read()
        missing = [text for text in texts if text not in out.read_text()]
        if not missing:
            return
        assert time.monotonic() < deadline, f"never seen: {missing}"


def assert_unharmed(target):
    assert harness.tracer_of(target.pid) == 0
    assert harness.state_letter(target.pid) in "RS"
    assert target.finish() == 0


@contextlib.contextmanager
def computing(python):
    """busy_and_native.py, once both of its threads are at their work."""
    with harness.run_target(python, "busy_and_native.py") as target:
        for label in ("main", "compares"):
            harness.until_it_computes(target.pid, target.thread(label)["native_id"])
        yield target


# --- what it measures --------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [(), ("--nonblocking",)], ids=["default", "nonblocking"])
def test_shares_are_those_of_the_target_itself(python, tmp_path, flags):
    with harness.run_target(python, "work.py") as target:
        stacks = raw(target, tmp_path, "-d", "1.5", "-r", "300", *flags)
        target.release()
        spent = json.loads(target.read_line())
        assert target.process.wait() == 0
    heavy, light = samples_in(stacks, "heavy"), samples_in(stacks, "light")
    share = spent["heavy"] / (spent["heavy"] + spent["light"])
    total = heavy + light
    assert total > 30, stacks
    assert abs(heavy - total * share) < 6 * math.sqrt(total * share * (1 - share)), (
        heavy,
        light,
        share,
    )


def test_every_stack_is_one_the_program_can_have(python, tmp_path):
    with harness.run_target(python, "work.py") as target:
        stacks = raw(target, tmp_path, "-d", "1", "-r", "1000", "--nolineno")
    possible = {("heavy",), ("light",), (), ("Random.expovariate",), ("expovariate",)}
    for stack in stacks:
        names = tuple(frame.split(" (")[0] for frame in stack)
        assert names[:2] in (("<module>", "work"), ("<module>",)), names
        assert names[2:] in possible, names


@pytest.mark.parametrize("reader, most", [("memory", 51), ("auto", 56)])
def test_never_more_samples_than_rate_and_duration_allow(reader, most, python, tmp_path):
    """The timers of the kernel are up to a tenth off, now too fast, now too slow."""
    with harness.run_target(python, "work.py") as target:
        out = tmp_path / "out.txt"
        done = record(target, out, "-f", "raw", "-d", "1", "-r", "50", "--reader", reader)
        end = numbers_at_the_end(done.stderr)
        assert end["samples"] == sum(raw_stacks(out).values())
        assert end["samples"] <= most
        if reader == "memory":  # which counts the looks that it was too late for
            assert end["samples"] + end["missed"] + end["late"] >= 45, end


def test_gil_keeps_the_holder_alone(python, tmp_path):
    if python.free_threaded:
        pytest.skip("no GIL")
    with computing(python) as target:
        stacks = raw(target, tmp_path, "-d", "0.5", "-r", "200", "--gil")
        assert samples_in(stacks, "computes") == sum(stacks.values()) > 0


def test_active_threads_are_kept_with_and_without_gil_and_idle_ones_are_not(python, tmp_path):
    with computing(python) as target:
        stacks = raw(target, tmp_path, "-d", "0.5", "-r", "200")
        computes, compares = samples_in(stacks, "computes"), samples_in(stacks, "compares")
        assert computes > 0
        assert abs(computes - compares) <= 2 + computes * 0.05, stacks
        assert samples_in(stacks, "waits") == 0


def test_idle_keeps_every_thread_at_every_tick(python, tmp_path):
    with computing(python) as target:
        stacks = raw(target, tmp_path, "-d", "0.5", "-r", "200", "--idle")
        counts = [samples_in(stacks, name) for name in ("computes", "compares", "waits")]
        assert min(counts) > 0
        assert max(counts) - min(counts) <= 2, stacks


def test_threads_gives_each_thread_a_root(python, tmp_path):
    with computing(python) as target:
        stacks = raw(target, tmp_path, "-d", "0.3", "--idle", "--threads")
        roots = {stack[0] for stack in stacks}
        expected = {
            f"thread ({said['native_id']}): {said['name']}" for said in target.report["threads"]
        }
        assert roots == expected


def test_line_options(some_python, tmp_path):
    with harness.run_target(some_python, "plain.py") as target:
        frames = target.thread("main")["frames"][:1]
        leaf, short = frames[0], os.path.basename(frames[0]["filename"])

        def top(*flags):
            stacks = raw(target, tmp_path, "--idle", "-d", "0.2", *flags)
            return {stack[-1] for stack in stacks if stack[-1].startswith("innermost")}

        assert top() == {f"innermost ({short}:{leaf['line']})"}
        assert top("--function") == {f"innermost ({short}:{leaf['line'] - 1})"}
        assert top("--nolineno") == {f"innermost ({short})"}
        assert top("--full-filenames") == {f"innermost ({leaf['filename']}:{leaf['line']})"}


# --- formats -----------------------------------------------------------------------------------------------


def check_flamegraph(path):
    root = xml.etree.ElementTree.parse(path).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "heavy (work.py" in path.read_text()


def check_raw(path):
    assert samples_in(raw_stacks(path), "heavy") > 0


def check_speedscope(path):
    data = json.loads(path.read_text())
    assert {tuple(frame) for frame in data["shared"]["frames"]} == {("name", "file", "line", "col")}
    (profile,) = data["profiles"]
    assert len(profile["samples"]) == len(profile["weights"]) > 0
    names = {data["shared"]["frames"][stack[-1]]["name"] for stack in profile["samples"]}
    assert {"heavy", "light"} <= names


def check_chrometrace(path):
    events = json.loads(path.read_text())
    events = events["traceEvents"] if isinstance(events, dict) else events
    begun = collections.Counter(event["ph"] for event in events)
    assert begun["B"] == begun["E"] > 0 or begun["X"] > 0
    assert any(event["name"].startswith("heavy") for event in events)


def check_gecko(path):
    data = json.loads(path.read_text())
    (thread,) = data["threads"]
    names = [thread["stringArray"][name] for name in thread["funcTable"]["name"]]
    leaves = set()
    for stack in thread["samples"]["stack"]:
        if stack is not None:
            leaves.add(names[thread["frameTable"]["func"][thread["stackTable"]["frame"][stack]]])
    assert {"heavy", "light"} <= leaves


def check_pprof(path):
    assert b"heavy" in gzip.decompress(path.read_bytes())


def check_scry(path):
    out = path.with_suffix(".txt")
    harness.scry("convert", path, "-f", "raw", "-o", out)
    check_raw(out)


CHECKS = dict(
    zip(
        FORMATS,
        [
            check_flamegraph,
            check_raw,
            check_speedscope,
            check_chrometrace,
            check_gecko,
            check_pprof,
            check_scry,
        ],
    )
)


@pytest.mark.parametrize("format", FORMATS)
def test_each_format_can_be_read(some_python, tmp_path, format):
    out = tmp_path / "out"
    with harness.run_target(some_python, "work.py") as target:
        record(target, out, "-f", format, "-d", "0.5")
        assert_unharmed(target)
    CHECKS[format](out)


def test_one_recording_gives_every_format(some_python, tmp_path):
    source = tmp_path / "out.scry"
    with harness.run_target(some_python, "work.py") as target:
        record(target, source, "-f", "scry", "-d", "0.5")
    for format in FORMATS:
        out = tmp_path / f"converted-{format}"
        harness.scry("convert", source, "-f", format, "-o", out)
        CHECKS[format](out)


# --- ends --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["INT", "TERM"])
def test_a_signal_finishes_the_file(some_python, tmp_path, number):
    out = tmp_path / "out.txt"
    with harness.run_target(some_python, "work.py") as target:
        with recording("-p", target.pid, "-f", "raw", "-o", out) as process:
            assert not out.exists()
            process.send_signal(number)
            _, said = process.communicate(timeout=harness.PATIENCE)
            assert process.returncode == 0, said
        assert sum(raw_stacks(out).values()) == numbers_at_the_end(said)["samples"] > 0
        assert_unharmed(target)


def test_the_end_of_the_target_finishes_the_file(python, tmp_path):
    out = tmp_path / "out.txt"
    with harness.run_target(python, "work.py") as target:
        with recording("-p", target.pid, "-f", "raw", "-o", out) as process:
            assert target.finish() == 0
            _, said = process.communicate(timeout=harness.PATIENCE)
            assert process.returncode == 0, said
    assert sum(raw_stacks(out).values()) > 0


def test_the_output_is_replaced_whole_or_not_at_all(some_python, tmp_path):
    out = tmp_path / "out.txt"
    out.write_text("old\n")
    with harness.run_target(some_python, "work.py") as target:
        with recording("-p", target.pid, "-f", "raw", "-o", out) as process:
            assert out.read_text() == "old\n"
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=harness.PATIENCE)
        assert sum(raw_stacks(out).values()) > 0
        assert os.listdir(tmp_path) == ["out.txt"]


def test_killing_scry_leaves_the_target_running_and_a_recording_to_read(python, tmp_path):
    out = tmp_path / "out.scry"
    with harness.run_target(python, "work.py") as target:
        with recording("-p", target.pid, "-f", "scry", "-o", out, "-r", "500") as process:
            (file,) = tmp_path.iterdir()
            head = harness.until(lambda: file.stat().st_size, "the head is written")
            harness.until(lambda: file.stat().st_size > head, "samples are written")
            process.kill()
            process.wait()
        left = list(tmp_path.iterdir())
        assert len(left) == 1
        readable = tmp_path / "left.txt"
        harness.scry("convert", left[0], "-f", "raw", "-o", readable)
        assert sum(raw_stacks(readable).values()) > 0
        assert_unharmed(target)


@pytest.mark.parametrize("flags", [(), ("--blocking=always",)], ids=["default", "blocking"])
def test_no_signal_to_the_target_is_lost(python, tmp_path, flags):
    with harness.run_target(python, "signals.py") as target:
        with recording("-p", target.pid, "-o", tmp_path / "out.svg", "-r", "1000", *flags):
            for _ in range(100):
                target.process.send_signal(signal.SIGUSR1)
                assert target.read_line() == b"got it"
        assert_unharmed(target)


@contextlib.contextmanager
def starved(pid):
    """The process gets next to no time: it runs only when nobody else wants its CPU, and somebody always does."""
    cpu = min(os.sched_getaffinity(0))
    hog = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        os.sched_setaffinity(hog.pid, [cpu])
        os.sched_setaffinity(pid, [cpu])
        os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
        yield
    finally:
        hog.kill()
        hog.wait()


def test_a_thread_that_is_slow_to_stop_is_let_go_all_the_same(some_python, tmp_path):
    flags = ("-r", "20")
    with harness.run_target(some_python, "signals.py") as target, starved(target.pid):
        with recording("-p", target.pid, "-o", tmp_path / "out.svg", *flags):
            for _ in range(5):
                target.process.send_signal(signal.SIGUSR1)
                assert target.read_line() == b"got it"


def test_an_idle_target_gives_a_valid_empty_flame_graph_that_names_idle(python, tmp_path):
    out = tmp_path / "out.svg"
    with harness.run_target(python, "plain.py") as target:
        for said in target.report["threads"]:
            harness.until_blocked_in(target.pid, said["native_id"], (0,))
        done = record(target, out, "-d", "0.3")
        assert_unharmed(target)
    assert xml.etree.ElementTree.parse(out).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    assert "--idle" in out.read_text()
    assert "--idle" in done.stdout + done.stderr


# --- launched programs -------------------------------------------------------------------------------------


def launch(python, out, *args, flags=(), script="launched.py", **options):
    argv = [harness.scry_binary(), "record", "-o", str(out), "-f", "raw", *flags, "--"]
    argv += python.argv(harness.TARGETS / script, *map(str, args))
    return harness.start(argv, stderr=subprocess.PIPE, text=True, **options)


def until_sampling(target):
    line = target.process.stderr.readline()
    assert "sampling process" in line, line + target.process.stderr.read()
    until_ticks(target.process.pid, 3)


@pytest.mark.parametrize("end", [("exit", 0), ("exit", 3), ("signal", signal.SIGTERM), ("signal", signal.SIGKILL)],
                         ids=["0", "3", "TERM", "KILL"])  # fmt: skip
def test_the_exit_status_of_a_launched_program_passes_through(python, tmp_path, end):
    out = tmp_path / "out.txt"
    how, number = end[0], int(end[1])
    with launch(python, out, how, number) as target:
        until_sampling(target)
        assert target.finish() == (number if how == "exit" else 128 + number), (
            target.process.stderr.read()
        )
    assert sum(raw_stacks(out).values()) > 0


def test_the_end_of_the_duration_ends_a_launched_program(python, tmp_path):
    out = tmp_path / "out.txt"
    with launch(python, out, "exit", 9, flags=("-d", "0.3"), report=False) as target:
        (pid,) = harness.until(
            lambda: harness.children_of(target.process.pid), "the program is started"
        )
        started = harness.started_at(pid)
        assert target.process.wait(timeout=harness.PATIENCE) == 0
        assert harness.is_gone(pid, started)
    assert sum(raw_stacks(out).values()) > 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["INT", "TERM"])
def test_a_signal_to_scry_ends_the_launched_program_too(some_python, tmp_path, number):
    out = tmp_path / "out.txt"
    with launch(some_python, out, "exit", 9) as target:
        until_sampling(target)
        started = harness.started_at(target.report["pid"])
        target.process.send_signal(number)
        assert target.process.wait(timeout=harness.PATIENCE) == 0
        assert harness.is_gone(target.report["pid"], started)
    assert sum(raw_stacks(out).values()) > 0


def test_a_program_that_does_not_exist(tmp_path):
    done = harness.scry("record", "-o", tmp_path / "out.svg", "--", "/nowhere/python", check=False)
    assert done.returncode == 1
    assert "/nowhere/python" in done.stderr.splitlines()[0]
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("program", ["true", "false"])
def test_a_program_that_ends_before_python_starts(tmp_path, program):
    done = harness.scry("record", "-o", tmp_path / "out.svg", "--", program, check=False)
    assert done.returncode == 1
    assert f"'{program}'" in done.stderr.splitlines()[0]
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("place", ["missing/out.svg", "folder"], ids=["missing folder", "a folder"])
def test_a_bad_output_path_is_found_before_anything_starts(some_python, tmp_path, place):
    (tmp_path / "folder").mkdir()
    witness = tmp_path / "started"
    done = harness.scry(
        "record",
        "-o",
        tmp_path / place,
        "--",
        some_python.path,
        "-c",
        f"open({str(witness)!r}, 'w')",
        check=False,
    )
    assert done.returncode == 1
    assert str(tmp_path / place) in done.stderr.splitlines()[0]
    assert not witness.exists()
    assert os.listdir(tmp_path / "folder") == []
