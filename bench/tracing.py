"""The tracer beside viztracer and cProfile: all in one process, taking turns (trace/measure.py), on 3.11, 3.12, 3.14 and the
newest. Each process gives one figure for each thing measured, the best of its
rounds; tables show the median of the processes, and the range."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pythons
import report
from report import Records

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE / "trace"))
import rows  # noqa: E402

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
    if not (packages / "viztracer").exists() and not install_viztracer(python, packages, after):
        version = "{}.{}".format(*python.minor)
        print(f"no viztracer for Python {version}: measured without", file=sys.stderr)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    return {**environment, "SCRY_TRACER": str(native), "PYTHONPATH": f"{EXTENSION}:{packages}"}


def install_viztracer(python: pythons.Python, packages: Path, flags: list[str]) -> bool:
    """The newest, as a wheel, and where there is none for this Python yet, from its sources."""
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    wheel = ["--only-binary=:all:", "--python-version", "{}.{}".format(*python.minor)]
    words = [*pip, "install", "--target", packages, *wheel, "viztracer"]
    if subprocess.run(words, stderr=subprocess.DEVNULL).returncode == 0:
        return True
    with tempfile.TemporaryDirectory(prefix="scry-viztracer-") as name:
        words = [*pip, "download", "--no-deps", "--no-binary=:all:", "-d", name, "viztracer"]
        if subprocess.run(words).returncode:
            return False
        subprocess.run(["tar", "xf", *Path(name).glob("*.tar.gz"), "-C", name], check=True)
        source = next(Path(name).glob("viztracer-*/src/viztracer"))
        words = [*pip, "install", "--target", packages, *wheel, "objprint"]
        subprocess.run(words, check=True)
        modules = source / "modules"
        for extension, files in (
            ("snaptrace", modules.glob("*.c")),
            ("vcompressor", (modules / "vcompressor").glob("*.c")),
        ):
            # As its setup.py does it, at the level Python's own makefiles have.
            words = ["cc", "-O3", "-DNDEBUG", "-std=c99", "-D_GNU_SOURCE", "-fPIC", "-shared"]
            words += [f"-isystem{python.include}", *flags, *files, "-lpthread"]
            subprocess.run([*words, "-o", source / f"{extension}.so"], check=True)
        shutil.copytree(source, packages / "viztracer")
    return True


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


def by_interpreter(records: Records) -> list[tuple[str, Records]]:
    """The oldest first, whenever each was measured."""
    groups = report.grouped(report.good(records), "interpreter")
    found = [(interpreter, runs) for (interpreter,), runs in groups.items()]
    return sorted(found, key=lambda f: tuple(map(int, re.findall(r"\d+", f[1][0]["python"]))))


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


def above(group: str, name: str, tool: str, base: str = rows.BARE) -> Cell:
    return lambda r: r[group][name][tool] - r[group][name][base]


def share_of_viztracer(name: str) -> Cell:
    """Of the cost above an empty hook's."""
    ours = above("calls", name, rows.SCRY, rows.EMPTY)
    theirs = above("calls", name, rows.VIZTRACER, rows.EMPTY)
    return lambda r: ours(r) / theirs(r)


Interval = tuple[float, float, float]  # the median, and where it lies with a certainty of 95 %


def slower(records: Records, name: str, tool: str) -> Interval:
    """Than bare: of all rounds of all processes."""
    shares = sorted(share for r in report.good(records) for share in r["sparse"][name][tool])
    aside = max(0, int(len(shares) / 2 - 0.98 * len(shares) ** 0.5))
    return report.statistics.median(shares), shares[aside], shares[-1 - aside]


def interval(of: Interval) -> str:
    return "{} ({}–{})".format(*map(report.percent, of))


def share_when_saving(suffix: str, what: str) -> Cell:
    """Of what viztracer takes, by whichever of its ways takes less."""

    def share(record: dict[str, Any]) -> float:
        saving = record["saving"]
        theirs = min(saving[rows.saved_by_viztracer(way)][what] for way in rows.WAYS)
        return saving[rows.saved(suffix)][what] / theirs

    return share


