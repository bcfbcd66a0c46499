"""The programs that are profiled: started once, held still while others are measured, and asked for their figures."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pythons
from counters import Counters, bucket_ns

FOLDER = Path(__file__).resolve().parent
TARGETS = FOLDER / "targets"


@dataclasses.dataclass(frozen=True)
class Stolen:
    """What the host of a virtual machine gives to others, of the time of all CPUs that are wanted: no profiler looks then."""

    ticks: int
    wanted: int

    @classmethod
    def now(cls) -> Stolen:
        user, nice, system, _idle, _iowait, irq, softirq, steal = map(
            int, Path("/proc/stat").read_text().split()[1:9]
        )
        return cls(steal, user + nice + system + irq + softirq + steal)

    def since(self, before: Stolen) -> float:
        return (self.ticks - before.ticks) / max(1, self.wanted - before.wanted)


@dataclasses.dataclass(frozen=True)
class Kind:
    name: str
    what: str
    script: str
    words: tuple[str, ...] = ()
    threads: bool = False
    tree: bool = False


KINDS = {
    kind.name: kind
    for kind in [
        Kind("busy", "busy loop", "busy.py"),
        Kind("deep20", "20 frames deep", "deep.py", ("20",)),
        Kind("deep200", "200 frames deep", "deep.py", ("200",)),
        Kind("deep900", "900 frames deep", "deep.py", ("900",)),
        Kind("chains", "two alternating chains of short calls", "chains.py"),
        Kind("idle100", "100 idle Python threads beside one busy", "idle_threads.py", threads=True),
        Kind("native160", "160 native threads working for one", "native_threads.py", threads=True),
        Kind("natives", "compresses, serialises and sorts", "natives.py"),
        Kind("mmap", "400 mapped files, mapping and unmapping", "mmap_heavy.py"),
        Kind(
            "short1000",
            "short-lived threads, 1,000 and more a run",
            "short_threads.py",
            threads=True,
        ),
        Kind("tree8", "a tree of 8 processes", "tree.py", ("8",), threads=True, tree=True),
        Kind("tree200", "a tree of 200 processes", "tree.py", ("200",), threads=True, tree=True),
        Kind("pauses", "reads the clock without end", "pauses.py"),
        Kind("slots", "a clock made of functions", "slots.py"),
    ]
}


@dataclasses.dataclass(frozen=True)
class Figures:
    work: int
    cpu: float
    wall: float

    def __sub__(self, other: Figures) -> Figures:
        return Figures(self.work - other.work, self.cpu - other.cpu, self.wall - other.wall)

    @property
    def per_cpu(self) -> float:
        return self.work / self.cpu if self.cpu > 0 else 0.0

    @property
    def per_wall(self) -> float:
        return self.work / self.wall if self.wall > 0 else 0.0


class Target:
    def __init__(self, kind: Kind, python: pythons.Python, folder: Path) -> None:
        self.kind, self.python = kind, python
        handle, name = tempfile.mkstemp(".counters", kind.name, folder)
        os.close(handle)
        self.counters = Counters(name, create=True)
        words = [TARGETS / kind.script, name, *kind.words]
        if kind.name == "native160":
            words.append(native_library(folder))
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        environment["PYTHONPATH"] = str(FOLDER)
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        self.process = python.popen(
            *words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        self.pid = self.process.pid
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline().split()
        if self.said[:1] != [b"ready"]:
            self.end()
            raise RuntimeError(f"target {kind.name} did not begin under {python.id}")

    def hold(self) -> None:
        os.killpg(self.pid, signal.SIGSTOP)

    def go(self) -> None:
        os.killpg(self.pid, signal.SIGCONT)

    def cpu(self) -> float:
        return sum(cpu_of(pid) for pid in self.counters.pids())

    def figures(self) -> Figures:
        return Figures(self.counters.work(), self.cpu(), time.monotonic())

    def stopped(self) -> bool:
        """Does any of its processes stand still, as if it were stopped?"""
        states = set()
        for pid in self.counters.pids():
            for task in os.listdir(f"/proc/{pid}/task"):
                with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/stat") as file:
                    states.add(file.read().rpartition(")")[2].split()[0])
        return bool(states & {"T", "t"})

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def cpu_of(pid: int) -> float:
    """The CPU clock of another process, to the nanosecond (see clock_getcpuclockid)."""
    try:
        return time.clock_gettime(~pid << 3 | 2)
    except OSError:
        return 0.0


@contextlib.contextmanager
def running(kind: Kind, python: pythons.Python, folder: Path) -> Iterator[Target]:
    target = Target(kind, python, folder)
    try:
        yield target
    finally:
        target.end()


def native_library(folder: Path) -> str:
    library = folder / "native.so"
    if not library.exists():
        words = ["cc", "-O2", "-shared", "-fPIC", "-pthread", "-o", str(library)]
        subprocess.run([*words, str(TARGETS / "native.c")], check=True)
    return str(library)


@dataclasses.dataclass(frozen=True)
class Gaps:
    """Pauses a target saw: how many, how long in the middle and at most, in microseconds."""

    count: int
    median_us: float
    p99_us: float
    longest_us: float

    @classmethod
    def between(cls, before: list[int], after: list[int]) -> Gaps:
        counts = [b - a for a, b in zip(before, after)]
        total = sum(counts)

        def at(share: float) -> float:
            left = share * total
            for bucket, count in enumerate(counts):
                left -= count
                if count and left <= 0:
                    return bucket_ns(bucket) / 1000
            return 0.0

        return cls(total, at(0.5), at(0.99), at(1.0))
