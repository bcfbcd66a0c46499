"""What of a program is recorded: some threads, some frames, the collector, exceptions; when, and which processes."""

import contextlib
import json
import os
import signal

import harness
import pytest
from test_record import raw_stacks, recording, until_seen

pytestmark = pytest.mark.one_of_each

PYTHONS = pytest.mark.pythons(since=(3, 7))
NEW = pytest.mark.pythons(since=(3, 13), until=(3, 13))


@contextlib.contextmanager
def program(python, *works):
    env = dict(os.environ, SCRY_TEST_WORKS=" ".join(works))
    with harness.run_target(python, "choose.py", env=env) as target:
        yield target


def record(target, out, *flags, seconds="0.6"):
    pids = ["-p", target.pid] if target else []
    harness.scry("record", *pids, "-d", seconds, "-r", "200", "-f", "raw", "-o", out, *flags)
    return raw_stacks(out)


def share(stacks, text):
    having = sum(n for stack, n in stacks.items() if any(text in frame for frame in stack))
    return having / max(1, sum(stacks.values()))


# ---- threads and frames ----


@NEW
def test_threads_by_name_and_number(python, tmp_path):
    with program(python, "compute", "plainly") as target:
        stacks = record(target, tmp_path / "1", "--thread", "worker-comp*", "-t")
        assert stacks and share(stacks, "worker-compute") == 1
        (tid,) = {
            thread["os_thread_id"]
            for thread in harness.dump(target.pid)
            if thread["thread_name"] == "worker-plainly"
        }
        stacks = record(target, tmp_path / "2", "--thread", tid, "-t")
        assert stacks and share(stacks, "worker-plainly") == 1
        stacks = record(target, tmp_path / "3", "--thread", tid, "--thread", "worker-compute")
        assert 0 < share(stacks, "plainly (") < 1


@NEW
def test_nothing_of_a_thread_that_is_not_there(python, tmp_path):
    """The process is not idle, and is not said to be."""
    with program(python, "compute") as target:
        flags = ["-p", target.pid, "-d", "0.2", "--thread", "nobody", "-f", "raw", "-o", "-"]
        done = harness.scry("record", *flags)
        assert done.stdout == ""
        assert "no thread that was asked for" in done.stderr and "was idle" not in done.stderr


@NEW
def test_threads_of_a_dump(python):
    with program(python, "compute") as target:
        (thread,) = harness.dump(target.pid, "--thread", "worker-*")
        assert thread["thread_name"] == "worker-compute"


@NEW
def test_frames_left_out_and_frames_alone(python, tmp_path):
    with program(python, "compute") as target:
        stacks = record(target, tmp_path / "all")
        assert share(stacks, "(threading.py") == 1 == share(stacks, "compute (choose.py")
        stacks = record(target, tmp_path / "without", "--exclude", "threading")
        assert stacks and share(stacks, "(threading.py") == 0
        assert share(stacks, "compute (choose.py") == 1
        stacks = record(target, tmp_path / "only", "--include", "*/choose.py")
        assert stacks and all("choose.py" in frame for stack in stacks for frame in stack)
        # Their time goes to what called them; where nothing called them there is nothing to show.
        stacks = record(target, tmp_path / "callers", "--exclude", "choose")
        assert share(stacks, "run (threading.py") == 1
        assert not record(target, tmp_path / "none", "--include", "nowhere", seconds="0.2")


# ---- the collector, exceptions ----


@PYTHONS
def test_the_garbage_collector_is_a_frame(python, tmp_path):
    with program(python, "litter") as target:
        marked = record(target, tmp_path / "gc", "--gc")
        assert share(marked, "[garbage collection]") > 0.2
        collected = [stack for stack in marked if "[garbage collection]" in stack]
        assert all(stack[-1] == "[garbage collection]" for stack in collected)
        assert all("litter (choose.py" in stack[-2] for stack in collected)


@NEW
def test_who_does_not_collect_is_not_marked(python, tmp_path):
    with program(python, "compute") as target:
        assert share(record(target, tmp_path / "gc", "--gc"), "[garbage collection]") < 0.05
    with program(python, "litter") as target:
        assert share(record(target, tmp_path / "plain"), "[garbage collection]") == 0


@PYTHONS
def test_only_while_an_exception_is_handled(python, tmp_path):
    with program(python, "fails", "plainly", "nested") as target:
        stacks = record(target, tmp_path / "out", "--exception", seconds="1")
        assert share(stacks, "plainly (") == 0
        assert share(stacks, "handles (") > 0.1
        assert share(stacks, "nested.<locals>.generator (") + share(stacks, "generator (") > 0.1


# ---- when ----


@NEW
def test_delay(some_python, tmp_path):
    out, stats = tmp_path / "out.scry", tmp_path / "stats.json"
    code = "import time\nend = time.time() + 1.5\nwhile time.time() < end: sum(range(100))"
    flags = ["--delay", "0.7", "-f", "scry", "-o", out, "--stats", stats]
    harness.scry("record", *flags, "--", *some_python.argv("-c"), code)
    assert 0.1 < json.loads(stats.read_text())["elapsed_ns"] / 1e9 < 1.2


