"""scry.processes(): the Python processes of this host."""

from __future__ import annotations

import dataclasses
import html
import json
from typing import Any

from scry import program

__all__ = ["Process", "Processes", "processes"]


@dataclasses.dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    version: str | None
    command: str
    threads: int
    container: str | None
    can_attach: bool
    why: str | None  # not, and what helps
    remedy: str | None

    def dump(self, **options: Any) -> Any:
        from scry.stacks import dump

        return dump(self.pid, **options)

    def record(self, path: Any = None, **options: Any) -> Any:
        from scry.recording import record

        return record(path, pid=self.pid, **options)


class Processes(list):  # type: ignore[type-arg]
    """A list that is a table where it is shown."""

    _COLUMNS = ("pid", "version", "threads", "can_attach", "command")

    def _rows(self) -> list[list[str]]:
        return [[str(getattr(p, column)) for column in self._COLUMNS] for p in self]

    def __repr__(self) -> str:
        rows = [list(self._COLUMNS), *([*row[:-1], row[-1][:80]] for row in self._rows())]
        widths = [max(len(row[i]) for row in rows) for i in range(len(self._COLUMNS) - 1)] + [0]
        return "\n".join(
            "  ".join(word.ljust(width) for word, width in zip(row, widths)) for row in rows
        )

    def _repr_html_(self) -> str:
        def line(words: Any, tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(w)}</{tag}>" for w in words) + "</tr>"

        rows = "".join(line(row, "td") for row in self._rows())
        return f"<table>{line(self._COLUMNS, 'th')}{rows}</table>"

    def to_pandas(self) -> Any:
        import pandas

        return pandas.DataFrame([dataclasses.asdict(p) for p in self])


def processes(pid: int | None = None) -> Processes:
    """The Python processes of this host, or this one: version, threads, whether scry may look into it."""
    words = ["ps", "--json"] + (["-p", str(int(pid))] if pid is not None else [])
    names = [field.name for field in dataclasses.fields(Process)]
    return Processes(
        Process(**{name: each.get(name) for name in names})
        for each in json.loads(program.run(words))
    )
