"""viztracer's common interface over scry's tracer, so that it can be tried by changing an import.

    from scry.viztracer import VizTracer, log_sparse

What scry has no equivalent for (plugins, log_var and the like, the report server) raises a TypeError that says so.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scry.around import Function, each_call
from scry.trace import tracer as _tracer
from scry.trace.tracer import Event, Tracer

__all__ = [
    "VizLoggingHandler",
    "VizTracer",
    "get_tracer",
    "ignore_function",
    "log_sparse",
    "trace_and_save",
]

# viztracer's name -> scry's, where it means the same.
_SAME = {
    "max_stack_depth": "max_stack_depth",
    "ignore_c_function": "ignore_c_function",
    "ignore_frozen": "ignore_frozen",
    "include_files": "include_files",
    "exclude_files": "exclude_files",
    "log_func_args": "log_args",
    "log_func_retval": "log_returns",
    "log_gc": "log_gc",
    "log_async": "log_async",
    "trace_sparse": "trace_sparse",
}
# Accepted, because they change nothing that matters here.
_HARMLESS = {
    *("verbose", "pid_suffix", "file_info", "register_global", "trace_self", "minimize_memory"),
    *("dump_raw", "sanitize_function_name", "process_name", "log_sparse"),
}


class VizTracer:
    """A tracer that takes viztracer's arguments and has its methods."""

    def __init__(
        self,
        tracer_entries: int = 1_000_000,
        *,
        output_file: str = "result.json",
        min_duration: float = 0,
        ignore_multiprocess: bool = True,
        log_func_repr: Callable[[Any], str] | None = None,
        **options: Any,
    ) -> None:
        unknown = [
            name
            for name, on in options.items()
            if name not in _SAME and name not in _HARMLESS and on
        ]
        if unknown:
            raise TypeError(f"scry's tracer has no {', '.join(sorted(unknown))}")
        chosen = {_SAME[name]: value for name, value in options.items() if name in _SAME}
        chosen.setdefault("log_gc", False)
        chosen.setdefault("log_async", False)
        if chosen.get("max_stack_depth", 0) < 0:
            chosen["max_stack_depth"] = 0
        self.output_file = output_file
        self.verbose = options.get("verbose", 1)
        self.log_sparse = bool(options.get("log_sparse"))
        self._saved: Path | None = None
        self._tracer = Tracer(
            None,
            entries=tracer_entries,
            min_duration=min_duration / 1e6,  # viztracer counts microseconds
            children=not ignore_multiprocess,
            repr=log_func_repr,
            **chosen,
        )
        vars(self).update(pause=self._tracer.pause, resume=self._tracer.resume)
        if self.log_sparse:
            # Only what is marked with @log_sparse, and events from code; as in viztracer, without start().
            self._tracer._checked["exclude"] = ["*"]
            self.start()

    @property
    def enable(self) -> bool:
        return self._tracer.active

    def start(self) -> None:
        global _last
        _last = self
        if not (self.log_sparse and self._tracer.active):
            self._tracer.start()

    def stop(self, stop_option: str | None = None) -> None:
        if self._tracer.active:
            self._tracer.stop()

    def pause(self) -> None:
        self._tracer.pause()

    def resume(self) -> None:
        self._tracer.resume()

    def clear(self) -> None:
        self.stop()
        self._tracer.clear()

    def save(self, output_file: str | None = None, **ignored: Any) -> None:
        saved = self._tracer.save(output_file or self.output_file)
        self._saved = saved.path
        if self.verbose:
            print(f"scry: wrote '{saved.path}': {saved.sentence()}")

    def dump(self, filename: str, sanitize_function_name: bool = False) -> None:
        """viztracer's quick way to a file; here all ways are."""
        self._tracer.save(filename)

    def fork_save(self, output_file: str | None = None, **ignored: Any) -> None:
        """viztracer saves in a forked process, as that takes it long."""
        self.save(output_file)

    def enable_thread_tracing(self) -> None:
        """Threads are traced as it is."""

    def getts(self) -> float:
        """Microseconds on a clock of its own."""
        return time.monotonic_ns() / 1000

    def run(self, command: str, output_file: str | None = None) -> None:
        with self:
            exec(command, {"__name__": "__main__"})
        self.save(output_file)

    def terminate(self) -> None:
        """viztracer's end of its plugins; there are none."""

    def parse(self) -> int:
        """viztracer's first half of saving; here saving is one step."""
        self.stop()
        return 0

    def __enter__(self) -> VizTracer:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()
        if exception[0] is None:
            self.save()

    def log_instant(self, name: str, args: Any = None, scope: str = "t") -> None:
        self._tracer.instant(name, args)

    add_instant = log_instant

    def log_var(self, name: str, value: Any) -> None:
        self.add_variable(name, value)

    def add_variable(self, name: str, value: Any, event: str = "instant") -> None:
        if event == "counter":
            self._tracer.counter(name, value)
        else:
            self._tracer.instant(name, {"value": value})

    def add_counter(self, name: str, args: dict[str, float]) -> None:
        for key, value in args.items():
            self._tracer.counter(name if len(args) == 1 else f"{name}.{key}", value)

    def log_event(self, name: str, args: Any = None) -> Event:
        return self._tracer.event(name, args)


