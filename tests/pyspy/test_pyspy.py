"""The scenarios that py-spy tests itself with hold when scry is called py-spy.

Scripts and checks are our own; which ones, and what must hold, follows py-spy's integration tests.
"""

import collections
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "live"))

import harness

pytestmark = pytest.mark.one_of_each

TARGETS = pathlib.Path(__file__).resolve().parent / "targets"
NAPS = (23, 230, 270)  # select, clock_nanosleep, pselect6 on x86-64
POO = "unicode\N{PILE OF POO}.py"


@pytest.fixture(scope="session")
def py_spy():
    with tempfile.TemporaryDirectory() as folder:
        link = pathlib.Path(folder, "py-spy")
        link.symlink_to(os.path.realpath(harness.scry_binary()))
        yield str(link)


def run(py_spy, *args):
    environment = dict(os.environ, RUST_LOG="info", RUST_BACKTRACE="1")
    done = subprocess.run(
        [py_spy, *map(str, args)],
        env=environment,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=harness.PATIENCE,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# --- recording a program from its start ---


Frame = collections.namedtuple("Frame", "file name line col")
Profile = collections.namedtuple("Profile", "stacks names")


def record(py_spy, python, script, *flags, duration="1"):
    """Stacks (root first) with the number of their samples, and the quoted names of the threads."""
    with tempfile.NamedTemporaryFile() as out:
        words = ["-o", out.name, "--format", "speedscope", "-d", duration, *flags]
        run(py_spy, "record", *words, "--", *python.argv(TARGETS / script))
        data = json.load(open(out.name))
    frames = [Frame(**frame) for frame in data["shared"]["frames"]]
    stacks = collections.Counter()
    for profile in data["profiles"]:
        for sample in profile["samples"]:
            stacks[tuple(frames[number] for number in sample)] += 1
    names = {
        name for profile in data["profiles"] for name in re.findall('"([^"]*)"', profile["name"])
    }
    return Profile(stacks, names)


def test_a_sleeping_program_does_not_hold_the_gil(py_spy, python):
    profile = record(py_spy, python, "longsleep.py", "--gil")
    script = str(TARGETS / "longsleep.py")
    assert sum(n for stack, n in profile.stacks.items() if stack and stack[0].file == script) <= 10


def test_idle_shows_where_a_program_sleeps(py_spy, python):
    profile = record(py_spy, python, "longsleep.py", "--idle")
    script = str(TARGETS / "longsleep.py")
    stack, count = profile.stacks.most_common(1)[0]
    assert [(frame.name, frame.line) for frame in stack] == [("<module>", 9), ("longsleep", 5)]
    assert {frame.file for frame in stack} == {script}
    # Python needs a while to start; from then on it only sleeps.
    started = [n for stack, n in profile.stacks.items() if stack and stack[0].file == script]
    assert count >= 0.95 * sum(started)


def test_a_busy_program_holds_the_gil(py_spy, python):
    profile = record(py_spy, python, "busyloop.py", "--gil")
    assert sum(profile.stacks.values()) >= 20
    stack, _ = profile.stacks.most_common(1)[0]
    assert [frame.name for frame in stack] == ["<module>", "busy"]


def test_threads_are_told_apart_by_name(py_spy, python):
    profile = record(py_spy, python, "thread_names.py", "--threads", "--idle")
    assert profile.names == {f"CustomThreadName-{number}" for number in range(10)} | {"MainThread"}


def test_completions(py_spy):
    assert "py-spy" in run(py_spy, "completions", "bash")


# --- looking at a running program ---


@contextlib.contextmanager
def running(argv, **options):
    process = subprocess.Popen(argv, start_new_session=True, **options)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.wait()


def dump(py_spy, pid, *flags):
    return json.loads(run(py_spy, "dump", "--json", "-p", pid, *flags))


def sleeps(pid):
    """In the kernel's nanosleep or select, for long: past everything that a start does."""
    try:
        return harness.state_letter(pid) == "S" and harness.syscall_number(pid, pid) in NAPS
    except OSError:
        return False


@contextlib.contextmanager
def asleep(python, script, ready=sleeps):
    with running(python.argv(TARGETS / script)) as process:
        harness.until(lambda: ready(process.pid), f"{script} sleeps")
        yield process


def test_busy_loop_is_active(py_spy, python):
    with running(python.argv(TARGETS / "busyloop.py")) as process:
        threads = harness.until(
            lambda: harness.run_time(process.pid, process.pid) > 3e8 and dump(py_spy, process.pid),
            "the loop is reached",
        )
        assert threads[0]["active"]


def test_long_sleep(py_spy, python):
    with asleep(python, "longsleep.py") as process:
        (thread,) = dump(py_spy, process.pid)
        assert [frame["name"] for frame in thread["frames"]] == ["longsleep", "<module>"]
        assert [frame["line"] for frame in thread["frames"]] == [5, 9]
        assert [frame["short_filename"] for frame in thread["frames"]] == ["longsleep.py"] * 2
        assert not thread["owns_gil"]
        assert not thread["active"]


def test_thread_names(py_spy, python):
    def all_started(pid):
        return len(os.listdir(f"/proc/{pid}/task")) == 11 and sleeps(pid)

    with asleep(python, "thread_names.py", all_started) as process:
        names = {thread["thread_name"] for thread in dump(py_spy, process.pid)}
        assert names == {f"CustomThreadName-{number}" for number in range(10)} | {"MainThread"}


def test_recursion_is_never_torn(py_spy, python):
    with running(python.argv(TARGETS / "recursive.py")) as process:
        harness.until(
            lambda: harness.run_time(process.pid, process.pid) > 3e8, "the loop is reached"
        )
        for _ in range(30):
            (thread,) = dump(py_spy, process.pid)
            frames = thread["frames"]
            assert len(frames) <= 22
            assert frames[-1]["name"] == "<module>"
            assert frames[-1]["line"] in (6, 7)
            assert {frame["name"] for frame in frames[:-1]} <= {"down"}


def test_a_file_name_outside_the_basic_plane(py_spy, python):
    with asleep(python, POO) as process:
        (thread,) = dump(py_spy, process.pid)
        assert [frame["short_filename"] for frame in thread["frames"]] == [POO] * 2
        assert [frame["line"] for frame in thread["frames"]] == [6, 9]


@pytest.mark.pythons(since=(3, 0))
def test_a_function_name_that_is_not_ascii(py_spy, python):
    with asleep(python, "cyrillic.py") as process:
        (thread,) = dump(py_spy, process.pid)
        assert [frame["name"] for frame in thread["frames"]] == ["кириллица", "<module>"]
        assert [frame["line"] for frame in thread["frames"]] == [4, 7]


def test_lines_that_go_backwards(py_spy, python):
    with asleep(python, "negative_lines.py") as process:
        (thread,) = dump(py_spy, process.pid)
        frames = thread["frames"]
        assert frames[-1]["line"] == 13
        assert all(5 <= frame["line"] <= 10 for frame in frames[:-1])
        own_frame = (3, 0) <= python.minor <= (3, 11)
        assert [frame["name"] for frame in frames] == ["<listcomp>"] * own_frame + [
            "nap",
            "<module>",
        ]


def test_subprocesses(py_spy, python):
    # From 3.14 on a server process forks the workers: they are its children.
    def nappers(pid):
        found = [child for child in harness.descendants_of(pid) if sleeps(child)]
        return found if len(found) == 2 else None

    with asleep(python, "subprocesses.py", nappers) as process:
        threads = dump(py_spy, process.pid, "--subprocesses")
        wanted = {process.pid, *nappers(process.pid)}
        assert wanted <= {thread["pid"] for thread in threads}


def test_a_zombie_child_does_no_harm(py_spy, python, tmp_path):
    def orphaned(pid):
        return sleeps(pid) and all(map(harness.is_gone, harness.children_of(pid)))

    with asleep(python, "zombie_child.py", orphaned) as process:
        assert harness.children_of(process.pid), "the zombie is there"
        assert {thread["pid"] for thread in dump(py_spy, process.pid, "-s")} == {process.pid}
        out = tmp_path / "out.txt"
        flags = ["-s", "--idle", "-f", "raw", "-o", out, "-d", "0.3"]
        run(py_spy, "record", *flags, "-p", process.pid)
        assert "nap (zombie_child.py:6)" in out.read_text()


def test_python_that_a_shell_starts_later(py_spy, python, tmp_path):
    out = tmp_path / "out.txt"
    program = ["sh", TARGETS / "delayed.sh", *python.argv(TARGETS / "busyloop.py")]
    run(py_spy, "record", "-s", "-f", "raw", "-o", out, "-d", "2", "--", *program)
    assert "busy (busyloop.py" in out.read_text()


def test_a_family_with_threads_is_printed_once(py_spy, python):
    def all_nap(pid):
        children = harness.children_of(pid)
        return len(children) == 3 and all(map(sleeps, children)) and sleeps(pid)

    with asleep(python, "family.py", all_nap) as process:
        text = run(py_spy, "dump", "-s", "-p", process.pid)
        headers = re.findall(r"^Process (\d+):", text, re.MULTILINE)
        assert sorted(map(int, headers)) == sorted([process.pid, *harness.children_of(process.pid)])


def test_threads_that_come_and_go(py_spy, python, tmp_path):
    out = tmp_path / "out.txt"
    with running(python.argv(TARGETS / "thread_reuse.py")) as process:
        harness.until(
            lambda: harness.run_time(process.pid, process.pid) > 3e8, "the loop is reached"
        )
        flags = ["-d", "1", "-r", "200", "-f", "raw", "-o", out]
        said = run(py_spy, "record", *flags, "-p", process.pid)
        errors = int(re.search(r"Errors: (\d+)", said).group(1))
        assert errors <= 3, said
        assert "thread_reuse.py" in out.read_text()
