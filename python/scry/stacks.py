"""scry.dump(pid): what every thread does right now."""

from __future__ import annotations

import dataclasses
import html
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from scry import program, ptracer

__all__ = ["Dump", "Frame", "Thread", "dump"]


@dataclasses.dataclass(frozen=True)
class Frame:
    """One call."""

    name: str
    filename: str
    line: int
    module: str | None = None
    locals: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"{self.name} ({self.filename}:{self.line})" if self.line else self.name


@dataclasses.dataclass(frozen=True)
class Thread:
    """One thread with its calls, innermost first."""

    pid: int
    id: int
    os_id: int | None
    name: str | None
    active: bool
    gil: bool
    wait: str | None
    frames: tuple[Frame, ...]
    torn: bool = False
    python_version: str | None = None

    @property
    def state(self) -> str:
        return "active+gil" if self.gil and self.active else "active" if self.active else "idle"

    def __str__(self) -> str:
        name = f'"{self.name}"' if self.name else f"0x{self.id:x}"
        wait = f" [{self.wait}]" if self.wait else ""
        return "\n".join(
            [f"Thread {self.os_id} {name} ({self.state}){wait}", *(f"    {f}" for f in self.frames)]
        )


@dataclasses.dataclass(frozen=True)
class Dump(Sequence):  # type: ignore[type-arg]
    """The threads of one process, or of several."""

    threads: tuple[Thread, ...]

    def __len__(self) -> int:
        return len(self.threads)

    def __getitem__(self, index: Any) -> Any:
        return self.threads[index]

    def __iter__(self) -> Iterator[Thread]:
        return iter(self.threads)

    @property
    def pids(self) -> list[int]:
        return list(dict.fromkeys(thread.pid for thread in self.threads))

    def thread(self, name: str) -> Thread:
        """The first of this name."""
        for thread in self.threads:
            if thread.name == name:
                return thread
        raise KeyError(name)

    def __repr__(self) -> str:
        several = len(self.pids) > 1
        return "\n\n".join(f"{f'Process {t.pid} ' if several else ''}{t}" for t in self.threads)

    __str__ = __repr__

    def _repr_html_(self) -> str:
        parts = [_thread_html(thread) for thread in self.threads]
        return f'<div style="font-family:monospace;font-size:12px">{"".join(parts)}</div>'

    def to_pandas(self) -> Any:
        """A row for each frame."""
        import pandas

        columns = ["pid", "thread", "state", "depth", "name", "filename", "line"]
        rows = [
            (t.pid, t.name or t.os_id, t.state, depth, f.name, f.filename, f.line)
            for t in self.threads
            for depth, f in enumerate(t.frames)
        ]
        return pandas.DataFrame(rows, columns=columns)


def _thread_html(thread: Thread) -> str:
    head, *rest = str(thread).split("\n")
    lines = "<br>".join(html.escape(line.strip()) for line in rest)
    shown = " open" if thread.active else ""
    return (
        f"<details{shown}><summary>{html.escape(f'{thread.pid}: {head}')}</summary>"
        f'<div style="padding-left:2em">{lines}</div></details>'
    )


def dump(
    pid: int | Sequence[int] | None = None,
    *,
    subprocesses: bool = False,
    locals: bool = False,
    native: bool = False,
    nonblocking: bool = False,
    full_filenames: bool = False,
) -> Dump:
    """What every thread of a process, of several, or of this one does right now.

    Raises one of scry.errors, for example PermissionDenied.
    """
    pids = [os.getpid()] if pid is None else [pid] if isinstance(pid, int) else list(pid)
    words = ["dump", "--json", *(word for each in pids for word in ("-p", str(int(each))))]
    words += ["--subprocesses"] * subprocesses + ["--locals"] * locals + ["--native"] * native
    words += ["--nonblocking"] * nonblocking + ["--full-filenames"] * full_filenames
    if os.getpid() not in pids:
        return parse(program.run(words))
    with ptracer.child_may_look():
        return parse(program.run(words))


def parse(text: bytes) -> Dump:
    """What `scry dump --json` printed."""
    return Dump(tuple(_thread(each) for each in json.loads(text)))


def _thread(said: dict[str, Any]) -> Thread:
    return Thread(
        pid=said["pid"],
        id=said["thread_id"],
        os_id=said.get("os_thread_id"),
        name=said.get("thread_name"),
        active=said["active"],
        gil=said["owns_gil"],
        wait=said.get("wait"),
        frames=tuple(_frame(each) for each in said["frames"]),
        torn=said.get("torn", False),
        python_version=said.get("python_version"),
    )


def _frame(said: dict[str, Any]) -> Frame:
    return Frame(
        name=said.get("name") or "",
        filename=said.get("short_filename") or said.get("filename") or "",
        line=said.get("line") or 0,
        module=said.get("module"),
        locals=tuple(said.get("locals") or ()),
    )
