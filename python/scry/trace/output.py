"""Where a trace is written, and as what."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scry.trace.tracer import Saved

SUFFIXES = {
    ".json": "json",
    ".json.gz": "json.gz",
    ".gz": "json.gz",
    ".pftrace": "perfetto",
    ".perfetto-trace": "perfetto",
    ".pb": "perfetto",
    ".scry": "scry",
    ".html": "html",
}
DEFAULT_STEM = "scry-trace"
LARGE = 500_000  # calls from which on a trace without a name becomes Perfetto's, which is a fifth of the size


def format_of(path: Path) -> str:
    name = path.name.lower()
    for suffix in sorted(SUFFIXES, key=len, reverse=True):
        if name.endswith(suffix):
            return SUFFIXES[suffix]
    known = " ".join(SUFFIXES)
    raise ValueError(f"'{path}': the end of the name says the format; it is one of: {known}")


def hint(path: Path) -> str:
    """What to do with such a file."""
    return {
        "scry": f"make something of it with: scry convert {path.name}",
        "html": "open it in a browser",
    }.get(format_of(path), "open it at https://ui.perfetto.dev")


class Progress:
    """A line on the terminal while it takes longer than a moment."""

    def __init__(self, wanted: bool | None) -> None:
        self._wanted = sys.stderr.isatty() if wanted is None and sys.stderr else bool(wanted)
        self._next = time.monotonic() + 0.5
        self._shown = False

    def __call__(self, share: float) -> None:
        if self._wanted and time.monotonic() >= self._next:
            self._next = time.monotonic() + 0.2
            self._shown = True
            print(f"\rscry: saving the trace, {share:4.0%}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def save(
    native: Any,
    target: Path | None,
    paths: Sequence[str],
    *,
    own: bool,
    progress: bool | None = None,
) -> Saved:
    """Converts; the file appears whole or not at all."""
    if target is None:
        target = _default_target(native, paths, own)
    format_name = format_of(target)
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    shown = Progress(progress)
    plain = {"json.gz": "json", "html": "perfetto"}.get(format_name, format_name)
    try:
        facts = native.convert(
            paths=list(paths), own=own, output=partial, format=plain, progress=shown
        )
        if format_name == "json.gz":
            _rewrite(partial, _compress)
        elif format_name == "html":
            _rewrite(partial, _make_page)
        size = partial.stat().st_size
        os.replace(partial, target)
    finally:
        shown.clear()
        if partial.exists():
            partial.unlink()
    return _saved(target, facts, size)


def _default_target(native: Any, paths: Sequence[str], own: bool) -> Path:
    slots = native.statistics()["slots"] if own else 0
    size = slots * 32768 + sum(os.path.getsize(path) for path in paths)
    return Path(DEFAULT_STEM + (".pftrace" if size / 16 > LARGE else ".json"))


def _saved(target: Path, facts: dict[str, int], size: int) -> Saved:
    from scry.trace.tracer import Saved

    return Saved(
        path=target,
        calls=facts["calls"],
        dropped=facts["dropped"],
        processes=facts["processes"],
        bytes=size,
        duration=facts["duration_ns"] / 1e9,
        unfinished=facts["unfinished"],
    )


def _rewrite(path: Path, change: Callable[[Path, Path], None]) -> None:
    other = path.with_name(path.name + "~")
    try:
        change(path, other)
        os.replace(other, path)
    finally:
        if other.exists():
            other.unlink()


def _compress(source: Path, target: Path) -> None:
    import gzip
    import shutil

    with source.open("rb") as plain, gzip.open(target, "wb", compresslevel=5) as packed:
        shutil.copyfileobj(plain, packed, 1 << 20)


def _make_page(source: Path, target: Path) -> None:
    from scry.trace.page import write_page

    write_page(source, target)
