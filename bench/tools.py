"""The profilers that are compared: how each is had, started, ended, and how the samples in its file are counted."""

from __future__ import annotations

import dataclasses
import functools
import json
import mmap
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pythons

PROJECT = Path(__file__).resolve().parent.parent
CACHE = pythons.cache_folder().parent / "bench"
VENV = CACHE / "venv"
PEERS = ["py-spy", "austin-dist"]


@dataclasses.dataclass(frozen=True)
class Ask:
    """What a profiler is asked for, in words that all of them know."""

    pid: int
    rate: int
    seconds: float
    output: Path
    threads: bool = False  # the target has several threads; those that run are wanted
    tree: bool = False  # the target has child processes
    timeline: bool = True  # in the order of time if the tool can; otherwise added up
    by_itself: bool = False  # nothing may interrupt it: it ends when it thinks the time is over


@dataclasses.dataclass
class Outcome:
    """One run of one profiler."""

    samples: int = 0  # in the file
    seconds: float = 0.0  # of sampling
    torn: int = 0
    unmerged: int = 0  # samples without all their native frames, where the tool says so
    errors: int = 0
    ticks: int = 0  # looks taken and looks left out, where the tool says so
    missed: int = 0
    processes: int = 0  # that it saw
    stops: int = 0  # of threads, where the tool says so
    median_stop_us: float = 0.0
    memory_reads: int = 0  # system calls that read the target's memory, where the tool says so
    cpu: float = 0.0  # of the profiler and its children, from start to end
    wall: float = 0.0
    peak_kb: int = 0
    bytes: int = 0
    failure: str = ""


class Tool:
    """One profiler with one set of options. `python` runs its targets."""

    name = ""
    program = ""
    ends_itself = True  # it counts wall time; otherwise it is interrupted
    warm = 0.8  # seconds after which it surely samples
    fastest = 1_000_000  # samples a second that it may be asked for

    def __init__(self, python: pythons.Python) -> None:
        self.python = python

    def command(self, ask: Ask) -> list[str]:
        raise NotImplementedError

    def dump_command(self, pid: int) -> list[str]:
        """To print every thread's stack once."""
        raise NotImplementedError

    def version(self) -> str:
        raise NotImplementedError

    def binary_bytes(self) -> int:
        return os.path.getsize(self.program)

    def began(self, log: str) -> bool:
        """Does what it has printed say that it samples?"""
        return True

    def count(self, ask: Ask, log: str, outcome: Outcome) -> None:
        """Fill in samples, seconds (if it says so), torn and errors."""
        raise NotImplementedError

    def files(self, ask: Ask) -> list[Path]:
        return [ask.output] if ask.output.exists() else []

    def text(self, ask: Ask) -> str:
        """The function names of the profile, in whatever form they are in the file."""
        return ask.output.read_bytes().decode("utf-8", "replace")


class Scry(Tool):
    name = "scry"
    options: tuple[str, ...] = ()

    def __init__(self, python: pythons.Python) -> None:
        super().__init__(python)
        self.program = os.environ.get("SCRY") or str(PROJECT / "build-release" / "scry")

    def version(self) -> str:
        said = subprocess.run([self.program, "--version"], capture_output=True, text=True).stdout
        return said.strip().removeprefix("scry ")

    def command(self, ask: Ask) -> list[str]:
        words = [self.program, "record", "-p", str(ask.pid), "-r", str(ask.rate)]
        words += ["-d", f"{ask.seconds:g}", "-f", "scry", "-o", str(ask.output)]
        words += ["--stats", str(ask.output.with_suffix(".json"))]
        return words + ["-s"] * ask.tree + list(self.options)

    def dump_command(self, pid: int) -> list[str]:
        return [self.program, "dump", "-p", str(pid)]

    def count(self, ask: Ask, log: str, outcome: Outcome) -> None:
        outcome.samples = folded_samples(self.text(ask))
        stats = json.loads(ask.output.with_suffix(".json").read_text())
        outcome.torn, outcome.errors = stats["torn"], stats["errors"]
        outcome.ticks, outcome.missed = stats["ticks"], stats["missed"]
        outcome.processes = stats["processes"]
        outcome.stops, outcome.median_stop_us = stats["stops"], stats["median_stop_ns"] / 1000
        outcome.memory_reads = stats["memory_reads"]
        outcome.seconds = stats["elapsed_ns"] / 1e9

    def text(self, ask: Ask) -> str:
        words = [self.program, "convert", str(ask.output), "-f", "raw", "-o", "-"]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout


