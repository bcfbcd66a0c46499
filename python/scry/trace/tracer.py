"""The tracer as a program uses it."""

from __future__ import annotations

import dataclasses
import gc
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from scry.around import Function, each_call
from scry.trace import children, native, output, sparse, values

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Names = Union[str, Sequence[str]]

DEFAULT_MEMORY = 128 << 20
BYTES_PER_CALL = 16

_current: Tracer | None = None


def current() -> Tracer | None:
    """The tracer that was started last and not stopped yet."""
    return _current


def parse_memory(value: int | str) -> int:
    """Bytes from 1048576, "64M", "2G"."""
    if isinstance(value, int):
        return value
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?\s*", value, re.IGNORECASE)
    if not match:
        raise ValueError(f"'{value}' is not an amount of memory like 64M or 2G")
    return int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " "))


def parse_duration(value: float | str) -> int:
    """Nanoseconds from seconds as a number, or from "5us", "0.2ms", "300ns", "1s"."""
    if isinstance(value, (int, float)):
        return int(value * 1e9)
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s)\s*", value)
    if not match:
        raise ValueError(f"'{value}' is not a duration like 300ns, 5us, 0.2ms or 1s")
    return int(float(match[1]) * {"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}[match[2]])


def _names(value: Names | None) -> list[str]:
    return [value] if isinstance(value, str) else list(value or ())


def absolute_pattern(pattern: str) -> str:
    """A path that leads somewhere is made absolute; other patterns are left as they are."""
    pattern = os.path.expanduser(pattern)
    if not any(c in pattern for c in "*?[") and (os.sep in pattern or os.path.exists(pattern)):
        return os.path.abspath(pattern)
    return pattern


def _patterns(value: Names | None) -> list[str]:
    return [absolute_pattern(pattern) for pattern in _names(value)]


def _library_folders() -> list[str]:
    import sysconfig

    paths = sysconfig.get_paths()
    return [paths["stdlib"], paths["platstdlib"]]


@dataclasses.dataclass
class Options:
    """What to record. See Tracer for what each means."""

    memory: int | str = DEFAULT_MEMORY
    entries: int | None = None
    ignore_c_function: bool = False
    ignore_frozen: bool = False
    ignore_stdlib: bool = False
    include_files: Names | None = None
    exclude_files: Names | None = None
    max_stack_depth: int = 0
    min_duration: float | str = 0
    log_args: bool = False
    log_returns: bool = False
    log_exceptions: bool = True
    log_gc: bool = True
    log_async: bool = True
    trace_sparse: Names | None = None
    children: bool = False
    stream: bool = False

    def checked(self) -> dict[str, Any]:
        """As scry._tracer.start() takes them."""
        library = _library_folders() if self.ignore_stdlib else []
        memory = self.entries * BYTES_PER_CALL if self.entries else parse_memory(self.memory)
        if memory < 1 << 20 and not self.entries:
            raise ValueError(f"{memory} bytes of memory are too few: give at least 1M")
        return {
            "memory": 0 if self.stream else max(memory, 1 << 18),
            "include": _patterns(self.include_files),
            "exclude": _patterns(self.exclude_files) + library,
            "c_functions": not self.ignore_c_function,
            "arguments": self.log_args,
            "results": self.log_returns,
            "exceptions": self.log_exceptions,
            "collections": self.log_gc,
            "tasks": self.log_async,
            "frozen": not (self.ignore_frozen or self.ignore_stdlib),
            "max_depth": max(0, self.max_stack_depth),
            "min_duration": parse_duration(self.min_duration),
        }


@dataclasses.dataclass
class Saved:
    """How saving went."""

    path: Path
    calls: int
    dropped: int  # calls for which there was no memory left
    processes: int
    bytes: int
    duration: float  # seconds from the start of the trace to its last event
    unfinished: int  # processes that were killed or crashed: what they recorded until then is there

    def sentence(self) -> str:
        said = f"{self.calls} calls of {self.duration:.3g} s"
        if self.processes > 1:
            said += f" in {self.processes} processes"
        if self.dropped:
            said += f"; {self.dropped} older calls were dropped: give more --memory, or --stream"
        return said


class Tracer:
    """Records every call until it is stopped; a context manager and a decorator, too.

    output           where save() writes: .json, .json.gz, .pftrace (Perfetto), .scry or .html
    memory, entries  how much is kept, in bytes ("64M") or calls; older calls are dropped, and counted
    stream           keep everything in a file instead, as it comes; it is there even after a crash
    ignore_c_function, ignore_frozen, ignore_stdlib
                     leave out functions in C, frozen modules, the standard library
    include_files, exclude_files
                     paths of files and folders, names in paths, or patterns
    max_stack_depth  leave out what is deeper
    min_duration     leave out what is shorter: seconds, or "5us"
    log_args, log_returns
                     arguments and return values as short texts; repr= makes the text of a value
    log_exceptions, log_gc, log_async
                     where exceptions are raised (3.12 and later), garbage collections, a track for each asyncio task
    trace_sparse     names like "package.module.Class.method": record only while one of them runs
    children         record processes that this one forks or starts as well
    """

    def __init__(
        self,
        output: str | os.PathLike[str] | None = None,
        *,
        repr: Callable[[Any], str] | None = None,
        progress: bool | None = None,
        **options: Any,
    ) -> None:
        self.output = Path(output) if output is not None else None
        self.options = Options(**options)
        self.last: Saved | None = None
        self._checked = self.options.checked()
        self._repr = repr
        self._progress = progress
        self._native: Any = native.load()
        # The functions themselves: a frame of these two's own would be what they cost.
        vars(self).update(pause=self._native.pause, resume=self._native.resume)
        self._codes: list[Any] = []
        self._family: children.Family | None = None
        self._stream: str | None = None
        if self.output is not None:
            _ = output_format(self.output)  # a name that says nothing is better known now

    @staticmethod
    def option_names() -> set[str]:
        return {field.name for field in dataclasses.fields(Options)}

    # ---- starting and stopping ----

    def start(self) -> Tracer:
        """Begin to record. RuntimeError if a tracer, or something that excludes it, is at work already."""
        global _current
        names = _names(self.options.trace_sparse)
        codes = [sparse.resolve(name) for name in names]
        if self.options.children or self.options.stream:
            self._family = children.Family(self._own_folder())
        self._stream = self._family.path_here() if self._family and self.options.stream else None
        self._prepare()
        try:
            # Last, so that nothing of this is recorded.
            self._native.start(path=self._stream, **self._start_options(bool(codes)))
        except BaseException:
            self._settle()
            self._forget_family()
            raise
        _current = self
        if codes:
            self._watch(codes)
        return self

    def _watch(self, codes: Sequence[Any]) -> None:
        try:
            for code in codes:
                self._native.watch(code, True)
                self._codes.append(code)
        except BaseException:
            self.stop()
            raise

    def _prepare(self) -> None:
        if self.options.log_gc:
            gc.callbacks.append(self._native.collection)
        children.follow(self if self.options.children else None)
        if self._family and self.options.children:
            self._family.enter(self._child_options())

    def _settle(self) -> None:
        """Undoes _prepare()."""
        if self._native.collection in gc.callbacks:
            gc.callbacks.remove(self._native.collection)
        children.follow(None)
        if self._family:
            self._family.leave()

    def stop(self) -> Tracer:
        """Record no more. What was recorded stays until it is saved and cleared."""
        global _current
        if self._codes:
            self._unwatch()
        self._native.stop()
        self._settle()
        if _current is self:
            _current = None
        return self

    def pause(self) -> None:
        """Record nothing for a while; costs a few microseconds."""
        self._native.pause()

    def resume(self) -> None:
        self._native.resume()

    @property
    def active(self) -> bool:
        return _current is self

    def clear(self) -> None:
        """Give back the memory of what was recorded."""
        self._native.clear()
        self._forget_family()

    def __enter__(self) -> Tracer:
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.stop()
        if self.output is not None:
            self.save()

    def __call__(self, function: Function) -> Function:
        """As a decorator: each call of the function is a trace; with an output each is saved, the last one remains."""
        return each_call(lambda: self, function)

    # ---- saving ----

    def save(self, path: str | os.PathLike[str] | None = None) -> Saved:
        """Write what was recorded; the format follows from the name. Stops the tracer if it still runs."""
        if self.active:
            self.stop()
        target = Path(path) if path is not None else self.output
        paths = self._family.paths(other_than=self._stream) if self._family else []
        own = self._stream is None
        if self._stream:
            paths.insert(0, self._stream)
        self.last = output.save(self._native, target, paths, own=own, progress=self._progress)
        return self.last

    # ---- events from code ----

    def instant(self, name: str, args: Any = None) -> None:
        """Marks this moment."""
        self._native.event(self._native.INSTANT, _plain(name), _json(args), 0)

    def counter(self, name: str, value: float) -> None:
        """Records a value that changes over time."""
        self._native.event(self._native.COUNTER, _plain(name), f'{{"value":{float(value)!r}}}', 0)

    def event(self, name: str, args: Any = None) -> Event:
        """with tracer.event("load"): a span of time on a track of its own."""
        return Event(self, name, args)

    # ---- inside ----

    def _start_options(self, is_sparse: bool) -> dict[str, Any]:
        return {
            **self._checked,
            "command": children.command_line(),
            "folder": os.getcwd(),
            "own": os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
            "repr": self._describe(),
            "left": True,
            "sparse": is_sparse,
        }

    def _describe(self) -> Callable[[Any], str]:
        own = self._repr
        if own is None:
            return values.text
        import types

        def text(value: Any) -> str:
            if isinstance(value, types.FrameType):
                return values.arguments(value, own)
            return own(value)

        return text

    def _child_options(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self.options), "children": True}

    def _own_folder(self) -> Path | None:
        """Streams lie beside the output, as they may be large; without one in the temporary folder."""
        if not self.options.stream or self.output is None:
            return None
        return self.output.with_name(self.output.name + f".parts-{os.getpid()}")

    def _unwatch(self) -> None:
        while self._codes:
            self._native.watch(self._codes.pop(), False)

    def _forget_family(self) -> None:
        if self._family:
            self._family.remove()
        self._family = None


class Event:
    """A span of time that the program names itself."""

    def __init__(self, tracer: Tracer | None, name: str, args: Any = None) -> None:
        self._tracer = tracer
        self._name = name
        self._args = args
        self._since = 0

    def __enter__(self) -> Event:
        if self._tracer:
            self._since = self._tracer._native.ticks()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._tracer:
            native_module = self._tracer._native
            native_module.event(
                native_module.SPAN, _plain(self._name), _json(self._args), self._since
            )


def output_format(path: Path) -> str:
    return output.format_of(path)


def _plain(name: str) -> str:
    """As UTF-8 and C have it."""
    return str(name).encode("utf-8", "replace").decode().replace("\0", " ")


def _json(args: Any) -> str:
    """What is given to an event, as a JSON object of short texts and numbers."""
    if args is None:
        return ""
    import json

    def plain(value: Any) -> Any:
        if value is None or isinstance(value, (bool, int)) and abs(value) < 2**53:
            return value
        if isinstance(value, float) and value - value == 0:
            return value
        return value[:1000] if isinstance(value, str) else values.short(value)

    items = args.items() if isinstance(args, dict) else [("value", args)]
    return json.dumps({str(k)[:200]: plain(v) for k, v in list(items)[:32]})


def _not_windows() -> None:
    if sys.platform == "win32":
        raise ImportError("scry's tracer does not run on Windows")


_not_windows()
