"""Magics for IPython and Jupyter. Load them with %load_ext scry

%scry_dump [PID] [--locals] [--subprocesses]     what every thread does right now; of the kernel without a PID
%%scry [FILE] [--rate N] [--idle] [--native] ... records the cell, shows the flame graph, writes the file if one is named
%%scry_trace [FILE] ...                          every call of the cell
"""

from __future__ import annotations

import argparse
import shlex
from typing import Any

from scry import errors
from scry.recording import Recorder
from scry.stacks import dump


class _Parser(argparse.ArgumentParser):
    """Complains to the notebook instead of ending it."""

    def error(self, message: str) -> Any:
        raise errors.UsageError(message, self.format_usage().strip())


def _dump_parser() -> _Parser:
    parser = _Parser("%scry_dump", add_help=False)
    parser.add_argument("pid", nargs="?", type=int)
    for name in ("--locals", "--subprocesses", "--native", "--full-filenames"):
        parser.add_argument(name, action="store_true")
    return parser


def _record_parser() -> _Parser:
    parser = _Parser("%%scry", add_help=False)
    parser.add_argument("path", nargs="?")
    parser.add_argument("-f", "--format")
    parser.add_argument("-r", "--rate", type=float)
    parser.add_argument("--mode")
    flags = ("idle", "gil", "native", "subprocesses", "threads", "function", "gc", "nonblocking")
    for name in flags:
        parser.add_argument(f"--{name}", action="store_true")
    return parser


def dump_line(line: str) -> Any:
    return dump(**vars(_dump_parser().parse_args(shlex.split(line))))


def record_cell(shell: Any, line: str, cell: str) -> Any:
    """Runs the cell in the notebook's own namespace; there is a profile also when it raises."""
    options = vars(_record_parser().parse_args(shlex.split(line)))
    recorder = Recorder(options.pop("path"), **options)
    with recorder:
        shell.run_cell(cell)
    if recorder.profile is not None and recorder.profile.path is not None:
        print(f"scry: wrote '{recorder.profile.path}'")
    return recorder.profile


def register(shell: Any) -> None:
    from scry.trace.jupyter import register as register_trace

    shell.register_magic_function(dump_line, magic_kind="line", magic_name="scry_dump")
    shell.register_magic_function(
        lambda line, cell: record_cell(shell, line, cell), magic_kind="cell", magic_name="scry"
    )
    register_trace(shell)
