#!/usr/bin/env python3
"""Many samples of --native beside gdb's, on every interpreter: ./dev native [--samples N] [--python ID]... [PROGRAM]...

Takes hours at 1,000 samples for each program on each interpreter; --samples sets how many.
"""

from __future__ import annotations

import argparse
import collections
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


def words_for(program, python, folder):
    """What the program needs; None and the reason when it cannot be had."""
    if program in ("extension", "signals"):
        return [building.extension(python, folder)]
    if program == "cython":
        return [building.cython(python, folder)]
    if program == "numpy":
        return [building.numpy(python)]
    return []


def run(scry, gdb, python, program, samples):
    with tempfile.TemporaryDirectory(prefix="scry-native-") as folder:
        words = words_for(program, python, folder)
        process = compare.start(python, program, *words)
        try:
            for i in range(samples):
                time.sleep(random.uniform(0, 0.01))
                options = ["--blocking", "always"] if i % 2 else []
                yield from compare.one_sample(scry, gdb, process, python, program, *options)
        finally:
            process.kill()
            process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--python", action="append", default=[])
    parser.add_argument(
        "--scry", default=os.environ.get("SCRY", str(HERE.parent.parent / "build" / "scry"))
    )
    parser.add_argument("programs", nargs="*", default=PROGRAMS)
    choice = parser.parse_args()
    tally = collections.defaultdict(collections.Counter)
    failed = False
    with tempfile.TemporaryDirectory(prefix="scry-gdb-") as cache:
        for program in choice.programs:
            for python in pythons.found():
                if choice.python and python.id not in choice.python:
                    continue
                count = collections.Counter()
                try:
                    with compare.Gdb(cache) as gdb:
                        for verdict in run(choice.scry, gdb, python, program, choice.samples):
                            count["stacks"] += 1
                            count["agree"] += verdict.agrees
                            count["kept"] += verdict.keeps_python
                            count[verdict.state] += 1
                            if verdict.detail:
                                print(verdict.detail, file=sys.stderr)
                except pytest.skip.Exception as reason:
                    print(f"{program:<11}{python.id:<17}not run: {reason}", flush=True)
                    continue
                tally[program] += count
                good = count["agree"] >= 0.95 * count["stacks"] and count["kept"] == count["stacks"]
                failed |= not good
                print(
                    f"{program:<11}{python.id:<17}{count['stacks']:5} stacks  agree {count['agree'] / count['stacks']:7.2%}"
                    f"  Python kept {count['kept'] / count['stacks']:7.2%}  {'' if good else 'FAILED'}",
                    flush=True,
                )
    for program, count in tally.items():
        print(
            f"{program:<11}{'all':<17}{count['stacks']:5} stacks  agree {count['agree'] / count['stacks']:7.2%}"
            f"  Python kept {count['kept'] / count['stacks']:7.2%}"
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
