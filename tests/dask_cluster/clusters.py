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
from patience import until as patience_until

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


def until(condition, patience=None):
    """A cluster takes its time, more so a large one."""
    return patience_until(condition, patience=patience or PATIENCE, every=0.05)


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
    """Command-line programs, in a folder with their log."""

    def __init__(self, folder, stack, env, common, options):
        self.address = None
        self.processes = []  # the scheduler first
        self.options = options
        self._folder = folder
        self._stack = stack
        self._env = env
        self._common = common
        self._log = stack.enter_context(open(folder / "log", "ab"))

    @contextmanager
    def client(self, **more):
        with distributed.Client(self.address, **self.options, **more) as client:
            yield client

    def _start(self, *command):
        process = subprocess.Popen(
            command, stdout=self._log, stderr=self._log, cwd=self._folder, env=self._env
        )
        self._stack.callback(_ended, process)
        self.processes.append(process)
        return process

    def start_scheduler(self, port="0", prefix=()):
        file = self._folder / "scheduler.json"
        file.unlink(missing_ok=True)
        words = ("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", port)
        scheduler = self._start(*prefix, *_python(*words, *self._common))
        until(lambda: file.exists() and file.stat().st_size or scheduler.poll() is not None)
        assert scheduler.poll() is None, (self._folder / "log").read_text()
        self.address = json.loads(file.read_text())["address"]

    def start_workers(self, count, nanny=True):
        each = count if nanny else 1
        for _ in range(1 if nanny else count):
            words = ["--nworkers", str(each), "--nthreads", "1", "--memory-limit", "0"]
            words.append("--nanny" if nanny else "--no-nanny")
            self._start(*_python("distributed.cli.dask_worker", *words, *self._common))


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
    common = ["--scheduler-file", str(folder / "scheduler.json"), "--no-dashboard", *security]
    with ExitStack() as stack:
        environment = {**os.environ, **(env or {})}
        cluster = Cluster(folder, stack, environment, common, options or {})
        cluster.start_scheduler(prefix=prefix)
        cluster.start_workers(workers, nanny)
        with cluster.client() as client:
            client.wait_for_workers(workers, timeout=PATIENCE)
        yield cluster


def quiet(client):
    """Nothing of scry is left in any process of the cluster."""
    from scry.dask import agent, session

    states = [client.run_on_scheduler(session.state), *client.run(agent.state).values()]
    states += client.run(agent.state, nanny=True).values()
    return all(not state[key] for state in states for key in state if key != "pid")
