"""Tracing a process that already runs, through sys.remote_exec() of Python 3.14 and later."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from scry.trace import children

if TYPE_CHECKING:
    from scry.trace.__main__ import Reporter
    from scry.trace.tracer import Options

BEGIN = """
def _scry_begin():
    import json, os, sys
    facts = json.loads({facts!r})
    try:
        sys.path.insert(0, facts["package"])
        try:
            from scry.trace import child
        finally:
            sys.path.remove(facts["package"])
        if facts.get("native"):
            os.environ["SCRY_TRACER"] = facts["native"]
        child.begin(facts, left=True)
        answer = "ok"
    except BaseException as error:
        answer = "%s: %s" % (type(error).__name__, error)
    with open(facts["folder"] + "/begun~", "w") as file:
        file.write(answer)
    os.rename(facts["folder"] + "/begun~", facts["folder"] + "/begun")
_scry_begin()
del _scry_begin
"""
END = """
def _scry_end():
    import sys
    child = sys.modules.get("scry.trace.child")
    if child:
        child.end()
    open({done!r}, "w").close()
_scry_end()
del _scry_end
"""
PATIENCE = 10.0  # for the process to come to a point where it can be told something


def run(pid: int, duration: float | None, options: Options, reporter: Reporter) -> int:
    from scry.trace.__main__ import Failure

    if not hasattr(sys, "remote_exec"):
        version = ".".join(map(str, sys.version_info[:2]))
        raise Failure(
            f"attaching needs Python 3.14 or later on both sides, and this is {version}: start the program with "
            "`scry trace -- python prog.py`, or sample it with `scry record -p PID`"
        )
    if options.stream and reporter.output is None:
        raise Failure("--stream needs an output: give one with -o")
    folder = Path(tempfile.mkdtemp(prefix="scry-trace-"))
    family = children.Family(folder)
    _open_to(pid, folder)
    try:
        _begin(pid, family, options)
        reporter.say(f"tracing process {pid}" + ("" if duration else "; end with Ctrl-C"))
        _wait(pid, duration)
        _end(pid, family)
        return 0 if reporter.finish(family) else 1
    finally:
        family.remove()


def _open_to(pid: int, folder: Path) -> None:
    """The folder belongs to whoever the process runs as."""
    facts = os.stat(f"/proc/{pid}") if os.path.exists(f"/proc/{pid}") else None
    if facts and os.geteuid() == 0 and facts.st_uid != 0:
        os.chown(folder, facts.st_uid, facts.st_gid)


def _begin(pid: int, family: children.Family, options: Options) -> None:
    facts = {
        "folder": family.folder,
        "package": str(Path(__file__).resolve().parents[2]),
        "options": dataclasses.asdict(options),
        "native": os.environ.get("SCRY_TRACER"),
    }
    from scry.trace.__main__ import Failure

    answer = Path(family.folder, "begun")
    _execute(pid, family, "begin.py", BEGIN.format(facts=json.dumps(facts)))
    if not _appears(pid, answer, PATIENCE):
        raise Failure(
            f"process {pid} did not begin to trace within {PATIENCE:.0f} s: its main thread does not run Python code "
            "now; it begins when it does"
        )
    said = answer.read_text()
    if said != "ok":
        raise Failure(f"process {pid} cannot trace itself: {said}")


def _end(pid: int, family: children.Family) -> None:
    """What was recorded is there even if the process does not hear this any more."""
    done = Path(family.folder, "ended")
    try:
        _execute(pid, family, "end.py", END.format(done=str(done)))
    except Exception:
        return
    _appears(pid, done, PATIENCE)


def _execute(pid: int, family: children.Family, name: str, source: str) -> None:
    from scry.trace.__main__ import Failure

    script = Path(family.folder, name)
    script.write_text(source)
    script.chmod(0o644)
    try:
        sys.remote_exec(pid, str(script))  # type: ignore[attr-defined]
    except ProcessLookupError:
        raise Failure(f"there is no process {pid}") from None
    except (PermissionError, RuntimeError, OSError) as error:
        raise Failure(
            f"process {pid} cannot be attached to: {error}. It must run Python "
            f"{sys.version_info[0]}.{sys.version_info[1]} as well, allow remote debugging, and be yours"
        ) from error


def _appears(pid: int, path: Path, patience: float) -> bool:
    deadline = time.monotonic() + patience
    while not path.exists():
        if time.monotonic() > deadline or not os.path.exists(f"/proc/{pid}"):
            return path.exists()
        time.sleep(0.01)
    return True


def _wait(pid: int, duration: float | None) -> None:
    deadline = time.monotonic() + duration if duration else None
    try:
        while os.path.exists(f"/proc/{pid}") and (deadline is None or time.monotonic() < deadline):
            left = 0.1 if deadline is None else min(0.1, max(0.0, deadline - time.monotonic()))
            time.sleep(left)
    except KeyboardInterrupt:
        pass
