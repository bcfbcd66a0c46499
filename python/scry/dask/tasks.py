"""Which task was it? Samples of workers, told apart by the prefix of the task's key.

Dask knows when which thread of which worker ran which task; a recording knows when which thread did what. Both clocks
are the worker's. So a sample belongs to the task that its thread ran at its time.
"""

from __future__ import annotations

import bisect
import gzip
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from scry.profile import Profile, StrPath

NO_TASK = "(no task)"


class TaskProfiles:
    """By prefix: seconds of each distinct stack, outermost call first."""

    def __init__(self) -> None:
        self.stacks: dict[str, Counter[tuple[str, ...]]] = {}

    def add(self, prefix: str, stack: tuple[str, ...], seconds: float) -> None:
        self.stacks.setdefault(prefix, Counter())[stack] += seconds  # type: ignore[assignment]

    @property
    def seconds(self) -> dict[str, float]:
        """How long threads were seen at work for each, the most first."""
        each = {prefix: float(sum(found.values())) for prefix, found in self.stacks.items()}
        return dict(sorted(each.items(), key=lambda item: -item[1]))

    def save(self, path: StrPath) -> Path:
        """Folded stacks with the prefix as the outermost frame, in milliseconds, for any flame graph program."""
        lines = [
            f"{';'.join((prefix, *stack))} {max(1, round(seconds * 1000))}\n"
            for prefix, found in sorted(self.stacks.items())
            for stack, seconds in sorted(found.items())
        ]
        Path(path).write_text("".join(lines))
        return Path(path)

    def __repr__(self) -> str:
        lines = ["<tasks>"]
        for prefix, seconds in self.seconds.items():
            leaf: Counter[str] = Counter()
            for stack, time in self.stacks[prefix].items():
                leaf[stack[-1] if stack else ""] += time  # type: ignore[assignment]
            lines.append(
                f"{seconds:8.2f} s  {prefix}: {', '.join(n for n, _ in leaf.most_common(3))}"
            )
        return "\n".join(lines)


class Runs:
    """The tasks of one thread, in order."""

    def __init__(self, spans: Sequence[tuple[float, float, str]]) -> None:
        self._spans = sorted(spans)
        self._starts = [span[0] for span in self._spans]

    def at(self, moment: float) -> str:
        index = bisect.bisect_right(self._starts, moment) - 1
        if index >= 0 and moment <= self._spans[index][1]:
            return self._spans[index][2]
        return NO_TASK


def start_of(profile: Profile) -> float:
    """When it began, in seconds since 1970: field 9 of a pprof profile."""
    data = gzip.decompress(profile.to_bytes("pprof"))
    for field, value in _fields(data):
        if field == 9:
            return float(value) / 1e9
    return 0.0


def _fields(data: bytes) -> Iterator[tuple[int, int]]:
    """Top-level fields of a protobuf message; what is no number has none here."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    while at < len(data):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
        elif tag & 7 == 2:
            length = varint()
            at += length
        else:
            return


def split(profile: Profile, threads: dict[int, Runs], into: TaskProfiles) -> None:
    """Adds the samples of one worker; threads by their number in the kernel."""
    begun = start_of(profile)
    shown = json.loads(profile.to_bytes("speedscope"))
    names = [frame["name"] for frame in shown["shared"]["frames"]]
    for thread in shown["profiles"]:
        words = thread["name"].split()
        number = words[words.index("Thread") + 1] if "Thread" in words else ""
        runs = threads.get(int(number)) if number.isdigit() else None
        if runs is None:
            continue
        moment = begun + thread["startValue"]
        for sample, weight in zip(thread["samples"], thread["weights"]):
            if sample:
                stack = tuple(names[frame] for frame in sample)
                into.add(runs.at(moment + weight / 2), stack, weight)
            moment += weight


def runs_of(spans: Sequence[Any], numbers: dict[int, int]) -> dict[int, Runs]:
    """(thread, start, end, prefix) each, as a worker's threads have them; numbers: those of the kernel."""
    found: dict[int, list[tuple[float, float, str]]] = {}
    for thread, start, end, prefix in spans:
        if thread in numbers:
            found.setdefault(numbers[thread], []).append((start, end, prefix))
    return {number: Runs(each) for number, each in found.items()}
