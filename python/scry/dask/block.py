"""The blocks of a client: record() and trace()."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import os
import re
import tempfile
import uuid
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Union

import distributed
from distributed.protocol.pickle import dumps

from scry import errors
from scry.dask import agent, session
from scry.dask.tasks import TaskProfiles, runs_of, split
from scry.profile import Profile, StrPath, format_of
from scry.recording import record_words, view_words

FETCH_AT_ONCE = 4  # so many pieces are on their way at a time
PIECE_PATIENCE = 60.0
RESCUE_PATIENCE = 20.0

Workers = Union[bool, int, Sequence[str]]
EXTENSIONS = {
    "flamegraph": "svg",
    "speedscope": "json",
    "chrometrace": "json",
    "gecko": "json",
    "raw": "txt",
}


class PartialResult(UserWarning):
    """Some processes could not be recorded; the others were."""


@dataclasses.dataclass
class Part:
    """What came of one process."""

    role: str
    label: str
    pid: int | None
    error: Exception | None = None
    path: Path | None = None
    profile: Profile | None = None
    facts: dict[str, Any] = dataclasses.field(default_factory=dict)
    _place: dict[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    _file: IO[bytes] | None = dataclasses.field(default=None, repr=False)


def client_of(client: Any) -> Any:
    """The one given, or the one that is current."""
    if client is not None:
        return client
    try:
        return distributed.get_client()
    except ValueError:
        raise errors.UsageError(
            "there is no Dask client", "make one first: client = distributed.Client()"
        ) from None


async def ask(result: Any) -> Any:
    return await result if inspect.isawaitable(result) else result


class Block:
    """For the span of a `with` or `async with`."""

    def __init__(self, kind: str, client: Any, wanted: dict[str, Any], own: bool) -> None:
        self.kind = kind
        self.client = client_of(client)
        self.parts: list[Part] = []
        self._name = f"scry-{uuid.uuid4().hex}"
        self._wanted = {"kind": kind, **wanted}
        self._own = own  # the client's process, too
        self._begun = False
        self._direct = False  # past the scheduler, which is gone

    # ---- beginning and ending ----

    async def begin(self) -> Block:
        if self._begun:
            raise errors.AlreadyRecording("this block is entered already", "make another one")
        self._begun = True
        self.parts = []
        # So that the processes of the cluster, and this one, begin and end at nearly the same time.
        results = await asyncio.gather(
            self._begin_cluster(), self._begin_here(), return_exceptions=True
        )
        trouble = [result for result in results if isinstance(result, BaseException)]
        begun = [part for part in self.parts if part.error is None]
        if trouble or (self.parts and not begun):
            error = trouble[0] if trouble else self.parts[0].error
            await self._forget()
            self._begun = False
            assert error is not None
            raise error
        return self

    async def _begin_cluster(self) -> None:
        wanted = dict(self._wanted)
        if isinstance(wanted["workers"], int) and not isinstance(wanted["workers"], bool):
            wanted["workers"] = await self._some_workers(wanted["workers"])
        elif not wanted["workers"]:
            wanted["workers"] = []
        places = await self._on_scheduler(session.begin, self._name, self.client.id, wanted)
        self.parts += [_part(place) for place in places]

    async def _some_workers(self, count: int) -> list[str]:
        import random

        known = await self._on_scheduler(_worker_addresses)
        return random.sample(known, min(count, len(known)))

    async def _begin_here(self) -> None:
        if not self._own:
            return
        options = dict(self._wanted["options"])
        if self.kind == "record":
            options.setdefault("host", "client")
        facts = await agent.begin(self._name, "client", "client", self.kind, options)
        self.parts.append(Part("client", "client", facts["pid"]))

    async def end(self) -> None:
        """Ends it, brings everything here, and leaves the cluster as it was."""
        try:
            await self._end_all()
            gate = asyncio.Semaphore(FETCH_AT_ONCE)
            await asyncio.gather(*(self._fetch(part, gate) for part in self.parts))
        finally:
            await self._forget()
            self._begun = False
        await asyncio.to_thread(self.finish)
        self._complain()

    async def _end_all(self) -> None:
        """Parts of the client's own process are kept apart: those are here also when the scheduler is gone."""
        here = [part for part in self.parts if part.role == "client"]
        for part in here:
            try:
                part.facts = await agent.end(self._name, "client")
            except Exception as error:
                part.error = error
        try:
            places = await self._while_connected(self._on_scheduler(session.end, self._name))
        except Exception as error:
            await self._rescue(_lost(error))
            return
        self.parts = here + [_part(place) for place in places]

    async def _while_connected(self, work: Any) -> Any:
        """A client tries for long to find a scheduler that is gone; what workers hold would be gone, too, by then."""
        task = asyncio.ensure_future(work)
        end = asyncio.get_running_loop().time() + session.END_PATIENCE + 30
        while True:
            done, _ = await asyncio.wait([task], timeout=0.2)
            if done:
                return task.result()
            late = asyncio.get_running_loop().time() > end
            if late or self.client.status not in ("running", "newly-created"):
                task.cancel()
                raise errors.ScryError(
                    "the scheduler does not answer" if late else "the scheduler is gone"
                )

    async def _rescue(self, why: errors.ScryError) -> None:
        """The scheduler is gone, or another one. What workers and nannies hold may still be had from them directly."""
        self._direct = True
        parts = [part for part in self.parts if part.role != "client" and part.error is None]

        async def end(part: Part) -> None:
            try:
                if part._place["address"] is None:
                    raise why
                part.facts = await self._at(part, RESCUE_PATIENCE, agent.end)
            except Exception:
                part.error = why

        await asyncio.gather(*(end(part) for part in parts))

    async def _forget(self) -> None:
        await agent.forget(self._name)
        try:
            await self._while_connected(self._on_scheduler(session.forget, self._name))
        except Exception:
            pass  # there is no scheduler any more: nothing is left of the session either
        if self._direct:
            away = [part for part in self.parts if part._file is not None and part._place]
            each = (self._at(part, RESCUE_PATIENCE, agent.forget) for part in away)
            await asyncio.gather(*each, return_exceptions=True)

    # ---- fetching ----

    async def _on_scheduler(self, function: Any, *words: Any) -> Any:
        return await ask(self.client.run_on_scheduler(function, *words))

    async def _at(self, part: Part, patience: float, function: Any, *words: Any) -> Any:
        """Calls a function of the agent where the part is held: by way of the scheduler, as long as there is one."""
        arguments = (self._name, part._place["slot"], *words)
        address = part._place["address"]
        if address is None:
            return await asyncio.wait_for(self._on_scheduler(function, *arguments), patience)
        if self._direct:
            server = self.client.rpc(address)
            call = server.run(
                function=dumps(function), args=dumps(arguments), kwargs=dumps({}), wait=True
            )
            return _opened(await asyncio.wait_for(call, patience))
        call = ask(self.client.run(function, *arguments, workers=[address], on_error="return"))
        answer = (await asyncio.wait_for(call, patience))[address]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _piece(self, part: Part, offset: int) -> bytes:
        if part.role == "client":
            return agent.piece(self._name, "client", offset)
        return bytes(await self._at(part, PIECE_PATIENCE, agent.piece, offset))

    async def _fetch(self, part: Part, gate: asyncio.Semaphore) -> None:
        """In pieces, so that neither side ever holds all of it in memory."""
        if part.error is not None:
            return
        file = tempfile.TemporaryFile(prefix="scry-")
        size = part.facts.get("size", 0)
        try:
            while file.tell() < size:
                async with gate:
                    data = await self._piece(part, file.tell())
                if not data:
                    raise errors.OutputFailed(f"{part.label}: its recording became shorter")
                await asyncio.to_thread(file.write, data)
            file.flush()
            file.seek(0)
        except Exception as error:
            file.close()
            part.error = error if isinstance(error, errors.ScryError) else _lost(error)
            return
        part._file = file

    # ---- the results ----

    def finish(self) -> None:
        """Makes of the parts what was asked for."""
        raise NotImplementedError

    @property
    def arrived(self) -> list[Part]:
        return [part for part in self.parts if part._file is not None]

    @property
    def errors(self) -> dict[str, Exception]:
        """By the name of the process."""
        return {part.label: part.error for part in self.parts if part.error is not None}

    def _complain(self) -> None:
        failed = self.errors
        if not failed:
            return
        said = "; ".join(f"{label}: {error}" for label, error in failed.items())
        if not self.arrived:
            raise errors.ScryError(f"nothing could be recorded: {said}")
        warnings.warn(PartialResult(f"not all could be recorded: {said}"), stacklevel=2)

    # ---- as a block ----

    def __enter__(self) -> Any:
        if self.client.asynchronous:
            raise errors.UsageError("this client is asynchronous", "write: async with ...")
        return self.client.sync(self.begin)

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        try:
            self.client.sync(self.end)
        except Exception:
            if kind is None:  # what the block raised is more important
                raise

    async def __aenter__(self) -> Any:
        return await self.begin()

    async def __aexit__(self, kind: Any, value: Any, trace: Any) -> None:
        try:
            await self.end()
        except Exception:
            if kind is None:
                raise