def ns(value: float) -> str:
    return f"{value:+.1f}" if abs(value) < 9.95 else f"{value:+.0f}"


def plain(value: float) -> str:
    return f"{value:.1f}" if value < 99.5 else f"{value:,.0f}"


def microseconds(value: float) -> str:
    return f"{value / 1000:.2f}"


def calls_table(records: Records) -> list[str]:
    head = ["ns per call", "bare", "noise", "empty hook", "scry", "viztracer", "cProfile"]
    body = []
    for name in records[0]["calls"]:
        row = [name, cell(records, lambda r, n=name: r["calls"][n][rows.BARE], plain)]
        for tool in (rows.AGAIN, rows.EMPTY, rows.SCRY, rows.VIZTRACER, rows.CPROFILE):
            row.append(cell(records, above("calls", name, tool), ns))
        row.append(cell(records, share_of_viztracer(name), lambda v: f"{v:.2f}"))
        body.append(row)
    return report.table([*head, "scry / viztracer, above the empty hook"], body)


def excluded_table(records: Records) -> list[str]:
    body = []
    for name in records[0]["excluded"]:
        row = [name, cell(records, lambda r, n=name: r["excluded"][n][rows.BARE], plain)]
        for tool in (rows.AGAIN, rows.SCRY, rows.VIZTRACER):
            row.append(cell(records, above("excluded", name, tool), ns))
        body.append(row)
    return report.table(["excluded code, ns per call", "bare", "noise", "scry", "viztracer"], body)


def sparse_table(records: Records) -> list[str]:
    tools = (rows.AGAIN, rows.SCRY, rows.ALIVE)
    body = [
        [name, *(interval(slower(records, name, tool)) for tool in tools)]
        for name in records[0]["sparse"]
    ]
    rounds = sum(len(r["sparse"][body[0][0]][rows.SCRY]) for r in records)
    said = f"Outside of named functions: the median of {rounds} rounds, each beside bare, and its interval of 95 %."
    head = ["outside of named functions", "noise", "scry", "while a generator of one is alive"]
    return [said, "", *report.table(head, body)]


def toggling_table(records: Records) -> list[str]:
    body = []
    for name in records[0]["toggling"]:
        row = [name]
        for tool in (rows.SCRY, rows.VIZTRACER):
            row.append(cell(records, lambda r, n=name, t=tool: r["toggling"][n][t], microseconds))
        body.append(row)
    said = []
    if records[0]["restart"]:
        alone = cell(records, lambda r: r["restart"], microseconds)
        said = [
            "A short pause costs its events. In a long one they are turned off, and on again in the functions that were called, while",
            "these are few; else by `sys.monitoring.restart_events()`, which goes through all functions on the stack",
            f"({records[0]['stack']} instructions here) and alone takes {alone} µs.",
            "",
        ]
    return [*said, *report.table(["pause() and resume(), µs", "scry", "viztracer"], body)]


def saving_table(records: Records) -> list[str]:
    body = []
    for name in records[0]["saving"]:
        row = [name]
        for what in ("ns", "bytes"):
            row.append(cell(records, lambda r, n=name, w=what: r["saving"][n][w], plain))
        body.append(row)
    return report.table(["saving, per call", "ns", "bytes"], body)


HEAD = [
    "Made by `./dev bench trace`; not written by hand. Bare, an empty hook, scry, viztracer and cProfile take turns in one",
    "process, and each figure of a process is the best of its rounds, in CPU time. Cells are medians of several processes, with",
    "the lowest and highest in brackets. From the noise on (bare once more), figures are above bare. All tracers record the same",
    "events; cProfile keeps sums only.",
    "",
]
GOALS = [
    "For each interpreter the worst row of its tables below, by its median. viztracer's bytes and time to save are those of",
    "whichever of its two ways takes less. Traces as JSON are text, as viztracer's are, and about as large; those for Perfetto",
    "(.pftrace) and recordings (.scry) are meant.",
    "",
]


