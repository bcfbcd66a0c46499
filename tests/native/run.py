#!/usr/bin/env python3
"""Many samples of --native beside gdb's, on every interpreter: ./dev native [--samples N] [--python ID]... [PROGRAM]...

One gdb and one scry (look.c) stay with each program, so that what costs time, reading symbols, is done once. What was
measured is kept in a file of results, and the report is made of that: a run goes on where the last one ended.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import itertools
import json
import random
import sys
import tempfile
import time
from pathlib import Path

import building
import compare
import pytest
import pythons

HERE = Path(__file__).resolve().parent
BENCH = HERE.parent.parent / "bench"

PROGRAMS = [
    "numpy",
    "compress",
    "serialise",
    "sort",
    "callback",
    "cython",
    "recurse",
    "generators",
    "extension",
    "signals",
]
WANTED = 0.95  # must agree with gdb


def words_for(program, python, folder):
    """What the program needs; None and the reason when it cannot be had."""
    if program in ("extension", "signals"):
        return [building.extension(python, folder)]
    if program == "cython":
        return [building.cython(python, folder)]
    if program == "numpy":
        return [building.numpy(python)]
    return []


def verdicts(gdb, plain, native, python, program):
    """Of one sample after the other."""
    with tempfile.TemporaryDirectory(prefix="scry-native-") as folder:
        process = compare.start(python, program, *words_for(program, python, folder))
        try:
            for how in itertools.cycle(["auto", "always"]):
                time.sleep(random.uniform(0, 0.005))

                def look(pid, how=how):
                    return plain.stacks(pid, "plain"), native.stacks(pid, how)

                yield compare.sample(look, gdb, process, python, program)
        finally:
            process.kill()
            process.wait()


def add_verdict(count, verdict):
    """The thread that only waits, which every program has, is counted apart: it is always in the same place."""
    apart = "" if verdict.tid == verdict.pid else "waiting_"
    if verdict.sound:
        count[apart + "stacks"] += 1
        count[apart + "agree"] += verdict.agrees
        count[apart + verdict.state] += 1
    else:
        count["gdb_lost"] += 1
        count["gdb_lost_" + verdict.state] += 1
    count["lost_python"] += not verdict.keeps_python
    if verdict.detail and verdict.sound:
        print(verdict.detail, file=sys.stderr)


def measure(choice, cache, python, program, count, end):
    """Adds to the count until it is full, or the time is over."""
    looks = [compare.Looks(choice.look) for _ in range(2)]
    with compare.Gdb(cache) as gdb, looks[0] as plain, looks[1] as native:
        samples = verdicts(gdb, plain, native, python, program)
        with contextlib.closing(samples):
            while count["stacks"] < choice.samples and time.monotonic() < end:
                for verdict in next(samples):
                    add_verdict(count, verdict)


def is_good(count):
    return not count["lost_python"] and all(
        count[apart + "agree"] >= WANTED * count[apart + "stacks"] for apart in ("", "waiting_")
    )


def line(program, python, count):
    stacks = max(1, count["stacks"])
    return (
        f"{program:<11}{python:<17}{count['stacks']:5} stacks  agree {count['agree'] / stacks:7.2%}"
        f"  gdb lost {count['gdb_lost']:4}  Python lost {count['lost_python']}  {'' if is_good(count) else 'FAILED'}"
    )


# ---- the report ----


def load(path):
    """{python: {program: count, or the reason why it cannot be had}}"""
    try:
        results = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return {
        python: {p: c if isinstance(c, str) else collections.Counter(c) for p, c in row.items()}
        for python, row in results.items()
    }


def save(results, path):
    path.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    path.with_name("NATIVE.md").write_text(report(results))


def cell(count):
    if not count:
        return ""
    if isinstance(count, str):
        return "–"
    share = 100 * count["agree"] / max(1, count["stacks"])
    text = f"{share:.4g} % of {count['stacks']}"
    return text if is_good(count) else f"**{text}**"


def percent(part, whole):
    return f"{100 * part / max(1, whole):.4g} %"


def report(results):
    """A row for each interpreter, a column for each program."""
    counts = [c for row in results.values() for c in row.values() if not isinstance(c, str)]
    total = sum(counts, collections.Counter())
    poor = sum(1 for c in counts if not is_good(c))
    lines = [
        "# Native frames beside gdb's",
        "",
        "`./dev native` stops a program, asks scry and gdb for the stacks of its threads, and lets it go on. A stack agrees if every",
        "return address is the same, and Python's frames stand in the place of each call of the evaluator. In each cell: how many of the",
        "working thread's stacks agree, of how many. A dash: the program cannot be had for that interpreter.",
        "",
        f"In all: {total['agree']:,} of {total['stacks']:,} stacks agree ({percent(total['agree'], total['stacks'])});"
        f" without all their Python frames: {total['lost_python']:,}.",
        f"Of threads that wait in a system call, which every program has as well: {total['waiting_agree']:,} of"
        f" {total['waiting_stacks']:,} agree.",
        f"Left out, {total['gdb_lost']:,} stacks where gdb took for return addresses what lies in no code: functions without unwind tables,",
        "written by hand, in OpenBLAS and libffi. Of these scry merged"
        f" {total['gdb_lost_merged']:,} up to the outermost frame.",
        f"Below {WANTED:.0%}, or with Python frames lost: {poor} of {len(counts)} cells.",
        "",
        "| interpreter | " + " | ".join(PROGRAMS) + " |",
        "|---|" + "---|" * len(PROGRAMS),
    ]
    for python in sorted(results, key=order):
        row = results[python]
        lines.append(f"| {python} | " + " | ".join(cell(row.get(p)) for p in PROGRAMS) + " |")
    reasons = sorted({c for row in results.values() for c in row.values() if isinstance(c, str)})
    if reasons:
        lines += ["", "Not to be had:", *(f"- {reason}" for reason in reasons)]
    return "\n".join(lines) + "\n"


def order(name):
    version = name.partition("-")[0].rstrip("dt")
    return [int(part) for part in version.split(".")], name


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    build = HERE.parent.parent / "build"
    parser.add_argument("--samples", type=int, default=1000, help="for each program, 1000")
    parser.add_argument("--minutes", type=float, default=120, help="for all of it at most, 120")
    parser.add_argument("--python", action="append", default=[], metavar="ID")
    parser.add_argument("--look", default=str(build / "tests" / "native" / "native_look"))
    parser.add_argument("--results", type=Path, default=BENCH / "native.json")
    parser.add_argument(
        "--anew", action="store_true", help="forget what was measured of these before"
    )
    parser.add_argument("programs", nargs="*", default=PROGRAMS)
    return parser.parse_args()


def cells(choice):
    """A program on all interpreters before the next program."""
    for program in choice.programs:
        for python in pythons.found():
            if not choice.python or python.id in choice.python:
                yield program, python


def main():
    choice = parse()
    end = time.monotonic() + 60 * choice.minutes
    results = load(choice.results)
    if choice.anew:
        for program, python in cells(choice):
            results.get(python.id, {}).pop(program, None)
    failed = False
    with tempfile.TemporaryDirectory(prefix="scry-gdb-") as cache:
        for program, python in cells(choice):
            row = results.setdefault(python.id, {})
            count = row.get(program) or collections.Counter()
            if isinstance(count, str) or count["stacks"] >= choice.samples:
                continue
            if time.monotonic() > end:
                print("the time is over; the next run goes on from here")
                return 2
            try:
                measure(choice, cache, python, program, count, end)
                failed |= not is_good(count)
                row[program] = count
                print(line(program, python.id, count), flush=True)
            except pytest.skip.Exception as reason:
                row[program] = f"{program} on {python.id}: {reason}"
                print(row[program], flush=True)
            finally:
                save(results, choice.results)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
