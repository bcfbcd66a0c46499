"""What scry costs, beside py-spy on the same machine: `./dev bench`.

Time of one dump; while recording: own CPU time, samples taken of those asked for, and how much slower the target gets
(work done while recorded against work done in the seconds before and after). Medians over the rounds. Figures of a
busy machine say little, so the load is printed with them.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import re
import resource
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
SHAPES = {"1 thread": (1, 0), "4 threads, 60 idle": (4, 60)}


@dataclasses.dataclass
class Target:
    pid: int
    counts: Path

    def work(self) -> int:
        data = self.counts.read_bytes()
        return sum(struct.unpack(f"{len(data) // 8}q", data))

    def speed(self, seconds: float) -> float:
        before, started = self.work(), time.monotonic()
        time.sleep(seconds)
        return (self.work() - before) / (time.monotonic() - started)


@contextlib.contextmanager
def running(python: str, threads: int, idle: int) -> Iterator[Target]:
    with tempfile.TemporaryDirectory() as folder:
        counts = Path(folder) / "counts"
        counts.write_bytes(bytes(8 * threads))
        command = [python, PROJECT / "bench" / "target.py", counts, str(threads), str(idle)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        try:
            assert process.stdout and process.stdout.readline() == b"ready\n"
            yield Target(process.pid, counts)
        finally:
            process.kill()
            process.communicate()


def run(command: list[str]) -> tuple[float, float, str]:
    """Wall seconds, CPU seconds of the command, what it said."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    result = subprocess.run(command, capture_output=True, text=True)
    wall, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if result.returncode != 0:
        sys.exit(f"bench: {' '.join(command)}: {result.stderr.strip()}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, result.stdout + result.stderr


def dump_times(tool: str, target: Target, rounds: int) -> list[float]:
    return [run([tool, "dump", "-p", str(target.pid)])[0] for _ in range(rounds)]


def record(tool: str, target: Target, rate: int, seconds: int) -> tuple[float, float, int]:
    """Part of a CPU used, speed of the target as a part of its speed alone, samples of the raw file."""
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/profile.raw"
        words = [tool, "record", "-p", str(target.pid), "-d", str(seconds), "-r", str(rate)]
        alone = target.speed(1)
        before, started = target.work(), time.monotonic()
        wall, cpu, _ = run([*words, "-f", "raw", "-o", file])
        recorded = (target.work() - before) / (time.monotonic() - started)
        alone = (alone + target.speed(1)) / 2
        lines = Path(file).read_text().splitlines()
    return (
        cpu / wall,
        recorded / alone,
        sum(int(re.search(r"(\d+)$", line).group(1)) for line in lines),
    )


def compare(tools: dict[str, str], options: argparse.Namespace) -> None:
    for shape, (threads, idle) in SHAPES.items():
        with running(options.python, threads, idle) as target:
            print(f"\n{shape}")
            for name, tool in tools.items():
                times = dump_times(tool, target, 4 * options.rounds)
                print(f"  {name:8} dump               {statistics.median(times) * 1e3:8.1f} ms")
            for rate in (100, 1000):
                for name, tool in tools.items():
                    rounds = [
                        record(tool, target, rate, options.seconds) for _ in range(options.rounds)
                    ]
                    cpu, speed, samples = map(statistics.median, zip(*rounds))
                    print(
                        f"  {name:8} record -r {rate:<5}   {cpu * 100:8.1f} % of a CPU, "
                        f"target at {speed * 100:5.1f} % of its speed, {samples:.0f} samples"
                    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the target")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3, help="of each recording")
    options = parser.parse_args()
    tools = {"scry": os.environ.get("SCRY") or str(PROJECT / "build-release" / "scry")}
    py_spy = Path(sys.executable).parent / "py-spy"
    if py_spy.exists():
        tools["py-spy"] = str(py_spy)
    version = subprocess.check_output([options.python, "--version"], text=True).strip()
    print(f"{version}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
    compare(tools, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