class ScryNonblocking(Scry):
    name = "scry --nonblocking"
    options = ("--nonblocking",)


class ScryMemory(Scry):
    """As where the kernel cannot be asked."""

    name = "scry --reader memory"
    options = ("--reader", "memory")


class ScryAlways(Scry):
    name = "scry --blocking always"
    options = ("--blocking", "always")


class ScryNative(Scry):
    name = "scry --native"
    options = ("--native",)
    warm = 2.0  # by then the symbols are read

    def count(self, ask: Ask, log: str, outcome: Outcome) -> None:
        super().count(ask, log, outcome)
        stats = json.loads(ask.output.with_suffix(".json").read_text())
        outcome.unmerged = sum(stats[f"native_{how}"] for how in ("cut", "unmatched", "missing"))


class PySpy(Tool):
    """Counts ticks, not time: when it falls behind it would run on. So it is interrupted."""

    name = "py-spy"
    options: tuple[str, ...] = ()
    ends_itself = False

    def __init__(self, python: pythons.Python) -> None:
        super().__init__(python)
        self.program = str(VENV / "bin" / "py-spy")

    def version(self) -> str:
        said = subprocess.run([self.program, "--version"], capture_output=True, text=True).stdout
        return said.strip().removeprefix("py-spy ")

    def command(self, ask: Ask) -> list[str]:
        kind = "speedscope" if ask.timeline else "raw"
        words = [self.program, "record", "-p", str(ask.pid), "-r", str(ask.rate), "-f", kind]
        words += ["-o", str(ask.output)]
        if ask.by_itself:
            words += ["-d", str(max(1, round(ask.seconds)))]
        return words + ["-s"] * ask.tree + list(self.options)

    def dump_command(self, pid: int) -> list[str]:
        return [self.program, "dump", "-p", str(pid), *self.options]

    def began(self, log: str) -> bool:
        return "Sampling process" in log

    def count(self, ask: Ask, log: str, outcome: Outcome) -> None:
        match = re.search(r"Samples: (\d+) Errors: (\d+)", log)
        if not match:
            raise ValueError("py-spy printed no number of samples")
        outcome.samples, outcome.errors = int(match[1]), int(match[2])
        if not ask.timeline:
            outcome.samples = folded_samples(self.text(ask))


class PySpyNonblocking(PySpy):
    name = "py-spy --nonblocking"
    options = ("--nonblocking",)


class PySpyNative(PySpy):
    name = "py-spy --native"
    options = ("--native",)
    warm = 4.0


class Sampling(Tool):
    """CPython's own, since 3.15; it profiles only its own version, so it runs under the target's interpreter."""

    name = "profiling.sampling"
    warm = 1.5

    def version(self) -> str:
        return f"of Python {'.'.join(map(str, self.python.version))}"

    def binary_bytes(self) -> int:
        return 0  # a part of Python

    def command(self, ask: Ask) -> list[str]:
        kind = "--binary" if ask.timeline else "--collapsed"
        words = ["-m", "profiling.sampling", "attach", "-r", str(ask.rate), kind]
        words += ["-d", f"{ask.seconds:g}", "-o", str(ask.output)]
        words += ["-a", "--mode", "cpu"] * ask.threads + ["--subprocesses"] * ask.tree
        return inside(self.python, [self.python.path, *words, str(ask.pid)])

    def dump_command(self, pid: int) -> list[str]:
        words = [self.python.path, "-m", "profiling.sampling", "dump", "-a", str(pid)]
        return inside(self.python, words)

    def count(self, ask: Ask, log: str, outcome: Outcome) -> None:
        captured = re.search(r"Captured ([\d,]+) samples in ([\d.]+) seconds", log)
        if not captured:
            raise ValueError("profiling.sampling printed no number of samples")
        outcome.seconds = float(captured[2])
        if ask.timeline:
            written = re.search(r"\(([\d,]+) samples\)", log)
            outcome.samples = int(written[1].replace(",", "")) if written else 0
        else:
            outcome.samples = folded_samples(self.text(ask))
        outcome.errors = int(captured[1].replace(",", "")) - outcome.samples


