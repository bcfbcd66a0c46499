"""A block of a client: what record() and trace() have in common.

It asks the scheduler to begin and to end, and fetches the parts. While it lasts it minds the scheduler: when that is gone,
workers and nannies will be, too, in a moment, so what they hold is fetched at once; and when it is back, or another in its
place, recording begins anew there.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import tempfile
import uuid
import warnings
from pathlib import Path
from typing import IO, Any

import distributed
from distributed.comm import connect
from distributed.core import rpc
from distributed.protocol.pickle import dumps

from scry import errors
from scry.dask import agent, session
from scry.profile import Profile

FETCH_AT_ONCE = 4  # so many pieces are on their way at a time
PIECE_PATIENCE = 60.0
RESCUE_PATIENCE = 20.0
HELLO_PATIENCE = 3.0  # to find out whether somebody is there at all
LOOK_EVERY = 0.1  # whether the scheduler is still there


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
    _session: str = dataclasses.field(default="", repr=False)
    _direct: bool = dataclasses.field(default=False, repr=False)  # past a scheduler that is gone
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
        self._name = f"scry-{uuid.uuid4().hex}"  # of the part in this process
        self._session: str | None = (
            None  # the scheduler's name for all others; None: it knows of none
        )
        self._wanted = {"kind": kind, **wanted}
        self._own = own  # the client's process, too
        self._begun = False
        self._ending: asyncio.Event | None = None
        self._minding: asyncio.Task[None] | None = None

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
        self._ending = asyncio.Event()
        self._minding = asyncio.ensure_future(self._mind_scheduler())
        return self

    async def _begin_cluster(self) -> None:
        wanted = dict(self._wanted)
        if isinstance(wanted["workers"], int) and not isinstance(wanted["workers"], bool):
            wanted["workers"] = await self._some_workers(wanted["workers"])
        elif not wanted["workers"]:
            wanted["workers"] = []
        name = f"scry-{uuid.uuid4().hex}"
        places = await self._on_scheduler(session.begin, name, self.client.id, wanted)
        self._session = name
        self.parts += [_part(place, name) for place in places]

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
        self.parts.append(Part("client", "client", facts["pid"], _session=self._name))

    async def end(self) -> None:
        """Ends it, brings everything here, and leaves the cluster as it was."""
        try:
            await self._mind_no_more()
            await self._end_all()
            await self._fetch_all(self.parts)
        finally:
            await self._forget()
            self._begun = False
        await asyncio.to_thread(self.finish)

    async def _end_all(self) -> None:
        """The part of the client's own process is kept apart: it is here also when the scheduler is gone."""
        kept = [part for part in self.parts if part._session != self._session]
        for part in kept:
            if part.role == "client":
                try:
                    part.facts = await agent.end(self._name, "client")
                except Exception as error:
                    part.error = error
        if not self._session:
            return
        try:
            places = await self._while_connected(self._on_scheduler(session.end, self._session))
        except Exception as error:
            await self._rescue(_lost(error))
            return
        self.parts = kept + [_part(place, self._session) for place in places]

    async def _while_connected(self, work: Any) -> Any:
        """A client tries for long to find a scheduler that is gone; what workers hold would be gone, too, by then."""
        task = asyncio.ensure_future(work)
        end = asyncio.get_running_loop().time() + session.END_PATIENCE + 30
        while True:
            done, _ = await asyncio.wait([task], timeout=0.2)
            if done:
                return task.result()
            late = asyncio.get_running_loop().time() > end
            if late or not self._connected():
                task.cancel()
                raise errors.ScryError(
                    "the scheduler does not answer" if late else "the scheduler is gone"
                )

    async def _forget(self) -> None:
        await agent.forget(self._name)
        if not self._session:
            return
        try:
            await self._while_connected(self._on_scheduler(session.forget, self._session))
        except Exception:
            pass  # there is no scheduler any more: nothing is left of the session either

    # ---- when the scheduler is lost ----

    def _connected(self) -> bool:
        return self.client.status in ("running", "newly-created")

    async def _mind_scheduler(self) -> None:
        assert self._ending is not None
        away = False
        while not await _within(self._ending, LOOK_EVERY):
            if self.client.status in ("closing", "closed"):
                return
            if not self._connected():
                away = True
                if self._session and not await self._is_there(self.client.scheduler.addr):
                    await self._lose(errors.ScryError("the scheduler is gone"))
            elif away:
                away = False
                await self._meet_again()

    async def _meet_again(self) -> None:
        """A scheduler that has only been out of reach waits for a while; another one is told what is wanted."""
        try:
            if self._session:
                if await self._while_connected(self._on_scheduler(session.known, self._session)):
                    return
                await self._lose(errors.ScryError("the scheduler was restarted"))
            await self._while_connected(self._begin_cluster())
        except Exception as error:
            self.parts.append(Part("scheduler", "the scheduler that came back", None, _lost(error)))

    async def _lose(self, why: errors.ScryError) -> None:
        await self._rescue(why)
        self._session = None

    async def _mind_no_more(self) -> None:
        if self._minding is not None and self._ending is not None:
            self._ending.set()
            await self._minding

    async def _is_there(self, address: str) -> bool:
        try:
            comm = await connect(address, timeout=HELLO_PATIENCE / 5, **self.client.connection_args)
        except OSError:
            return False
        comm.abort()
        return True

    async def _rescue(self, why: errors.ScryError) -> None:
        """What workers and nannies hold may still be had from them directly."""
        lost = [part for part in self.parts if part._session == self._session and not part.error]

        async def save(part: Part) -> None:
            part._direct = True
            try:
                if part._place["address"] is None:
                    raise why
                part.facts = await self._at(part, RESCUE_PATIENCE, agent.end)
            except Exception:
                part.error = why

        await asyncio.gather(*(save(part) for part in lost))
        await self._fetch_all(lost)
        away = [part for part in lost if part._file is not None]
        each = (self._at(part, RESCUE_PATIENCE, agent.forget) for part in away)
        await asyncio.gather(*each, return_exceptions=True)

    # ---- fetching ----

    async def _on_scheduler(self, function: Any, *words: Any) -> Any:
        return await ask(self.client.run_on_scheduler(function, *words))

    async def _at(self, part: Part, patience: float, function: Any, *words: Any) -> Any:
        """Calls a function of the agent where the part is held: by way of the scheduler, as long as there is one."""
        arguments = (part._session, part._place["slot"], *words)
        address = part._place["address"]
        if address is None:
            return await asyncio.wait_for(self._on_scheduler(function, *arguments), patience)
        if part._direct:
            return await asyncio.wait_for(self._at_once(address, function, arguments), patience)
        call = ask(self.client.run(function, *arguments, workers=[address], on_error="return"))
        answer = (await asyncio.wait_for(call, patience))[address]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _at_once(self, address: str, function: Any, arguments: tuple[Any, ...]) -> Any:
        """Without the scheduler; who does not answer the door is not there any more."""
        words = {"args": dumps(arguments), "kwargs": dumps({}), "wait": True}
        door = rpc(address, timeout=HELLO_PATIENCE, connection_args=self.client.connection_args)
        try:
            return _opened(await door.run(function=dumps(function), **words))
        finally:
            await door.close_rpc()

    async def _piece(self, part: Part, offset: int) -> bytes:
        if part.role == "client":
            return agent.piece(part._session, "client", offset)
        return bytes(await self._at(part, PIECE_PATIENCE, agent.piece, offset))

    async def _fetch_all(self, parts: list[Part]) -> None:
        gate = asyncio.Semaphore(FETCH_AT_ONCE)
        await asyncio.gather(*(self._fetch(part, gate) for part in parts))

    async def _fetch(self, part: Part, gate: asyncio.Semaphore) -> None:
        """In pieces, so that neither side ever holds all of it in memory."""
        if part.error is not None or part._file is not None:
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
        warnings.warn(PartialResult(f"not all could be recorded: {said}"), stacklevel=3)

    # ---- as a block ----

    def __enter__(self) -> Any:
        if self.client.asynchronous:
            raise errors.UsageError("this client is asynchronous", "write: async with ...")
        return self.client.sync(self.begin)

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        try:
            self.client.sync(self.end)
            self._complain()
        except Exception:
            if kind is None:  # what the block raised is more important
                raise

    async def __aenter__(self) -> Any:
        return await self.begin()

    async def __aexit__(self, kind: Any, value: Any, trace: Any) -> None:
        try:
            await self.end()
            self._complain()
        except Exception:
            if kind is None:
                raise


async def _within(event: asyncio.Event, seconds: float) -> bool:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except asyncio.TimeoutError:
        return False
    return True


def _part(place: dict[str, Any], session: str) -> Part:
    known = {"role", "label", "error", "pid", "address", "slot"}
    facts = {key: value for key, value in place.items() if key not in known}
    return Part(
        place["role"],
        place["label"],
        place.get("pid"),
        place["error"],
        facts=facts,
        _place=place,
        _session=session,
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
