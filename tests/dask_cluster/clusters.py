"""Real Dask clusters for the tests: a scheduler and workers in processes of their own, the client in the test's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

distributed = pytest.importorskip("distributed", reason="Dask needs Python 3.11 here")

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parents[1] / "python"
PATH = os.pathsep.join(map(str, (PACKAGE, HERE, HERE.parent)))  # for the processes of a cluster
PATIENCE = 90


def work(seconds):
    """What tasks do."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1000))
    return os.getpid()


def until(what, patience=PATIENCE):
    """Waits until it is true, and says what it saw last."""
    end = time.monotonic() + patience
    while True:
        seen = what()
        if seen:
            return seen
        assert time.monotonic() < end, f"{what} did not come true: {seen!r}"
        time.sleep(0.05)


def scry_processes(*parents):
    """Recorders that are children of these processes."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        if words[0].endswith(b"/scry") and b"record" in words and parent in parents:
            found.append(int(entry.name))
    return found


class Cluster:
    def __init__(self, address, processes, options):
        self.address = address
        self.processes = processes  # the scheduler first
        self.options = options

    @contextmanager
    def client(self, **more):
        with distributed.Client(self.address, **self.options, **more) as client:
            yield client


def _python(*words):
    return [sys.executable, "-m", *words]


def _ended(process):
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def started(folder, workers=2, *, nanny=True, security=(), prefix=(), env=None, options=None):
    """A cluster of command-line programs."""
    file = folder / "scheduler.json"
    log = open(folder / "log", "ab")
    environment = {**os.environ, **(env or {})}
    common = ["--scheduler-file", str(file), "--no-dashboard", *security]
    with ExitStack() as stack:
        stack.callback(log.close)

        def start(*command, **more):
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, **more)
            stack.callback(_ended, process)
            return process

        scheduler = start(
            *prefix,
            *_python(
                "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", *common
            ),
            env=environment,
        )
        until(lambda: file.exists() and file.stat().st_size or scheduler.poll() is not None)
        assert scheduler.poll() is None, (folder / "log").read_text()
        address = json.loads(file.read_text())["address"]
        kind = "--nanny" if nanny else "--no-nanny"
        processes = [scheduler]
        each = workers if nanny else 1
        for _ in range(1 if nanny else workers):
            words = (
                "--nworkers",
                str(each),
                "--nthreads",
                "1",
                "--memory-limit",
                "0",
                kind,
                *common,
            )
            processes.append(
                start(*_python("distributed.cli.dask_worker", *words), env=environment)
            )
        cluster = Cluster(address, processes, options or {})
        with cluster.client() as client:
            client.wait_for_workers(workers, timeout=PATIENCE)
        yield cluster


def quiet(client):
    """Nothing of scry is left in any process of the cluster."""
    from scry.dask import agent, session

    states = [client.run_on_scheduler(session.state), *client.run(agent.state).values()]
    states += client.run(agent.state, nanny=True).values()
    return all(not state[key] for state in states for key in state if key != "pid")