class Austin(Tool):
    """Its wheel asks for a newer C library than old systems have; then it runs inside the interpreter's Debian tree."""

    name = "austin"

    def __init__(self, python: pythons.Python) -> None:
        super().__init__(python)
        self.program = str(VENV / "bin" / "austin")

    @functools.cached_property
    def start(self) -> list[str]:
        for words in ([self.program], inside(self.python, [self.program])):
            run = subprocess.run([*words, "--version"], capture_output=True, text=True)
            if run.returncode == 0 and "austin" in run.stdout:
                return words
        raise RuntimeError(f"austin does not run here: {run.stderr.strip()}")

    def version(self) -> str:
        said = subprocess.run([*self.start, "--version"], capture_output=True, text=True).stdout
        return said.strip().removeprefix("austin ")

    def command(self, ask: Ask) -> list[str]:
        words = [*self.start, "-i", f"{max(1, round(1e6 / ask.rate))}us"]
        words += ["-x", str(max(1, round(ask.seconds))), "-o", str(ask.output)]
        return words + ["-c"] * ask.threads + ["-C"] * ask.tree + ["-p", str(ask.pid)]

    def dump_command(self, pid: int) -> list[str]:
        return [*self.start, "-w", str(pid)]

    def count(self, ask: Ask, log: str, outcome: Outcome) -> None:
        plain = re.sub(r"\x1b\[[\d;]*m", "", log)
        if match := re.search(r"Error rate[ .]*(\d+)/(\d+)", plain):
            outcome.errors = int(match[1])
        if match := re.search(r"Total duration[ .]*([\d.]+)s", plain):
            outcome.seconds = float(match[1])
        outcome.samples = mojo_samples(ask.output)


def inside(python: pythons.Python, words: list[str]) -> list[str]:
    """The command, run where the interpreter lives."""
    if python.root is None:
        return words
    folders = dict.fromkeys([str(PROJECT), os.path.realpath(tempfile.gettempdir()), str(CACHE)])
    return [str(pythons.ENTER_ROOT), python.root, *folders, "--", *words]


def folded_samples(text: str) -> int:
    return sum(int(line.rpartition(" ")[2]) for line in text.splitlines() if line)


NUMBER = rb"[\x80-\xff]*[\x00-\x7f]"
WORDS = rb"[^\x00]*\x00"
# One event of austin's MOJO format, version 3; event 9 is the time of one sample.
MOJO_EVENT = re.compile(
    b"|".join(
        [
            rb"\x01" + WORDS + WORDS,
            rb"\x02" + NUMBER + NUMBER + WORDS,
            rb"\x03" + NUMBER * 7,
            rb"[\x05\x0a\x0c]" + NUMBER,
            rb"\x06" + WORDS,
            rb"\x0b" + NUMBER + WORDS,
            rb"[\x04\x07\x08]",
            rb"(\x09)" + NUMBER,
        ]
    ),
    re.DOTALL,
)


def mojo_samples(path: Path) -> int:
    """The samples in a MOJO file, of which every byte must make sense."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[:3] != b"MOJ" or data[3] != 3:
            raise ValueError("not MOJO version 3")
        end, samples = 4, 0
        for match in MOJO_EVENT.finditer(data, 4):
            if match.start() != end:
                break
            end = match.end()
            samples += match[1] is not None
        if len(data) - end > 64:  # the last event may be cut off
            raise ValueError(f"MOJO: unknown event {data[end]} at byte {end} of {len(data)}")
        return samples


def choose_python(newest: tuple[int, int]) -> pythons.Python | None:
    """The newest ordinary interpreter up to that version; one with Debian's own build before others."""
    fit = [p for p in pythons.found() if (3, 11) <= p.minor <= newest]
    fit = [p for p in fit if not p.debug and not p.free_threaded]
    return max(fit, key=lambda p: (p.version, not p.shared), default=None)


def install_peers() -> None:
    """The newest of each, into a venv of the bench's own."""
    python = VENV / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
    words = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", "--upgrade"]
    run = subprocess.run([*words, *PEERS])
    if run.returncode != 0:
        print("warning: the peers could not be brought up to date", file=sys.stderr)


