"""Tests of the Python package: against the sources with the scry under test, and as a wheel."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest
import pythons

PACKAGE = pythons.PROJECT / "python"


@pytest.fixture
def environment(scry, tmp_path):
    """For programs that import the package from the sources."""
    return {**os.environ, "PYTHONPATH": str(PACKAGE), "SCRY": scry, "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture
def run(environment, tmp_path):
    """Runs a program of these lines; what it prints. Its failure is the test's."""

    def run_it(source: str, *arguments: str, check: bool = True, **options) -> str:
        file = tmp_path / "program.py"
        file.write_text(source)
        done = subprocess.run(
            [sys.executable, str(file), *arguments],
            cwd=tmp_path,
            env={**environment, **options.pop("env", {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=100,
            **options,
        )
        assert not check or done.returncode == 0, done.stdout
        return done.stdout

    return run_it


@pytest.fixture(scope="session")
def wheel(tmp_path_factory) -> Path:
    """What `pip install .` builds; compiled in build-wheel, so that the second time is quick."""
    folder = tmp_path_factory.mktemp("wheel")
    (pythons.PROJECT / "out").mkdir(exist_ok=True)
    with open(pythons.PROJECT / "out" / "wheel.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(
            [
                *(sys.executable, "-m", "pip", "wheel", str(pythons.PROJECT), "-w", str(folder)),
                *("--no-deps", "--no-build-isolation", "--disable-pip-version-check", "-q"),
                "--config-settings=build-dir=build-wheel",
            ],
            check=True,
            cwd=pythons.PROJECT,
        )
        [found] = folder.glob("scry-*.whl")
        return found
