"""Lets a child of this process look into it, where the kernel's Yama module restricts that to ancestors.

A process has one such permission, and cannot ask who has it. So they are counted here: while one child needs it, it
is that child's; while several do, it is that of this process and all its descendants; then it is nobody's, as it was.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

PR_SET_PTRACER = 0x59616D61  # linux/prctl.h

_lock = threading.Lock()
_allowed: list[int] = []  # a child each; this process while a child is about to be started


def restricted() -> bool:
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope") as file:
            return file.read().strip() == "1"
    except OSError:
        return False


def _tell_kernel() -> None:
    distinct = set(_allowed)
    pid = 0 if not distinct else distinct.pop() if len(distinct) == 1 else os.getpid()
    libc = ctypes.CDLL(None, use_errno=True)
    # EINVAL where Yama is not there: then nothing is restricted either.
    libc.prctl(PR_SET_PTRACER, ctypes.c_ulong(pid), 0, 0, 0)


def allow(pid: int) -> None:
    """Gives the permission, once more if this pid has it."""
    with _lock:
        _allowed.append(pid)
        _tell_kernel()


def forbid(pid: int) -> None:
    """Takes it back, as often as it was given."""
    with _lock:
        if pid in _allowed:
            _allowed.remove(pid)
        _tell_kernel()


def active() -> list[int]:
    """Who has it now."""
    with _lock:
        return list(_allowed)


@contextmanager
def child_may_look() -> Iterator[None]:
    """For children that are started in the block."""
    me = os.getpid()
    allow(me)
    try:
        yield
    finally:
        forbid(me)


def _after_fork() -> None:
    """A child has none of the parent's permissions, and maybe a lock that nobody will open."""
    global _lock
    _lock = threading.Lock()
    _allowed.clear()


os.register_at_fork(after_in_child=_after_fork)
