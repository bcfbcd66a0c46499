"""The tracer beside viztracer and cProfile: all in one process, taking turns (trace/measure.py), on 3.11, 3.12, the newest
that viztracer has a wheel for, and the newest. Each process gives one figure for each thing measured, the best of its
rounds; tables show the median of the processes, and the range."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pythons
import report
from report import Records

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent
WORKING = PROJECT / "out" / "bench-trace"
EXTENSION = PROJECT / "python"


# ---- measuring ----


def interpreters() -> list[pythons.Python]:
    """Plain builds, with a GIL."""
    plain = [p for p in pythons.found() if not p.debug and not p.free_threaded and p.include]
    chosen = [[p for p in plain if p.minor == minor][-1:] for minor in ((3, 11), (3, 12), (3, 14))]
    found = [p for some in chosen for p in some]
    return found + [p for p in plain[-1:] if p not in found]


def prepare(python: pythons.Python) -> dict[str, str]:
    """Compiled parts, and viztracer in a folder; returns the environment to run in."""
    sys.path.insert(0, str(EXTENSION))
    from scry.trace import build

    folder = WORKING / python.id
    folder.mkdir(parents=True, exist_ok=True)
    after = ["-idirafter", str(Path(python.include).parent)]
    native = folder / "_tracer.so"
    build.compile_to(native, [python.include], flags=after)
    words = ["cc", "-O2", "-fPIC", "-shared", f"-isystem{python.include}", *after]
    words += [str(HERE / "trace" / "empty.c"), "-o", str(folder / "empty.so")]
    subprocess.run(words, check=True)
    packages = folder / "packages"
    if not (packages / "viztracer").exists():
        version = "{}.{}".format(*python.minor)
        words = ["install", "-q", "--target", str(packages), "--only-binary=:all:"]
        words += ["--python-version", version, "viztracer"]
        if subprocess.run([sys.executable, "-m", "pip", *words]).returncode:
            print(f"no viztracer for Python {version}: measured without", file=sys.stderr)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    return {**environment, "SCRY_TRACER": str(native), "PYTHONPATH": f"{EXTENSION}:{packages}"}


def measure(python: pythons.Python, processes: int, rounds: int) -> Records:
    """One record for each process."""
    environment = prepare(python)
    records = []
    for _ in range(processes):
        load = os.getloadavg()[0]
        words = python.argv(HERE / "trace" / "measure.py", WORKING / python.id, str(rounds))
        done = subprocess.run(words, env=environment, capture_output=True, text=True)
        if done.returncode:
            records.append({"interpreter": python.id, "failure": done.stderr[-2000:]})
        else:
            records.append({"interpreter": python.id, "load": load, **json.loads(done.stdout)})
    return records


# ---- tables ----

Cell = Callable[[dict[str, Any]], float]


def figures(records: Records, value: Cell) -> list[float]:
    """Of each process, where it was measured."""
    found = []
    for record in records:
        try:
            found.append(value(record))
        except (KeyError, ZeroDivisionError):
            continue
    return found


def cell(records: Records, value: Cell, form: Callable[[float], str]) -> str:
    return report.spread(figures(records, value), form)


def above(group: str, name: str, tool: str, base: str = "bare") -> Cell:
    return lambda r: r[group][name][tool] - r[group][name][base]


def share_of_viztracer(name: str) -> Cell:
    """Of the cost above an empty hook's."""
    scry, viztracer = (
        above("calls", name, "scry", "empty"),
        above("calls", name, "viztracer", "empty"),
    )
    return lambda r: scry(r) / viztracer(r)


def slower(name: str, tool: str) -> Cell:
    return lambda r: r["sparse"][name][tool] / r["sparse"][name]["bare"] - 1


def ns(value: float) -> str:
    return f"{value:+.1f}" if abs(value) < 9.95 else f"{value:+.0f}"


def plain(value: float) -> str:
    return f"{value:.1f}" if value < 99.5 else f"{value:,.0f}"


def microseconds(value: float) -> str:
    return f"{value / 1000:.2f}"


def calls_table(records: Records) -> list[str]:
    head = ["ns per call", "bare", "noise", "empty hook", "scry", "viztracer", "cProfile"]
    rows = []
    for name in records[0]["calls"]:
        row = [name, cell(records, lambda r, n=name: r["calls"][n]["bare"], plain)]
        for tool in ("bare again", "empty", "scry", "viztracer", "cProfile"):
            row.append(cell(records, above("calls", name, tool), ns))
        row.append(cell(records, share_of_viztracer(name), lambda v: f"{v:.2f}"))
        rows.append(row)
    return report.table([*head, "scry / viztracer, above the empty hook"], rows)


