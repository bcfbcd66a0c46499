"""`record --mode`: CPU time as the target's own clocks have it, in every format that has figures."""

import gzip
import json
import re
import signal

import harness
import pytest
from test_record import raw_stacks, recording

pytestmark = pytest.mark.one_of_each

# What is tested depends little on the interpreter.
PYTHONS = pytest.mark.pythons(since=(3, 13), until=(3, 13))


def microseconds_in(stacks, name, without=None):
    """With the function on the stack, and another one not."""

    def has(stack, function):
        return any(frame.split(" (")[0] == function for frame in stack)

    return sum(n for s, n in stacks.items() if has(s, name) and not (without and has(s, without)))


def record_cpu_time(python, out, *threads):
    """Records CPU time, and returns what the target says it used."""
    with harness.run_target(python, "cpu_time.py", *threads) as target:
        args = ["-p", target.pid, "--mode", "cpu", "-r", "500", "-f", "scry", "-o", out]
        with recording(*args) as process:
            target.release()
            spent = json.loads(target.read_line())
            assert target.process.wait() == 0
            assert process.wait(timeout=harness.PATIENCE) == 0, process.stderr.read()
    return spent


@pytest.fixture
def recorded(python, tmp_path):
    out = tmp_path / "run.scry"
    return out, record_cpu_time(python, out)


def converted(out, form, *flags):
    path = out.with_suffix("." + form)
    harness.scry("convert", "-f", form, "-o", path, *flags, out)
    return path


@PYTHONS
def test_cpu_time_is_that_of_the_targets_clocks(recorded):
    out, spent = recorded
    stacks = raw_stacks(converted(out, "raw"))
    for name in ("small", "large"):
        assert microseconds_in(stacks, name) / 1e6 == pytest.approx(spent[name][0], rel=0.05)
    assert microseconds_in(stacks, "bursts") / 1e6 == pytest.approx(spent["bursts"][0], rel=0.3)
    # What starts and joins the threads is part of the process, too.
    assert sum(stacks.values()) / 1e6 == pytest.approx(spent["process"], rel=0.07)


@PYTHONS
def test_cpu_time_is_where_it_computes_not_where_it_sleeps(python, tmp_path):
    """A thread woken up that waits for a CPU cannot be told from one that has it; no more than that may be wrong."""
    out = tmp_path / "run.scry"
    ran, waited = record_cpu_time(python, out, "bursts")["bursts"]
    stacks = raw_stacks(converted(out, "raw"))
    all_of_it = microseconds_in(stacks, "bursts")
    assert all_of_it / 1e6 == pytest.approx(ran, rel=0.2)
    assert microseconds_in(stacks, "doze") / all_of_it < waited / (ran + waited) + 0.2


@PYTHONS
def test_every_format_tells_cpu_time(recorded):
    out, _ = recorded
    total = sum(raw_stacks(converted(out, "raw")).values()) / 1e6

    scope = json.loads(converted(out, "speedscope").read_text())
    # A thread that begins or ends uses time without a Python frame: a gap here, and no line there.
    weights = [
        weight
        for p in scope["profiles"]
        for stack, weight in zip(p["samples"], p["weights"], strict=True)
        if stack
    ]
    assert sum(weights) == pytest.approx(total, rel=0.01)
    for profile in scope["profiles"]:
        assert profile["startValue"] == 0
        assert profile["endValue"] == pytest.approx(sum(profile["weights"]))

    svg = converted(out, "flamegraph").read_text()
    assert f" · {total:.2f} s of CPU time over " in svg
    assert re.search(rf"<title>all \({total:.3f} s of CPU, 100\.00%\)", svg)
    assert 'unit="us"' in svg

    profile = gzip.decompress(converted(out, "pprof").read_bytes())
    assert b"cpu" in profile and b"wall" not in profile

    assert json.loads(converted(out, "chrometrace").read_text())


@PYTHONS
def test_a_diff_compares_cpu_time(recorded, tmp_path):
    out, _ = recorded
    result = json.loads(harness.scry("diff", "-f", "json", out, out).stdout)
    assert result["percent_of"] == "CPU time"
    own = {f["function"]: f["own"]["after"] for f in result["functions"]}
    assert sum(own.values()) == pytest.approx(100, abs=1)
    assert own["burn"] > 80
    svg = tmp_path / "d.svg"
    harness.scry("diff", "-o", svg, out, out)
    assert "percent of CPU time" in svg.read_text()


@PYTHONS
def test_a_diff_of_different_modes_is_refused(recorded, python, tmp_path):
    out, _ = recorded
    wall = tmp_path / "wall.scry"
    with harness.run_target(python, "spin.py") as target:
        harness.scry("record", "-p", target.pid, "-d", "0.1", "-f", "scry", "-o", wall)
    refused = harness.scry("diff", out, wall, check=False)
    assert refused.returncode == 2
    assert f"'{out}' is a recording of CPU time and '{wall}' is not" in refused.stderr


@PYTHONS
def test_time_before_the_recording_is_not_counted(python, tmp_path):
    """The main thread has run for a while when scry comes."""
    out = tmp_path / "out.txt"
    with harness.run_target(python, "spin.py") as target:
        harness.until_it_computes(target.pid, target.pid, 500_000_000)
        start = harness.run_time(target.pid, target.pid)
        args = ["-p", target.pid, "--mode", "cpu", "-f", "raw", "-o", out]
        with recording(*args) as process:
            harness.until_it_computes(target.pid, target.pid, 300_000_000)
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=harness.PATIENCE) == 0, process.stderr.read()
        ran = harness.run_time(target.pid, target.pid) - start
    assert 100_000 < sum(raw_stacks(out).values()) <= ran / 1000


@PYTHONS
def test_mode_gil_is_gil(python, tmp_path):
    out = tmp_path / "out.scry"
    with harness.run_target(python, "spin.py") as target:
        for flags in (["--mode", "gil"], ["--gil"]):
            harness.scry("record", "-p", target.pid, *flags, "-d", "0.2", "-f", "scry", "-o", out)
            stacks = harness.scry("convert", "-t", "-f", "raw", "-o", "-", out).stdout
            assert "spin (" in stacks and "wait (" not in stacks


@pytest.mark.parametrize(
    "flags, says",
    [
        (["--mode", "cpu", "--idle"], "--idle and --mode cpu contradict each other"),
        (["--mode", "cpu", "--gil"], "--gil and --mode cpu contradict each other"),
        (["--mode", "wall", "--gil"], "--gil and --mode wall contradict each other"),
        (["--mode", "tick"], "'tick'"),
    ],
)
def test_contradictions(flags, says):
    refused = harness.scry("record", "-p", "1", *flags, check=False)
    assert refused.returncode == 2
    assert says in refused.stderr


@PYTHONS
def test_a_program_that_only_waits(python, tmp_path):
    out = tmp_path / "o.svg"
    with harness.run_target(python, "cpu_time.py") as target:
        harness.until_blocked_in(target.pid, target.pid, {0})
        done = harness.scry("record", "-p", target.pid, "--mode", "cpu", "-d", "0.2", "-o", out)
    assert "no samples, because no thread used the CPU" in done.stderr
    assert "No thread used the CPU" in out.read_text()
