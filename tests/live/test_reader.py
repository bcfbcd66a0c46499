"""`record --reader`: stacks read inside the kernel, in the middle of their threads, and when they are not."""

import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

import harness
import pytest
from test_mode import microseconds_in
from test_record import raw_stacks, recording, until_seen

pytestmark = pytest.mark.one_of_each

KERNEL = ("--reader", "kernel")
SINCE = (3, 6)
READ_THERE = pytest.mark.pythons(since=SINCE)
CLOCKS_OF_THREADS = pytest.mark.pythons(since=(3, 7))


def recorded(pid, tmp_path, *flags, seconds=1):
    """Stacks and statistics."""
    out, stats = tmp_path / "out.txt", tmp_path / "stats.json"
    words = ["-p", pid, "-d", seconds, "-f", "raw", "-o", out, "--stats", stats]
    harness.scry("record", *words, *flags)
    return raw_stacks(out), json.loads(stats.read_text())


def refused(pid, tmp_path, *flags):
    out = tmp_path / "refused.txt"
    done = harness.scry("record", "-p", pid, "-d", 1, "-o", out, *flags, check=False)
    assert not out.exists()
    return done


def functions(stacks):
    return {frame.split(" (")[0] for stack in stacks for frame in stack}


@contextlib.contextmanager
def running(python, code, *words):
    """A program that prints one line when it is ready and goes on until it is killed."""
    with subprocess.Popen(
        python.argv("-c", code, *words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout.readline()
            yield process
        finally:
            process.kill()


@READ_THERE
def test_shares_are_those_of_the_targets_own_clock(python, tmp_path):
    with harness.run_target(python, "work.py") as target:
        stacks, stats = recorded(target.pid, tmp_path, "-r", "1000", *KERNEL, seconds=2)
        target.release()
        spent = json.loads(target.read_line())
    assert stats["processes_read_in_kernel"] == 1, stats
    assert stats["stops"] == stats["torn"] == 0, stats
    counts = {
        name: sum(n for stack, n in stacks.items() if any(f.startswith(name + " (") for f in stack))
        for name in spent
    }
    share = spent["heavy"] / (spent["heavy"] + spent["light"])
    assert counts["heavy"] / (counts["heavy"] + counts["light"]) == pytest.approx(share, abs=0.06)
    assert set(functions(stacks)) >= {"work", "heavy", "light"}


@CLOCKS_OF_THREADS
def test_cpu_time_is_that_of_the_targets_clocks(python, tmp_path):
    """Threads that begin while it is recorded, by their own names."""
    out = tmp_path / "run.scry"
    with harness.run_target(python, "cpu_time.py", "small", "large") as target:
        args = ["-p", target.pid, "--mode", "cpu", "-r", "1000", "-f", "scry", "-o", out, *KERNEL]
        with recording(*args) as process:
            target.release()
            spent = json.loads(target.read_line())
            assert target.process.wait() == 0
            assert process.wait(timeout=harness.PATIENCE) == 0, process.stderr.read()
    text = out.with_suffix(".txt")
    harness.scry("convert", "-f", "raw", "--threads", "-o", text, out)
    stacks = raw_stacks(text)
    for name in ("small", "large"):
        assert microseconds_in(stacks, name) / 1e6 == pytest.approx(spent[name][0], rel=0.15), (
            stacks
        )
        assert any(name in frame for stack in stacks for frame in stack[:1]), stacks


@pytest.mark.pythons(until=(2, 7))
def test_python_2_is_read_from_outside(python, tmp_path):
    with harness.run_target(python, "work.py") as target:
        done = refused(target.pid, tmp_path, *KERNEL)
        assert done.returncode == 1
        assert "--reader memory" in done.stderr and "2.7" in done.stderr
        stacks, stats = recorded(target.pid, tmp_path, "--reader", "auto", seconds=1)
    assert stats["processes_read_in_kernel"] == 0
    assert "work" in functions(stacks)


@pytest.mark.parametrize(
    "flags",
    [
        ("--native",),
        ("--idle",),
        ("--gc",),
        ("--overhead", "1"),
        ("--rate", "20001"),
        ("--blocking", "always"),
    ],
)
def test_what_cannot_be_had_there_is_refused_or_read_from_outside(flags, kernel_python, tmp_path):
    with harness.run_target(kernel_python, "work.py") as target:
        done = refused(target.pid, tmp_path, *flags, *KERNEL)
        assert done.returncode == 2, done.stderr
        assert "kernel" in done.stderr
        _, stats = recorded(target.pid, tmp_path, "--reader", "auto", *flags, seconds=0.3)
    assert stats["processes_read_in_kernel"] == 0


def test_without_privilege_it_says_what_is_missing(as_root):
    """A user who may look into his own process from outside, but may not load programs into the kernel."""
    nobody = {"user": 65534, "group": 65534, "extra_groups": []}
    python = os.path.realpath(sys.executable)
    with tempfile.TemporaryDirectory() as folder:
        # pytest's folders are closed to others.
        os.chmod(folder, 0o777)
        binary = shutil.copy(harness.scry_binary(), folder)
        code = "print('ready', flush=True)\nwhile True: pass"
        argv = [python, "-S", "-c", code]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, cwd="/", **nobody) as process:
            try:
                assert process.stdout.readline()
                words = ["record", "-p", process.pid, "-d", "0.2", "-f", "raw", "-o", "-"]
                nobody["binary"] = binary
                done = harness.scry(*words, *KERNEL, check=False, **nobody)
                assert done.returncode == 1
                assert "CAP_BPF" in done.stderr
                assert "<module>" in harness.scry(*words, "--reader", "auto", **nobody).stdout
            finally:
                process.kill()


CHURN = """
import threading, time
def brief():
    until = time.thread_time() + 0.0002
    while time.thread_time() < until:
        pass
def start():
    thread = threading.Thread(target=brief)
    thread.start()
    thread.join()
print("ready", flush=True)
while True:
    start()
"""


def test_that_is_the_default_where_it_pays(kernel_python, tmp_path):
    with harness.run_target(kernel_python, "work.py") as target:
        _, stats = recorded(target.pid, tmp_path, seconds=1.5)
        assert stats["processes_read_in_kernel"] == 1
        _, stats = recorded(target.pid, tmp_path, seconds=0.5)
        assert stats["processes_read_in_kernel"] == 0, "over before the kernel is ready"
        _, stats = recorded(target.pid, tmp_path, "--reader", "memory", seconds=1.5)
        assert stats["processes_read_in_kernel"] == 0


@READ_THERE
@pytest.mark.parametrize("mode", ["wall", "cpu"])
def test_nothing_counts_twice_where_it_begins_outside(mode, python, tmp_path):
    """While the kernel is being prepared it is looked at from outside."""
    with running(python, "print('ready', flush=True)\nwhile True: pass") as process:
        ran = harness.run_time(process.pid, process.pid)
        stacks, stats = recorded(process.pid, tmp_path, "-r", "500", "--mode", mode, seconds=1.5)
        ran = (harness.run_time(process.pid, process.pid) - ran) / 1e9
    assert stats["processes_read_in_kernel"] == 1
    assert stats["memory_reads"] > 0
    if mode == "wall":
        assert stats["missed"] + stats["samples"] == pytest.approx(750, rel=0.12)
    else:
        assert sum(stacks.values()) / 1e6 == pytest.approx(ran, rel=0.1)


@pytest.mark.pythons(since=(3, 7))
def test_all_threads_are_stopped_at_one_moment(python, tmp_path):
    """The reference: threads that begin and end between two looks are there when everything stands still."""
    flags = ("-r", "200", "--blocking", "always")
    with running(python, CHURN) as process:
        stacks, stats = recorded(process.pid, tmp_path, *flags, seconds=1)
    assert stats["stops"] > stats["ticks"]
    brief = sum(n for stack, n in stacks.items() if any(f.startswith("brief (") for f in stack))
    assert brief > sum(stacks.values()) / 25, stacks


@CLOCKS_OF_THREADS
@pytest.mark.parametrize("mode", ["wall", "cpu"])
def test_brief_threads_have_their_share(mode, python, tmp_path):
    """Each of them runs for far less than a period in all its life."""
    flags = ("-r", "200", "--mode", mode, *KERNEL)
    with running(python, CHURN) as process:
        stacks, stats = recorded(process.pid, tmp_path, *flags, seconds=2)
    assert stats["processes_read_in_kernel"] == 1
    brief = sum(n for stack, n in stacks.items() if any(f.startswith("brief (") for f in stack))
    # On the wall it counts as well how long a thread takes to get a CPU once it is woken.
    assert brief > sum(stacks.values()) / (3 if mode == "cpu" else 8), stacks


BESIDE_ANOTHER = """
import os, sys
def both():
    while True:
        pass
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
if os.fork():
    print("ready", flush=True)
both()
"""


@READ_THERE
@pytest.mark.parametrize("mode", ["wall", "cpu"])
def test_waiting_for_a_cpu_is_time_on_the_wall(mode, python, tmp_path):
    """Two that have to share a CPU."""
    flags = ("-r", "500", "--mode", mode, *KERNEL)
    with running(python, BESIDE_ANOTHER) as process:
        with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
            (other,) = map(int, file.read().split())
        try:
            ran = harness.run_time(process.pid, process.pid)
            stacks, stats = recorded(process.pid, tmp_path, *flags, seconds=2)
            ran = (harness.run_time(process.pid, process.pid) - ran) / 1e9
        finally:
            os.kill(other, signal.SIGKILL)
    assert stats["processes_read_in_kernel"] == 1
    if mode == "cpu":
        assert sum(stacks.values()) / 1e6 == pytest.approx(ran, rel=0.2)
    else:
        assert sum(stacks.values()) == pytest.approx(2 * 500, rel=0.1)
        assert ran < 1.6  # it did wait


MADE = """
def make(n):
    made = {}
    exec(f"def made_{n}():\\n    for i in range(300): pass", made)
    made[f"made_{n}"]()
print("ready", flush=True)
n = 0
while True:
    make(n)
    n += 1
"""


@READ_THERE
def test_functions_that_come_and_go_are_not_missed(python, tmp_path):
    """Met for the first time they are asked for their names at once; if they are gone by then, and often, it is looked from
    outside. None gets the name of another: most are there once; where the program has to wait for a CPU, more often."""
    with running(python, MADE) as process:
        stacks, stats = recorded(process.pid, tmp_path, "-r", "500", *KERNEL, seconds=2)
    made = {s: n for s, n in stacks.items() if any(frame.startswith("made_") for frame in s)}
    assert len(made) > 3, stacks
    assert statistics.median(made.values()) <= 2, made
    assert stats["torn"] <= stats["samples"] / 20, stats


DOWN = """
import sys
def down(n):
    if n:
        return down(n - 1)
    print("ready", flush=True)
    while True:
        pass
sys.setrecursionlimit(10000)
down(int(sys.argv[1]))
"""


@READ_THERE
def test_a_deep_stack_is_whole(python, tmp_path):
    with running(python, DOWN, "900") as process:
        stacks, _ = recorded(process.pid, tmp_path, *KERNEL, seconds=0.5)
    assert {len(stack) for stack in stacks} == {902}


def test_a_deep_stack_is_read_from_outside_if_that_is_kinder(kernel_python, tmp_path):
    with running(kernel_python, DOWN, "1500") as process:
        flags = ("-r", "1000", "--reader", "auto")
        stacks, stats = recorded(process.pid, tmp_path, *flags, seconds=1.5)
    assert stats["processes_read_in_kernel"] == 0
    assert {len(stack) for stack in stacks} == {1502}


def test_a_stack_that_is_too_deep_is_read_from_outside(kernel_python, tmp_path):
    with running(kernel_python, DOWN, "3000") as process:
        stacks, stats = recorded(process.pid, tmp_path, "-r", "100", *KERNEL, seconds=2)
    assert stats["processes_read_in_kernel"] == 0
    assert {len(stack) for stack in stacks} == {3002}


def test_threads_are_chosen_by_name(kernel_python, tmp_path):
    with harness.run_target(kernel_python, "cpu_time.py", "small", "large") as target:
        out = tmp_path / "out.txt"
        args = ["-p", target.pid, "-f", "raw", "-o", out, "--thread", "large", "-r", "500", *KERNEL]
        with recording(*args) as process:
            target.release()
            assert target.process.wait() == 0
            assert process.wait(timeout=harness.PATIENCE) == 0
    names = functions(raw_stacks(out))
    assert "large" in names and "small" not in names


def test_the_holder_of_the_lock_is_known(kernel_python, tmp_path):
    with harness.run_target(kernel_python, "work.py") as target:
        stacks, stats = recorded(target.pid, tmp_path, "--gil", "-r", "500", *KERNEL)
    assert stats["processes_read_in_kernel"] == 1
    assert "heavy" in functions(stacks)


def test_it_is_flushed_on_request_and_outlives_kill(kernel_python, tmp_path):
    out = tmp_path / "out.txt"
    with harness.run_target(kernel_python, "work.py") as target:
        with recording("-p", target.pid, "-f", "raw", "-o", out, *KERNEL) as process:
            until_seen(process, out, "heavy (")
            process.send_signal(signal.SIGKILL)
            process.wait()
        target.release()
        assert json.loads(target.read_line())
        assert target.process.wait(timeout=harness.PATIENCE) == 0


def test_a_tree_is_read_there_too(kernel_python, tmp_path):
    code = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "def of_child():\\n    while True: pass\\nof_child()"])
