"""What runs inside the processes of a cluster: a scheduler, a worker, a nanny.

A part is one recording or trace of one process, for one session of one client, which numbers them: its slot. (Several
servers may live in one process, hence the slot.) It is held here, in the process that is
recorded or in the nanny of it, and lies in a file without a name: nothing is left behind, however the process ends.

These functions come over Dask's own connections, called by scry.dask.session on the scheduler and by the client.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any, TypeVar

from scry import errors, ptracer
from scry.recording import Recorder

PIECE = 4 << 20  # bytes in one message

Result = TypeVar("Result")

_parts: dict[tuple[str, str], Part] = {}
_threads: ThreadPoolExecutor | None = (
    None  # for what would hold the event loop up; gone with the last part
)


async def _in_thread(function: Callable[[], Result]) -> Result:
    global _threads
    if _threads is None:
        _threads = ThreadPoolExecutor(4, thread_name_prefix="scry")
    return await asyncio.get_running_loop().run_in_executor(_threads, function)


def _drop_threads() -> None:
    global _threads
    if _threads is not None and not _parts:
        _threads.shutdown(wait=False)
        _threads = None


class Part:
    """What is recorded, and afterwards the file of it."""

    def __init__(self) -> None:
        self.file: IO[bytes] | None = None
        self.facts: dict[str, Any] = {}

    def begin(self) -> None:
        raise NotImplementedError

    def end(self) -> IO[bytes]:
        raise NotImplementedError

    def close(self) -> None:
        if self.file is not None:
            self.file.close()


class RecordPart(Part):
    """Samples a process from outside."""

    def __init__(self, pid: int, options: dict[str, Any]) -> None:
        super().__init__()
        self.recorder = Recorder(pid=pid, **options)

    def begin(self) -> None:
        self.recorder.start()

    def end(self) -> IO[bytes]:
        return self.recorder.stop()._file

    def close(self) -> None:
        if self.recorder.active:
            try:
                self.recorder.stop().close()
            except errors.ScryError:
                pass  # nobody wants it any more
        super().close()


class TracePart(Part):
    """Traces every call of this very process."""

    def __init__(self, suffix: str, options: dict[str, Any]) -> None:
        from scry.trace import Tracer

        super().__init__()
        self.suffix = suffix
        self.log_print = options.pop("log_print", False)
        self.tracer = Tracer(None, progress=False, **options)
        self._print: Any = None

    def begin(self) -> None:
        try:
            self.tracer.start()
        except RuntimeError as error:
            raise errors.AlreadyRecording(
                f"process {os.getpid()} cannot be traced now: {error}",
                "there is one tracer in a process; stop the other one first",
            ) from None
        if self.log_print:
            self._watch_print()

    def _watch_print(self) -> None:
        import builtins

        self._print = builtins.print

        def print_and_mark(*words: Any, **options: Any) -> None:
            self.tracer.instant("print", {"text": " ".join(map(str, words))[:1000]})
            self._print(*words, **options)

        builtins.print = print_and_mark

    def _stop(self) -> None:
        if self._print is not None:
            import builtins

            builtins.print, self._print = self._print, None
        if self.tracer.active:
            self.tracer.stop()

    def end(self) -> IO[bytes]:
        self._stop()
        try:
            with tempfile.TemporaryDirectory(prefix="scry-") as folder:
                saved = self.tracer.save(os.path.join(folder, f"trace{self.suffix}"))
                self.facts = {
                    "calls": saved.calls,
                    "dropped": saved.dropped,
                    "duration": saved.duration,
                }
                return open(saved.path, "rb")
        except OSError as error:
            raise errors.OutputFailed(
                f"the trace cannot be written: {error.strerror}",
                "TMPDIR names where there is space",
            ) from None
        finally:
            self.tracer.clear()

    def close(self) -> None:
        if self.tracer.active:
            self._stop()
            self.tracer.clear()
        super().close()


def _new_part(kind: str, pid: int, options: dict[str, Any]) -> Part:
    if kind == "record":
        return RecordPart(pid, options)
    options = dict(options)
    return TracePart(options.pop("suffix", ".json"), options)


def _pid_of(role: str, server: Any) -> int:
    """A nanny is asked for its worker's, unless it is the nanny itself that is wanted."""
    if role == "worker" and hasattr(server, "process") and hasattr(server, "kill"):
        pid = server.process.pid if server.process is not None else None
        if pid is None:
            raise errors.NoProcess("the nanny's worker does not run just now")
        return int(pid)
    return os.getpid()


def _has_workers() -> bool:
    """A cluster on one machine has its nannies in the client's process: the workers are children of the scheduler's
    process then, and yet no part of it."""
    from distributed import Nanny

    return any(nanny.process is not None for nanny in Nanny._instances)


async def begin(
    session: str,
    slot: str,
    role: str,
    kind: str,
    options: dict[str, Any],
    dask_worker: Any = None,
    dask_scheduler: Any = None,
) -> dict[str, Any]:
    """Starts a part; returns when it has begun."""
    server = dask_worker if dask_worker is not None else dask_scheduler
    pid = _pid_of(role, server)
    if pid == os.getpid() and _has_workers():
        options = {**options, "subprocesses": False} if "subprocesses" in options else options
    part = _new_part(kind, pid, options)
    if kind == "record":
        await _in_thread(part.begin)
    else:
        # In the thread that is to be traced, as before 3.12 that is what a tracer sees first.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            part.begin()
    _parts[session, slot] = part
    return {"pid": pid}


async def end(session: str, slot: str) -> dict[str, Any]:
    """Ends a part; how large it is."""
    part = _parts.get((session, slot))
    if part is None:
        raise errors.NotRecording(f"nothing was recorded in process {os.getpid()} for this block")
    if part.file is None:
        part.file = await _in_thread(part.end)
    return {"size": os.fstat(part.file.fileno()).st_size, **part.facts}


def piece(session: str, slot: str, offset: int) -> bytes:
    """Some of it, from there on."""
    part = _parts.get((session, slot))
    if part is None or part.file is None:
        raise errors.NotRecording("this recording is not there any more")
    return os.pread(part.file.fileno(), PIECE, offset)


async def forget(session: str, slot: str | None = None) -> None:
    """Ends what still goes on and lets go of all of it."""
    for key in [key for key in _parts if key[0] == session and slot in (None, key[1])]:
        await _in_thread(_parts.pop(key).close)
    _drop_threads()


def allow(pid: int) -> None:
    """On a worker: its nanny, and what that starts, may look into it."""
    ptracer.allow(pid)


def forbid(pid: int) -> None:
    ptracer.forbid(pid)


def dump(role: str, options: dict[str, Any], dask_worker: Any = None) -> Any:
    from scry.stacks import dump as dump_process

    return dump_process(_pid_of(role, dask_worker) if dask_worker is not None else None, **options)


def thread_numbers() -> dict[int, int]:
    """Python's thread identifiers, as Dask reports them, and the kernel's numbers, as a recording has them."""
    import threading

    return {t.ident: t.native_id for t in threading.enumerate() if t.ident and t.native_id}


def state() -> dict[str, Any]:
    """What is held here; for tests, and for who wonders."""
    return {"parts": sorted(map(list, _parts)), "ptracers": ptracer.active(), "pid": os.getpid()}