def test_a_program_that_ends_within_the_delay(some_python, tmp_path):
    out = tmp_path / "out.txt"
    words = [*some_python.argv("-c"), "import sys, time; time.sleep(0.3); sys.exit(5)"]
    done = harness.scry(
        "record", "--delay", "60", "-f", "raw", "-o", out, "--", *words, check=False
    )
    assert done.returncode == 5, done.stderr
    assert out.read_text() == ""


@NEW
def test_begins_and_rests_on_signals(python, tmp_path):
    out = tmp_path / "out.txt"
    with program(python, "compute") as target:
        flags = ["-p", target.pid, "-r", "200", "-f", "raw", "-o", out]
        flags += ["--start-on", "USR2", "--stop-on", "SIGRTMIN+3"]
        process = harness.start_scry("record", *flags)
        try:
            assert f": kill -USR2 {process.pid}\n" in process.stderr.readline()
            process.send_signal(signal.SIGUSR2)
            assert "sampling process" in process.stderr.readline()
            until_seen(process, out, "compute (choose.py")
            process.send_signal(signal.SIGRTMIN + 3)
            # What is seen after the rest began is the same, however often one asks.
            counts = []
            while len(counts) < 3 or counts[-1] != counts[-3]:
                until_seen(process, out)
                counts.append(sum(raw_stacks(out).values()))
                assert len(counts) < 200, counts
            process.send_signal(signal.SIGUSR2)
            while sum(raw_stacks(out).values()) <= counts[-1]:
                until_seen(process, out)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=harness.PATIENCE)
            assert process.returncode == 0, said
        finally:
            process.kill()
            process.communicate()


@NEW
def test_ends_on_a_signal(python, tmp_path):
    out = tmp_path / "out.txt"
    with program(python, "compute") as target:
        flags = ["-p", target.pid, "-f", "raw", "-o", out, "--stop-on", "usr2"]
        with recording(*flags) as process:
            until_seen(process, out, "compute (choose.py")
            process.send_signal(signal.SIGUSR2)
            _, said = process.communicate(timeout=harness.PATIENCE)
            assert process.returncode == 0, said
    assert raw_stacks(out)


# ---- which processes ----


@NEW
def test_several_processes(python, tmp_path):
    out = tmp_path / "out.txt"
    with program(python, "compute") as one, program(python, "plainly") as two:
        stacks = record(one, out, "-p", two.pid, "-p", one.pid)
        for pid, function in ((one.pid, "compute ("), (two.pid, "plainly (")):
            mine = [s for s in stacks if s[0].startswith(f"process {pid}:")]
            assert mine and all(any(function in frame for frame in stack) for stack in mine)
        assert {thread["pid"] for thread in harness.dump(one.pid, "-p", two.pid)} == {
            one.pid,
            two.pid,
        }
        # One of them ends: the other is recorded on.
        flags = ["-p", one.pid, "-p", two.pid, "-f", "raw", "-o", out]
        with recording(*flags) as process:
            until_seen(process, out, "compute (", "plainly (")
            assert one.finish() == 0
            before = sum(raw_stacks(out).values())
            while sum(raw_stacks(out).values()) <= before:
                until_seen(process, out)
            assert two.finish() == 0
            _, said = process.communicate(timeout=harness.PATIENCE)
            assert process.returncode == 0, said


@NEW
def test_processes_by_what_their_command_lines_say(python, tmp_path):
    script = tmp_path / "named-in-the-test.py"
    script.write_text((harness.TARGETS / "choose.py").read_text())
    (tmp_path / "report.py").write_text((harness.TARGETS / "report.py").read_text())
    env = dict(os.environ, SCRY_TEST_WORKS="compute")
    argv = python.argv(script)
    with harness.start(argv, env=env) as one, harness.start(argv, env=env) as two:
        pattern = f"{tmp_path}/named-*-the-test.py"
        stacks = record(None, tmp_path / "out", "--name", pattern)
        # Those that entered the tree of the interpreter may have the same command line.
        seen = {stack[0].split(":")[0] for stack in stacks}
        assert len(seen) == 2
        pids = {thread["pid"] for thread in harness_dump_named(str(script))}
        assert len(pids) == 2 and {f"process {pid}" for pid in pids} == seen
        assert one.finish() == 0 and two.finish() == 0


def harness_dump_named(name):
    return json.loads(harness.scry("dump", "--json", "--name", name).stdout)


def test_a_name_that_no_process_has(tmp_path):
    done = harness.scry("record", "--name", "no such thing anywhere", check=False, cwd=tmp_path)
    assert done.returncode == 1
    assert "no Python process" in done.stderr and "scry ps" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "flags, says",
    [
        (["--start-on", "KILL"], "no signal that scry can wait for"),
        (["--stop-on", "RTMIN+99"], "no signal that scry can wait for"),
        (["--thread", ""], "--thread"),
        (["--delay", "soon"], "'soon'"),
        (["--name", "x", "--", "python"], "both --name 'x' and a program"),
    ],
)
def test_bad_choices(flags, says, tmp_path):
    pid = [] if "--name" in flags else ["-p", "1"]
    done = harness.scry("record", *pid, *flags, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr
