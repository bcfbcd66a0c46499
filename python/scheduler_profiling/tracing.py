"""viztrace_scheduler()."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Union

from scry import errors
from scry.dask.block import ask, client_of
from scry.dask.kinds import Trace, suffix_of

from scheduler_profiling.names import current_names
from scheduler_profiling.sampling import _check_folder

StrPath = Union[str, "os.PathLike[str]"]
Names = Union[str, Sequence[str]]


def _list(names: Names | None) -> list[str]:
    return [names] if isinstance(names, str) else list(names or ())


def viztrace_scheduler(
    output: StrPath,
    tracer_entries: int = 1000000,
    verbose: int = 1,
    max_stack_depth: int = -1,
    include_files: Names | None = None,
    exclude_files: Names | None = None,
    ignore_c_function: bool = False,
    ignore_frozen: bool = False,
    log_func_retval: bool = False,
    log_func_args: bool = False,
    log_print: bool = False,
    log_gc: bool = False,
    log_sparse: Names = (),
    trace_sparse: Names = (),
    log_async: bool = False,
    vdb: bool = False,
    file_info: bool = False,
    register_global: bool = True,
    plugins: Any = None,
    client: Any = None,
) -> SchedulerTrace:
    """Traces the scheduler for the span of the block and writes the trace to `output`, on the client's machine.

    The end of the name says what is written: .json or .json.gz (Chrome's format), .pftrace (Perfetto's), .html.

    trace_sparse names functions like unittest.mock.patch does; only what runs inside of them is recorded. Nothing is
    patched, so it does not matter whether the scheduler calls them by its tables of handlers. A name that later versions
    of Dask changed is replaced, with a warning; one that does not exist is an error before anything happens.

    log_sparse names functions of which only the call itself is recorded. vdb, file_info and register_global are
    taken and have no effect; plugins are those of viztracer and cannot be run.
    """
    if plugins:
        raise errors.UsageError("plugins of viztracer cannot be run by scry's tracer")
    if vdb:
        warnings.warn("vdb has no effect: the debugger for it is no longer made", stacklevel=2)
    _check_folder(Path(output).parent)
    whole, alone = _list(trace_sparse), _list(log_sparse)
    options: dict[str, Any] = {
        "entries": tracer_entries,
        "include_files": include_files,
        "exclude_files": exclude_files,
        "ignore_c_function": ignore_c_function,
        "ignore_frozen": ignore_frozen,
        "log_returns": log_func_retval,
        "log_args": log_func_args,
        "log_print": log_print,
        "log_gc": log_gc,
        "log_async": log_async,
        "max_stack_depth": max(0, max_stack_depth),
        "suffix": suffix_of(Path(output)),
    }
    if alone and whole:
        warnings.warn(
            "beside trace_sparse the functions of log_sparse are recorded with all they call",
            stacklevel=2,
        )
    elif alone:
        options["max_stack_depth"] = 1
    return SchedulerTrace(Path(output), whole + alone, bool(verbose), client_of(client), options)


class SchedulerTrace(Trace):
    """For `with`, and with an asynchronous client for `async with`."""

    def __init__(
        self, output: Path, names: list[str], verbose: bool, client: Any, options: dict[str, Any]
    ) -> None:
        nobody = {"workers": [], "nannies": False, "via_nanny": False}
        wanted = {"scheduler": True, **nobody, "options": options}
        super().__init__(output, False, client=client, wanted=wanted, own=False)
        self._sparse = names
        self._verbose = verbose
        self._replaced: list[str] = []  # sentences about names

    async def _find_names(self) -> None:
        """As the scheduler knows them; whether they exist is asked there, before anything is begun."""
        if not self._sparse:
            return
        found = await ask(self.client.run_on_scheduler(current_names, self._sparse))
        if found["unknown"]:
            raise errors.UsageError("; ".join(found["unknown"]))
        self._replaced = found["warnings"]
        self._wanted["options"]["trace_sparse"] = found["names"]

    def _say_names(self) -> None:
        """Where the block is, not in the thread that speaks to the scheduler."""
        for text in self._replaced:
            warnings.warn(text, stacklevel=3)

    def __enter__(self) -> Any:
        if not self.client.asynchronous:
            self.client.sync(self._find_names)
            self._say_names()
        return super().__enter__()

    async def __aenter__(self) -> Any:
        await self._find_names()
        self._say_names()
        return await super().__aenter__()

    async def end(self) -> None:
        await super().end()
        for part in self.arrived if self._verbose else []:
            print(f"scry: wrote '{part.path}': {part.facts.get('calls', 0)} calls")