def _part(place: dict[str, Any]) -> Part:
    known = {"role", "label", "error", "pid", "address", "slot"}
    facts = {key: value for key, value in place.items() if key not in known}
    return Part(
        place["role"],
        place["label"],
        place.get("pid"),
        place["error"],
        facts=facts,
        _place=place,
    )


def _opened(answer: dict[str, Any]) -> Any:
    if answer["status"] == "error":
        raise _lost(answer["exception"])
    return answer["result"]


def _lost(error: BaseException) -> errors.ScryError:
    if isinstance(error, errors.ScryError):
        return error
    return errors.ScryError(f"the connection broke: {type(error).__name__}: {error}")


def _worker_addresses(dask_scheduler: Any) -> list[str]:
    return list(dask_scheduler.workers)


def file_stem(label: str) -> str:
    """worker tcp://10.0.0.1:4000 -> worker-tcp-10_0_0_1-4000"""
    name = label.replace("://", "-").replace(".", "_")
    return re.sub(r"[^\w]+", "-", name).strip("-")[:120]


class Record(Block):
    """After the block: `profile` (all as one), `parts` (one each), `path`."""

    def __init__(
        self, path: StrPath | None, separate: bool, format: str | None, **more: Any
    ) -> None:
        self.path = Path(path) if path is not None else None
        self.separate = separate
        options = more["wanted"]["options"]
        self._views = view_words(options)
        record_words(options)  # complains now about what does not exist
        if separate:
            self.format = format_of("", format or "speedscope")
        else:
            self.format = format_of(path, format) if path is not None else "scry"
        self.profile: Profile | None = None
        super().__init__("record", **more)

    def finish(self) -> None:
        for part in self.arrived:
            assert part._file is not None
            part.profile = Profile(part._file)
        profiles = [part.profile for part in self.arrived if part.profile is not None]
        if not profiles:
            return
        if self.separate:
            self._write_each()
            return
        self.profile = Profile.merge(profiles)
        if self.path is not None:
            several = ["--hosts", "--processes", "never"] if len(profiles) > 1 else []
            self.profile.path = self.profile.save(self.path, self.format, *self._views, *several)

    @property
    def tasks(self) -> TaskProfiles:
        """Samples of workers by the prefix of the task's key; the block was begun with tasks=True."""
        found = TaskProfiles()
        for part in self.arrived:
            said = part.facts.get("tasks")
            if said and part.profile is not None:
                split(part.profile, runs_of(said["spans"], said["threads"]), found)
        return found

    def _write_each(self) -> None:
        if self.path is None:
            return
        self.path.mkdir(parents=True, exist_ok=True)
        extension = EXTENSIONS.get(self.format, self.format)
        for part in self.arrived:
            assert part.profile is not None
            name = _free_name(self.path, file_stem(part.label), extension, self.arrived, part)
            part.path = part.profile.save(name, self.format, *self._views)