def excluded_table(records: Records) -> list[str]:
    rows = []
    for name in records[0]["excluded"]:
        row = [name, cell(records, lambda r, n=name: r["excluded"][n]["bare"], plain)]
        for tool in ("bare again", "scry", "viztracer"):
            row.append(cell(records, above("excluded", name, tool), ns))
        rows.append(row)
    return report.table(["excluded code, ns per call", "bare", "noise", "scry", "viztracer"], rows)


def sparse_table(records: Records) -> list[str]:
    tools = ("bare again", "scry", "scry, a named generator is alive")
    rows = [
        [name, *(cell(records, slower(name, tool), report.percent) for tool in tools)]
        for name in records[0]["sparse"]
    ]
    head = ["outside of named functions", "noise", "scry", "while a generator of one is alive"]
    return report.table(head, rows)


def toggling_table(records: Records) -> list[str]:
    rows = []
    for name in records[0]["toggling"]:
        row = [name]
        for tool in ("scry", "viztracer"):
            row.append(cell(records, lambda r, n=name, t=tool: r["toggling"][n][t], microseconds))
        rows.append(row)
    return report.table(["pause() and resume(), µs", "scry", "viztracer"], rows)


def saving_table(records: Records) -> list[str]:
    rows = []
    for name in records[0]["saving"]:
        row = [name]
        for what in ("ns", "bytes"):
            row.append(cell(records, lambda r, n=name, w=what: r["saving"][n][w], plain))
        rows.append(row)
    return report.table(["saving, per call", "ns", "bytes"], rows)


def write(records: Records, out: Path) -> list[str]:
    """The tables go into TRACE.md; here is only where they are."""
    lines = [
        "# What the tracer costs",
        "",
        "Made by `./dev bench trace`; not written by hand. Bare, an empty hook, scry, viztracer and cProfile take turns in one",
        "process, and each figure of a process is the best of its rounds. Cells are medians of several processes, with the lowest",
        "and highest in brackets. From the noise on (bare once more), figures are above bare. All tracers record the same events;",
        "cProfile keeps sums only.",
        "",
    ]
    for (interpreter,), runs in report.grouped(report.good(records), "interpreter").items():
        loads = report.spread([r["load"] for r in runs], lambda v: f"{v:.1f}")
        lines += [
            f"## Python {runs[0]['python']} ({interpreter}), viztracer {runs[0]['viztracer']}",
            "",
            f"{len(runs)} processes with {runs[0]['rounds']} rounds each; load of the machine before: {loads}.",
            "",
        ]
        for make in (calls_table, excluded_table, sparse_table, toggling_table, saving_table):
            lines += make(runs)
    (out / "TRACE.md").write_text("\n".join(lines).rstrip() + "\n")
    return ["The tables are in `TRACE.md`.", ""]


# ---- goals ----


def goals(records: Records) -> list[tuple[str, str, bool]]:
    """On each interpreter, the worst of all that was measured there."""
    found = []
    for (interpreter,), runs in report.grouped(report.good(records), "interpreter").items():
        first = runs[0]
        monitoring = tuple(map(int, first["python"].split(".")[:2])) >= (3, 12)

        def goal(what: str, cells: list[Cell], limit: float, form: Callable[[float], str]) -> None:
            values = [report.statistics.median(v) for c in cells if (v := figures(runs, c))]  # noqa: B023
            if values:
                text = f"trace, {interpreter}, {what}: at most {form(limit)}"  # noqa: B023
                found.append((text, form(max(values)), max(values) <= limit))

        goal(
            "cost above an empty hook, of viztracer's",
            [share_of_viztracer(name) for name in first["calls"]],
            0.5,
            lambda v: f"{v:.2f}",
        )
        if monitoring:
            cells = [above("excluded", name, "scry") for name in first["excluded"]]
            goal("excluded code per call", cells, 5, lambda v: f"{v:.1f} ns")
        cells = [slower(name, "scry") for name in first["sparse"]]
        goal("outside of named functions", cells, 0.02, report.percent)
        cells = [lambda r: r["toggling"]["nothing between"]["scry"]]
        goal("pause() and resume()", cells, 6000, lambda v: f"{v / 1000:.2f} µs")
        saving = [
            lambda r, w=what: r["saving"]["scry .pftrace"][w] / r["saving"]["viztracer save()"][w]
            for what in ("bytes", "ns")
        ]
        goal("bytes per call, of viztracer's", saving[:1], 0.25, lambda v: f"{v:.3f}")
        goal("time to save, of viztracer's", saving[1:], 0.2, lambda v: f"{v:.3f}")
    return found
