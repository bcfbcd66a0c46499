"""The oracle at length: is every stack that scry reports one the program can have, and are the shares true?

    python bench/oracle.py                   about 50 minutes
    python bench/oracle.py --quick           a few minutes, to see that it works
    python bench/oracle.py possible          only the first part; the other keeps its last figures

The programs and their grammars are those of tests/oracle. Two parts:

possible    default options at a high rate, every program on every interpreter, round after round until enough samples
            are accepted; every one is checked against the grammar. At such a rate the default reads memory; the kernel is asked, too.
shares      the distribution of stacks with default options, read from memory, and with --nonblocking, against a reference for which
            all threads of the process are stopped at one moment. All of them take turns on one running program. The distance is the
            total variation; the noise floor is the distance between two references of the same length. Each distance is the mean
            over all pairs of turns, so that one lucky turn does not decide. Without bias the ratio to the noise floor is 1.
            The program has a CPU of its own: what it takes to wake a thread depends on whether the other CPU sleeps, and whoever
            looks from outside keeps it awake.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "oracle"))

import grammar
import pythons
import report
import run

SCRY = os.environ.get("SCRY") or str(pythons.PROJECT / "build-release" / "scry")
Shares = dict[tuple[str, ...], int]
TORN = re.compile(r";\[torn\] (\d+)$", re.MULTILINE)
ALWAYS = ("--blocking", "always")
MEMORY = ("--reader", "memory")
KERNEL = ("--reader", "kernel")
# name, rate, options; the first of each rate is the reference of the others
WAYS = [
    ("reference, 100 Hz", 100, ALWAYS),
    ("default, 100 Hz", 100, ()),
    ("reference, 1 kHz", 1000, ALWAYS),
    ("default, 1 kHz", 1000, ()),
    ("memory, 1 kHz", 1000, MEMORY),
    ("nonblocking, 1 kHz", 1000, (*MEMORY, "--nonblocking")),
]
PRINTED_TURNS = 3  # of ways without a goal
LIMIT = 1.5  # times the noise floor
AGAIN = 3  # times as many turns for a row with a figure over the limit


Pairs = list[tuple[pythons.Python, grammar.Program]]


def pairs(chosen: list[pythons.Python], names: str) -> Pairs:
    """Which programs run under which interpreter; no names: all programs."""
    return [
        (python, program)
        for python, program in itertools.product(chosen, grammar.programs())
        if python.minor >= program.since and (not names or program.name in names.split(","))
    ]


class Possible:
    """What the first part found, by interpreter and by program."""

    def __init__(self) -> None:
        self.accepted: Counter[str] = Counter()
        self.torn: Counter[str] = Counter()
        self.impossible: Counter[str] = Counter()
        self.examples: list[str] = []
        self.failures: list[str] = []
        self.rounds = 0

    def total(self) -> int:
        return sum(count for key, count in self.accepted.items() if key.startswith("python "))

    def add(
        self,
        python: pythons.Python,
        program: grammar.Program,
        reader: str,
        verdict: grammar.Verdict,
    ) -> None:
        for key in (f"python {python.id}", f"program {program.name}", f"options {reader}"):
            self.accepted[key] += verdict.samples - verdict.torn
            self.torn[key] += verdict.torn
            self.impossible[key] += verdict.impossible
        self.examples += [f"{python.id}, {program.name}: {text}" for text in verdict.examples]

    def lines(self, rate: int) -> list[str]:
        keys = [key for key in self.accepted if key.startswith("python ")]
        accepted = sum(self.accepted[key] for key in keys)
        impossible = sum(self.impossible[key] for key in keys)
        torn = sum(self.torn[key] for key in keys)
        lines = [
            "## Possible stacks",
            "",
            f"Default options at {rate} Hz asked, {self.rounds} rounds: **{impossible} impossible stacks in {accepted:,}",
            f"accepted samples**; {torn:,} more were marked as torn.",
            "",
        ]
        for what in ("options", "python", "program"):
            rows = []
            for key in (k for k in self.accepted if k.startswith(what + " ")):
                figures = (self.accepted[key], self.impossible[key], self.torn[key])
                rows.append([key.partition(" ")[2], *(f"{n:,}" for n in figures)])
            lines += report.table([what, "accepted", "impossible", "torn"], rows)
        if self.examples:
            lines += ["Impossible:", "", *(f"- `{text[:400]}`" for text in self.examples[:20]), ""]
        lines += [f"- failed: {text}" for text in self.failures[:20]]
        return lines


def possible(work: Pairs, seconds: float, rate: int, wanted: int, folder: Path) -> Possible:
    found = Possible()
    while found.rounds == 0 or found.total() < wanted:
        before = found.total()
        for python, program in work:
            for options in ((), KERNEL)[: 1 + read_in_kernel(python)]:
                try:
                    with run.running(python, program) as pid:
                        text = run.record(SCRY, pid, seconds, rate, folder, *options)
                except (subprocess.SubprocessError, AssertionError, OSError) as error:
                    found.failures.append(f"{python.id}, {program.name}: {error}")
                    continue
                reader = " ".join(options) or "none"
                found.add(python, program, reader, grammar.judge(program, text))
        found.rounds += 1
        bad = sum(found.impossible.values()) // 3
        print(
            f"  possible: round {found.rounds}: {found.total():,} accepted, {bad} impossible",
            flush=True,
        )
        if found.total() == before:
            found.failures.append("a whole round without a sample")
            break
    return found


def read_in_kernel(python: pythons.Python) -> bool:
    """Where the kernel allows it."""
    return python.version >= (3, 6) and not python.free_threaded


def shares_of(program: grammar.Program, text: str) -> tuple[Shares, float]:
    """How often each chain of functions was seen, torn ones included as they are in a profile; and the torn share."""
    torn = sum(int(count) for count in TORN.findall(text))
    verdict = grammar.judge(program, TORN.sub(r" \1", text))
    return verdict.shares, torn / max(1, verdict.samples)


def mean_distance(a: list[Shares], b: list[Shares]) -> float:
    """Over all pairs, none with itself."""
    every = itertools.combinations(a, 2) if a is b else itertools.product(a, b)
    return statistics.mean(grammar.distance(one, two) for one, two in every)


def pooled(shares: list[Shares]) -> Shares:
    total: Counter[tuple[str, ...]] = Counter()
    for one in shares:
        total.update(one)
    return dict(total)


def alone_on_a_cpu(pid: int) -> None:
    """The main thread and all it starts from now on; the profilers have the other CPU."""
    os.sched_setaffinity(pid, {max(os.sched_getaffinity(0))})


def compare(
    python: pythons.Python, program: grammar.Program, seconds: float, turns: int, folder: Path
) -> list[str]:
    """One row of the table."""
    seen: dict[str, list[Shares]] = {name: [] for name, _, _ in WAYS}
    torn: list[float] = []
    with run.running(python, program) as pid:
        alone_on_a_cpu(pid)
        for turn in range(turns):
            for name, rate, options in WAYS[turn % len(WAYS) :] + WAYS[: turn % len(WAYS)]:
                if name.startswith(("nonblocking", "memory")) and turn >= PRINTED_TURNS:
                    continue
                if name.startswith("memory") and not read_in_kernel(python):
                    continue  # the same as the default
                shares, torn_share = shares_of(
                    program, run.record(SCRY, pid, seconds, rate, folder, *options)
                )
                seen[name].append(shares)
                torn += [torn_share] * (name.startswith("nonblocking"))
    row = [python.id, program.name]
    reference: list[Shares] = []
    floor = 0.0
    for name, _, _ in WAYS:
        if name.startswith("reference"):
            reference, floor = seen[name], mean_distance(seen[name], seen[name])
            row.append(f"{floor:.4f}")
            continue
        if not seen[name]:
            row.append("")
            continue
        distance = mean_distance(seen[name], reference)
        ratio = distance / floor if floor else (1.0 if distance == 0 else float("inf"))
        mark = "**" if name.startswith("default") and ratio > LIMIT else ""
        bias = grammar.distance(pooled(seen[name]), pooled(reference))
        row.append(f"{mark}{ratio:.2f}{mark} ({distance:.4f}; pooled {bias:.4f})")
    samples = [sum(one.values()) for one in seen["default, 1 kHz"]]
    return [*row, f"{100 * statistics.mean(torn):.1f} %", f"{sum(samples):,}"]


class Rows:
    """The rows of the table, kept as they come: what is interrupted counts as far as it came, and a later run adds to it."""

    def __init__(self, seconds: float) -> None:
        self.path = pythons.PROJECT / "out" / "oracle-shares.json"
        kept = json.loads(self.path.read_text()) if self.path.exists() else {}
        self.seconds = seconds
        self.rows: list[list[str]] = kept["rows"] if kept.get("seconds") == seconds else []

    def replace(self, python: str, program: str, rows: list[list[str]]) -> None:
        self.rows = [row for row in self.rows if row[:2] != [python, program]] + rows
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text(json.dumps({"seconds": self.seconds, "rows": self.rows}))

    def sorted(self) -> list[list[str]]:
        order = [python.id for python in pythons.found()]
        return sorted(self.rows, key=lambda row: (order.index(row[0]), row[1], int(row[-2])))


def compare_all(work: Pairs, seconds: float, turns: int, folder: Path) -> list[str]:
    kept, failures = Rows(seconds), []
    build = hashlib.sha256(Path(SCRY).read_bytes()).hexdigest()[:8]
    for python, program in work:
        rows: list[list[str]] = []
        try:
            for often in (turns, AGAIN * turns):
                row = compare(python, program, seconds, often, folder)
                rows.append([*row, str(often), build])
                print("  shares: " + "  ".join(rows[-1]), flush=True)
                if not any("**" in cell for cell in rows[-1]):
                    break
        except (
            subprocess.SubprocessError,
            AssertionError,
            OSError,
            statistics.StatisticsError,
        ) as error:
            failures.append(f"- failed: {python.id}, {program.name}: {error}")
        kept.replace(python.id, program.name, rows)
    head = [
        "python",
        "program",
        "floor, 100 Hz",
        "default, 100 Hz",
        "floor, 1 kHz",
        "default, 1 kHz",
        "memory, 1 kHz",
        "--nonblocking, 1 kHz",
        "torn then",
        "samples at 1 kHz",
        "turns",
        "build",
    ]
    lines = [
        "## Shares",
        "",
        f"Turns of {seconds:g} s each. In each cell: the distance from the reference as a multiple of the noise floor",
        "(wanted for the default: at most 1.5), in brackets the distance itself, and that of all turns put together. Few turns say",
        f"little: a row with a figure over the limit is measured once more with {AGAIN} times as many, and stands here with both.",
        "The default reads stacks in the kernel (2.7 from memory); memory and --nonblocking are `--reader memory`.",
        "The build is the beginning of the program's SHA-256: rows of another one were measured before a change that is not theirs.",
        "",
    ]
    return lines + report.table(head, kept.sorted()) + failures


HEADS = {
    "possible": "## Possible stacks",
    "shares": "## Shares",
}


def kept_parts(path: Path) -> dict[str, list[str]]:
    """What the last report said, by part."""
    parts: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in path.read_text().splitlines() if path.exists() else []:
        if line.startswith("## "):
            lines = []
            parts |= {part: lines for part, head in HEADS.items() if head == line}
        lines.append(line)
    return parts


def choose(wanted: list[str]) -> list[pythons.Python]:
    everything = list(pythons.found())
    if "all" in wanted:
        return everything
    return [p for p in everything if p.id in wanted or p.id.split("-")[0] in wanted]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev oracle", description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help="possible, shares; both if not given")
    parser.add_argument("--quick", action="store_true", help="a few minutes in all")
    parser.add_argument(
        "--samples", type=int, default=0, help="accepted samples wanted (1,000,000)"
    )
    parser.add_argument("--rate", type=int, default=10_000, help="of the first part (10000)")
    parser.add_argument(
        "--seconds",
        type=float,
        default=0,
        help="per recording (1 in the first part, 5 in the second)",
    )
    parser.add_argument("--turns", type=int, default=0, help="of the second part (5)")
    parser.add_argument(
        "--pythons",
        type=lambda text: text.split(","),
        default=[],
        help="ids or versions with commas, or all (first part: all; second: the newest and 3.10)",
    )
    parser.add_argument("--programs", default="", help="names with commas (all)")
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent)
    options = parser.parse_args()
    if unknown := set(options.parts) - set(HEADS):
        parser.error(f"there is no part {' '.join(unknown)}")
    return options


def part_possible(options: argparse.Namespace, folder: Path) -> tuple[list[str], int]:
    usual = newest_of_all() if options.quick else ["all"]
    work = pairs(choose(options.pythons or usual), options.programs)
    wanted = options.samples or (20_000 if options.quick else 1_000_000)
    found = possible(work, options.seconds or 1, options.rate, wanted, folder)
    return found.lines(options.rate), sum(found.impossible.values()) + len(found.failures)


def part_shares(options: argparse.Namespace, folder: Path) -> tuple[list[str], int]:
    usual = newest_of_all() if options.quick else [*newest_of_all(), "3.10"]
    work = pairs(choose(options.pythons or usual), options.programs)
    seconds = options.seconds or (1 if options.quick else 5)
    return compare_all(work, seconds, options.turns or (2 if options.quick else 5), folder), 0


def newest_of_all() -> list[str]:
    ordinary = [p for p in pythons.found() if not p.debug and not p.free_threaded and not p.shared]
    return [p.id for p in ordinary[-1:]]


def dated(options: argparse.Namespace, part: str, folder: Path) -> tuple[list[str], int]:
    started, load = time.monotonic(), os.getloadavg()[0]
    made = {"possible": part_possible, "shares": part_shares}
    lines, bad = made[part](options, folder)
    date = datetime.datetime.now().astimezone().isoformat(timespec="minutes")
    how = ", quick mode: too short to be trusted" if options.quick else ""
    when = f"*{date}, {time.monotonic() - started:.0f} s, load {load:.2f} before{how}.*"
    return [*lines, "", when, ""], bad


def main() -> int:
    options = parse()
    path = options.out / "ORACLE.md"
    parts, bad = kept_parts(path), 0
    with tempfile.TemporaryDirectory(prefix="scry-oracle-") as folder:
        for part in options.parts or HEADS:
            parts[part], failed = dated(options, part, Path(folder))
            bad += failed
    lines = [
        "# The oracle",
        "",
        "Made by `./dev oracle`; not written by hand. bench/oracle.py says how it is measured.",
        "",
    ]
    for part in HEADS:
        lines += parts.get(part, [])
    options.out.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines).rstrip() + "\n")
    print(f"wrote {path}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
