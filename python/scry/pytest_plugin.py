"""pytest --scry: a flame graph of each test that takes long.

--scry                  record tests
--scry-slow=SECONDS     what takes long: 1 s if not given; 0 writes a profile of every test
--scry-dir=FOLDER       where they go: scry-profiles if not given
--scry-format=FORMAT    flamegraph if not given; speedscope, raw, scry ...
--scry-rate=RATE        samples per second, 100 if not given
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("scry", "profiles of slow tests")
    group.addoption("--scry", action="store_true", help="record tests; write profiles of slow ones")
    group.addoption("--scry-slow", type=float, default=1.0, metavar="SECONDS", help="what is slow")
    group.addoption("--scry-dir", default="scry-profiles", metavar="FOLDER", help="for profiles")
    group.addoption("--scry-format", default="flamegraph", metavar="FORMAT", help="of profiles")
    group.addoption("--scry-rate", type=float, default=100.0, metavar="RATE", help="per second")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--scry"):
        config.pluginmanager.register(Recordings(config), "scry-recordings")


def file_name(node: str, extension: str) -> str:
    """A name that can be read, of bounded length, and different for different tests."""
    import zlib

    plain = re.sub(r"[^\w.+-]+", "_", node).strip("_")[-120:]
    return f"{plain}-{zlib.crc32(node.encode()):08x}.{extension}"


class Recordings:
    def __init__(self, config: pytest.Config) -> None:
        self.slow = config.getoption("--scry-slow")
        self.folder = Path(config.getoption("--scry-dir"))
        self.format = config.getoption("--scry-format")
        self.rate = config.getoption("--scry-rate")
        self.written: list[Path] = []
        self.trouble: dict[str, int] = {}

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """A test is never failed by what went wrong with its profile: that is told at the end."""
        from scry import errors
        from scry.recording import Recorder

        recorder: Any = None
        try:
            recorder = Recorder(rate=self.rate).start()
        except errors.ScryError as error:
            self._count(str(error))
        begun = time.monotonic()
        yield
        took = time.monotonic() - begun
        if recorder is None:
            return
        try:
            with recorder.stop() as profile:
                if took >= self.slow:
                    self._write(item.nodeid, profile)
        except (errors.ScryError, OSError) as error:
            self._count(str(error))

    def _write(self, node: str, profile: Any) -> None:
        from scry.profile import EXTENSIONS

        self.folder.mkdir(parents=True, exist_ok=True)
        name = file_name(node, EXTENSIONS.get(self.format, self.format))
        self.written.append(profile.save(self.folder / name, self.format))

    def _count(self, text: str) -> None:
        self.trouble[text] = self.trouble.get(text, 0) + 1

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.written or self.trouble:
            terminalreporter.section("scry")
        for path in self.written:
            terminalreporter.write_line(f"profile: {path}")
        for text, times in self.trouble.items():
            terminalreporter.write_line(f"no profile of {times} tests: {text}")
