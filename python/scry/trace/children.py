"""Processes that a traced one forks or starts: each writes an image of its own into a folder they share."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scry.trace.tracer import Tracer

VARIABLE = "SCRY_TRACE_FAMILY"
INJECT = str(Path(__file__).resolve().parent / "inject")


def command_line() -> str:
    """How this process was started, for the name of its track."""
    words = getattr(sys, "orig_argv", None) or [
        sys.executable or "python",
        *getattr(sys, "argv", []),
    ]
    return " ".join(words)[:4000]


class Family:
    """The folder, and what new processes need to know of it."""

    def __init__(self, folder: Path | None = None) -> None:
        if folder is None:
            self.folder = tempfile.mkdtemp(prefix="scry-trace-")
        else:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.folder = str(folder.resolve())
        self._before: dict[str, str | None] | None = None

    @classmethod
    def at(cls, folder: str) -> Family:
        """One that another process has made."""
        family = cls.__new__(cls)
        family.folder = folder
        family._before = None
        return family

    def path_here(self) -> str:
        """A new file for this process; a process may be traced more than once, and its number may come back."""
        return os.path.join(self.folder, f"{os.getpid()}-{time.monotonic_ns()}.image")

    def paths(self, other_than: str | None = None) -> list[str]:
        found = sorted(str(path) for path in Path(self.folder).glob("*.image"))
        return [path for path in found if path != other_than]

    def environment(self, options: dict[str, Any]) -> dict[str, str]:
        """What makes a Python that is started trace itself."""
        package = str(Path(__file__).resolve().parents[2])
        facts = {"folder": self.folder, "package": package, "options": options}
        before = os.environ.get("PYTHONPATH", "")
        inject = INJECT if not before else INJECT + os.pathsep + before
        return {VARIABLE: json.dumps(facts), "PYTHONPATH": inject}

    def enter(self, options: dict[str, Any]) -> None:
        changes = self.environment(options)
        self._before = {name: os.environ.get(name) for name in changes}
        os.environ.update(changes)

    def leave(self) -> None:
        for name, value in (self._before or {}).items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self._before = None

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


# ---- fork ----

_followed: Tracer | None = None
_registered = False


def follow(tracer: Tracer | None) -> None:
    """From here on a forked child goes on with this tracer, or with none."""
    global _followed, _registered
    _followed = tracer
    if not _registered:
        _registered = True
        os.register_at_fork(after_in_child=_after_fork)


def _after_fork() -> None:
    native = sys.modules.get("scry._tracer")
    if native is None:
        return
    tracer = _followed
    family = tracer._family if tracer else None
    if tracer is None or family is None:
        from scry.trace import tracer as module

        native.after_fork(None, 0, "")
        module._current = None
        return
    memory = tracer._checked["memory"]
    native.after_fork(family.path_here(), memory, command_line())
