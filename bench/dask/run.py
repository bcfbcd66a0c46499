#!/usr/bin/env python3
"""What recording and tracing a Dask cluster costs. Writes bench/DASK.md.

    ./dev bench dask                  ten minutes
    ./dev bench dask --minutes 4      adds to what was measured of the same code before
    ./dev bench dask --anew           begins anew

A scheduler and two workers in processes of their own shuffle a table again and again: bare, with all workers recorded at
100 Hz, bare, with two functions of the scheduler traced, bare, with the scheduler recorded as well, and so on. For comparison py-spy
records the same processes at 100 Hz. Each run that is not bare is held against the mean of the two
bare ones around it, so that a machine that becomes slower or faster does not matter. Of these ratios the half counts during which the
host of a virtual machine took the least CPU time for others; nothing else decides which. A figure is the median of that half with the
interval that holds it with 95 % (bootstrap). The noise floor is half the interval of the same figure made of bare runs alone, each
against the two bare ones around it.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
sys.path[:0] = [
    str(PROJECT / "python"),
    str(PROJECT / "tests"),
    str(PROJECT / "tests" / "dask_cluster"),
    str(PROJECT / "bench"),
]
os.environ.setdefault("SCRY", str(PROJECT / "build-release" / "scry"))

import clusters  # noqa: E402
import dask  # noqa: E402
import dask.datasets  # noqa: E402
from report import interval  # noqa: E402
from scry.dask import record, trace  # noqa: E402
from workload import Stolen  # noqa: E402

os.environ["PYTHONPATH"] = clusters.PATH
SPARSE = ["distributed.Scheduler.update_graph", "distributed.Scheduler.handle_task_finished"]
OTHERS = ("workers", "traced", "workers", "all", "workers", "traced", "workers", "py-spy")
ORDER = tuple(itertools.chain.from_iterable(("bare", way) for way in OTHERS))
WAYS: dict[str, tuple[str, float | None]] = {
    "workers": ("all workers recorded at 100 Hz", 0.01),
    "all": ("scheduler and workers recorded at 100 Hz", 0.01),
    "traced": ("two functions of the scheduler traced", 0.05),
    "py-spy": ("scheduler and workers recorded by py-spy at 100 Hz", None),
}
WARM_UP = 3

Run = dict[str, Any]


def table(days: int) -> Any:
    return dask.datasets.timeseries(
        start="2000-01-01", end=f"2000-01-{1 + days:02}", partition_freq="1h", freq="60s"
    )


def cpu_seconds(pid: int) -> float:
    """Of all threads of the process, also those that ended, to the nanosecond: clock_getcpuclockid(3)."""
    return time.clock_gettime((~pid << 3) | 2)


def kernel_seconds(pid: int) -> float:
    """What the programs that this process has loaded into the kernel have taken there, in the time of those they look at."""
    total = 0
    for info in Path(f"/proc/{pid}/fdinfo").iterdir():
        with suppress(OSError):
            found = re.search(r"^run_time_ns:\s*(\d+)", info.read_text(), re.MULTILINE)
            total += int(found[1]) if found else 0
    return total / 1e9


@contextmanager
def kernel_counts() -> Iterator[None]:
    """The kernel counts that only if it is told to."""
    switch = Path("/proc/sys/kernel/bpf_stats_enabled")
    before = switch.read_text()
    switch.write_text("1")
    try:
        yield
    finally:
        switch.write_text(before)


def once(days: int, block: Any, pids: list[int], parents: list[int]) -> Run:
    """The time of the computation alone: what a block costs at its begin and end is not it."""
    graph = table(days).shuffle("id").groupby("name").x.mean()
    with block:
        recorders = clusters.scry_processes(*parents)
        own, cpu = list(map(cpu_seconds, recorders)), sum(map(cpu_seconds, pids))
        inside = sum(map(kernel_seconds, recorders))
        begun = time.perf_counter()
        graph.compute()
        wall = time.perf_counter() - begun
        return {
            "wall": wall,
            "cpu": sum(map(cpu_seconds, pids)) - cpu,
            "scry": [cpu_seconds(pid) - before for pid, before in zip(recorders, own)],
            "kernel": sum(map(kernel_seconds, recorders)) - inside,
        }


@contextmanager
def beside(words: list[str], pids: list[int], folder: Path) -> Iterator[None]:
    """A program for each process, until the block ends."""
    started = [
        subprocess.Popen(
            [*words, "-p", str(pid), "-o", str(folder / f"beside-{pid}")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for pid in pids
    ]
    try:
        yield
    finally:
        for process in started:
            process.send_signal(signal.SIGINT)
        for process in started:
            process.wait()


def block_for(way: str, folder: Path, pids: list[int]) -> Any:
    if way in ("workers", "all"):
        return record(folder / "run.scry", rate=100, scheduler=way == "all")
    if way == "traced":
        return trace(folder / "run.pftrace", trace_sparse=SPARSE)
    if way == "py-spy":
        py_spy = str(Path(sys.executable).parent / "py-spy")
        return beside([py_spy, "record", "-r", "100", "-f", "raw"], pids, folder)
    return nullcontext()


def measure(found: list[Run], minutes: float, days: int) -> None:
    """Runs in a row, beginning with a bare one."""
    end = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with clusters.started(folder, 2) as cluster, cluster.client() as client, kernel_counts():
            pids = [cluster.processes[0].pid, *client.run(os.getpid).values()]
            parents = [process.pid for process in cluster.processes]
            for way in (*ORDER[:1] * WARM_UP, *OTHERS[:2]):
                once(days, block_for(way, folder, pids), pids, parents)
            for way in itertools.cycle(ORDER):
                if way == "bare" and time.monotonic() > end and len(found) > len(ORDER):
                    break
                found.append(counted(way, days, folder, pids, parents))
            found.append(counted("bare", days, folder, pids, parents))


def counted(way: str, days: int, folder: Path, pids: list[int], parents: list[int]) -> Run:
    before = Stolen.now()
    run = once(days, block_for(way, folder, pids), pids, parents)
    print(f"{way:9} {run['wall']:.2f} s, CPU {run['cpu']:.2f} s", file=sys.stderr)
    return {"way": way, **run, "stolen": Stolen.now().since(before)}


def ratios(rows: list[list[Run]], way: str, what: str) -> list[float]:
    """Each run of that way against the bare ones around it, in the quieter half; a bare one's neighbours are the next bare
    ones."""
    found: list[tuple[float, float]] = []
    for row in rows:
        bare = [i for i, run in enumerate(row) if run["way"] == "bare"]
        for i, run in enumerate(row):
            before = [b for b in bare if b < i]
            after = [b for b in bare if b > i]
            if run["way"] == way and before and after:
                around = row[before[-1]], row[after[0]]
                stolen = sum(one["stolen"] for one in (run, *around))
                found.append((stolen, run[what] / statistics.mean(b[what] for b in around) - 1))
    found.sort()
    return [ratio for _, ratio in found[: (len(found) + 1) // 2]]


def verdict(low: float, high: float, floor: float, goal: float) -> str:
    """The goal counts beside the noise floor; where that is larger than the goal, it says nothing."""
    if low > goal + floor:
        return "short"
    if floor > goal:
        return "not decided, too much noise"
    return "met" if high <= goal + floor else "not decided"


def written(rows: list[list[Run]], days: int) -> str:
    import distributed

    runs = [run for row in rows for run in row]
    counts = {way: len(ratios(rows, way, "cpu")) for way in WAYS}
    wall = statistics.median(run["wall"] for run in runs if run["way"] == "bare")
    cpu = statistics.median(run["cpu"] for run in runs if run["way"] == "bare")
    floors = {}
    for what in ("wall", "cpu"):
        _, low, high = interval(ratios(rows, "bare", what))
        floors[what] = (high - low) / 2
    lines = [
        "# What recording a Dask cluster costs",
        "",
        f"distributed {distributed.__version__}, Python {sys.version.split()[0]}, {os.cpu_count()} cores, a scheduler and two workers, a shuffle of {24 * days} partitions that",
        f"takes {wall:.2f} s and {cpu:.2f} s of CPU time. {counts['workers']} runs recorded and {counts['traced']} traced count, each between two bare ones:",
        "the quieter half of what was measured.",
        "Made by `./dev bench dask`, which says how.",
        "",
        "| | wall time | CPU time of scheduler and workers | goal, beside the noise floor | |",
        "|---|---|---|---|---|",
        f"| noise floor | ±{floors['wall']:.1%} | ±{floors['cpu']:.1%} | | |",
    ]
    for way, (label, goal) in WAYS.items():
        cells, met = [], []
        for what in ("wall", "cpu"):
            figure, low, high = interval(ratios(rows, way, what))
            cells.append(f"{figure:+.1%} ({low:+.1%} to {high:+.1%})")
            if goal:
                met.append(f"{what}: {verdict(low, high, floors[what], goal)}")
        ends = f"{goal:.0%} | {'; '.join(met)}" if goal else "|"
        lines.append(f"| {label} | {cells[0]} | {cells[1]} | {ends} |")
    recorded = [run for run in runs if run["way"] == "workers"]
    share = statistics.median(sum(run["scry"]) / run["wall"] for run in recorded)
    looks = statistics.median(sum(run["scry"]) / len(run["scry"]) / run["wall"] for run in recorded)
    stolen = statistics.mean(run["stolen"] for run in runs)
    inside = statistics.median(run["kernel"] / run["wall"] for run in recorded)
    cores = os.cpu_count() or 1
    account = statistics.median(
        (sum(run["scry"]) + run["kernel"]) / run["wall"] / cores for run in recorded
    )
    lines += [
        "",
        f"Of the CPU time that was wanted the host of this virtual machine gave {stolen:.1%} to others.",
        f"The {len(recorded[0]['scry'])} recorders took {share:.2%} of one CPU, all together: {looks / 100 * 1e6:.0f} µs for a look at all threads of a process.",
        f"Their program in the kernel took {inside:.2%} of one CPU from the workers. Both together are **{account:.2%} of the {cores} CPUs**, which is what",
        "recording takes away from a computation that wants all of them, but for the timers' interrupts themselves.",
    ]
    return "\n".join(lines) + "\n"


def code() -> str:
    """What is measured: the program and the package."""
    seen = hashlib.sha256(Path(os.environ["SCRY"]).read_bytes())
    for path in sorted((PROJECT / "python").rglob("*.py")):
        seen.update(path.read_bytes())
    return seen.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench dask", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10, help="0: only write")
    parser.add_argument("--anew", action="store_true", help="forget what was measured before")
    parser.add_argument("--days", type=int, default=3, help="of the table, 24 partitions each")
    args = parser.parse_args()
    kept = PROJECT / "out" / "bench-dask.json"
    kept.parent.mkdir(exist_ok=True)
    found = json.loads(kept.read_text()) if kept.exists() and not args.anew else {}
    of = {"code": code(), "days": args.days}
    if found.get("of") != of:
        if args.minutes == 0:
            sys.exit("what was measured before is of other code")
        found = {"of": of, "pieces": []}
    if args.minutes > 0:
        found["pieces"].append([])
        try:
            measure(found["pieces"][-1], args.minutes, args.days)
        finally:  # what is interrupted counts as far as it came
            kept.write_text(json.dumps(found))
    text = written(found["pieces"], args.days)
    (PROJECT / "bench" / "DASK.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
