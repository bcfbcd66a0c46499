"""Run an oracle program under an interpreter and record it."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import grammar
import pythons


@contextlib.contextmanager
def running(python: pythons.Python, program: grammar.Program) -> Iterator[int]:
    """The program, past its start: it says so on its standard output."""
    process = python.popen(program.path, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == b"ready"
        yield process.pid
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def record(scry: str, pid: int, seconds: float, rate: int, folder: Path, *options: str) -> str:
    """Folded stacks of so many seconds."""
    output = folder / "stacks.txt"
    command = [scry, "record", "-p", str(pid), "-d", str(seconds), "-r", str(rate)]
    command += ["-f", "raw", "--mark-torn", "--full-filenames", "--hideprogress", "-o", str(output)]
    subprocess.run(
        [*command, *options], check=True, capture_output=True, timeout=120 + 10 * seconds
    )
    return output.read_text()
