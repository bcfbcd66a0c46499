"""What can go wrong: one class for each cause, all of them ScryError.

The text says what happened; `hint` says what helps, where something does.
"""

from __future__ import annotations

import json

__all__ = [
    "AlreadyRecording",
    "BadRecording",
    "InternalError",
    "KernelThread",
    "LaunchFailed",
    "NoProcess",
    "NoProgram",
    "NotPython",
    "NotReady",
    "NotRecording",
    "OutputFailed",
    "PermissionDenied",
    "ProcessEnded",
    "ReadFailed",
    "RecorderKilled",
    "ScryError",
    "UnsupportedVersion",
    "UsageError",
]


class ScryError(Exception):
    """Anything that scry has to complain about."""

    def __init__(self, message: str = "", hint: str = "") -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class NoProgram(ScryError, FileNotFoundError):
    """The program `scry` was not found."""


class UsageError(ScryError, ValueError):
    """An option that does not exist, or options that contradict each other."""


class NoProcess(ScryError, ProcessLookupError):
    """There is no such process."""


class ProcessEnded(ScryError, ProcessLookupError):
    """The process ended, before or while it was looked into."""


class KernelThread(ScryError):
    """The process belongs to the kernel."""


class NotPython(ScryError):
    """The process does not run CPython."""


class UnsupportedVersion(ScryError):
    """The process runs a version of Python that scry does not know."""


class NotReady(ScryError):
    """Python in the process has not started yet."""


class PermissionDenied(ScryError, PermissionError):
    """The kernel does not allow to look into the process; the text says why."""


class ReadFailed(ScryError):
    """The memory of the process could not be read, or made no sense."""


class OutputFailed(ScryError, OSError):
    """The output cannot be written: no such folder, no permission, no space."""


class BadRecording(ScryError, ValueError):
    """The file is no recording, or is damaged."""


class LaunchFailed(ScryError):
    """The program to be recorded could not be started."""


class AlreadyRecording(ScryError, RuntimeError):
    """This recorder was started and not stopped yet."""


class NotRecording(ScryError, RuntimeError):
    """This recorder was not started."""


class RecorderKilled(ScryError):
    """Something ended the program that records."""


class InternalError(ScryError):
    """scry failed in a way it does not know."""


# By the symbols of util/errors.def.
BY_SYMBOL: dict[str, type[ScryError]] = {
    "USAGE": UsageError,
    "NO_PROCESS": NoProcess,
    "ZOMBIE": ProcessEnded,
    "GONE": ProcessEnded,
    "KERNEL_THREAD": KernelThread,
    "NOT_PYTHON": NotPython,
    "UNSUPPORTED": UnsupportedVersion,
    "NOT_READY": NotReady,
    "PERMISSION": PermissionDenied,
    "READ": ReadFailed,
    "TORN": ReadFailed,
    "CORRUPT": ReadFailed,
    "IO": OutputFailed,
    "OUTPUT": OutputFailed,
    "BAD_FILE": BadRecording,
    "LAUNCH": LaunchFailed,
}


def from_output(text: str, status: int) -> ScryError:
    """The error that a scry run with SCRY_ERRORS=json printed, among its other lines."""
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            try:
                said = json.loads(line)
                return BY_SYMBOL.get(said["code"], InternalError)(said["message"], said["hint"])
            except (ValueError, KeyError):
                continue
    if status < 0:
        return RecorderKilled(f"scry was ended by signal {-status}")
    return InternalError(f"scry ended with status {status}: {text.strip()[-500:]}")
