"""Real processes under real interpreters, and scry pointed at them.

A target (tests/live/targets/) writes one line of JSON with its own account of its threads and then stands still;
run_target() returns once that line is there. Nothing in here sleeps: what has to be waited for is a pipe, or, for
the kernel's view of a thread, /proc read again and again until a deadline that only a broken test reaches.
"""

import contextlib
import json
import os
import pathlib
import select
import subprocess
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TARGETS = HERE / "targets"
PATIENCE = 60.0  # seconds until a test that hangs is called broken


def scry_binary():
    return os.environ.get("SCRY") or str(ROOT / "build" / "scry")


class Broken(AssertionError):
    """The target did not do its part."""


# --- targets -----------------------------------------------------------------------------------------------


class Target:
    """A running target and what it said about itself."""

    def __init__(self, process, out_fd, hold_fd):
        self.process = process
        self._out = out_fd
        self._hold = hold_fd
        self._rest = b""
        self.report = None
        self.pid = process.pid

    def read_report(self):
        line = self.read_line()
        self.report = json.loads(line)
        return self.report

    def read_line(self):
        deadline = time.monotonic() + PATIENCE
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self._out], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                raise Broken(f"no report from {self.process.args} within {PATIENCE:.0f} s")
            chunk = os.read(self._out, 1 << 20)
            if not chunk:
                raise Broken(
                    f"{self.process.args} ended with {self.process.wait()} before its report"
                )
            self._rest += chunk
        line, self._rest = self._rest.split(b"\n", 1)
        return line

    def thread(self, label):
        """What the target says about the thread it calls `label`."""
        found = [thread for thread in self.report["threads"] if thread["label"] == label]
        if len(found) != 1:
            raise Broken(f"{len(found)} threads are called {label!r}")
        return found[0]

    def release(self):
        """Let everything that reads HOLD go on."""
        if self._hold is not None:
            os.close(self._hold)
            self._hold = None

    def finish(self):
        """Release it and return its exit status: a target that was harmed does not get to its end."""
        self.release()
        return self.process.wait(timeout=PATIENCE)

    def close(self):
        self.release()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self._out is not None:
            os.close(self._out)
            self._out = None

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


def start(argv, report=True, pass_fds=(), **options):
    """Start argv with the two pipes a target needs; by default wait for its report."""
    out_read, out_write = os.pipe()
    hold_read, hold_write = os.pipe()
    env = dict(options.pop("env", None) or os.environ)
    env.update(
        SCRY_TEST_OUT=str(out_write),
        SCRY_TEST_HOLD=str(hold_read),
        PYTHONDONTWRITEBYTECODE="1",
        PYTHONWARNINGS="ignore",
    )
    env.setdefault("PYTHONIOENCODING", "utf-8")
    try:
        process = subprocess.Popen(
            argv, pass_fds=(out_write, hold_read, *pass_fds), env=env, **options
        )
    except BaseException:
        os.close(out_read)
        os.close(hold_write)
        raise
    finally:
        os.close(out_write)
        os.close(hold_read)
    target = Target(process, out_read, hold_write)
    if report:
        try:
            target.read_report()
        except BaseException:
            target.close()
            raise
    return target


def run_target(python, script, *args, chroot=False, **options):
    """Start a script (a name in targets/, or a path) under an interpreter and wait until it stands still."""
    return start(python.argv(TARGETS / script, *map(str, args), chroot=chroot), **options)


# --- scry --------------------------------------------------------------------------------------------------


