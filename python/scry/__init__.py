"""scry: look inside running Python programs.

    import scry

    scry.dump(4242)                      # what every thread does right now
    with scry.record("run.svg"):         # where the time goes
        work()
    with scry.trace("run.json"):         # every call, in order
        work()
    scry.processes()                     # which Python processes are there?

Parts are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__all__ = [
    "Dump",
    "Process",
    "Profile",
    "Recorder",
    "ScryError",
    "dump",
    "errors",
    "processes",
    "record",
    "trace",
]
__version__ = "0.1.0"

if TYPE_CHECKING:
    from scry import errors as errors
    from scry.errors import ScryError
    from scry.listing import Process, processes
    from scry.profile import Profile
    from scry.recording import Recorder, record
    from scry.stacks import Dump, dump
    from scry.trace import Tracer as trace

_PARTS = ("dask", "errors", "ray", "trace", "viztracer")
_NAMES = {
    "Dump": "stacks",
    "Process": "listing",
    "Profile": "profile",
    "Recorder": "recording",
    "ScryError": "errors",
    "dump": "stacks",
    "processes": "listing",
    "record": "recording",
}


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(f"scry.{_NAMES[name]}"), name)
    if name in _PARTS:
        return importlib.import_module(f"scry.{name}")
    raise AttributeError(f"module 'scry' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *_PARTS, *_NAMES})


def load_ipython_extension(shell: Any) -> None:
    """%load_ext scry gives %scry_dump, %%scry and %%scry_trace."""
    from scry.jupyter import register

    register(shell)
