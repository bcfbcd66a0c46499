#!/usr/bin/env python3
"""What recording and tracing a Dask cluster costs. Writes bench/DASK.md.

    ./dev bench dask                  ten minutes
    ./dev bench dask --minutes 4      coarse
    ./dev bench dask --more           adds to the rounds of the run before

A scheduler and two workers in processes of their own shuffle a table again and again: bare, with all of them recorded at
100 Hz, bare again, and with two functions of the scheduler traced, in an order that turns from round to round. A figure is the median over
the rounds of the difference to the mean of the two bare runs beside it, with the interval that holds it with 95 %. The noise floor is half
the interval of the same figure made of the bare runs alone.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
sys.path[:0] = [
    str(PROJECT / "python"),
    str(PROJECT / "tests"),
    str(PROJECT / "tests" / "dask_cluster"),
]
os.environ.setdefault("SCRY", str(PROJECT / "build-release" / "scry"))

import clusters  # noqa: E402
import dask  # noqa: E402
import dask.datasets  # noqa: E402
from scry.dask import record, trace  # noqa: E402

os.environ["PYTHONPATH"] = clusters.PATH
SPARSE = ["distributed.Scheduler.update_graph", "distributed.Scheduler.handle_task_finished"]


def table(days: int) -> Any:
    return dask.datasets.timeseries(
        start="2000-01-01", end=f"2000-01-{1 + days:02}", partition_freq="1h", freq="60s"
    )


def cpu_seconds(pids: list[int]) -> float:
    """Of all threads, also those that ended."""
    total = 0.0
    for pid in pids:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    return total


def recorders(parents: list[int]) -> list[int]:
    return clusters.scry_processes(*parents)


def once(client: Any, days: int, block: Any, pids: list[int], parents: list[int]) -> dict[str, Any]:
    """The time of the computation alone: what a block costs at its begin and end is not it."""
    graph = table(days).shuffle("id").groupby("name").x.mean()
    with block:
        beside = recorders(parents)
        own, cpu, begun = cpu_seconds(beside), cpu_seconds(pids), time.perf_counter()
        graph.compute()
        wall = time.perf_counter() - begun
        return {
            "wall": wall,
            "cpu": cpu_seconds(pids) - cpu,
            "scry": cpu_seconds(beside) - own,
        }


def ways(folder: Path) -> dict[str, Any]:
    return {
        "bare": nullcontext,
        "recorded": lambda: record(folder / "run.scry", rate=100),
        "bare again": nullcontext,
        "traced sparsely": lambda: trace(folder / "run.pftrace", trace_sparse=SPARSE),
    }


def measure(found: dict[str, list[dict[str, Any]]], minutes: float, days: int) -> None:
    end = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with clusters.started(folder, 2) as cluster, cluster.client() as client:
            pids = [cluster.processes[0].pid, *client.run(os.getpid).values()]
            parents = [process.pid for process in cluster.processes]
            each = list(ways(folder).items())
            for _, make in each:
                once(client, days, make(), pids, parents)
            while time.monotonic() < end:
                for way, make in each:
                    found.setdefault(way, []).append(once(client, days, make(), pids, parents))
                each = each[1:] + each[:1]
                print(f"{len(found['bare'])} rounds", file=sys.stderr)


def interval(each: list[float]) -> tuple[float, float, float]:
    """The median, and between what it lies with 95 %: by drawing from what was seen, always in the same way."""
    draw = random.Random(1)
    many = sorted(statistics.median(draw.choices(each, k=len(each))) for _ in range(2000))
    return statistics.median(each), many[50], many[-51]


def share(found: dict[str, Any], way: str, what: str) -> tuple[float, float, float]:
    bare = zip(found["bare"], found["bare again"])
    return interval(
        [run[what] / ((a[what] + b[what]) / 2) - 1 for run, (a, b) in zip(found[way], bare)]
    )


def noise(found: dict[str, Any], what: str) -> float:
    pairs = zip(found["bare"], found["bare again"])
    _, low, high = interval([a[what] / b[what] - 1 for a, b in pairs])
    return (high - low) / 2


def verdict(high: float, low: float, floor: float, goal: float) -> str:
    """The goal counts beside the noise floor; where that is larger than the goal, it says nothing."""
    if low > goal + floor:
        return "short"
    if floor > goal:
        return "not decided, too much noise"
    return "met" if high <= goal + floor else "not decided"


def written(found: dict[str, Any], days: int) -> str:
    import distributed

    rounds = len(found["bare"])
    wall = statistics.median(run["wall"] for run in found["bare"])
    floors = {what: noise(found, what) for what in ("wall", "cpu")}
    lines = [
        "# What recording a Dask cluster costs",
        "",
        f"distributed {distributed.__version__}, Python {sys.version.split()[0]}, {os.cpu_count()} cores, a scheduler and two workers, a shuffle of",
        f"{24 * days} partitions that takes {wall:.2f} s; {rounds} rounds. Made by `./dev bench dask`, which says how.",
        "",
        "| | wall time | CPU time of scheduler and workers | goal, beside the noise floor | |",
        "|---|---|---|---|---|",
        f"| noise floor | ±{floors['wall']:.1%} | ±{floors['cpu']:.1%} | | |",
    ]
    for way, label, goal in (
        ("recorded", "all recorded at 100 Hz", 0.01),
        ("traced sparsely", "two functions of the scheduler traced", 0.05),
    ):
        cells, met = [], []
        for what in ("wall", "cpu"):
            figure, low, high = share(found, way, what)
            cells.append(f"{figure:+.1%} ({low:+.1%} to {high:+.1%})")
            met.append(f"{what}: {verdict(high, low, floors[what], goal)}")
        lines.append(f"| {label} | {cells[0]} | {cells[1]} | {goal:.0%} | {'; '.join(met)} |")
    beside = statistics.median(run["scry"] / run["wall"] for run in found["recorded"])
    lines += ["", f"The recorders themselves took {beside:.1%} of one CPU, all together."]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench dask", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10, help="0: only write")
    parser.add_argument("--more", action="store_true", help="add to the rounds of the run before")
    parser.add_argument(
        "--days", type=int, default=4, help="how large the table is, 24 partitions each"
    )
    args = parser.parse_args()
    kept = PROJECT / "out" / "bench-dask.json"
    kept.parent.mkdir(exist_ok=True)
    found = json.loads(kept.read_text()) if args.more and kept.exists() else {}
    if args.minutes > 0:
        measure(found, args.minutes, args.days)
    kept.write_text(json.dumps(found))
    text = written(found, args.days)
    (PROJECT / "bench" / "DASK.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