print("ready", flush=True)
try:
    def of_parent():
        while not sys.stdin.closed:
            sum(range(1000))
    of_parent()
finally:
    child.kill()
"""
    with running(kernel_python, code) as process:
        stacks, stats = recorded(process.pid, tmp_path, "-s", *KERNEL, seconds=2)
        process.send_signal(signal.SIGINT)
        process.wait(timeout=harness.PATIENCE)
    assert stats["processes_read_in_kernel"] == 2
    assert functions(stacks) >= {"of_parent", "of_child"}


def test_in_a_pid_namespace_of_its_own(as_root, tmp_path):
    """Its threads have other ids there than here."""
    code = "import os\nprint(os.getpid(), flush=True)\ndef inside():\n  while True: pass\ninside()"
    argv = ["unshare", "--pid", "--fork", "--kill-child", sys.executable, "-c", code]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "1\n"
            with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
                pid = int(file.read().split()[0])
            stacks, stats = recorded(pid, tmp_path, *KERNEL)
            os.kill(pid, signal.SIGKILL)
        finally:
            process.kill()
    assert stats["processes_read_in_kernel"] == 1
    assert "inside" in functions(stacks)


FORKED = """
import os
if os.fork():
    os.wait()
else:
    def of_child():
        print("ready", os.getpid(), flush=True)
        while True:
            sum(range(100))
    of_child()
"""


@READ_THERE
def test_a_forked_child_is_seen_either_way(python, tmp_path):
    """Pages that it has not touched since are not there for the kernel; then it is looked from outside."""
    with running(python, FORKED) as process:
        with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
            (pid,) = map(int, file.read().split())
        try:
            stacks, _ = recorded(pid, tmp_path, "-r", "200", *KERNEL, seconds=1.5)
        finally:
            os.kill(pid, signal.SIGKILL)
    names = functions(stacks)
    assert {"<module>", "of_child"} <= names
    assert sum(stacks.values()) > 20
