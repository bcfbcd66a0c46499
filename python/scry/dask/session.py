"""What runs on the scheduler: it begins and ends the parts of a session, so that they end also when the client dies.

A session belongs to a client. Its plugin hears when that client is gone, and when workers join; it is removed with the
session.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.protocol import Serialized, deserialize
from distributed.protocol.pickle import dumps
from distributed.utils import key_split

from scry import errors
from scry.dask import agent

BEGIN_PATIENCE = 60.0
END_PATIENCE = 120.0
HELLO_PATIENCE = 20.0
CLIENT_PATIENCE = 10.0  # for a client whose connection broke to be back
MOST_SPANS = 200_000  # of tasks that ran; older ones are dropped
AT_ONCE = 16  # processes that are spoken to at the same time

_sessions: dict[str, Session] = {}


class Place:
    """One process to be recorded, and the server that does it."""

    def __init__(self, role: str, label: str, address: str | None, worker: str | None = None):
        self.role = role
        self.slot = ""  # its number in the session
        self.label = label
        self.address = address  # None: the scheduler itself
        self.worker = worker  # that of the worker, if its nanny does it
        self.error: Exception | None = None
        self.facts: dict[str, Any] = {}
        self.begun = False

    def described(self) -> dict[str, Any]:
        return {
            "role": self.role,
            "slot": self.slot,
            "label": self.label,
            "address": self.address,
            "error": self.error,
            **self.facts,
        }


class Session(SchedulerPlugin):
    """Its name among the scheduler's plugins is that of the session."""

    def __init__(self, name: str, client: str, wanted: dict[str, Any], scheduler: Any) -> None:
        self.name = name
        self.client = client
        self.wanted = wanted
        self.scheduler = scheduler
        self.places: list[Place] = []
        self.ended = False
        self.spans: deque[tuple[str, int, float, float, str]] = deque(maxlen=MOST_SPANS)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._gate = asyncio.Semaphore(AT_ONCE)

    # ---- where ----

    def _worker_place(self, address: str) -> Place:
        state = self.scheduler.workers[address]
        label = f"worker {state.name if state.name not in (None, address) else address}"
        if self.wanted["kind"] == "record" and self.wanted["via_nanny"] and state.nanny:
            return Place("worker", label, state.nanny, worker=address)
        return Place("worker", label, address)

    def _nanny_places(self) -> list[Place]:
        found = {state.nanny: state for state in self.scheduler.workers.values() if state.nanny}
        return [Place("nanny", f"nanny {address}", address) for address in found]

    def choose(self) -> None:
        workers = self.wanted["workers"]
        known = list(self.scheduler.workers)
        if workers is True:
            workers = known
        unknown = [address for address in workers if address not in known]
        if unknown:
            raise errors.UsageError(f"there is no worker {', '.join(map(str, unknown))}")
        if self.wanted["scheduler"]:
            self._add(Place("scheduler", "scheduler", None))
        for address in workers:
            self._add(self._worker_place(address))
        for place in self._nanny_places() if self.wanted["nannies"] else []:
            self._add(place)

    def _add(self, place: Place) -> Place:
        place.slot = f"{place.role}-{len(self.places)}"
        self.places.append(place)
        return place

    # ---- talking ----

    async def _call(self, place: Place, patience: float, function: Any, *words: Any) -> Any:
        if place.address is None:
            result = function(self.name, place.slot, *words)
            return await result if asyncio.iscoroutine(result) else result
        return await self._send(place.address, patience, function, self.name, place.slot, *words)

    async def _send(self, address: str, patience: float, function: Any, *words: Any) -> Any:
        message = {"op": "run", "function": dumps(function), "args": dumps(words), "wait": True}
        message["kwargs"] = dumps({})
        try:
            async with self._gate:
                answers = await asyncio.wait_for(
                    self.scheduler.broadcast(msg=message, workers=[address], on_error="return"),
                    patience,
                )
        except asyncio.TimeoutError:
            raise errors.ScryError(f"{address} did not answer within {patience:.0f} s") from None
        answer = answers[address]
        if isinstance(answer, Exception):
            raise errors.ScryError(f"{address} cannot be reached: {answer}")
        if answer["status"] == "error":
            raise _plain(_opened(answer["exception"]))
        return _opened(answer["result"])

    # ---- beginning ----

    async def begin(self) -> None:
        self.choose()
        self.scheduler.add_plugin(self, name=self.name)
        await asyncio.gather(*(self._begin(place) for place in self.places))

    async def _begin(self, place: Place) -> None:
        options = dict(self.wanted["options"])
        if self.wanted["kind"] == "record":
            options.setdefault("host", place.label)
        try:
            if place.worker is not None:
                await self._let_nanny_look(place, agent.allow)
            words = (place.role, self.wanted["kind"], options)
            place.facts = await self._call(place, BEGIN_PATIENCE, agent.begin, *words)
            place.begun = True
        except Exception as error:
            place.error = _plain(error)

    async def _let_nanny_look(self, place: Place, function: Any) -> None:
        """The nanny starts a sibling of the worker, which Yama asks the worker about."""
        assert place.worker is not None
        if place.worker in self.scheduler.workers:
            assert place.address is not None
            state = await self._send(place.address, HELLO_PATIENCE, agent.state)
            await self._send(place.worker, HELLO_PATIENCE, function, state["pid"])

    # ---- ending ----

    async def end(self) -> list[dict[str, Any]]:
        self.ended = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=BEGIN_PATIENCE)
        await asyncio.gather(*(self._end(place) for place in self.places))
        return [place.described() for place in self.places]

    def _is_gone(self, place: Place) -> bool:
        at_home = place.worker is None and place.role == "worker"
        return at_home and place.address not in self.scheduler.workers

    async def _end(self, place: Place) -> None:
        if not place.begun:
            return
        try:
            if self._is_gone(place):
                raise errors.ProcessEnded(
                    f"{place.label} left the cluster, and its recording with it"
                )
            if self.wanted.get("tasks") and place.role == "worker":
                place.facts["tasks"] = await self._tasks_of(place.worker or place.address)
            place.facts.update(await self._call(place, END_PATIENCE, agent.end))
        except Exception as error:
            place.error = _plain(error)

    async def _tasks_of(self, worker: str) -> dict[str, Any]:
        """What its threads ran, and which threads those are; of a worker that is gone nobody can say that."""
        numbers = {}
        if worker in self.scheduler.workers:
            numbers = await self._send(worker, HELLO_PATIENCE, agent.thread_numbers)
        return {"spans": [span[1:] for span in self.spans if span[0] == worker], "threads": numbers}

    async def forget(self) -> None:
        """Everything as it was before."""
        self.ended = True
        _sessions.pop(self.name, None)
        if self.name in self.scheduler.plugins:
            self.scheduler.remove_plugin(self.name)
        await asyncio.gather(
            *(self._forget(place) for place in self.places), return_exceptions=True
        )

    async def _forget(self, place: Place) -> None:
        if self._is_gone(place):
            return
        await self._call(place, HELLO_PATIENCE, agent.forget)
        if place.worker is not None:
            await self._let_nanny_look(place, agent.forbid)

    # ---- what the scheduler tells ----

    def remove_client(self, scheduler: Any, client: str) -> None:
        if client == self.client:
            self._later(self._wait_for_client())

    async def _wait_for_client(self) -> None:
        """One that died, and one whose connection broke, look the same from here."""
        end = asyncio.get_running_loop().time() + CLIENT_PATIENCE
        while asyncio.get_running_loop().time() < end and not self.ended:
            if self.client in self.scheduler.clients:
                return
            await asyncio.sleep(0.1)
        if self.name in _sessions:
            await self.forget()

    def transition(self, key: Any, start: str, finish: str, *words: Any, **more: Any) -> None:
        """What Dask's own task stream is made of."""
        if start == "processing" and "startstops" in more and self.wanted.get("tasks"):
            for step in more["startstops"]:
                if step["action"] == "compute":
                    span = (step["start"], step["stop"], str(key_split(key)))
                    self.spans.append((more.get("worker", ""), more.get("thread", 0), *span))

    def add_worker(self, scheduler: Any, worker: str) -> None:
        """One that joins, or comes back, is recorded from then on."""
        if self.wanted["workers"] is True and not self.ended:
            self._later(self._begin(self._add(self._worker_place(worker))))

    def _later(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _opened(value: Any) -> Any:
    """A scheduler passes on what others send each other without looking at it; this is for itself."""
    if isinstance(value, Serialized):
        return deserialize(value.header, value.frames)
    return getattr(value, "data", value)


def _plain(error: BaseException) -> Exception:
    """As something that can travel, and says what it is about."""
    if isinstance(error, errors.ScryError):
        return error
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "scry":
        return errors.NoProgram(
            "the package scry is not installed there", "install it wherever the cluster runs"
        )
    return errors.ScryError(f"{type(error).__name__}: {error}")


async def begin(name: str, client: str, wanted: dict[str, Any], dask_scheduler: Any) -> Any:
    session = Session(name, client, wanted, dask_scheduler)
    _sessions[name] = session
    try:
        await session.begin()
    except BaseException:
        await session.forget()
        raise
    return [place.described() for place in session.places]


async def end(name: str) -> Any:
    if name not in _sessions:
        raise errors.NotRecording(
            "the scheduler does not know this recording any more", "it was restarted meanwhile"
        )
    return await _sessions[name].end()


def known(name: str) -> bool:
    return name in _sessions


async def forget(name: str) -> None:
    if name in _sessions:
        await _sessions[name].forget()


def state(dask_scheduler: Any) -> dict[str, Any]:
    """For tests, and for who wonders: what is at work, and what the scheduler holds of it."""
    plugins = [n for n, p in dask_scheduler.plugins.items() if isinstance(p, Session)]
    return {**agent.state(), "sessions": sorted(_sessions), "plugins": plugins}
