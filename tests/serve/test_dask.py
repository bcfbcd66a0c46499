"""`scry serve --dask`: which process is the scheduler of a real Dask cluster, which its nanny, which its worker."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest
import serving

pytest.importorskip("distributed", reason="there is no Dask for this Python")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Dask:
    """A scheduler, and a worker under its nanny, each a process of its own."""

    def __init__(self, folder):
        self.folder = folder
        port, http = free_port(), free_port()
        self.url = f"http://127.0.0.1:{http}"
        self.scheduler = self.start(
            "dask_scheduler", f"--port={port}", f"--dashboard-address=127.0.0.1:{http}"
        )
        address = f"tcp://127.0.0.1:{port}"
        self.nanny = self.start("dask_worker", address, "--name=alice", "--nthreads=1")

    def start(self, module, *words):
        return subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{module}", "--host=127.0.0.1", *words],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=(self.folder / module).open("w"),
            start_new_session=True,
        )

    def workers(self) -> dict:
        assert self.scheduler.poll() is None, (self.folder / "dask_scheduler").read_text()
        assert self.nanny.poll() is None, (self.folder / "dask_worker").read_text()
        try:
            with urllib.request.urlopen(f"{self.url}/json/identity.json", timeout=10) as response:
                return json.load(response)["workers"]
        except OSError:
            return {}

    def stop(self):
        for process in (self.nanny, self.scheduler):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture(scope="module")
def dask(tmp_path_factory):
    started = Dask(tmp_path_factory.mktemp("dask"))
    try:
        serving.until(started.workers, "the worker is there")
        yield started
    finally:
        started.stop()


def test_processes_are_listed_by_their_role(dask, scry, tmp_path):
    with serving.Server(scry, tmp_path / "data", "--dask", dask.url) as server:

        def by_role():
            rows = server.get("/api/v1/processes").json["processes"]
            found = {row["group"]: row for row in rows if row["kind"] == "dask"}
            return found if {"scheduler", "nanny alice", "worker alice"} <= set(found) else None

        found = serving.until(by_role, "all three are listed")
    assert found["scheduler"]["pid"] == dask.scheduler.pid
    assert found["nanny alice"]["pid"] == dask.nanny.pid
    assert found["worker alice"]["parent"] == dask.nanny.pid


def test_a_scheduler_that_does_not_answer_is_no_hindrance(scry, tmp_path):
    url = f"http://127.0.0.1:{free_port()}"
    with (
        serving.Server(scry, tmp_path / "data", "--dask", url) as server,
        serving.Target() as target,
    ):
        answer = server.get("/worker/traceback", pid=target.pid)
        assert answer.status == 200 and "busy_main" in answer.text
