"""The program `scry`: where it is, and running it."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Union

from scry import errors

Output = Union[None, int, IO[Any]]


def _candidates() -> Iterator[Path]:
    package = Path(__file__).resolve().parent
    for scheme in (None, *_schemes()):
        folder = sysconfig.get_path("scripts", scheme) if scheme else sysconfig.get_path("scripts")
        if folder:
            yield Path(folder) / "scry"
    yield package.parent / "bin" / "scry"  # pip install --target
    yield package.parents[1] / "build" / "scry"  # a checkout
    yield package.parents[2] / "bin" / "scry"  # ./dev install: share/scry/python/scry
    yield package.parents[3] / "bin" / "scry"
    found = shutil.which("scry")
    if found:
        yield Path(found)


def _schemes() -> list[str]:
    return [f"{os.name}_user"] if f"{os.name}_user" in sysconfig.get_scheme_names() else []


def _is_ours(path: Path) -> bool:
    """The program, not a script of that name: it begins like every ELF file."""
    try:
        with path.open("rb") as file:
            return file.read(4) == b"\x7fELF" and os.access(path, os.X_OK)
    except OSError:
        return False


@functools.cache
def _find() -> str | None:
    return next((str(path) for path in _candidates() if _is_ours(path)), None)


def find() -> str:
    """The path of the program; SCRY in the environment comes first."""
    path = os.environ.get("SCRY") or _find()
    if not path or not os.access(path, os.X_OK):
        raise errors.NoProgram(
            f"the program scry {f'is not at {path}' if path else 'was not found'}",
            f"install the package again: {sys.executable} -m pip install --force-reinstall scry",
        )
    return path


def environment() -> dict[str, str]:
    return {**os.environ, "SCRY_ERRORS": "json"}


def start(words: Sequence[str], *, stdin: Output, stdout: Output, **more: Any) -> Any:
    """A Popen of scry with these words, its complaints on a pipe."""
    return subprocess.Popen(
        [find(), *words],
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env=environment(),
        **more,
    )


def run(
    words: Sequence[str], *, stdout: Output = subprocess.PIPE, pass_fds: Sequence[int] = ()
) -> bytes:
    """What scry prints, if it goes nowhere else; its error as an exception."""
    done = subprocess.run(
        [find(), *words],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env=environment(),
        pass_fds=pass_fds,
    )
    if done.returncode:
        raise errors.from_output(done.stderr.decode("utf-8", "replace"), done.returncode)
    return done.stdout or b""
