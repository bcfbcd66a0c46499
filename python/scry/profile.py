"""What was recorded: a profile that can be looked at, converted, and made a table of."""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Union

from scry import errors, program

__all__ = ["FORMATS", "Function", "Profile", "format_of"]

StrPath = Union[str, "os.PathLike[str]"]

# The format that the end of a file's name says.
FORMATS = {
    ".svg": "flamegraph",
    ".json": "speedscope",
    ".txt": "raw",
    ".folded": "raw",
    ".pprof": "pprof",
    ".pb.gz": "pprof",
    ".callgrind": "callgrind",
    ".html": "html",
    ".scry": "scry",
}
# What a file of a format is called, where that is not the format's own name.
EXTENSIONS = {
    "flamegraph": "svg",
    "speedscope": "json",
    "chrometrace": "json",
    "gecko": "json",
    "raw": "txt",
}
NAMES = (*dict.fromkeys(FORMATS.values()), "chrometrace", "gecko", "json")


def format_of(path: StrPath, wanted: str | None = None) -> str:
    """What to write there: as wanted, or as the name says."""
    if wanted is not None:
        if wanted not in NAMES:
            raise errors.UsageError(f"there is no format '{wanted}'", f"one of: {', '.join(NAMES)}")
        return wanted
    name = os.path.basename(os.fspath(path)).lower()
    for suffix, format_name in FORMATS.items():
        if name.endswith(suffix):
            return format_name
    raise errors.UsageError(
        f"the name '{name}' does not say what to write",
        "end it like .svg or .json, or give format=",
    )


@dataclasses.dataclass(frozen=True)
class Function:
    """Where time went: alone, and with all that it called."""

    name: str
    filename: str
    own: float
    total: float


class Profile:
    """A recording. Holds an open file, in most cases one without a name, so that nothing is left behind."""

    def __init__(self, file: IO[bytes], stats: dict[str, Any] | None = None) -> None:
        self._file = file
        self._tree: dict[str, Any] | None = None
        self.stats = stats or {}
        self.path: Path | None = None  # where it was written, if it was

    @classmethod
    def open(cls, path: StrPath) -> Profile:
        """A recording that `scry record -f scry`, or save() with a name like run.scry, wrote."""
        profile = cls(open(path, "rb"))
        profile.path = Path(path)
        return profile

    @classmethod
    def merge(cls, profiles: Sequence[Profile]) -> Profile:
        """One of several: on one wall clock, processes kept apart."""
        if len(profiles) == 1:
            return cls(os.fdopen(os.dup(profiles[0]._file.fileno()), "rb"), profiles[0].stats)
        merged = tempfile.TemporaryFile(prefix="scry-")
        _convert(profiles, "scry", merged)
        return cls(merged)

    # ---- what it is ----

    @property
    def size(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    def tree(self) -> dict[str, Any]:
        """The call tree in columns; docs/api.md describes it."""
        if self._tree is None:
            with tempfile.TemporaryFile() as output:
                _convert([self], "json", output)
                output.seek(0)
                self._tree = json.load(output)
        return self._tree

    @property
    def samples(self) -> int:
        """How many stacks were recorded."""
        return int(self.tree()["total"])

    @property
    def duration(self) -> float:
        return float(self.tree()["seconds"])

    def functions(self) -> list[Function]:
        """Every function, what took the most time of its own first; as shares of all."""
        tree = self.tree()
        nodes, frames, all_of = tree["nodes"], tree["frames"], tree["total"] or 1
        own: dict[tuple[str, str], float] = {}
        total: dict[tuple[str, str], float] = {}
        # A function that calls itself counts once: what is above a node is kept along the way.
        above: list[frozenset[tuple[str, str]]] = []
        for parent, frame, self_time, whole in zip(
            nodes["parent"], nodes["frame"], nodes["self"], nodes["total"]
        ):
            key = (tree["names"][frames["name"][frame]], tree["files"][frames["file"][frame]])
            over = above[parent] if parent >= 0 else frozenset()
            above.append(over | {key})
            own[key] = own.get(key, 0) + self_time
            total[key] = total.get(key, 0) + (0 if key in over else whole)
        found = [Function(*key, own[key] / all_of, total[key] / all_of) for key in own]
        return sorted(found, key=lambda f: (-f.own, -f.total, f.name))

    def stacks(self) -> dict[tuple[str, ...], int]:
        """Each distinct stack, outermost call first, with how often it was seen."""
        found: dict[tuple[str, ...], int] = {}
        for line in self.to_bytes("raw").decode("utf-8", "replace").splitlines():
            stack, _, count = line.rpartition(" ")
            key = tuple(stack.split(";"))
            found[key] = found.get(key, 0) + int(count)
        return found

    # ---- as something else ----

    def to_bytes(self, format: str, *options: str) -> bytes:
        """In any format of `scry convert`, with its options, for example "--threads"."""
        with tempfile.TemporaryFile() as output:
            _convert([self], format_of("", format), output, *options)
            output.seek(0)
            return output.read()

    def save(self, path: StrPath, format: str | None = None, *options: str) -> Path:
        """Writes it; the end of the name says what, unless format does. It appears whole or not at all."""
        wanted = format_of(path, format)
        fd = self._file.fileno()
        words = ["convert", "-f", wanted, "-o", os.fspath(path), *options, f"/dev/fd/{fd}"]
        program.run(words, pass_fds=[fd])
        return Path(path)

    def to_pandas(self) -> Any:
        """A row for each function: its own share of the time, and the share with what it called."""
        import pandas

        rows = [dataclasses.astuple(function) for function in self.functions()]
        return pandas.DataFrame(rows, columns=["name", "filename", "own", "total"])

    def __repr__(self) -> str:
        lines = [f"<Profile of {self.duration:.1f} s: {self.samples} samples>"]
        lines += [
            f"{f.own:7.1%} {f.total:7.1%}  {f.name} ({f.filename})" for f in self.functions()[:10]
        ]
        if len(lines) > 1:
            lines.insert(1, "    own   total  function")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The flame graph as a document of its own in a frame: its script draws it, and reaches nothing outside."""
        picture = base64.b64encode(self.to_bytes("flamegraph")).decode()
        return (
            '<iframe sandbox="allow-scripts" style="width:100%;height:480px;border:0" '
            f'src="data:image/svg+xml;base64,{picture}"></iframe>'
        )

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Profile:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _convert(profiles: Sequence[Profile], format: str, output: IO[bytes], *options: str) -> None:
    """Into a file without a name: as standard output, because scry puts a new file in the place of a named one."""
    fds = [profile._file.fileno() for profile in profiles]
    words = ["convert", "-f", format, "-o", "-", *options, *(f"/dev/fd/{fd}" for fd in fds)]
    program.run(words, stdout=output, pass_fds=fds)
