"""A real `scry serve` on a port of its own, and a client that shows what came back."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import select
import signal
import subprocess
import sys
import urllib.parse
from pathlib import Path

from patience import until  # noqa: F401  (for the tests, with all else they wait for)

HERE = Path(__file__).parent
TARGETS = HERE / "targets"
PATIENCE = 60.0


class Answer:
    def __init__(self, status: int, headers: http.client.HTTPMessage, body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def type(self) -> str:
        return self.headers.get("Content-Type", "")

    def __repr__(self) -> str:
        return f"<{self.status} {self.type} {self.body[:300]!r}>"


def read_line(process: subprocess.Popen, what: str) -> str:
    ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
    line = process.stdout.readline() if ready else ""
    if not line:
        process.kill()
        raise AssertionError(f"{what} said nothing; {process.communicate()}")
    return line


class Server:
    """scry serve, started and ended with the block it is used in."""

    def __init__(
        self, scry: str, folder: Path, *options: str, command: tuple[str, ...] = (), port: int = 0
    ) -> None:
        self.scry = scry
        self.folder = Path(folder)
        self.options = options
        self.command = command
        self.port = port
        self.token: str | None = None
        self.process: subprocess.Popen | None = None

    def start(self) -> Server:
        argv = [
            *self.command,
            self.scry,
            "serve",
            "--port",
            str(self.port),
            "--data-dir",
            str(self.folder),
        ]
        self.process = subprocess.Popen(
            [*argv, *self.options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        line = read_line(self.process, "scry serve")
        self.url = line.split()[-1].rstrip("/")
        parts = urllib.parse.urlsplit(self.url)
        self.host, self.port = parts.hostname, parts.port
        return self

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self.process and self.process.poll() is None:
            self.send(number)
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                raise
        if self.process:
            _, self.said = self.process.communicate(timeout=PATIENCE)
            # A sanitizer writes there, and a library that has been misused.
            assert "ERROR" not in self.said and "runtime error" not in self.said, self.said

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(self, *exc) -> None:
        self.stop()

    def connect(self, timeout: float = PATIENCE) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout)

    def ask(
        self,
        method: str,
        path: str,
        body=None,
        headers: dict[str, str] | None = None,
        timeout=PATIENCE,
    ) -> Answer:
        connection = self.connect(timeout)
        headers = dict(headers or {})
        if self.token:
            headers.setdefault("Authorization", f"Bearer {self.token}")
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def get(self, path: str, **params) -> Answer:
        return self.ask("GET", path + ("?" + urllib.parse.urlencode(params) if params else ""))

    def record(self, **request):
        """Ask for a recording, wait until it ends, and give it back."""
        answer = self.ask("POST", "/api/v1/recordings", request)
        assert answer.status == 202, answer
        return self.until_ended(answer.json["recordings"][0]["id"])

    def until_ended(self, recording: str):
        for name, data in self.events(f"/api/v1/recordings/{recording}/events"):
            if name == "end":
                return data
        raise AssertionError("the events ended without an end")

    def events(self, path: str, timeout: float = PATIENCE):
        connection = self.connect(timeout)
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        assert response.status == 200, (response.status, response.read())
        assert response.headers["Content-Type"] == "text/event-stream"
        name = ""
        try:
            for raw in response:
                line = raw.decode().rstrip("\n")
                if line.startswith("event: "):
                    name = line[7:]
                elif line.startswith("data: "):
                    yield name, json.loads(line[6:])
        finally:
            connection.close()


class Target:
    """tests/serve/targets/work.py, busy."""

    def __init__(
        self,
        *options: str,
        python: str = sys.executable,
        script: str = "work.py",
        command: tuple[str, ...] = (),
        env=None,
    ) -> None:
        self.process = subprocess.Popen(
            [*command, python, str(TARGETS / script), *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {})},
        )
        line = read_line(self.process, "the target")
        self.pid, self.child = map(int, re.findall(r"\d+", line)[:2])

    def __enter__(self) -> Target:
        return self

    def __exit__(self, *exc) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        if self.child:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.child, signal.SIGKILL)
