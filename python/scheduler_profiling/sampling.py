"""pyspy_on_scheduler() and pyspy()."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Union

from scry import errors
from scry.dask import record
from scry.dask.kinds import Record

StrPath = Union[str, "os.PathLike[str]"]

# Flags of py-spy that have no parameter of their own, by what they are here.
_FLAGS = {
    "-F": "function",
    "--function": "function",
    "--nolineno": "nolineno",
    "-t": "threads",
    "--threads": "threads",
    "-g": "gil",
    "--gil": "gil",
    "-i": "idle",
    "--idle": "idle",
    "-n": "native",
    "--native": "native",
    "--nonblocking": "nonblocking",
    "-s": "subprocesses",
    "--subprocesses": "subprocesses",
    "--full-filenames": "full_filenames",
    "--capture": "",
    "--hideprogress": "",
}
_VALUES = {"-r": "rate", "--rate": "rate", "-d": "duration", "--duration": "duration"}
_FORMATS = ("-f", "--format")


def extra_options(words: Iterable[str]) -> dict[str, Any]:
    """What extra_pyspy_args mean. A ValueError names what is not known."""
    found: dict[str, Any] = {}
    rest = list(words)
    while rest:
        word, equals, value = rest.pop(0).partition("=")
        if word in _FLAGS and not equals:
            if _FLAGS[word]:
                found[_FLAGS[word]] = True
        elif word in _VALUES or word in _FORMATS:
            if not equals and not rest:
                raise errors.UsageError(f"extra_pyspy_args: {word} needs a value")
            value = value if equals else rest.pop(0)
            found[_VALUES.get(word, "format")] = value
        else:
            raise errors.UsageError(
                f"extra_pyspy_args: '{word}' is not known here", f"known: {' '.join(_FLAGS)}"
            )
    return found


# Parameters that record() has as well.
_SAME = (
    *("format", "rate", "subprocesses", "function", "gil", "threads", "idle", "nonblocking"),
    *("native", "client"),
)


def _options(said: dict[str, Any]) -> dict[str, Any]:
    """What a call with these parameters wants of record()."""
    if said["log_level"] is not None:
        warnings.warn("log_level has no effect: scry has no log", stacklevel=3)
    same = {name: said[name] for name in _SAME}
    return {**same, **extra_options(said["extra_pyspy_args"])}


def pyspy_on_scheduler(
    output: StrPath,
    format: str = "speedscope",
    rate: int = 100,
    subprocesses: bool = True,
    function: bool = False,
    gil: bool = False,
    threads: bool = False,
    idle: bool = True,
    nonblocking: bool = False,
    native: bool = False,
    extra_pyspy_args: Sequence[str] = (),
    log_level: str | None = None,
    client: Any = None,
) -> Record:
    """Records the scheduler for the span of the block and writes the profile to `output`, on the client's machine.

    For `with`, and with an asynchronous client for `async with`.
    """
    options = _options(locals())
    _check_folder(Path(output).parent)
    return record(output, workers=False, **options)


def pyspy(
    output: StrPath,
    workers: int | Sequence[str] | None = None,
    format: str = "speedscope",
    rate: int = 100,
    subprocesses: bool = True,
    function: bool = False,
    gil: bool = False,
    threads: bool = False,
    idle: bool = True,
    nonblocking: bool = False,
    native: bool = False,
    extra_pyspy_args: Sequence[str] = (),
    log_level: str | None = None,
    client: Any = None,
) -> Record:
    """Records workers (all, so many, or these) and writes a file for each into the folder `output`."""
    options = _options(locals())
    who = True if workers is None else workers
    return record(output, scheduler=False, workers=who, separate=True, **options)


def _check_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise errors.OutputFailed(f"there is no folder '{folder}' for the profile")
