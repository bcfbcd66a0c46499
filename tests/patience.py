"""Waiting for what cannot say itself when it is so far; a deadline that only a broken test reaches."""

from __future__ import annotations

import time


def until(condition, what: str = "", patience: float = 60.0, every: float = 0.02):
    """Asks again and again; returns the first answer that is true."""
    deadline = time.monotonic() + patience
    while True:
        answer = condition()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"never happened: {what or condition}: {answer!r}"
        time.sleep(every)
