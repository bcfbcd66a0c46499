"""scry: look inside running Python programs.

    import scry

    with scry.trace("run.json"):
        work()

Parts are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__all__ = ["trace"]
__version__ = "0.1.0"

if TYPE_CHECKING:
    from scry.trace import Tracer as trace

_PARTS = ("trace", "viztracer")


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return importlib.import_module(f"scry.{name}")
    raise AttributeError(f"module 'scry' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *_PARTS})