class VizLoggingHandler(logging.Handler):
    """Puts what is logged into the trace, as instants."""

    def __init__(self, level: int = logging.NOTSET, tracer: VizTracer | None = None) -> None:
        super().__init__(level)
        self._viztracer = tracer

    def setTracer(self, tracer: VizTracer) -> None:
        self._viztracer = tracer

    def emit(self, record: logging.LogRecord) -> None:
        tracer = self._viztracer or _last
        if tracer is not None and tracer.enable:
            tracer.log_instant(f"logging - {self.format(record)}")


_last: VizTracer | None = None


def get_tracer() -> VizTracer | None:
    """The tracer that was started last."""
    return _last


def log_sparse(
    function: Function | None = None, stack_depth: int = 0, dynamic_tracer_check: bool = True
) -> Any:
    """Records the span of each call of the function, whatever else is traced; of coroutines from start to end."""
    if stack_depth:
        raise TypeError(
            "scry's log_sparse has no stack_depth: give the function's name as trace_sparse"
        )
    if function is None:
        return log_sparse
    name = getattr(function, "__qualname__", repr(function))
    return each_call(lambda: Event(_tracer.current(), name), function)


def ignore_function(function: Function | None = None, **ignored: Any) -> Any:
    """Nothing is recorded while the function runs, in any thread; also if it raises."""
    if function is None:
        return functools.partial(ignore_function, **ignored)
    return each_call(_Paused, function)


class _Paused:
    """Not by contextlib: its frames would be in the trace."""

    def __enter__(self) -> None:
        self._tracer = _tracer.current()
        if self._tracer:
            self._tracer.pause()

    def __exit__(self, *exception: object) -> None:
        if self._tracer and self._tracer.active:
            self._tracer.resume()


class _Saved:
    """Traces its block and saves it; also if it raises."""

    def __init__(self, path: Path, options: dict[str, Any]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._tracer = VizTracer(output_file=str(path), **{"verbose": 0, **options})

    def __enter__(self) -> None:
        self._tracer.start()

    def __exit__(self, *exception: object) -> None:
        self._tracer.stop()
        self._tracer.save()
        self._tracer.clear()


def trace_and_save(function: Function | None = None, output_dir: str = "./", **options: Any) -> Any:
    """Each call of the function becomes a file of its own; also if it raises."""
    if function is None:
        return functools.partial(trace_and_save, output_dir=output_dir, **options)
    counter = iter(range(1 << 62))
    stem = function.__name__

    def saved() -> _Saved:
        return _Saved(Path(output_dir, f"result_{stem}_{next(counter)}.json"), options)

    return each_call(saved, function)