def all_tools() -> list[Tool]:
    """Those that can run here; says why another cannot."""
    newest, older = choose_python((3, 99)), choose_python((3, 14))
    if newest is None:
        raise SystemExit("bench: no Python from 3.11 on was found; try ./dev pythons")
    tools: list[Tool] = [Scry(newest), ScryNonblocking(newest), ScryMemory(newest)]
    py_spy = PySpy(newest)
    if os.access(py_spy.program, os.X_OK):
        tools += [py_spy, PySpyNonblocking(newest)]
    else:
        print("bench: without py-spy: it is not installed", file=sys.stderr)
    if newest.minor >= (3, 15):
        tools.append(Sampling(newest))
    else:
        print(f"bench: without profiling.sampling: {newest.id} is older than 3.15", file=sys.stderr)
    try:
        if older is None:
            raise RuntimeError("it knows Python up to 3.14, and none is here")
        austin = Austin(older)
        assert austin.start
        tools.append(austin)
    except (OSError, RuntimeError) as error:
        print(f"bench: without austin: {error}", file=sys.stderr)
    return tools


class Run:
    """A profiler at work. Its output goes to a log beside the profile."""

    def __init__(self, tool: Tool, ask: Ask, before: tuple[str, ...] = ()) -> None:
        self.tool, self.ask = tool, ask
        ask.output.unlink(missing_ok=True)
        self.log_path = ask.output.with_suffix(".log")
        self.peak_kb = 0
        with self.log_path.open("wb") as log:
            self.started = time.monotonic()
            self.process = subprocess.Popen(
                [*before, *tool.command(ask)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.ends_itself = tool.ends_itself or ask.by_itself
        self.sampling: float | None = self.started if self.ends_itself else None
        self.interrupted: float | None = None
        self.usage: object = None

    def log(self) -> str:
        return self.log_path.read_bytes().decode("utf-8", "replace")

    def poll(self) -> bool:
        """Look after it; True once it has ended."""
        if self.process.returncode is not None:
            return True
        if self.sampling is None and self.tool.began(self.log()):
            self.sampling = time.monotonic()
        ending = self.sampling is not None and time.monotonic() - self.sampling >= self.ask.seconds
        if not self.ends_itself and ending and self.interrupted is None:
            self.interrupt()
        pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
        if pid:
            self.ended = time.monotonic()
            self.process.returncode = os.waitstatus_to_exitcode(status)
            self.usage = usage
        return bool(pid)

    def interrupt(self) -> None:
        if self.process.returncode is None and self.interrupted is None:
            self.interrupted = time.monotonic()
            os.kill(self.process.pid, signal.SIGINT)

    def note_memory(self) -> int:
        """Resident kilobytes now; the kernel's own high-water mark is kept."""
        try:
            with open(f"/proc/{self.process.pid}/status") as file:
                fields = dict(line.split(":", 1) for line in file)
            self.peak_kb = max(self.peak_kb, int(fields["VmHWM"].split()[0]))
            return int(fields["VmRSS"].split()[0])
        except (OSError, KeyError):
            return 0

    def wait(self, patience: float = 60, step: float = 0.01) -> Outcome:
        """To its end, which is forced if it takes too long."""
        limit = self.started + 3 * self.ask.seconds + patience
        outcome = Outcome()
        while not self.poll():
            time.sleep(step)
            if time.monotonic() > limit:
                self.process.kill()
                outcome.failure = "did not end"
                limit = float("inf")
        return self._outcome(outcome)

    def _outcome(self, outcome: Outcome) -> Outcome:
        usage = self.usage
        outcome.cpu = usage.ru_utime + usage.ru_stime  # type: ignore[attr-defined]
        outcome.wall = self.ended - self.started
        outcome.peak_kb = self.peak_kb
        outcome.seconds = self.ask.seconds
        if self.interrupted is not None:
            outcome.seconds = self.interrupted - (self.sampling or self.started)
        outcome.bytes = sum(path.stat().st_size for path in self.tool.files(self.ask))
        if not outcome.failure:
            try:
                self.tool.count(self.ask, self.log(), outcome)
            except (OSError, ValueError, subprocess.CalledProcessError) as error:
                outcome.failure = f"{error}: {self.log()[-300:]}"
        return outcome


def profile(tool: Tool, ask: Ask, before: tuple[str, ...] = ()) -> Outcome:
    return Run(tool, ask, before).wait()
