"""`record --subprocesses`, and processes that turn into others while they are recorded."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys

import harness
import pytest
import pythons
from test_record import raw_stacks, recording, until_seen, until_ticks

pytestmark = pytest.mark.one_of_each


@contextlib.contextmanager
def family(python):
    """tree.py with the reports of all its members, by role."""
    with harness.run_target(python, "tree.py") as target:
        reports = {target.report["role"]: target.report}
        while target.report["role"] != "parent":
            target.read_report()
            reports[target.report["role"]] = target.report
        yield target, reports


def test_every_member_is_recorded_under_its_ancestors(python, tmp_path):
    out = tmp_path / "out.txt"
    with family(python) as (target, reports):
        flags = ["-s", "--idle", "-f", "raw", "-d", "0.5", "--full-filenames"]
        harness.scry("record", "-p", target.pid, "-o", out, *flags)
        assert target.finish() == 0
    seen = set()
    for stack in raw_stacks(out):
        pids = [int(word) for word in re.findall(r"process (\d+):", " ".join(stack))]
        frames = tuple(frame for frame in stack if not frame.startswith("process "))
        seen.add((tuple(pids), frames))
    ancestors = {role: (target.pid, report["pid"]) for role, report in reports.items()}
    ancestors["parent"] = (target.pid,)
    ancestors["grandchild"] = (target.pid, reports["forked"]["pid"], reports["grandchild"]["pid"])
    for role, report in reports.items():
        frames = tuple(reversed(harness.show(report["threads"][0]["frames"])))
        assert (ancestors[role], frames) in seen, role
    assert len(seen) == len(reports)


def different_pythons():
    """Pairs of neighbours in age, so that every interpreter of this machine starts another once."""
    found = [python for python in pythons.found() if not python.root and python.minor > (3, 0)]
    return list(zip(found, found[1:] + found[:1]))


@pytest.mark.parametrize(
    "pair", different_pythons(), ids=lambda pair: f"{pair[0].id}-to-{pair[1].id}"
)
@pytest.mark.parametrize("flags", [(), ("-s",)], ids=["alone", "tree"])
def test_a_process_that_becomes_another_python_is_followed(pair, flags, tmp_path):
    out = tmp_path / "out.txt"
    first, second = pair
    argv = first.argv(harness.TARGETS / "execs.py", second.path)
    go_read, go_write = os.pipe()
    env = dict(os.environ, SCRY_TEST_GO=str(go_read))
    with harness.start(argv, env=env, pass_fds=[go_read]) as target:
        with recording("-p", target.pid, "-o", out, "-f", "raw", "-r", "200", *flags) as process:
            until_seen(process, out, "before (execs.py")
            os.write(go_write, b".")
            target.read_report()
            assert tuple(target.report["version"]) == second.version
            until_seen(process, out, "after (execs.py")
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=harness.PATIENCE)
            assert process.returncode == 0, said
        assert target.finish() == 0
    os.close(go_read)
    os.close(go_write)
    text = out.read_text()
    assert "before (execs.py" in text
    assert "after (execs.py" in text


def test_a_child_that_starts_meanwhile_is_recorded(python, tmp_path):
    """The parent starts one child after another; every one of them lives for some tenths of a second."""
    out = tmp_path / "out.txt"
    code = """
import subprocess, sys
for _ in range(3):
    subprocess.check_call([sys.executable, sys.argv[1], "0.4"], close_fds=False)
