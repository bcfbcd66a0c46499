"""Stacks and profiles of chosen workers, on all nodes at once."""

from __future__ import annotations

import dataclasses
import functools
import html
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from scry import errors, profile, program
from scry.ray._workers import Failure, Worker, on_their_nodes, workers


def _dump_here(pids: list[int], options: list[str]) -> list[Any]:
    """On the node: the threads of each process."""
    answers: list[Any] = []
    for pid in pids:
        try:
            answers.append(json.loads(program.run(["dump", "--json", "-p", str(pid), *options])))
        except (errors.ScryError, OSError, ValueError) as error:
            answers.append(RuntimeError(str(error)))
    return answers


def _record_here(pids: list[int], options: list[str]) -> list[Any]:
    """On the node: a recording of each process, all in the same seconds."""
    answers: list[Any] = []
    with tempfile.TemporaryDirectory(prefix="scry-ray-") as folder:
        running = []
        for pid in pids:
            path = os.path.join(folder, f"{pid}.scry")
            words = ["record", "-f", "scry", "-o", path, "-p", str(pid), *options]
            process = subprocess.Popen(
                [program.find(), *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                env=program.environment(),
            )
            running.append((path, process))
        for path, process in running:
            said = process.communicate()[1]
            if process.returncode == 0:
                answers.append(Path(path).read_bytes())
            else:
                answers.append(RuntimeError(str(errors.from_output(said, process.returncode))))
    return answers


def frame_text(frame: dict[str, Any]) -> str:
    name = frame.get("qualname") or frame["name"]
    where = frame.get("short_filename") or frame.get("filename") or ""
    return f"{name} ({where}:{frame['line']})" if frame.get("line") else f"{name} ({where})"


def thread_text(thread: dict[str, Any]) -> str:
    state = "active+gil" if thread["owns_gil"] else "active" if thread["active"] else "idle"
    wait = f" [{thread['wait']}]" if thread.get("wait") else ""
    name = thread.get("thread_name") or thread["os_thread_id"]
    lines = [f"Thread {name} ({state}){wait}"]
    return "\n".join(lines + ["    " + frame_text(frame) for frame in thread["frames"]])


@dataclasses.dataclass(frozen=True, repr=False)
class Dumps:
    """What the threads of some workers did, and who could not be asked."""

    found: list[tuple[Worker, list[dict[str, Any]]]]  # as `scry dump --json` has them
    failures: list[Failure]

    def __str__(self) -> str:
        parts = [
            "\n".join([str(worker), *map(thread_text, threads)]) for worker, threads in self.found
        ]
        return "\n\n".join(parts + [f"failed: {failure}" for failure in self.failures])

    def __repr__(self) -> str:
        return str(self)


@dataclasses.dataclass(frozen=True, repr=False)
class Profile:
    """Recordings of some workers in the same seconds, and who could not be recorded."""

    found: list[tuple[Worker, bytes]]
    failures: list[Failure]

    @functools.cached_property
    def merged(self) -> profile.Profile:
        """All of them as one: functions(), to_pandas() and whatever else a profile of scry.record() has."""
        self._check()
        each = []
        for _, data in self.found:
            file = tempfile.TemporaryFile(prefix="scry-")
            file.write(data)
            file.flush()
            each.append(profile.Profile(file))
        try:
            return profile.Profile.merge(each)
        finally:
            for one in each:
                one.close()

    def _check(self) -> None:
        if not self.found:
            raise RuntimeError("; ".join(map(str, self.failures)) or "nothing was recorded")

    def __repr__(self) -> str:
        lines = [f"{len(self.found)} workers"]
        lines += [repr(self.merged)] if self.found else []
        return "\n".join(lines + [f"failed: {failure}" for failure in self.failures])

    def _repr_html_(self) -> str:
        failed = "".join(f"<p>failed: {html.escape(str(failure))}</p>" for failure in self.failures)
        return (self.merged._repr_html_() if self.found else "") + failed

    def save(self, path: str | os.PathLike[str], format: str | None = None) -> Path:
        """All of them as one file; the end of its name says the format, flamegraph if it does not, unless format does."""
        self._check()
        try:
            format = profile.format_of(path, format)
        except errors.UsageError:
            if format is not None:
                raise
            format = "flamegraph"
        with tempfile.TemporaryDirectory(prefix="scry-ray-") as folder:
            names = []
            for i, (_, data) in enumerate(self.found):
                names.append(os.path.join(folder, f"{i}.scry"))
                Path(names[-1]).write_bytes(data)
            words = ["-f", format, "-o", os.path.abspath(path)]
            words += ["--processes", "always", "--partial", "--", *names]
            program.run(["convert", *words])
        return Path(path)


def dump(*, native: bool = False, subprocesses: bool = False, **which: Any) -> Dumps:
    """The stacks of chosen workers, as workers() chooses: tasks=, actors=, replicas=, job=."""
    options = ["--native"] * native + ["--subprocesses"] * subprocesses
    return Dumps(*on_their_nodes(workers(**which), _dump_here, options, seconds=0))


def record(
    *,
    duration: float = 5,
    rate: int = 100,
    idle: bool = False,
    gil: bool = False,
    native: bool = False,
    subprocesses: bool = False,
    **which: Any,
) -> Profile:
    """A profile of chosen workers, as workers() chooses: tasks=, actors=, replicas=, job=."""
    flags = {"--idle": idle, "--gil": gil, "--native": native, "--subprocesses": subprocesses}
    options = ["-d", str(duration), "-r", str(rate), *(name for name, on in flags.items() if on)]
    return Profile(*on_their_nodes(workers(**which), _record_here, options, seconds=duration))
