from collections.abc import Callable, Sequence
from os import PathLike
from types import CodeType
from typing import Any

HAVE_MONITORING: int
INSTANT: int
COUNTER: int
SPAN: int

def start(
    *,
    path: str | None,
    memory: int,
    command: str,
    include: Sequence[str],
    exclude: Sequence[str],
    folder: str,
    own: str,
    repr: Callable[[Any], str],
    c_functions: bool,
    arguments: bool,
    results: bool,
    exceptions: bool,
    collections: bool,
    tasks: bool,
    left: bool,
    sparse: bool,
    frozen: bool,
    max_depth: int,
    min_duration: int,
) -> None: ...
def stop() -> None: ...
def pause() -> None: ...
def resume() -> None: ...
def clear() -> None: ...
def is_on() -> bool: ...
def statistics() -> dict[str, Any]: ...
def watch(code: CodeType, on: bool, /) -> None: ...
def event(kind: int, name: str, json: str, since: int, /) -> bool: ...
def ticks() -> int: ...
def collection(phase: str, info: dict[str, int], /) -> None: ...
def after_fork(path: str | None, memory: int, command: str, /) -> None: ...
def convert(
    *,
    paths: Sequence[str | PathLike[str]],
    own: bool,
    output: str | PathLike[str],
    format: str,
    progress: Callable[[float], object],
) -> dict[str, int]: ...
