"""Always on: every process of the cluster recorded at a low rate, in files of some minutes, of which the last are kept.

    client.register_plugin(AlwaysOnWorker("/var/tmp/profiles"))        # all workers, also those yet to come
    client.register_plugin(AlwaysOnScheduler("/var/tmp/profiles"))

or both at once with scry.dask.always_on("/var/tmp/profiles"). The files are recordings on the machine of the process:
`scry convert` and `scry merge` make something of them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from distributed.diagnostics.plugin import SchedulerPlugin, WorkerPlugin

from scry import errors, program, ptracer
from scry.dask.block import ask, client_of
from scry.dask.kinds import file_stem
from scry.profile import StrPath

__all__ = ["AlwaysOnScheduler", "AlwaysOnWorker", "always_on"]

NAME = "scry-always-on"


class _Rotation:
    """One recorder of this process that begins a new file now and then; what both kinds of plugin share."""

    name = NAME

    def __init__(
        self,
        folder: StrPath,
        *,
        rate: float = 10,
        rotate: float = 300,
        keep: int = 12,
        idle: bool = False,
    ) -> None:
        self.folder = os.fspath(folder)
        self.words = ["--rate", str(rate), "--rotate", str(rotate), "--keep", str(keep)]
        self.words += ["--idle"] * idle + ["--reader", "auto"]
        self.process: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "process": None}

    def begin(self, label: str) -> None:
        folder = Path(self.folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise errors.OutputFailed(f"cannot write to '{folder}': {error.strerror}") from None
        output = str(folder / f"{file_stem(label)}-{os.getpid()}.scry")
        words = ["record", "-p", str(os.getpid()), "-f", "scry", "-o", output, "--host", label]
        ptracer.allow(os.getpid())
        self.process = subprocess.Popen(
            [program.find(), *words, *self.words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def finish(self) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        ptracer.forbid(os.getpid())


class AlwaysOnWorker(_Rotation, WorkerPlugin):
    """Records each worker; ends with it, or when the plugin is unregistered."""

    def setup(self, worker: Any) -> None:
        name = worker.name if worker.name not in (None, worker.address) else worker.address
        self.begin(f"worker {name}")

    def teardown(self, worker: Any) -> None:
        self.finish()


class AlwaysOnScheduler(_Rotation, SchedulerPlugin):
    """Records the scheduler. Unregistering does not tell a scheduler's plugin: always_on(...).stop() does."""

    async def start(self, scheduler: Any) -> None:
        self.begin("scheduler")

    async def close(self) -> None:
        await asyncio.to_thread(self.finish)


async def _stop_on_scheduler(dask_scheduler: Any) -> None:
    plugin = dask_scheduler.plugins.get(NAME)
    if plugin is not None:
        dask_scheduler.remove_plugin(NAME)
        await plugin.close()


class always_on:
    """Registers both plugins; stop(), or leaving it as a block, takes them away again and ends the recordings.

    With an asynchronous client as `async with`, or `await running.start()` and `await running.stop()`.
    """

    def __init__(self, folder: StrPath, *, client: Any = None, **options: Any) -> None:
        self.client = client_of(client)
        self.folder = Path(folder)
        self._options = options
        if not self.client.asynchronous:
            self.start()

    def start(self) -> Any:
        return self.client.sync(self._start)

    def stop(self) -> Any:
        return self.client.sync(self._stop)

    async def _start(self) -> None:
        for kind in (AlwaysOnScheduler, AlwaysOnWorker):
            await ask(self.client.register_plugin(kind(self.folder, **self._options), name=NAME))

    async def _stop(self) -> None:
        await ask(self.client.run_on_scheduler(_stop_on_scheduler))
        await ask(self.client.unregister_worker_plugin(NAME))

    def __enter__(self) -> always_on:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    async def __aenter__(self) -> always_on:
        await self._start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._stop()