def scry(*args, check=True, binary=None, **options):
    """Run scry to its end. With check, anything but exit 0 is a failure that shows what scry said."""
    argv = [binary or scry_binary(), *map(str, args)]
    options.setdefault("stdin", subprocess.DEVNULL)
    done = subprocess.run(
        argv,
        capture_output=True,
        timeout=PATIENCE,
        text=True,
        errors="surrogateescape",
        **options,
    )
    if check and done.returncode != 0:
        raise AssertionError(f"{argv} exited with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def start_scry(*args, **options):
    """Start scry and return at once."""
    options.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.Popen(
        [scry_binary(), *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def dump(pid, *flags):
    """The threads of `scry dump --json`."""
    return json.loads(scry("dump", "--json", "--pid", pid, *flags).stdout)


def dumped_thread(threads, ident):
    found = [thread for thread in threads if thread["thread_id"] == ident]
    assert len(found) == 1, f"thread {ident:#x} is there {len(found)} times: {threads}"
    return found[0]


# --- comparing ---------------------------------------------------------------------------------------------


def show(frames):
    """As the text of a dump has it; a name that is not the end of the qualified name would show, too."""
    return [f"{qualified(frame)} ({frame['filename']}:{frame['line']})" for frame in frames]


def qualified(frame):
    name, qualname = frame["name"], frame["qualname"]
    return qualname if qualname.endswith(name) else f"{qualname} that says it is {name}"


def assert_same_stacks(target, threads):
    """Every thread, every frame, every name, every line: as the target itself says, no more and no less."""
    expected = {thread["ident"]: thread for thread in target.report["threads"]}
    seen = {thread["thread_id"]: thread for thread in threads}
    assert sorted(seen) == sorted(expected), "not the same threads"
    assert len(threads) == len(expected), "a thread is there twice"
    wrong = []
    for ident, thread in expected.items():
        want, got = show(thread["frames"]), show(seen[ident]["frames"])
        if want != got:
            wrong.append(f"thread {thread['label']!r}:\n" + difference(want, got))
    assert not wrong, f"{len(wrong)} of {len(expected)} threads differ\n" + "\n".join(wrong)


def difference(want, got):
    lines = []
    for depth in range(max(len(want), len(got))):
        a = want[depth] if depth < len(want) else "(nothing)"
        b = got[depth] if depth < len(got) else "(nothing)"
        if a != b:
            lines.append(f"  frame {depth}: target says {a}, scry says {b}")
        if len(lines) == 12:
            lines.append("  ...")
            break
    return "\n".join(lines)


# --- the kernel's view -------------------------------------------------------------------------------------


def until(condition, what):
    """Ask again and again until the answer is true; for things no pipe can announce."""
    deadline = time.monotonic() + PATIENCE
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise Broken(f"never happened: {what}")
        os.sched_yield()


def state_letter(pid, tid=None):
    return stat_fields(pid, tid)[0]


def syscall_number(pid, tid):
    """The system call a thread is blocked in; None while it runs."""
    word = pathlib.Path(f"/proc/{pid}/task/{tid}/syscall").read_text().split()[0]
    return int(word) if word.lstrip("-").isdigit() else None


def until_blocked_in(pid, tid, numbers):
    until(
        lambda: state_letter(pid, tid) == "S" and syscall_number(pid, tid) in numbers,
        f"thread {tid} of {pid} blocked in a system call of {numbers}",
    )


def run_time(pid, tid):
    """Nanoseconds this thread has been on a CPU."""
    return int(pathlib.Path(f"/proc/{pid}/task/{tid}/schedstat").read_text().split()[0])


def until_it_computes(pid, tid, nanoseconds=50_000_000):
    """A thread that reports and then computes is past its report once it has run for this long."""
    start = run_time(pid, tid)
    until(lambda: run_time(pid, tid) >= start + nanoseconds, f"thread {tid} computes")


def tracer_of(pid, tid=None):
    for line in pathlib.Path(f"/proc/{pid}/task/{tid or pid}/status").read_text().splitlines():
        if line.startswith("TracerPid:"):
            return int(line.split()[1])
    raise Broken("no TracerPid")


def children_of(pid):
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError):
            found += map(int, pathlib.Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    return found


def descendants_of(pid):
    found = []
    with contextlib.suppress(OSError):
        for child in children_of(pid):
            found += [child, *descendants_of(child)]
    return found


def stat_fields(pid, tid=None):
    """Fields of /proc/PID/stat after the name: the state letter is the first."""
    text = pathlib.Path(f"/proc/{pid}/task/{tid or pid}/stat").read_text(errors="replace")
    return text.rsplit(")", 1)[1].split()


def started_at(pid):
    """With the pid, what tells a process from every other: pids are given out again."""
    return stat_fields(pid)[19]


def is_gone(pid, started=None):
    try:
        fields = stat_fields(pid)
    except OSError:
        return True
    return fields[0] in "ZX" or (started is not None and fields[19] != started)
