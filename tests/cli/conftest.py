"""Calling the command line and judging what it says."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Result = subprocess.CompletedProcess


class Tool:
    """The binary under test, in a folder of its own."""

    def __init__(self, path: str, folder: Path) -> None:
        self.path = path
        self.folder = folder

    def __call__(
        self, *args: object, env: dict[str, str] | None = None, **options: object
    ) -> Result:
        return subprocess.run(
            [self.path, *map(str, args)],
            cwd=self.folder,
            env=os.environ | {"NO_COLOR": "", "CLICOLOR_FORCE": ""} | (env or {}),
            capture_output=True,
            text=True,
            timeout=60,
            **options,
        )

    def left(self) -> list[str]:
        """What lies in its folder."""
        return sorted(p.name for p in self.folder.iterdir())


@pytest.fixture
def tool(scry: str, tmp_path: Path) -> Tool:
    folder = tmp_path / "work"
    folder.mkdir()
    return Tool(scry, folder)


@pytest.fixture
def py_spy(scry: str, tmp_path: Path) -> Tool:
    """The same binary under the name of py-spy."""
    (tmp_path / "bin").mkdir()
    link = tmp_path / "bin" / "py-spy"
    link.symlink_to(Path(scry).resolve())
    folder = tmp_path / "work"
    folder.mkdir(exist_ok=True)
    return Tool(str(link), folder)


@pytest.fixture
def refused() -> Callable[..., str]:
    """Check that a call failed the way every failure should look, and give back its one line."""

    def check(result: Result, status: int, *names: str) -> str:
        assert result.returncode == status, result.stderr
        assert result.stdout == ""
        assert result.stderr.endswith("\n")
        assert len(result.stderr.splitlines()) == 1, result.stderr
        line = result.stderr.strip()
        assert line.startswith(("scry: error: ", "py-spy: error: "))
        for name in names:
            assert name in line
        assert line.endswith(")"), f"no remedy in: {line}"
        return line

    return check
