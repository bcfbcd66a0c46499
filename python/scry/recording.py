"""scry.record(): where the time goes, in this process or another.

    with scry.record("run.svg"):
        work()

    @scry.record("run.svg")
    def work(): ...

    recorder = scry.record(pid=4242, rate=200, threads=True).start()
    ...
    profile = recorder.stop()

The work is done by the program `scry`, a child of this process that looks into it, or into another one, from outside.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Union

from scry import errors, program, ptracer
from scry.around import Function, each_call
from scry.profile import Profile, StrPath, format_of

__all__ = ["Recorder", "record"]

Pids = Union[int, "Sequence[int]", None]

STOP_PATIENCE = 60.0  # seconds for the recorder to write what it has
START_PATIENCE = 30.0

# Options of `scry record` by their names in Python; views are chosen when something is made of the recording.
_FLAGS = ("subprocesses", "gil", "idle", "nonblocking", "native", "native_all", "gc", "exception")
_VALUES = ("rate", "overhead", "duration", "mode", "reader", "host")
_LISTS = ("thread", "include", "exclude")
_VIEWS = ("threads", "function", "nolineno", "full_filenames", "mark_torn")


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def record_words(options: dict[str, Any]) -> list[str]:
    """The words of a command line. UsageError for an option that does not exist."""
    words: list[str] = []
    for name, value in options.items():
        if name in _FLAGS:
            words += [_option(name)] if value else []
        elif name in _VALUES:
            words += [_option(name), str(value)] if value is not None else []
        elif name in _LISTS:
            values = [value] if isinstance(value, str) else value or ()
            words += [word for each in values for word in (_option(name), str(each))]
        elif name not in _VIEWS:
            known = ", ".join(sorted((*_FLAGS, *_VALUES, *_LISTS, *_VIEWS)))
            raise errors.UsageError(f"record has no option '{name}'", f"there are: {known}")
    return words


def view_words(options: dict[str, Any]) -> list[str]:
    return [_option(name) for name in _VIEWS if options.get(name)]


class Recorder:
    """Records from start() to stop(), or for a `with` block, or for each call of a function it decorates.

    path        where the profile is written at the end; the end of its name says the format: .svg (flame graph), .json
                (speedscope), .scry (the recording itself; it is there even if this process dies), ...
    format      the format, if the name shall not say it
    pid         the process to look into, or several; this one if not given
    rate        samples per second, 100 if not given; or overhead, the share of a CPU it may cost, in percent
    duration    stop by itself after so many seconds
    idle        waiting threads too
    gil         only the thread that holds the interpreter lock
    subprocesses, native, nonblocking, mode, reader, gc, exception, thread, include, exclude, host
                as for `scry record`
    threads, function, nolineno, full_filenames, mark_torn
                how the file is made

    After stop() `profile` holds what was recorded.
    """

    def __init__(
        self,
        path: StrPath | None = None,
        *,
        pid: Pids = None,
        format: str | None = None,
        **options: Any,
    ) -> None:
        self.path = Path(path) if path is not None else None
        self.format = format_of(path, format) if path is not None else "scry"
        self.pids = [pid] if isinstance(pid, int) else list(pid) if pid is not None else None
        self.profile: Profile | None = None
        self._words = record_words(options)
        self._views = view_words(options)
        self._process: subprocess.Popen[bytes] | None = None
        self._file: IO[bytes] | None = None
        self._lock = threading.Lock()

    # ---- starting ----

    @property
    def active(self) -> bool:
        return self._process is not None

    def start(self) -> Recorder:
        """Begins; returns when sampling has begun. Raises one of scry.errors if it cannot."""
        with self._lock:
            if self._process is not None:
                raise errors.AlreadyRecording("this recorder records already", "stop() it first")
            pids = self.pids if self.pids is not None else [os.getpid()]
            own = os.getpid() in pids
            self._open_files()
            me = os.getpid()
            if own:
                ptracer.allow(me)  # the child's pid is not known before it runs
            try:
                self._process = self._launch(pids)
                if own:
                    ptracer.allow(self._process.pid)
            except BaseException:
                self._close_files()
                raise
            finally:
                if own:
                    ptracer.forbid(me)
            self._await_begin()
            return self

    def _open_files(self) -> None:
        """A recording is a file without a name until it is finished, unless it is what the user wants."""
        if self.path is not None:
            _check_writable(self.path)
        if not self._is_wanted_itself():
            self._file = tempfile.TemporaryFile(prefix="scry-")

    def _is_wanted_itself(self) -> bool:
        """Then the recorder writes it to its place, whatever becomes of this process."""
        return self.path is not None and self.format == "scry"

    def _launch(self, pids: Sequence[int]) -> subprocess.Popen[bytes]:
        output = str(self.path) if self._is_wanted_itself() else "-"
        words = ["record", "-f", "scry", "-o", output, "--until-eof", *self._words]
        words += [word for pid in pids for word in ("-p", str(int(pid)))]
        # A group of its own: Control-C at the terminal is for this process, which stops it then.
        process: subprocess.Popen[bytes] = program.start(
            words,
            stdin=subprocess.PIPE,
            stdout=self._file if self._file is not None else subprocess.DEVNULL,
            start_new_session=True,
        )
        return process

    def _await_begin(self) -> None:
        """Its first line says that it samples; if there is none, its last one says why."""
        process = self._process
        assert process is not None and process.stderr is not None
        timer = threading.Timer(START_PATIENCE, process.kill)
        timer.start()
        try:
            lines = []
            for line in process.stderr:
                lines.append(line.decode("utf-8", "replace"))
                if ": sampling process" in lines[-1]:
                    self._drain(process)
                    return
        finally:
            timer.cancel()
        status = process.wait()
        self._forget()
        self._close_files()
        raise errors.from_output("".join(lines), status)

    def _drain(self, process: subprocess.Popen[bytes]) -> None:
        """What it says later is kept, and never blocks it."""
        said: list[bytes] = []

        def read() -> None:
            for line in process.stderr or ():
                if len(said) < 100:
                    said.append(line)

        self._reader = threading.Thread(target=read, name="scry-record", daemon=True)
        self._reader.start()
        self._lines = said

    # ---- stopping ----

    def stop(self) -> Profile:
        """Ends the recording, writes the file if there is to be one, and returns the profile."""
        with self._lock:
            process = self._process
            if process is None:
                raise errors.NotRecording("this recorder does not record", "start() it first")
            status = self._end(process)
            text = b"".join(self._lines).decode("utf-8", "replace")
            file, self._file = self._file, None
            # What a recorder that was killed has written is whole up to there.
            if status and (status > 0 or file is None or not os.fstat(file.fileno()).st_size):
                if file is not None:
                    file.close()
                raise errors.from_output(text, status)
            if file is None:
                assert self.path is not None
                file = open(self.path, "rb")
            self.profile = Profile(file)
            if self.path is not None:
                self._write(self.profile)
            return self.profile

    def _write(self, profile: Profile) -> None:
        assert self.path is not None
        if self.format != "scry":
            profile.save(self.path, self.format, *self._views)
        profile.path = self.path

    def _end(self, process: subprocess.Popen[bytes]) -> int:
        try:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            status = process.wait(STOP_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
        finally:
            self._forget()
        self._reader.join(5)
        if process.stdin:
            process.stdin.close()
        return status

    def _forget(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            ptracer.forbid(process.pid)

    def _close_files(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None

    # ---- as a block, as a decorator ----

    def __enter__(self) -> Recorder:
        return self.start()

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        try:
            self.stop()
        except errors.ScryError:
            # What the block raised is more important than that there is no profile of it.
            if kind is None:
                raise

    def __call__(self, function: Function) -> Function:
        """Each call of the function is recorded; the last one's profile remains."""
        return each_call(lambda: self, function)

    def __repr__(self) -> str:
        if self._process is not None:
            return f"<Recorder of {self.pids or 'this process'}, recording>"
        return f"<Recorder of {self.pids or 'this process'}>"


def _check_writable(path: Path) -> None:
    """Better known now than after the work."""
    folder = path.parent
    if path.is_dir():
        raise errors.OutputFailed(f"cannot write to '{path}': it is a folder")
    if not folder.is_dir():
        raise errors.OutputFailed(f"cannot write to '{path}': there is no folder '{folder}'")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise errors.OutputFailed(f"cannot write to '{path}': permission denied")


record = Recorder
