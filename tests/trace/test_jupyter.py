"""%%scry_trace in a real IPython shell."""

import json
import re
import subprocess
import sys

import pytest

SHELL = """
import json
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
cells = json.loads(open("cells.json").read())
print(json.dumps([shell.run_cell(cell, store_history=True).success for cell in cells]))
"""


@pytest.fixture
def cells(environment_here, tmp_path):
    """Runs cells one after the other in one shell; returns which succeeded, and all that was printed."""
    pytest.importorskip("IPython", reason="IPython has no version for this Python")

    def run(*texts):
        (tmp_path / "cells.json").write_text(json.dumps(["%load_ext scry.trace", *texts]))
        done = subprocess.run(
            [sys.executable, "-c", SHELL],
            cwd=tmp_path,
            env={**environment_here, "IPYTHONDIR": str(tmp_path / "ipython")},
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert done.returncode == 0, done.stderr
        text = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)
        printed, _, said = text.strip().rpartition("\n")
        return json.loads(said)[1:], printed

    return run


def names(path):
    return [
        e["name"].split(" (")[0]
        for e in json.loads(path.read_text())["traceEvents"]
        if e["ph"] == "X"
    ]


def test_a_cell_is_traced_in_the_notebooks_own_names(cells, tmp_path):
    well, said = cells(
        "def before(n): return n + 1",
        "%%scry_trace run.json --ignore-c-function\ndef inside(n): return before(n)\nresult = inside(41)",
        "assert result == 42",
    )
    assert well == [True] * 3
    seen = names(tmp_path / "run.json")
    assert seen.count("inside") == seen.count("before") == 1
    assert not [name for name in seen if name.startswith("builtins.")]
    assert "scry: wrote 'run.json': " in said


def test_options_are_those_of_the_command_line(cells, tmp_path):
    well, _ = cells(
        "def deep(n): return n and deep(n - 1)\ndef other(): pass",
        "%%scry_trace -o run.json --trace-sparse __main__.deep --max-stack-depth 3\nother(); deep(10)",
    )
    assert well == [True, True]
    assert names(tmp_path / "run.json") == ["deep"] * 3


def test_a_wrong_word_is_an_error_and_not_the_end(cells):
    well, said = cells("%%scry_trace --no-such-option\n1", "1 + 1")
    assert well == [False, True]
    assert "--no-such-option" in said


def test_a_cell_that_raises_is_saved_and_the_next_one_can_be_traced(cells, tmp_path):
    well, said = cells(
        "%%scry_trace first.json\ndef fails(): raise ValueError('on purpose')\nfails()",
        "%%scry_trace second.json\ndef works(): pass\nworks()",
    )
    assert well[1]
    assert "ValueError: on purpose" in said
    assert "fails" in names(tmp_path / "first.json")
    assert "works" in names(tmp_path / "second.json")


def test_without_a_name_the_trace_is_shown_in_the_notebook(cells, tmp_path):
    well, said = cells("%%scry_trace\nsum(range(10))")
    assert well == [True]
    assert (tmp_path / "scry-trace.html").stat().st_size > 1000
    assert "IFrame" in said
