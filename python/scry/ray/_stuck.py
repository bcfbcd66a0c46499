"""A job that hangs: its workers grouped by what they do. In a job whose workers all do the same, the odd one out is the one
to look at, so it comes first."""

from __future__ import annotations

import dataclasses
from typing import Any

from scry.ray._look import dump, frame_text
from scry.ray._workers import Failure, Worker


@dataclasses.dataclass(frozen=True)
class Group:
    """Workers whose threads stand at the same places."""

    stacks: tuple[tuple[str, ...], ...]  # innermost call first
    waits: tuple[str, ...]
    workers: list[Worker]


@dataclasses.dataclass(frozen=True, repr=False)
class Summary:
    groups: list[Group]  # the rarest first
    failures: list[Failure]

    def __str__(self) -> str:
        total = sum(len(group.workers) for group in self.groups)
        lines = [f"{total} processes, {len(self.groups)} different stacks, the rarest first"]
        for group in self.groups:
            lines += ["", f"{len(group.workers)} of {total}: {_names(group.workers)}"]
            lines += [f"  waits for {wait}" for wait in group.waits]
            for i, stack in enumerate(group.stacks):
                lines += ["  and in another thread"] * (i > 0) + [f"    {frame}" for frame in stack]
        return "\n".join(lines + [f"failed: {failure}" for failure in self.failures])

    def __repr__(self) -> str:
        return str(self)


def _names(workers: list[Worker], most: int = 8) -> str:
    shown = ", ".join(map(str, workers[:most]))
    return shown + (f" and {len(workers) - most} more" if len(workers) > most else "")


def _is_theirs(frame: dict[str, Any]) -> bool:
    """Of the program, not of Ray, Python or another package."""
    name = frame.get("filename") or ""
    return not (name.startswith("<") or "/site-packages/" in name or "/lib/python" in name)


def _matters(thread: dict[str, Any]) -> bool:
    """Ray's own threads are the same in every worker, and at varying places."""
    return thread.get("thread_name") == "MainThread" or any(map(_is_theirs, thread["frames"]))


def _key(threads: list[dict[str, Any]]) -> tuple[tuple[str, ...], ...]:
    stacks = {tuple(map(frame_text, t["frames"])) for t in threads if _matters(t) and t["frames"]}
    return tuple(sorted(stacks, key=len, reverse=True))


def stuck(**which: Any) -> Summary:
    """What the workers do, as workers() chooses them: job=, tasks=, actors=, replicas=; all, if nothing is said."""
    seen = dump(**which)
    groups: dict[tuple[tuple[str, ...], ...], Group] = {}
    for worker, threads in seen.found:
        key = _key(threads)
        waits = {t["wait"] for t in threads if _matters(t) and t.get("wait")}
        group = groups.setdefault(key, Group(key, tuple(sorted(waits)), []))
        group.workers.append(worker)
    rarest = sorted(groups.values(), key=lambda group: (len(group.workers), group.stacks))
    return Summary(rarest, seen.failures)
