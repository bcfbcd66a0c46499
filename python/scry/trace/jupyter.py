"""%%scry_trace: traces a cell. Load it with %load_ext scry.trace

%%scry_trace run.json --ignore-c-function --min-duration 5us
"""

from __future__ import annotations

import argparse
import shlex
from typing import Any, NoReturn

from scry.trace import __main__ as command
from scry.trace.tracer import Tracer


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """A notebook does not end because of a wrong word."""
        raise ValueError(f"%%scry_trace: {message}")


def parser() -> argparse.ArgumentParser:
    made = _Parser(
        prog="%%scry_trace",
        description="Record every call of this cell.",
        argument_default=argparse.SUPPRESS,
        add_help=False,
    )
    made.add_argument("name", metavar="FILE", nargs="?", help="Where to write (scry-trace.html)")
    made.add_argument("-o", "--output", metavar="FILE", help="The same")
    command.add_recording(made)
    return made


def register(shell: Any) -> None:
    shell.register_magic_function(
        lambda line, cell: trace_cell(shell, line, cell), magic_kind="cell", magic_name="scry_trace"
    )


def trace_cell(shell: Any, line: str, cell: str) -> None:
    """Runs the cell in the notebook's own namespace, and saves the trace also when it raises."""
    values = vars(parser().parse_args(shlex.split(line)))
    name = values.pop("name", None) or values.pop("output", None) or "scry-trace.html"
    tracer = Tracer(name, **command.recording(values))
    tracer.start()
    try:
        shell.run_cell(cell)
    finally:
        if tracer.active:
            tracer.stop()
        saved = tracer.save()
        tracer.clear()
    print(f"scry: wrote '{saved.path}': {saved.sentence()}")
    if saved.path.suffix == ".html":
        _show(saved.path.name)


def _show(name: str) -> None:
    try:
        from IPython.display import IFrame, display
    except ImportError:
        return
    display(IFrame(name, width="100%", height=500))