def _free_name(folder: Path, stem: str, extension: str, parts: Sequence[Part], part: Part) -> Path:
    same = [other for other in parts if other.label == part.label]
    number = f"-{same.index(part) + 1}" if len(same) > 1 else ""
    return folder / f"{stem}{number}.{extension}"


class Trace(Block):
    """After the block: `parts`, each with its path."""

    def __init__(self, path: StrPath, separate: bool, **more: Any) -> None:
        self.path = Path(path)
        self.separate = separate
        super().__init__("trace", **more)

    def finish(self) -> None:
        if self.separate:
            self.path.mkdir(parents=True, exist_ok=True)
        for part in self.arrived:
            part.path = self._name_of(part)
            _place_file(part._file, part.path)

    def _name_of(self, part: Part) -> Path:
        if not self.separate:
            return self.path
        suffix = self._wanted["options"]["suffix"]
        return _free_name(self.path, file_stem(part.label), suffix[1:], self.arrived, part)


def _place_file(file: Any, path: Path) -> None:
    """Whole or not at all."""
    import shutil

    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with partial.open("wb") as output:
            shutil.copyfileobj(file, output, 1 << 20)
        os.replace(partial, path)
    except OSError as error:
        raise errors.OutputFailed(f"cannot write to '{path}': {error.strerror}") from None
    finally:
        if partial.exists():
            partial.unlink()


