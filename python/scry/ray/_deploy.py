"""One `scry serve` on each node of a running cluster, started and ended by Ray, each showing all."""

from __future__ import annotations

import ctypes
import secrets
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from scry import errors, program
from scry.ray._doctor import dashboard_url
from scry.ray._workers import connected

PORT = 8266
_PR_SET_PDEATHSIG = 1


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class _Server:
    """On a node: the server, a child of this actor."""

    def __init__(
        self, address: str, port: int, token: str, others: list[str], ray_url: str
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="scry-serve-"))
        token_file = self.folder / "token"
        token_file.touch(mode=0o600)
        token_file.write_text(token)
        words = ["serve", "--listen", address, "--port", str(port), "--token-file", str(token_file)]
        words += ["--data-dir", str(self.folder / "data")]
        words += [word for other in others for word in ("--peer", f"{other}:{port}")]
        words += ["--ray", ray_url] if ray_url else []
        self.process = subprocess.Popen(
            [program.find(), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=program.environment(),
            preexec_fn=_die_with_parent,
        )

    def url(self) -> str:
        """Where it serves, once it does."""
        assert self.process.stdout and self.process.stderr
        line = self.process.stdout.readline()
        if not line:
            said = self.process.communicate()[1]
            raise RuntimeError(str(errors.from_output(said, self.process.returncode)))
        return line.split()[-1].rstrip("/")

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Deployment:
    """The servers; stop() ends them, and so does the end of a `with` block or of the driver."""

    def __init__(
        self, actors: dict[str, Any], urls: dict[str, str], failures: dict[str, str], token: str
    ):
        self._actors = actors
        self.urls = urls  # by Ray's node id
        self.failures = failures  # why there is none, by node id
        self.token = token

    @property
    def url(self) -> str:
        """Any of them: each shows all."""
        return next(iter(self.urls.values()))

    def stop(self) -> None:
        ray = connected()
        asked = [actor.stop.remote() for actor in self._actors.values()]
        ray.wait(asked, num_returns=len(asked), timeout=30) if asked else None
        for actor in self._actors.values():
            ray.kill(actor)
        self._actors = {}

    def __enter__(self) -> Deployment:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<scry.ray.Deployment on {len(self.urls)} nodes: {', '.join(self.urls.values())}>"


def _one_per_host(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Several of Ray's nodes may share a host, and a server there sees all of it."""
    return list({node["NodeManagerAddress"]: node for node in reversed(nodes)}.values())[::-1]


def deploy(port: int = PORT, token: str | None = None, dashboard: str | None = None) -> Deployment:
    """Start a server on every node. `dashboard`: Ray's address as the nodes reach it; found if not given."""
    ray = connected()
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    token = token or secrets.token_hex(32)
    nodes = _one_per_host([node for node in ray.nodes() if node["Alive"]])
    addresses = [node["NodeManagerAddress"] for node in nodes]
    url = dashboard_url() if dashboard is None else dashboard
    kind = ray.remote(num_cpus=0, max_restarts=0)(_Server)
    actors = {}
    for node in nodes:
        address = node["NodeManagerAddress"]
        others = [other for other in addresses if other != address]
        where = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        actors[node["NodeID"]] = kind.options(scheduling_strategy=where).remote(
            address, port, token, others, url
        )
    urls, failures = {}, {}
    for node_id, asked in {n: actor.url.remote() for n, actor in actors.items()}.items():
        try:
            urls[node_id] = ray.get(asked, timeout=60)
        except Exception as error:  # the others serve all the same
            failures[node_id] = str(error).strip().splitlines()[-1]
    if not urls:
        for actor in actors.values():
            ray.kill(actor)
        raise RuntimeError("no node serves: " + "; ".join(failures.values()))
    return Deployment(actors, urls, failures, token)
