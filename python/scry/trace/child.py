"""Tracing in a process that was started, or attached to, for that purpose."""

from __future__ import annotations

import atexit
import os
import sys
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
    """What is loaded is found at once, the rest when its module is about to be run."""
    global _pending

    def found(name: str, code: Any) -> None:
        if tracer._current is running:
            running._native.watch(code, True)
            running._codes.append(code)
            _note(running, names_left())

    def names_left() -> list[str]:
        return _pending.names if _pending else []

    waiting = []
    for name in names:
        module = name.rpartition(".")[0]
        while module and module not in sys.modules:
            module = module.rpartition(".")[0]
        try:
            loaded = module and module != "__main__"
            code = (
                sparse.code_of(
                    sparse._attributes(
                        sys.modules[module], name[len(module) + 1 :].split("."), name
                    ),
                    name,
                )
                if loaded
                else None
            )
        except sparse.NotTraceable:
            code = None
        if code is None:
            waiting.append(name)
        else:
            running._native.watch(code, True)
            running._codes.append(code)
    if waiting:
        _pending = sparse.Pending(waiting, None, found)
        sys.addaudithook(_pending.audit)
    _note(running, waiting)


def _note(running: tracer.Tracer, waiting: list[str]) -> None:
    """Names that have not been met, for whoever reports."""
    assert running._family
    note = Path(running._family.folder, f"{os.getpid()}.unmet")
    if waiting:
        note.write_text("\n".join(waiting))
    elif note.exists():
        note.unlink()


def end() -> None:
    """At the end of the process, or when the observer leaves."""
    global _running
    running = _running
    _running = None
    if running is not None and tracer._current is running and os.environ is not None:
        running.stop()
