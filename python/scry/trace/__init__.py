"""Every call of a program, in order and with its duration.

    import scry

    with scry.trace("run.json"):
        work()

    tracer = scry.trace.Tracer(memory="64M", trace_sparse="shop.cart.Cart.total")
    tracer.start()
    ...
    tracer.stop()
    tracer.save("run.pftrace")

From the command line: `scry trace -- python prog.py` or `python -m scry.trace prog.py`. The guide is docs/trace.md.
"""

from __future__ import annotations

import sys
import types
from typing import Any

from scry.trace.native import NotBuilt
from scry.trace.sparse import NotTraceable
from scry.trace.tracer import Saved, Tracer, current

__all__ = [
    "NotBuilt",
    "NotTraceable",
    "Saved",
    "Tracer",
    "counter",
    "current",
    "event",
    "instant",
    "load_ipython_extension",
]


def instant(name: str, args: Any = None) -> None:
    """Marks this moment in the trace, if there is one."""
    tracer = current()
    if tracer:
        tracer.instant(name, args)


def counter(name: str, value: float) -> None:
    """Records a value that changes over time, if there is a trace."""
    tracer = current()
    if tracer:
        tracer.counter(name, value)


def event(name: str, args: Any = None) -> Any:
    """with scry.trace.event("load"): a span of time of its own, if there is a trace."""
    from scry.trace.tracer import Event

    return Event(current(), name, args)


def load_ipython_extension(shell: Any) -> None:
    """%load_ext scry.trace gives %%scry_trace."""
    from scry.trace.jupyter import register

    register(shell)


class _Callable(types.ModuleType):
    """So that scry.trace(...) is a Tracer, and scry.trace.Tracer is there, too."""

    def __call__(self, *arguments: Any, **options: Any) -> Tracer:
        return Tracer(*arguments, **options)


sys.modules[__name__].__class__ = _Callable
