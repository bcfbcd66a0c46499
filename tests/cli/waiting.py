"""Waiting for a process to do something that it cannot tell itself."""

import time
from pathlib import Path


def until_blocked(pid: int) -> None:
    """Come back when the main thread of the process reads its standard input and all others sleep: what a
    target prints before it waits says only that it will."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        call = Path(f"/proc/{pid}/syscall").read_text().split()
        states = [
            Path(task, "stat").read_text().rpartition(")")[2].split()[0]
            for task in Path(f"/proc/{pid}/task").iterdir()
        ]
        if call[0] != "running" and int(call[1], 16) == 0 and set(states) == {"S"}:
            return
    raise AssertionError(f"process {pid} does not wait for its input")
