"""scry.viztracer: the same program with another import gives the same calls as viztracer itself."""

import json
import subprocess
import sys

import pytest

HEAD = """
import sys
from {module} import VizTracer, get_tracer, ignore_function, log_sparse, trace_and_save

def leaf(n): return abs(n)
def middle(n):
    leaf(n)
    return leaf(n + 1)
def top(): return middle(1) + middle(2)
"""

# What is done with it -> the names of the calls that both record, in the order of their begin.
LEAF = ["leaf", "builtins.abs"]
MIDDLE = ["middle", *LEAF, *LEAF]
TOP = ["top", *MIDDLE, *MIDDLE]
CASES = {
    "start, stop, save": (
        "t = VizTracer(verbose=0); t.start(); top(); t.stop(); top(); t.save('out.json')",
        TOP,
    ),
    "its own name for the file": (
        "t = VizTracer(verbose=0, output_file='out.json'); t.start(); top(); t.stop(); t.save()",
        TOP,
    ),
    "with": ("with VizTracer(verbose=0, output_file='out.json'): top()", TOP),
    "started again": (
        "t = VizTracer(verbose=0); t.start(); leaf(1); t.stop(); t.clear(); t.start(); middle(1);"
        " t.stop(); t.save('out.json')",
        MIDDLE,
    ),
    "without functions in C": (
        "with VizTracer(verbose=0, output_file='out.json', ignore_c_function=True): top()",
        [name for name in TOP if "." not in name],
    ),
    "without a file": (
        "with VizTracer(verbose=0, output_file='out.json', exclude_files=[__file__]): top()",
        [],
    ),
    "only a file": (
        "with VizTracer(verbose=0, output_file='out.json', include_files=[__file__]): top()",
        TOP,
    ),
    "not deeper than": (
        "with VizTracer(verbose=0, output_file='out.json', max_stack_depth=2): top()",
        ["top", "middle", "middle"],
    ),
    "pause and resume": (
        "t = VizTracer(verbose=0); t.start(); leaf(1); t.pause(); top(); t.resume(); middle(1);"
        " t.stop(); t.save('out.json')",
        [*LEAF, *MIDDLE],
    ),
    "a function that is ignored": (
        "quiet = ignore_function(top)\n"
        "with VizTracer(verbose=0, output_file='out.json') as t: leaf(1); quiet(); leaf(2)",
        [*LEAF, *LEAF],
    ),
    "log_sparse": (
        "t = VizTracer(verbose=0, log_sparse=True); middle = log_sparse(middle)\n"
        "top(); t.save('out.json')",
        ["middle", "middle"],
    ),
    "log_sparse, and no tracer": (
        "@log_sparse\n"
        "def unseen(): return 5\n"
        "assert unseen() == 5\n"
        "with VizTracer(verbose=0, output_file='out.json'): leaf(1)",
        LEAF,
    ),
    "log_sparse with a result and an exception": (
        "t = VizTracer(verbose=0, log_sparse=True)\n"
        "@log_sparse\n"
        "def fails(n):\n"
        "    if n: raise ValueError(n)\n"
        "    return 'result'\n"
        "assert fails(0) == 'result'\n"
        "try: fails(1)\n"
        "except ValueError as error: assert error.args == (1,)\n"
        "else: assert False\n"
        "t.save('out.json')",
        ["fails", "fails"],
    ),
    "dump": (
        "t = VizTracer(verbose=0); t.start(); t.enable_thread_tracing() if sys.version_info < (3, 12) else None\n"
        "top(); t.stop(); t.dump('out.json')",
        TOP,
    ),
    "every call a file": (
        "import multiprocessing, os\n"
        "multiprocessing.set_start_method('spawn')  # else viztracer saves in a fork, some time later\n"
        "traced = trace_and_save(output_dir='files', verbose=0)(top)\n"
        "traced()\n"
        "assert len(os.listdir('files')) == 1\n"
        "os.rename('files/' + os.listdir('files')[0], 'out.json')",
        TOP,
    ),
}
# Where viztracer falls short: it loses the call that raises.
LESS = {"log_sparse with a result and an exception": ["fails"]}
# What belongs to the tracer: viztracer records the beginning of its own end.
OWN = ("viztracer", "scry", "snaptrace", "_tracer", "contextlib")


def calls(path, program):
    events = [e for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == "X"]
    events.sort(key=lambda e: (e["ts"], -e["dur"]))
    names = []
    for e in events:
        name, _, place = e["name"].partition(" (")
        if place.startswith(str(program)) or (not place and not name.startswith(OWN)):
            names.append(name)
    return names


@pytest.fixture(scope="module")
def environment(environment_here):
    pytest.importorskip("viztracer", reason="viztracer has no version for this Python")
    return environment_here


@pytest.mark.parametrize("case", CASES)
def test_the_import_is_all_that_changes(environment, tmp_path, case):
    text, expected = CASES[case]
    seen = {}
    for module in ("viztracer", "scry.viztracer"):
        folder = tmp_path / module
        folder.mkdir()
        program = folder / "program.py"
        program.write_text(HEAD.format(module=module) + text + "\n")
        words = [sys.executable, program]
        subprocess.run(words, cwd=folder, env=environment, check=True, timeout=60)
        seen[module] = calls(folder / "out.json", program)
    assert seen == {"viztracer": LESS.get(case, expected), "scry.viztracer": expected}


def test_what_is_logged_is_in_the_trace(environment, tmp_path):
    text = (
        "import logging\n"
        "from {module} import VizTracer\n"
        "from {module}{part} import VizLoggingHandler\n"
        "handler = VizLoggingHandler()\n"
        "logging.basicConfig(handlers=[handler])\n"
        "logging.warning('nobody listens')\n"
        "with VizTracer(output_file='out.json', verbose=0) as tracer:\n"
        "    handler.setTracer(tracer)\n"
        "    logging.warning('disk %s', 'full')\n"
    )
    seen = {}
    for module, part in (("viztracer", ".vizlogging"), ("scry.viztracer", "")):
        words = [sys.executable, "-c", text.format(module=module, part=part)]
        subprocess.run(words, cwd=tmp_path, env=environment, check=True, timeout=60)
        events = json.loads((tmp_path / "out.json").read_text())["traceEvents"]
        seen[module] = [e["name"] for e in events if e["ph"] == "i" and "raised" not in e["name"]]
    assert seen["viztracer"] == seen["scry.viztracer"] == ["logging - WARNING:root:disk full"]


def test_what_scry_has_not_says_so(environment, tmp_path):
    text = (
        "from scry.viztracer import VizTracer\n"
        "try: VizTracer(log_torch=True)\n"
        "except TypeError as error: print(error)\n"
        "from scry.viztracer import log_sparse\n"
        "try: log_sparse(print, stack_depth=3)\n"
        "except TypeError as error: print(error)\n"
    )
    words = [sys.executable, "-c", text]
    done = subprocess.run(words, env=environment, check=True, capture_output=True, text=True)
    first, second = done.stdout.splitlines()
    assert first == "scry's tracer has no log_torch"
    assert "stack_depth" in second and "trace_sparse" in second
