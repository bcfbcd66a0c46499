#!/usr/bin/env python3
"""What recording and tracing a Dask cluster costs. Writes RESULTS.md.

    ./dev bench dask                  20 rounds, some minutes
    ./dev bench dask --rounds 4       coarse

A scheduler and two workers in processes of their own shuffle a table again and again: bare, with all of them recorded at
100 Hz, and with two functions of the scheduler traced. The three take turns, and bare comes twice in each round: the
difference between the two is the noise floor. A figure is the median of the differences to the bare runs beside it.
"""

from __future__ import annotations

import argparse
import os
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
    total = 0.0
    for pid in pids:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    return total


def once(client: Any, days: int, block: Any, pids: list[int]) -> dict[str, float]:
    """The time of the computation alone: what a block costs at its begin and end is not it."""
    graph = table(days).shuffle("id").groupby("name").x.mean()
    with block:
        cpu, begun = cpu_seconds(pids), time.perf_counter()
        graph.compute()
        return {"wall": time.perf_counter() - begun, "cpu": cpu_seconds(pids) - cpu}


def ways(folder: Path) -> dict[str, Any]:
    return {
        "bare": nullcontext,
        "recorded": lambda: record(folder / "run.scry", rate=100),
        "bare again": nullcontext,
        "traced sparsely": lambda: trace(folder / "run.pftrace", trace_sparse=SPARSE),
    }


def measure(rounds: int, days: int) -> dict[str, list[dict[str, float]]]:
    found: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with clusters.started(folder, 2) as cluster, cluster.client() as client:
            pids = [cluster.processes[0].pid, *client.run(os.getpid).values()]
            once(client, days, nullcontext(), pids)
            for number in range(rounds):
                for way, make in ways(folder).items():
                    found.setdefault(way, []).append(once(client, days, make(), pids))
                print(f"round {number + 1} of {rounds}", file=sys.stderr)
    return found


def share(found: dict[str, Any], way: str, what: str) -> float:
    """How much longer than the mean of the two bare runs of its round; the median of the rounds."""
    bare = zip(found["bare"], found["bare again"])
    each = [run[what] / ((a[what] + b[what]) / 2) - 1 for run, (a, b) in zip(found[way], bare)]
    return statistics.median(each)


def noise(found: dict[str, Any], what: str) -> float:
    """The median distance of the two bare runs of a round."""
    pairs = zip(found["bare"], found["bare again"])
    return statistics.median(abs(a[what] / b[what] - 1) for a, b in pairs)


def written(found: dict[str, Any], rounds: int, days: int) -> str:
    import distributed

    wall = statistics.median(run["wall"] for run in found["bare"])
    lines = [
        "# What recording a Dask cluster costs",
        "",
        f"distributed {distributed.__version__}, Python {sys.version.split()[0]}, {os.cpu_count()} cores, a scheduler and two workers, a shuffle of",
        f"{24 * days} partitions that takes {wall:.2f} s; {rounds} rounds. Made by `./dev bench dask`.",
        "",
        "| | wall time | CPU time of scheduler and workers |",
        "|---|---|---|",
        f"| noise floor: two bare runs | ±{noise(found, 'wall'):.1%} | ±{noise(found, 'cpu'):.1%} |",
    ]
    for way, label in (
        ("recorded", "all recorded at 100 Hz"),
        ("traced sparsely", "two functions of the scheduler traced"),
    ):
        lines.append(
            f"| {label} | {share(found, way, 'wall'):+.1%} | {share(found, way, 'cpu'):+.1%} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev bench dask", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument(
        "--days", type=int, default=4, help="how large the table is, 24 partitions each"
    )
    args = parser.parse_args()
    text = written(measure(args.rounds, args.days), args.rounds, args.days)
    (HERE / "RESULTS.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
