"""Values as short texts: bounded in length, in depth and in number of items, and never an exception."""

from __future__ import annotations

import itertools
import json
import types
from typing import Any

LENGTH = 120  # characters of one value
ARGUMENTS = 16
ITEMS = 6
DEPTH = 3


def text(value: Any) -> str:
    """What the tracer calls for every value; a frame stands for its arguments, as JSON."""
    if isinstance(value, types.FrameType):
        return arguments(value)
    return short(value)


def short(value: Any, depth: int = DEPTH) -> str:
    try:
        return _cut(_describe(value, depth))
    except Exception as error:
        return f"<{type(value).__name__}: repr failed with {type(error).__name__}>"


def _cut(said: str) -> str:
    return said if len(said) <= LENGTH else said[: LENGTH - 1] + "…"


def _describe(value: Any, depth: int) -> str:
    kind = type(value)
    if kind in (str, bytes):
        return repr(value[:LENGTH]) + ("…" if len(value) > LENGTH else "")
    if kind is int and value.bit_length() > 256:
        return f"<int of {value.bit_length()} bits>"
    if kind in _BRACKETS:
        return _items(value, depth)
    if kind.__repr__ is object.__repr__:
        return f"<{kind.__module__}.{kind.__qualname__}>"
    return repr(value)


_BRACKETS = {list: "[]", tuple: "()", set: "{}", frozenset: "{}", dict: "{}"}


def _items(value: Any, depth: int) -> str:
    opening, closing = _BRACKETS[type(value)]
    if depth <= 0:
        return f"{opening}…{closing}"
    some = itertools.islice(value.items() if isinstance(value, dict) else value, ITEMS)
    if isinstance(value, dict):
        parts = [f"{short(k, depth - 1)}: {short(v, depth - 1)}" for k, v in some]
    else:
        parts = [short(item, depth - 1) for item in some]
    if len(value) > ITEMS:
        parts.append(f"… {len(value)} in all")
    return opening + ", ".join(parts) + closing


def arguments(frame: types.FrameType, describe: Any = short) -> str:
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & 4) + bool(code.co_flags & 8)  # *args and **kwargs
    values = frame.f_locals
    names = [name for name in code.co_varnames[:count] if name in values]
    return json.dumps({name: describe(values[name]) for name in names[:ARGUMENTS]})
