#!/usr/bin/env python3
"""Many samples of --native beside gdb's, on every interpreter: ./dev native [--samples N] [--python ID]... [PROGRAM]...

One gdb and one scry (look.c) stay with each program, so that what costs time, reading symbols, is done once. What was
measured is added to a file of results, run by run, and the report is made of all of them.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
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
    "compress",
    "serialise",
    "sort",
    "callback",
    "recurse",
    "generators",
    "extension",
    "signals",
    "cython",
    "numpy",
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


def verdicts(choice, gdb, looks, python, program):
    with tempfile.TemporaryDirectory(prefix="scry-native-") as folder:
        words = words_for(program, python, folder)
        process = compare.start(python, program, *words)
        end = time.monotonic() + choice.seconds
        try:
            for i in range(choice.samples):
                if time.monotonic() > end:
                    return
                time.sleep(random.uniform(0, 0.01))
                how = "always" if i % 2 else "auto"
                yield from compare.sample(
                    choice.scry,
                    lambda pid, how=how: looks.stacks(pid, how),
                    gdb,
                    process,
                    python,
                    program,
                )
        finally:
            process.kill()
            process.wait()


def count_one(choice, cache, python, program):
    count = collections.Counter()
    with compare.Gdb(cache) as gdb, compare.Looks(choice.look) as looks:
        for verdict in verdicts(choice, gdb, looks, python, program):
            count["stacks"] += 1
            count["agree"] += verdict.agrees
            count["kept"] += verdict.keeps_python
            count[verdict.state] += 1
            if verdict.detail:
                print(verdict.detail, file=sys.stderr)
    return count


def is_good(count):
    return count["agree"] >= WANTED * count["stacks"] and count["kept"] == count["stacks"]


def line(program, python, count):
    stacks = max(1, count["stacks"])
    return (
        f"{program:<11}{python:<17}{count['stacks']:5} stacks  agree {count['agree'] / stacks:7.2%}"
        f"  Python kept {count['kept'] / stacks:7.2%}  {'' if is_good(count) else 'FAILED'}"
    )


# ---- the report ----


def load(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return {}


def cell(count):
    if not count:
        return ""
    if isinstance(count, str):
        return "–"
    share = 100 * count["agree"] / count["stacks"]
    text = f"{share:.4g} % of {count['stacks']}"
    return text if count["kept"] == count["stacks"] else f"{text}, **Python lost**"


def report(results):
    """A row for each interpreter, a column for each program."""
    counts = [c for row in results.values() for c in row.values() if isinstance(c, dict)]
    stacks, agree, kept = (sum(c[key] for c in counts) for key in ("stacks", "agree", "kept"))
    poor = sum(1 for c in counts if not is_good(c))
    lines = [
        "# Native frames beside gdb's",
        "",
        "`./dev native` stops a program, asks scry and gdb for the stacks of its threads, and lets it go on. A stack agrees if every",
        "return address is the same, and Python's frames stand in the place of each call of the evaluator. In each cell: how many agree,",
        "of how many stacks. A dash: the program cannot be had for that interpreter.",
        "",
        f"In all: {agree:,} of {stacks:,} stacks agree ({100 * agree / max(1, stacks):.4g} %); {kept:,} kept all their Python frames"
        f" ({100 * kept / max(1, stacks):.4g} %). Below {WANTED:.0%}, or with Python frames lost: {poor} of {len(counts)} cells.",
        "",
        "| interpreter | " + " | ".join(PROGRAMS) + " |",
        "|---|" + "---|" * len(PROGRAMS),
    ]
    for python in sorted(results, key=order):
        row = results[python]
        lines.append(f"| {python} | " + " | ".join(cell(row.get(p)) for p in PROGRAMS) + " |")
    return "\n".join(lines) + "\n"


def order(name):
    version = name.partition("-")[0].rstrip("dt")
    return [int(part) for part in version.split(".")], name


def add_to(results, python, program, count):
    row = results.setdefault(python, {})
    before = row.get(program)
    if isinstance(before, dict) and not isinstance(count, str):
        count = collections.Counter(before) + count
    row[program] = count


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    build = HERE.parent.parent / "build"
    parser.add_argument("--samples", type=int, default=1000, help="for each program, 1000")
    parser.add_argument("--seconds", type=float, default=600, help="for each program at most")
    parser.add_argument("--python", action="append", default=[], metavar="ID")
    parser.add_argument("--scry", default=os.environ.get("SCRY", str(build / "scry")))
    parser.add_argument("--look", default=str(build / "tests" / "native" / "native_look"))
    parser.add_argument("--results", type=Path, default=BENCH / "native.json")
    parser.add_argument("--anew", action="store_true", help="forget what was measured before")
    parser.add_argument("programs", nargs="*", default=PROGRAMS)
    return parser.parse_args()


def main():
    choice = parse()
    results = {} if choice.anew else load(choice.results)
    failed = False
    with tempfile.TemporaryDirectory(prefix="scry-gdb-") as cache:
        for python in pythons.found():
            if choice.python and python.id not in choice.python:
                continue
            for program in choice.programs:
                try:
                    count = count_one(choice, cache, python, program)
                    failed |= not is_good(count)
                    print(line(program, python.id, count), flush=True)
                except pytest.skip.Exception as reason:
                    count = str(reason)
                    print(f"{program:<11}{python.id:<17}not run: {reason}", flush=True)
                add_to(results, python.id, program, count)
                choice.results.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
                choice.results.with_name("NATIVE.md").write_text(report(results))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
