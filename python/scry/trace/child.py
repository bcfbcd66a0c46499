"""Tracing in a process that was started, or attached to, for that purpose."""

from __future__ import annotations

import atexit
import os
from pathlib import Path
from typing import Any

from scry.trace import children, sparse, tracer

_running: tracer.Tracer | None = None
_pending: sparse.Pending | None = None


def begin(facts: dict[str, Any], *, left: bool = False) -> None:
    """Start as the environment says. `left`: also record the end of calls that are open already."""
    global _running
    if _running is not None:
        raise RuntimeError("it is traced already")
    options = dict(facts["options"])
    names = options.pop("trace_sparse", None) or ()
    names = [names] if isinstance(names, str) else list(names)
    family = children.Family.at(facts["folder"])
    _running = tracer.Tracer(**options)
    _running._family = family
    _start(_running, family, names, left)
    atexit.register(end)


def _start(running: tracer.Tracer, family: children.Family, names: list[str], left: bool) -> None:
    start_options = running._start_options(bool(names))
    start_options["left"] = left
    running._native.start(path=family.path_here(), **start_options)
    tracer._current = running
    if names:
        _watch(running, names)
    if running.options.log_gc:
        import gc

        gc.callbacks.append(running._native.collection)
    children.follow(running)


def _watch(running: tracer.Tracer, names: list[str]) -> None:
    """What is loaded is found at once, the rest when its module is run."""
    global _pending

    def found(name: str, code: Any) -> None:
        if tracer._current is running:
            running._native.watch(code, True)
            running._codes.append(code)
            if _pending:
                _note(running, _pending)

    _pending = None
    _pending = sparse.Pending(names, found)
    _pending.wait()
    _note(running, _pending)


def _note(running: tracer.Tracer, pending: sparse.Pending) -> None:
    """Names that have not been met, and why, for whoever reports."""
    assert running._family
    note = Path(running._family.folder, f"{os.getpid()}.unmet")
    if pending.names:
        note.write_text("".join(f"{n}\t{pending.reasons.get(n, '')}\n" for n in pending.names))
    elif note.exists():
        note.unlink()


def end() -> None:
    """At the end of the process, or when the observer leaves."""
    global _running, _pending
    running = _running
    _running = None
    if _pending is not None and running is not None:
        if _pending.names:
            _note(running, _pending)
        _pending.give_up()
        _pending = None
    if running is not None and tracer._current is running and os.environ is not None:
        running.stop()