def record(
    path: StrPath | None = None,
    *,
    scheduler: bool = True,
    workers: Workers = True,
    nannies: bool = False,
    own: bool = False,
    separate: bool = False,
    format: str | None = None,
    via_nanny: bool = True,
    tasks: bool = False,
    client: Any = None,
    **options: Any,
) -> Record:
    """Records processes of a cluster for the span of a block, `with` or `async with`.

    path        a file for all together, or with separate=True a folder for one file each; on this machine. Without one
                the result is only in .profile and .parts
    scheduler   the scheduler
    workers     all (also those that join meanwhile), none, so many chosen at random, or those of these addresses
    nannies     the nannies
    own         this process, the client's
    via_nanny   sample a worker from its nanny, if it has one: the recording is there even if the worker crashes
    tasks       note which tasks ran, so that .tasks has the samples of workers by the prefix of their keys
    options     rate, idle, gil, native, ... as for scry.record()

    A process that cannot be recorded costs only its own part: a PartialResult warning names it, .errors has the reason.
    """
    wanted = {
        "scheduler": scheduler,
        "workers": workers if isinstance(workers, (bool, int)) else list(workers),
        "nannies": nannies,
        "via_nanny": via_nanny,
        "tasks": tasks,
        "options": options,
    }
    return Record(path, separate, format, client=client, wanted=wanted, own=own)


def trace(
    path: StrPath,
    *,
    scheduler: bool = True,
    workers: Workers = False,
    own: bool = False,
    separate: bool | None = None,
    client: Any = None,
    **options: Any,
) -> Trace:
    """Traces every call in processes of a cluster for the span of a block.

    path        a file for one process, a folder for several (separate=True); the end of the name, or suffix=, says the
                format: .json, .json.gz, .pftrace, .html
    options     trace_sparse, ignore_c_function, min_duration, memory, ... as for scry.trace()

    Names in trace_sparse need no patching: whichever table of handlers a function is called from, it is traced.
    """
    several = bool(workers) or (scheduler and own)
    separate = several if separate is None else separate
    if several and not separate:
        raise errors.UsageError(
            "traces of several processes do not go into one file", "give a folder and separate=True"
        )
    suffix = options.pop("suffix", None) or (".json" if separate else suffix_of(Path(path)))
    wanted = {
        "scheduler": scheduler,
        "workers": workers if isinstance(workers, (bool, int)) else list(workers),
        "nannies": False,
        "via_nanny": False,
        "options": {**options, "suffix": suffix},
    }
    return Trace(path, separate, client=client, wanted=wanted, own=own)


def suffix_of(path: Path) -> str:
    """The end of its name that says what a trace is written as."""
    from scry.trace.output import SUFFIXES
    from scry.trace.output import format_of as trace_format

    try:
        trace_format(path)
    except ValueError as error:
        raise errors.UsageError(str(error)) from None
    known = sorted(SUFFIXES, key=len, reverse=True)
    return next(suffix for suffix in known if path.name.lower().endswith(suffix))
