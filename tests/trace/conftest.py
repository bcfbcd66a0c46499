"""The tracer's tests: its compiled part is built once for each interpreter, and kept in out/tracer."""

from __future__ import annotations

import fcntl
import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import pythons

PACKAGE = pythons.PROJECT / "python"
KEPT = pythons.PROJECT / "out" / "tracer"
SINCE = (3, 8)
WARNINGS = [
    *("-Wall", "-Wextra", "-Wshadow", "-Wvla", "-Wstrict-prototypes", "-Wmissing-prototypes"),
    *("-Wpointer-arith", "-Werror"),
]

sys.path.insert(0, str(PACKAGE))
from scry.trace import build  # noqa: E402


def chosen(since=SINCE, until=(3, 99), debug=True):
    """One interpreter per version and flavour: that of two builds of one ABI the first is enough."""
    seen, result = set(), []
    for python in pythons.found():
        key = (python.minor, python.debug, python.free_threaded)
        if since <= python.minor <= until and python.include and key not in seen:
            if debug or not python.debug:
                seen.add(key)
                result.append(python)
    return result


def few():
    """Those that differ most: the oldest, the last before sys.monitoring, the first with it, the newest, a debug
    build of either kind, and one without the GIL."""
    found = chosen()
    plain = [p for p in found if not p.debug and not p.free_threaded]
    profile = [p for p in plain if p.minor < (3, 12)]
    monitoring = [p for p in plain if p.minor >= (3, 12)]
    some = profile[:1] + profile[-1:] + monitoring[:1] + monitoring[-1:]
    some += [p for p in found if p.debug and p.minor < (3, 12)][-1:]
    some += [p for p in found if p.debug][-1:] + [p for p in found if p.free_threaded][-1:]
    return sorted(set(some), key=found.index)


def newest():
    return [p for p in chosen(debug=False) if not p.free_threaded][-1]


@functools.cache
def built(python: pythons.Python, *flags: str, compiler: str = "gcc") -> Path:
    """The compiled part for an interpreter; several workers may ask for it at once."""
    kind = "-".join(["", compiler, *flags]).replace("/", "_").replace("=", "-") if flags else ""
    name = f"{python.id}-{'.'.join(map(str, python.version))}{kind}"
    target = KEPT / build.source_hash() / name / "_tracer.so"
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            # Last, because in a Debian tree it is /usr/include of that tree; for <x86_64-linux-gnu/python3.N/...>.
            after = ["-idirafter", str(Path(python.include).parent)]
            # Debian's headers of debug builds are links, and gcc would look for pyconfig.h where they lead.
            after += ["-fno-canonical-system-headers"] * (compiler == "gcc")
            # As it is built for users on a few, and elsewhere quicker: what differs there is Python.
            level = [] if python in few() else ["-O1"]
            build.compile_to(
                target,
                [python.include],
                compiler=compiler,
                flags=[*WARNINGS, *level, *flags, *after],
            )
    return target


class Run:
    """Runs Python code with the tracer at hand."""

    def __init__(self, python: pythons.Python, folder: Path, native: Path) -> None:
        self.python = python
        self.folder = folder
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        self.environment.update(SCRY_TRACER=str(native), PYTHONPATH=str(PACKAGE))

    def file(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def popen(self, *words, **options):
        options.setdefault("env", self.environment)
        options.setdefault("cwd", self.folder)
        return self.python.popen(*words, text=True, **options)

    def words(self, *words, check=True, timeout=100, **options):
        """The finished process; its output is text."""
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        with self.popen(*words, **options) as process:
            try:
                out, err = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        if check:
            assert process.returncode == 0, err
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def code(self, text, *arguments, name="program.py", **options):
        """What the program prints, as JSON if it is."""
        done = self.words(self.file(name, text), *arguments, **options)
        try:
            return json.loads(done.stdout)
        except ValueError:
            return done.stdout


@pytest.fixture
def run(traced, tmp_path):
    """On each interpreter: one per ABI, not every one there is."""
    return Run(traced, tmp_path, built(traced))


@pytest.fixture
def run_newest(tmp_path):
    python = newest()
    return Run(python, tmp_path, built(python))


@pytest.fixture
def run_few(traced_few, tmp_path):
    """On a few interpreters, for what takes longer."""
    return Run(traced_few, tmp_path, built(traced_few))


@pytest.fixture(scope="session")
def environment_here():
    """For the interpreter that runs the tests, which has packages: the tracer built for it."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    environment["PYTHONPATH"] = str(PACKAGE)
    words = [sys.executable, "-m", "scry.trace.build"]
    made = subprocess.run(words, env=environment, check=True, capture_output=True, text=True)
    return {**environment, "SCRY_TRACER": made.stdout.strip()}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "traced_few" in metafunc.fixturenames:
        metafunc.parametrize("traced_few", few(), ids=[p.id for p in few()])
    if "traced" not in metafunc.fixturenames:
        return
    limits = metafunc.definition.get_closest_marker("pythons")
    words = limits.kwargs if limits else {}
    found = chosen(words.get("since", SINCE), words.get("until", (3, 99)))
    metafunc.parametrize("traced", found, ids=[p.id for p in found])
