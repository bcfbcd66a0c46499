"""The two kinds of blocks: record() and trace()."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Union

from scry import errors
from scry.dask.block import Block, Part
from scry.dask.tasks import TaskProfiles, runs_of, split
from scry.profile import EXTENSIONS, Profile, StrPath, format_of
from scry.recording import record_words, view_words

Workers = Union[bool, int, Sequence[str]]


def file_stem(label: str) -> str:
    """worker tcp://10.0.0.1:4000 -> worker-tcp-10_0_0_1-4000"""
    name = label.replace("://", "-").replace(".", "_")
    return re.sub(r"[^\w]+", "-", name).strip("-")[:120]


class Record(Block):
    """After the block: `profile` (all as one), `parts` (one each), `path`."""

    def __init__(
        self, path: StrPath | None, separate: bool, format: str | None, **more: Any
    ) -> None:
        self.path = Path(path) if path is not None else None
        self.separate = separate
        options = more["wanted"]["options"]
        self._views = view_words(options)
        record_words(options)  # complains now about what does not exist
        if separate:
            self.format = format_of("", format or "speedscope")
        else:
            self.format = format_of(path, format) if path is not None else "scry"
        self.profile: Profile | None = None
        super().__init__("record", **more)

    def finish(self) -> None:
        for part in self.arrived:
            assert part._file is not None
            part.profile = Profile(part._file)
        profiles = [part.profile for part in self.arrived if part.profile is not None]
        if not profiles:
            return
        if self.separate:
            self._write_each()
            return
        self.profile = Profile.merge(profiles)
        if self.path is not None:
            several = ["--hosts", "--processes", "never"] if len(profiles) > 1 else []
            self.profile.path = self.profile.save(self.path, self.format, *self._views, *several)

    @property
    def tasks(self) -> TaskProfiles:
        """Samples of workers by the prefix of the task's key; the block was begun with tasks=True."""
        found = TaskProfiles()
        for part in self.arrived:
            said = part.facts.get("tasks")
            if said and part.profile is not None:
                split(part.profile, runs_of(said["spans"], said["threads"]), found)
        return found

    def _write_each(self) -> None:
        if self.path is None:
            return
        self.path.mkdir(parents=True, exist_ok=True)
        extension = EXTENSIONS.get(self.format, self.format)
        for part in self.arrived:
            assert part.profile is not None
            name = _free_name(self.path, file_stem(part.label), extension, self.arrived, part)
            part.path = part.profile.save(name, self.format, *self._views)


def _free_name(folder: Path, stem: str, extension: str, parts: Sequence[Part], part: Part) -> Path:
    same = [other for other in parts if other.label == part.label]
    number = f"-{same.index(part) + 1}" if len(same) > 1 else ""
    return folder / f"{stem}{number}.{extension}"


class Trace(Block):
    """After the block: `parts`, each with its path."""

    def __init__(self, path: StrPath, separate: bool, **more: Any) -> None:
        self.path = Path(path)
        self.separate = separate
        super().__init__("trace", **more)

    def finish(self) -> None:
        if self.separate:
            self.path.mkdir(parents=True, exist_ok=True)
        for part in self.arrived:
            part.path = self._name_of(part)
            _place_file(part._file, part.path)

    def _name_of(self, part: Part) -> Path:
        if not self.separate:
            return self.path
        suffix = self._wanted["options"]["suffix"]
        return _free_name(self.path, file_stem(part.label), suffix[1:], self.arrived, part)


def _place_file(file: Any, path: Path) -> None:
    """Whole or not at all."""
    import shutil

    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with partial.open("wb") as output:
            shutil.copyfileobj(file, output, 1 << 20)
        os.replace(partial, path)
    except OSError as error:
        raise errors.OutputFailed(f"cannot write to '{path}': {error.strerror}") from None
    finally:
        if partial.exists():
            partial.unlink()


def record(
    path: StrPath | None = None,
    *,
    scheduler: bool = True,
    workers: Workers = True,
    nannies: bool = False,
    own: bool = False,
    separate: bool = False,
    format: str | None = None,
    via_nanny: bool = True,
    tasks: bool = False,
    client: Any = None,
    **options: Any,
) -> Record:
    """Records processes of a cluster for the span of a block, `with` or `async with`.

    path        a file for all together, or with separate=True a folder for one file each; on this machine. Without one
                the result is only in .profile and .parts
    scheduler   the scheduler
    workers     all (also those that join meanwhile), none, so many chosen at random, or those of these addresses
    nannies     the nannies
    own         this process, the client's
    via_nanny   sample a worker from its nanny, if it has one: the recording is there even if the worker crashes
    tasks       note which tasks ran, so that .tasks has the samples of workers by the prefix of their keys
    options     rate, idle, gil, native, ... as for scry.record(); but reader is "auto" if not given (unless tasks are
                wanted): where workers run as root, stacks are read by the kernel, which costs a small part

    A process that cannot be recorded costs only its own part: a PartialResult warning names it, .errors has the reason.
    """
    wanted = {
        "scheduler": scheduler,
        "workers": workers if isinstance(workers, (bool, int)) else list(workers),
        "nannies": nannies,
        "via_nanny": via_nanny,
        "tasks": tasks,
        # Of tasks the time that passes counts, also while they wait for a CPU; the kernel counts time on one.
        "options": {"reader": "memory" if tasks else "auto", **options},
    }
    return Record(path, separate, format, client=client, wanted=wanted, own=own)


def trace(
    path: StrPath,
    *,
    scheduler: bool = True,
    workers: Workers = False,
    own: bool = False,
    separate: bool | None = None,
    client: Any = None,
    **options: Any,
) -> Trace:
    """Traces every call in processes of a cluster for the span of a block.

    path        a file for one process, a folder for several (separate=True); the end of the name, or suffix=, says the
                format: .json, .json.gz, .pftrace, .html
    options     trace_sparse, ignore_c_function, min_duration, memory, ... as for scry.trace()

    Names in trace_sparse need no patching: whichever table of handlers a function is called from, it is traced.
    """
    several = bool(workers) or (scheduler and own)
    separate = several if separate is None else separate
    if several and not separate:
        raise errors.UsageError(
            "traces of several processes do not go into one file", "give a folder and separate=True"
        )
    suffix = options.pop("suffix", None) or (".json" if separate else suffix_of(Path(path)))
    wanted = {
        "scheduler": scheduler,
        "workers": workers if isinstance(workers, (bool, int)) else list(workers),
        "nannies": False,
        "via_nanny": False,
        "options": {**options, "suffix": suffix},
    }
    return Trace(path, separate, client=client, wanted=wanted, own=own)


def suffix_of(path: Path) -> str:
    """The end of its name that says what a trace is written as."""
    from scry.trace.output import SUFFIXES
    from scry.trace.output import format_of as trace_format

    try:
        trace_format(path)
    except ValueError as error:
        raise errors.UsageError(str(error)) from None
    known = sorted(SUFFIXES, key=len, reverse=True)
    return next(suffix for suffix in known if path.name.lower().endswith(suffix))
