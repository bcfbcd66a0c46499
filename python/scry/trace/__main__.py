"""python -m scry.trace: runs a program and records every call of it; or attaches to one that runs.

The program runs as a process of its own and writes what it does into files as it goes; this one waits, and then
makes the trace. So there is a trace also when the program is killed, crashes, or leaves by os._exit().
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from scry.trace import build, children, native, output, tracer

# Options that say what to record: (words, what argparse needs to know).
RECORDING: list[tuple[tuple[str, ...], dict[str, Any]]] = [
    (("--memory",), {"metavar": "SIZE", "help": "Memory for events of each process (default 128M)"}),
    (("--entries",), {"metavar": "N", "type": int, "help": "The same as a number of calls"}),
    (("--stream",), {"action": "store_true", "help": "Keep everything, in files beside the output"}),
    (("--ignore-c-function",), {"action": "store_true", "help": "Leave out functions written in C"}),
    (("--ignore-frozen",), {"action": "store_true", "help": "Leave out frozen modules (import)"}),
    (("--ignore-stdlib",), {"action": "store_true", "help": "Leave out the standard library"}),
    (("--include-files",), {"metavar": "PATH", "action": "append", "help": "Only these files and folders; several: with commas, or several times"}),
    (("--exclude-files",), {"metavar": "PATH", "action": "append", "help": "Not these files and folders"}),
    (("--max-stack-depth",), {"metavar": "N", "type": int, "help": "Leave out what is deeper"}),
    (("--min-duration",), {"metavar": "TIME", "help": "Leave out what is shorter, for example 5us"}),
    (("--log-args",), {"action": "store_true", "help": "Record arguments, as short texts"}),
    (("--log-returns",), {"action": "store_true", "help": "Record return values, as short texts"}),
    (("--no-exceptions",), {"dest": "log_exceptions", "action": "store_false", "help": "Do not mark where exceptions are raised"}),
    (("--no-gc",), {"dest": "log_gc", "action": "store_false", "help": "Do not record garbage collections"}),
    (("--no-async",), {"dest": "log_async", "action": "store_false", "help": "No tracks for asyncio tasks"}),
    (("--trace-sparse",), {"metavar": "NAME", "action": "append", "help": "Record only while package.module.function runs"}),
    (("--no-children",), {"dest": "children", "action": "store_false", "help": "Do not follow child processes"}),
]  # fmt: skip


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m scry.trace",
        usage="python -m scry.trace [OPTIONS] [--] PROGRAM.py ... | -m MODULE ... | COMMAND ... | -p PID | --recover FOLDER",
        description="Record every call of a Python program.",
        argument_default=argparse.SUPPRESS,
    )
    made.add_argument(
        "-o", "--output", metavar="FILE", help="Where to write; the name's end says the format"
    )
    made.add_argument(
        "-p", "--pid", metavar="PID", type=int, help="Attach to this process (3.14 and later)"
    )
    made.add_argument(
        "-d", "--duration", metavar="S", type=float, help="With -p: for how many seconds"
    )
    made.add_argument(
        "--recover",
        metavar="FOLDER",
        help="Make the trace of what a program that streamed left there when it died: FILE.parts-PID",
    )
    made.add_argument("-q", "--quiet", action="store_true", help="Say nothing but errors")
    made.add_argument(
        "-m", dest="module", metavar="MODULE", nargs=argparse.REMAINDER, help="Run a module"
    )
    made.add_argument("--build", action="store_true", help=argparse.SUPPRESS)
    add_recording(made)
    made.add_argument("command", nargs=argparse.REMAINDER)
    return made


def add_recording(made: argparse.ArgumentParser) -> None:
    for words, facts in RECORDING:
        made.add_argument(*words, **facts)


def recording(values: dict[str, Any]) -> dict[str, Any]:
    """Of parsed words, those that say what to record, as tracer.Options takes them."""
    known = {field.name for field in dataclasses.fields(tracer.Options)}
    chosen = {name: value for name, value in values.items() if name in known}
    for name in ("include_files", "exclude_files", "trace_sparse"):
        if name in chosen:
            chosen[name] = [part for words in chosen[name] for part in words.split(",") if part]
    return chosen


class Failure(Exception):
    """A sentence for the user."""


def main(words: list[str] | None = None) -> int:
    values = vars(parser().parse_args(words))
    try:
        if values.get("build"):
            build.build_here()
        native.load()
        _check_output(values.get("output"))
        if values.get("recover"):
            return _recover(values["recover"], _reporter(values))
        if values.get("pid"):
            from scry.trace import attach

            return attach.run(
                values["pid"], values.get("duration"), _options(values), _reporter(values)
            )
        return _launch(_command(values), _options(values), _reporter(values))
    except (Failure, ValueError, native.NotBuilt, build.BuildError) as error:
        print(f"scry: {error}", file=sys.stderr)
        return 1


def _check_output(name: str | None) -> None:
    if name is None:
        return
    path = Path(name)
    output.format_of(path)
    folder = path.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise Failure(f"'{name}' cannot be written: there is no folder '{folder}' to write to")


def _options(values: dict[str, Any]) -> tracer.Options:
    options = tracer.Options(**{"children": True, **recording(values)})
    for names in (options.include_files, options.exclude_files):
        for index, pattern in enumerate(names or ()):
            names[index] = tracer.absolute_pattern(pattern)  # type: ignore[index]
    options.checked()
    return options


def _command(values: dict[str, Any]) -> list[str]:
    if values.get("module"):
        return [sys.executable, "-m", *values["module"], *values["command"]]
    words = list(values["command"])
    if words[:1] == ["--"]:
        words = words[1:]
    if words[:1] == ["-m"]:
        words.insert(0, sys.executable)
    if not words:
        raise Failure(
            "there is nothing to run: give a program, for example: python -m scry.trace prog.py"
        )
    if words[0].endswith(".py") or (os.path.isfile(words[0]) and not os.access(words[0], os.X_OK)):
        if not os.path.exists(words[0]):
            raise Failure(f"there is no file '{words[0]}'")
        words.insert(0, sys.executable)
    elif not shutil.which(words[0]):
        raise Failure(f"there is no program '{words[0]}'")
    return words


class Reporter:
    """Makes the trace when all is over, and says so."""

    def __init__(self, name: str | None, quiet: bool) -> None:
        self.output = Path(name) if name else None
        self.quiet = quiet

    def say(self, text: str) -> None:
        if not self.quiet:
            print(f"scry: {text}", file=sys.stderr, flush=True)

    def finish(self, family: children.Family) -> bool:
        paths = family.paths()
        for reason in _unmet(family):
            print(f"scry: {reason}", file=sys.stderr)
        if not paths:
            print(
                "scry: nothing was recorded: no Python 3.8 or later ran in the program, or it was started "
                "with -E, -I or -S",
                file=sys.stderr,
            )
            return False
        saved = output.save(
            native.load(), self.output, paths, own=False, progress=None if not self.quiet else False
        )
        self.say(f"wrote '{saved.path}': {saved.sentence()}; {output.hint(saved.path)}")
        if saved.unfinished:
            self.say(
                f"{saved.unfinished} of {saved.processes} processes ended at once (os._exit, a signal or a crash) or still run: "
                "what they did until then is there"
            )
        return True


def _reporter(values: dict[str, Any]) -> Reporter:
    return Reporter(values.get("output"), values.get("quiet", False))


def _recover(folder: str, reporter: Reporter) -> int:
    """What was left stays where it is."""
    if not Path(folder).is_dir():
        raise Failure(f"there is no folder '{folder}'")
    family = children.Family.at(folder)
    if not family.paths():
        raise Failure(f"no part of a trace is in '{folder}'")
    return 0 if reporter.finish(family) else 1


def _unmet(family: children.Family) -> list[str]:
    """Of names that no process has met, why."""
    notes = [
        dict(line.split("\t", 1) for line in path.read_text().splitlines())
        for path in Path(family.folder).glob("*.unmet")
    ]
    images = {Path(path).name.split("-")[0] for path in family.paths()}
    if not notes or len(notes) != len(images):
        return []
    everywhere = sorted(set.intersection(*map(set, notes)))
    return [
        next(filter(None, (note[name] for note in notes)), f"trace_sparse: '{name}' was never met")
        for name in everywhere
    ]


def _launch(command: list[str], options: tracer.Options, reporter: Reporter) -> int:
    beside = reporter.output if options.stream else None
    folder = beside.with_name(f"{beside.name}.parts-{os.getpid()}") if beside else None
    family = children.Family(folder)
    environment = {**os.environ, **family.environment(dataclasses.asdict(options))}
    status = 1
    try:
        status = _run(command, environment)
        made = reporter.finish(family)
        return status if made or status else 1
    finally:
        family.remove()


def _run(command: list[str], environment: dict[str, str]) -> int:
    """The exit status as a shell has it. Signals are the program's: this process stays to make the trace."""
    forwarded = [signal.SIGTERM, signal.SIGHUP]
    process: subprocess.Popen[bytes] | None = None

    def forward(number: int, frame: object) -> None:
        if process is not None:
            process.send_signal(number)

    # A terminal sends this one to both.
    signal.signal(signal.SIGINT, lambda number, frame: None)
    for number in forwarded:
        signal.signal(number, forward)
    try:
        process = subprocess.Popen(command, env=environment)
    except OSError as error:
        raise Failure(f"cannot run '{command[0]}': {error.strerror}") from error
    status = process.wait()
    return 128 - status if status < 0 else status


if __name__ == "__main__":
    sys.exit(main())
