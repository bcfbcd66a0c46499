"""%%scry_trace: traces a cell. Load it with %load_ext scry.trace

%%scry_trace run.json --ignore-c-function --min-duration 5us
"""

from __future__ import annotations

import shlex
from typing import Any

from scry.trace import __main__ as command
from scry.trace.tracer import Tracer


def register(shell: Any) -> None:
    shell.register_magic_function(
        lambda line, cell: trace_cell(shell, line, cell), magic_kind="cell", magic_name="scry_trace"
    )


def trace_cell(shell: Any, line: str, cell: str) -> None:
    """Runs the cell in the notebook's own namespace, and saves the trace also when it raises."""
    values = vars(command.parser().parse_args(shlex.split(line)))
    words = [word for word in values["command"] if word != "--"]
    name = values.get("output") or (words[0] if words else "scry-trace.html")
    options = {k: v for k, v in values.items() if k in Tracer.option_names()}
    tracer = Tracer(name, **options)
    tracer.start()
    try:
        shell.run_cell(cell)
    finally:
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