def write(records: Records, out: Path) -> list[str]:
    """The tables go into TRACE.md; here is only where they are."""
    lines = ["# What the tracer costs", "", *HEAD]
    words = {True: "met", False: "**short**", None: "too much noise to say"}
    reached = [[what, value, words[met]] for what, value, met in goals(records)]
    lines += ["## Goals", "", *GOALS, *report.table(["goal", "worst of its rows", ""], reached)]
    for interpreter, runs in by_interpreter(records):
        loads = report.spread([r["load"] for r in runs], lambda v: f"{v:.1f}")
        lines += [
            f"## Python {runs[0]['python']} ({interpreter}), viztracer {runs[0]['viztracer']}",
            "",
            f"{len(runs)} processes with {runs[0]['rounds']} rounds each"
            f"{', ahead of all others' if runs[0]['ahead'] else ''}; load of the machine before: {loads}.",
            "",
        ]
        for make in (calls_table, excluded_table, sparse_table, toggling_table, saving_table):
            lines += make(runs)
    (out / "TRACE.md").write_text("\n".join(lines).rstrip() + "\n")
    return ["The tables are in `TRACE.md`.", ""]


# ---- goals ----


def outside_goal(interpreter: str, records: Records) -> tuple[str, str, bool | None]:
    """The row whose interval reaches highest. Where the limit lies within one, it is not known."""
    found = {name: slower(records, name, rows.SCRY) for name in records[0]["sparse"]}
    worst = max(found, key=lambda name: found[name][2])
    met = True if found[worst][2] <= OUTSIDE else None
    if any(low > OUTSIDE for _, low, _ in found.values()):
        met = False
    what = f"trace, {interpreter}, outside of named functions: at most {report.percent(OUTSIDE)}"
    return what, f"{interval(found[worst])} ({worst})", met


def goals(records: Records) -> list[tuple[str, str, bool | None]]:
    """On each interpreter, the worst of all that was measured there."""
    found: list[tuple[str, str, bool | None]] = []
    for interpreter, runs in by_interpreter(records):
        for what, cells, limit, form in wanted(runs[0]):
            medians = {
                name: report.statistics.median(values)
                for name, cell in cells.items()
                if (values := figures(runs, cell))
            }
            if medians:
                worst = max(medians, key=medians.__getitem__)
                value = (
                    f"{form(medians[worst])} ({worst})"
                    if len(medians) > 1
                    else form(medians[worst])
                )
                text = f"trace, {interpreter}, {what}: at most {form(limit)}"
                found.append((text, value, medians[worst] <= limit))
        found.append(outside_goal(interpreter, runs))
    return found


OUTSIDE = 0.02
Wanted = tuple[str, dict[str, Cell], float, Callable[[float], str]]


def wanted(first: dict[str, Any]) -> list[Wanted]:
    """What is to be reached: in words, by which cells, at most what, and how that is written."""
    kinds: list[Wanted] = [
        (
            "cost above an empty hook, of viztracer's",
            {name: share_of_viztracer(name) for name in first["calls"]},
            0.5,
            lambda v: f"{v:.2f}",
        )
    ]
    if tuple(map(int, first["python"].split(".")[:2])) >= (3, 12):
        cells = {name: above("excluded", name, rows.SCRY) for name in first["excluded"]}
        kinds.append(("excluded code per call", cells, 5, lambda v: f"{v:.1f} ns"))
    for name in map(rows.between, rows.BETWEEN):
        cells = {name: lambda r, n=name: r["toggling"][n][rows.SCRY]}
        kinds.append((f"pause() and resume(), {name}", cells, 6000, lambda v: f"{v / 1000:.2f} µs"))
    for suffix in rows.FORMATS:
        cells = {suffix: share_when_saving(suffix, "bytes")}
        if suffix != "json":
            text = f"bytes per call of a .{suffix}, of viztracer's"
            kinds.append((text, cells, 0.25, lambda v: f"{v:.3f}"))
        cells = {suffix: share_when_saving(suffix, "ns")}
        text = f"time to save a .{suffix}, of viztracer's"
        kinds.append((text, cells, 0.2, lambda v: f"{v:.3f}"))
    return kinds
