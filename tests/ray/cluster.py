"""A real Ray cluster of one node, with scry as its py-spy, ended with all its processes."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from pathlib import Path

import pythons
import serving

HERE = Path(__file__).parent
PATIENCE = 120.0


def venv() -> Path:
    """Where ./dev keeps its Ray."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "scry" / "ray"


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def until(condition, what: str):
    """Ray takes its time, and each question costs it some."""
    return serving.until(condition, what, PATIENCE, every=0.1)


class Answer:
    def __init__(self, status: int, headers, body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def type(self) -> str:
        return self.headers.get("Content-Type", "")

    def __repr__(self) -> str:
        return f"<{self.status} {self.type} {self.body[:600]!r}>"


def get(base: str, path: str, **params) -> Answer:
    url = base + path + ("?" + urllib.parse.urlencode(params) if params else "")
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as response:
            return Answer(response.status, response.headers, response.read())
    except urllib.error.HTTPError as error:
        return Answer(error.code, error.headers, error.read())


class Cluster:
    def __init__(self, scry: str, profiling: bool = True) -> None:
        # Ray keeps sockets there: a long path is too long for their names.
        self.folder = Path(tempfile.mkdtemp(prefix="sr", dir="/tmp"))
        self.mark = f"SCRY_TEST_CLUSTER={uuid.uuid4().hex}"
        self.said = self.folder / "said"
        self.tasks = self.folder / "tasks"
        self.tasks.mkdir()
        links = self.folder / "bin"
        links.mkdir()
        (links / "py-spy").symlink_to(os.path.realpath(scry))
        name, value = self.mark.split("=")
        self.environment = {
            **os.environ,
            name: value,
            "PATH": f"{links}:{venv() / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(pythons.PROJECT / "python"),
            "SCRY": os.path.realpath(scry),
            "RAY_DASHBOARD_ENABLE_PROFILING": "1" if profiling else "0",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_AUTH_MODE": "disabled",  # else a token of this user's is asked for
        }
        self.links = links
        self.head: subprocess.Popen | None = None
        self.driver: subprocess.Popen | None = None

    def __enter__(self) -> Cluster:
        try:
            self.start()
            self.run_driver()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *exc) -> None:
        self.stop()

    def start(self) -> None:
        port, dashboard, client, agent = free_ports(4)
        self.address = f"127.0.0.1:{port}"
        self.dashboard = f"http://127.0.0.1:{dashboard}"
        argv = [venv() / "bin" / "ray", "start", "--head", "--block", "--num-cpus=1"]
        argv += ["--node-ip-address=127.0.0.1", f"--port={port}", f"--dashboard-port={dashboard}"]
        argv += [f"--ray-client-server-port={client}", f"--dashboard-agent-listen-port={agent}"]
        argv += ["--include-dashboard=true", f"--temp-dir={self.folder}/t"]
        argv += ["--object-store-memory=100000000", "--disable-usage-stats"]
        with self.said.open("wb") as said:
            self.head = subprocess.Popen(
                list(map(str, argv)),
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.node_id = until(self.ready, "the cluster is up")

    def ready(self) -> str | None:
        assert self.head.poll() is None, self.said.read_text()
        try:
            rows = self.state("nodes")
        except (OSError, ValueError, KeyError):
            return None
        return next((r["node_id"] for r in rows if r["state"] == "ALIVE"), None)

    def state(self, what: str) -> list[dict]:
        """What Ray's state API lists."""
        answer = get(self.dashboard, f"/api/v0/{what}", detail=1, limit=1000)
        return json.loads(answer.body)["data"]["result"]["result"]

    def run_driver(self) -> None:
        self.driver = subprocess.Popen(
            [self.python, HERE / "targets" / "driver.py", self.address, self.tasks],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        line = self.driver.stdout.readline()
        assert line == "ready\n", self.driver.communicate()
        self.running = until(self.rows_of_tasks, "Ray lists all tasks as running")

    @property
    def python(self) -> str:
        return str(venv() / "bin" / "python")

    def rows_of_tasks(self) -> dict[str, dict] | None:
        names = {"busy_task", "sleeping_task", "forking_task"}
        rows = {r["name"]: r for r in self.state("tasks") if r["state"] == "RUNNING"}
        return rows if names <= set(rows) and all(rows[n]["worker_pid"] for n in names) else None

    def run(self, *words: str, timeout: float = PATIENCE, folder=None, **environment: str):
        """A program of this cluster's environment; its exit status, output and complaints."""
        return subprocess.run(
            list(map(str, words)),
            cwd=folder,
            env={**self.environment, "RAY_ADDRESS": self.address, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def members(self) -> list[int]:
        """Every process that was started from here: they all inherited the mark."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with contextlib.suppress(OSError):
                    if self.mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                        found.append(int(entry.name))
        return found

    def stop(self) -> None:
        for process in (self.driver, self.head):
            if process and process.poll() is None:
                process.kill()
        for _ in range(200):
            members = self.members()
            for pid in members:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if not members:
                break
            time.sleep(0.05)
        for process in (self.driver, self.head):
            if process:
                process.wait(PATIENCE)
                for pipe in (process.stdin, process.stdout, process.stderr):
                    if pipe:
                        pipe.close()
        shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def started(scry: str, profiling: bool = True):
    """A cluster on which nothing runs."""
    cluster = Cluster(scry, profiling)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