"""
    script = tmp_path / "parent.py"
    script.write_text(code)
    with harness.start(python.argv(script, harness.TARGETS / "work.py")) as target:
        harness.scry("record", "-s", "-p", target.process.pid, "-o", out, "-f", "raw", "-d", "30")
    text = out.read_text()
    assert "heavy (work.py" in text


@contextlib.contextmanager
def word_to_go():
    """A pipe for the target, and a function that gives it the word."""
    readable, writable = os.pipe()
    try:
        yield readable, lambda: os.write(writable, b".\n")
    finally:
        os.close(readable)
        os.close(writable)


def stop_recording(process):
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=harness.PATIENCE)
    assert process.returncode == 0, said


def test_a_pid_that_is_given_out_again_is_another_process(some_python, tmp_path):
    out = tmp_path / "out.txt"
    with word_to_go() as (readable, go):
        env = dict(os.environ, SCRY_TEST_GO=str(readable))
        argv = some_python.argv(harness.TARGETS / "lives.py")
        with harness.start(argv, env=env, pass_fds=[readable]) as target:
            pid = target.report["child"]
            with recording("-s", "-p", target.pid, "-o", out, "-f", "raw", "-r", "200") as process:
                until_seen(process, out, "first_life (lives.py")
                go()
                if target.read_report()["child"] != pid:
                    pytest.skip("a pid cannot be chosen here")
                until_seen(process, out, "second_life (lives.py")
                stop_recording(process)
    for stack in raw_stacks(out):
        lives = [f for f in stack if "_life " in f]
        assert not lives or any(f.startswith(f"process {pid}:") for f in stack)


def test_python_that_starts_late_is_found(some_python, tmp_path):
    """A shell that has long been known as no Python turns into one."""
    out = tmp_path / "out.txt"
    with word_to_go() as (readable, go):
        python = " ".join(some_python.argv(harness.TARGETS / "execs.py"))
        late = f"read word; exec {python}"
        parent = (
            "import os, subprocess, sys; go = int(os.environ['SCRY_TEST_GO']);"
            "subprocess.call(['sh', '-c', sys.argv[1]], stdin=go, close_fds=False)"
        )
        env = dict(os.environ, SCRY_TEST_GO=str(readable))
        argv = [*some_python.argv("-c"), parent, late]
        with harness.start(argv, env=env, pass_fds=[readable], report=False) as target:
            flags = ["-s", "-i", "-o", out, "-f", "raw", "-r", "200"]
            with recording("-p", target.process.pid, *flags) as process:
                until_seen(process, out, "call (subprocess.py")
                until_ticks(process.pid, 100)  # it is asked less and less often
                go()
                until_seen(process, out, "after (execs.py")
                stop_recording(process)
            assert target.finish() == 0


SHORT_LIVED = """
import os, subprocess, sys
def brief(number):
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    if number % 2:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # a zombie for a moment
    os.waitpid(pid, 0)
for number in range(300):
    brief(number)
for _ in range(20):
    subprocess.call(["true"])
"""


def test_short_lives_harm_nobody(some_python, tmp_path):
    out, stats = tmp_path / "out.txt", tmp_path / "stats.json"
    script = tmp_path / "parent.py"
    script.write_text(SHORT_LIVED)
    flags = ["-s", "-r", "500", "-f", "raw", "-o", out, "--stats", stats]
    done = harness.scry("record", *flags, "--", *some_python.argv(script))
    assert done.returncode == 0
    assert "brief (parent.py" in out.read_text()
    assert json.loads(stats.read_text())["errors"] == 0


def test_recordings_are_merged(some_python, tmp_path):
    counts = []
    for number in range(2):
        with harness.run_target(some_python, "work.py") as target:
            out = tmp_path / f"{number}.scry"
            harness.scry("record", "-p", target.pid, "-o", out, "-f", "scry", "-d", "0.3")
            single = tmp_path / f"{number}.txt"
            harness.scry("convert", out, "-f", "raw", "-o", single)
            counts.append(sum(raw_stacks(single).values()))
    merged = tmp_path / "merged.txt"
    harness.scry("convert", tmp_path / "0.scry", tmp_path / "1.scry", "-f", "raw", "-o", merged)
    assert sum(raw_stacks(merged).values()) == sum(counts) > 0


TRACER = r"""
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
SEIZE = 0x4206
for tid in os.listdir("/proc/%s/task" % sys.argv[1]):
    if libc.ptrace(SEIZE, int(tid), None, None):
        sys.exit("cannot trace: %d" % ctypes.get_errno())
print("traced", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def traced(pid):
    """Somebody else traces every thread of the process, as a debugger does."""
    tracer = subprocess.Popen(
        [sys.executable, "-c", TRACER, str(pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert tracer.stdout.readline() == "traced\n"
        yield
    finally:
        tracer.communicate()


@pytest.mark.parametrize("script", ["plain.py", "spin.py"])
def test_a_process_under_a_debugger_can_be_looked_at(python, script):
    with harness.run_target(python, script) as target, traced(target.pid):
        harness.assert_same_stacks(target, harness.dump(target.pid))


def test_who_traces_a_process_is_told(some_python, tmp_path):
    """Its threads cannot be stopped then: native frames of a running one are missing, and it is said why."""
    out = tmp_path / "out.txt"
    with harness.run_target(some_python, "spin.py") as target:
        plain = harness.scry("dump", "--native", "-p", target.pid)
        assert "traced by" not in plain.stderr
        with traced(target.pid):
            dumped = harness.scry("dump", "--native", "-p", target.pid)
            recorded = harness.scry(
                "record", "--native", "-d", "0.2", "-f", "raw", "-o", out, "-p", target.pid
            )
    for result in (dumped, recorded):
        assert result.returncode == 0
        assert f"process {target.pid} is traced by process " in result.stderr
        assert "cannot be stopped" in result.stderr
    assert "native frames not read" in dumped.stdout and "spin.py" in dumped.stdout
    assert out.read_text()
