"""The module scheduler_profiling: a program as its users have it, and each parameter."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys

import jsonschema
import pytest
import pythons
from clusters import quiet, until, work

pytestmark = [pytest.mark.xdist_group("dask"), pytest.mark.timeout(300)]

SCHEMA = pythons.PROJECT / "tests/node_modules/speedscope/dist/release/file-format-schema.json"

# As its users have it, with names of functions as they were in 2021.
PROGRAM = """
import dask
import distributed

from scheduler_profiling import pyspy_on_scheduler, viztrace_scheduler

client = distributed.Client()
table = dask.datasets.timeseries(start="2000-01-01", end="2000-01-05", partition_freq="1h", freq="600s")

with (
    pyspy_on_scheduler("pyspy.json"),
    viztrace_scheduler("viztracer.json", trace_sparse="distributed.Scheduler.update_graph_hlg"),
):
    table.set_index("id").mean(numeric_only=True).compute()
"""


def guarded(program):
    lines = "".join(f"    {line}\n" for line in program.splitlines())
    return f"if __name__ == '__main__':\n{lines}"


def check(folder):
    sampled = json.loads((folder / "pyspy.json").read_text())
    for frame in sampled["shared"]["frames"]:
        frame.pop(
            "col", None
        )  # null, which speedscope itself takes for "none" and its schema does not
    jsonschema.validate(sampled, json.loads(SCHEMA.read_text()))
    assert any("update_graph" in frame["name"] for frame in sampled["shared"]["frames"])
    traced = json.loads((folder / "viztracer.json").read_text())["traceEvents"]
    [*calls] = [event for event in traced if event["ph"] == "X"]
    assert any(event["name"].startswith("Scheduler.update_graph ") for event in calls)
    assert all(event["dur"] >= 0 and event["ts"] >= 0 for event in calls)
    assert sorted(path.name for path in folder.iterdir()) == ["pyspy.json", "viztracer.json"]


@pytest.mark.parametrize("way", ["stdin", "guarded"])
@pytest.mark.parametrize("where", ["own", "separate"])
def test_a_program_as_users_have_it(cluster, tmp_path, way, where):
    folder = tmp_path / "run"
    folder.mkdir()
    file = tmp_path / "program.py"
    file.write_text(PROGRAM if way == "stdin" else guarded(PROGRAM))
    # A schedule of its own with two workers; or the one of this address, for a Client() without arguments.
    env = {**os.environ, "DASK_DISTRIBUTED__DASHBOARD__LINK": ""}
    if where == "separate":
        env["DASK_SCHEDULER_ADDRESS"] = cluster.address
    done = subprocess.run(
        [sys.executable, *(["-"] if way == "stdin" else [str(file)])],
        stdin=file.open() if way == "stdin" else subprocess.DEVNULL,
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout
    assert "no 'distributed.Scheduler.update_graph_hlg'" in done.stdout
    assert "scry: wrote 'viztracer.json'" in done.stdout
    check(folder)


def test_parameters_are_those_of_the_original():
    from scheduler_profiling import pyspy_on_scheduler, viztrace_scheduler

    def defaults(function):
        return {n: p.default for n, p in inspect.signature(function).parameters.items()}

    nothing = inspect.Parameter.empty
    assert defaults(pyspy_on_scheduler) == {
        **{"output": nothing, "format": "speedscope", "rate": 100, "subprocesses": True},
        **{"function": False, "gil": False, "threads": False, "idle": True, "nonblocking": False},
        **{"native": False, "extra_pyspy_args": (), "log_level": None, "client": None},
    }
    assert list(defaults(viztrace_scheduler).items()) == [
        *[
            ("output", nothing),
            ("tracer_entries", 1000000),
            ("verbose", 1),
            ("max_stack_depth", -1),
        ],
        *[("include_files", None), ("exclude_files", None), ("ignore_c_function", False)],
        *[("ignore_frozen", False), ("log_func_retval", False), ("log_func_args", False)],
        *[("log_print", False), ("log_gc", False), ("log_sparse", ()), ("trace_sparse", ())],
        *[("log_async", False), ("vdb", False), ("file_info", False), ("register_global", True)],
        *[("plugins", None), ("client", None)],
    ]


def test_options_of_sampling(client, tmp_path):
    from scheduler_profiling import pyspy, pyspy_on_scheduler
    from scry import errors

    flags = {"function": True, "gil": True, "threads": True, "idle": False, "nonblocking": True}
    with pyspy_on_scheduler(tmp_path / "a.txt", format="raw", rate=200, **flags):
        for _ in range(20):
            client.gather(client.map(work, [0.001] * 10, pure=False))
    assert "thread" in (tmp_path / "a.txt").read_text()
    with pyspy(tmp_path / "each", workers=1, format="raw", extra_pyspy_args=["--full-filenames"]):
        client.gather(client.map(work, [0.4, 0.41], pure=False))
    [file] = (tmp_path / "each").iterdir()
    assert "work" in file.read_text()
    with pytest.raises(errors.UsageError, match="--colour"):
        with pyspy_on_scheduler(tmp_path / "b.json", extra_pyspy_args=["--colour"]):
            pass


def noisy(dask_scheduler):
    print("something to see")


def test_options_of_tracing(client, tmp_path, capsys):
    from scheduler_profiling import viztrace_scheduler

    with viztrace_scheduler(
        tmp_path / "a.json", max_stack_depth=200, exclude_files=["*/tornado/*"], ignore_c_function=True,
        log_func_args=True, log_func_retval=True, log_print=True, log_gc=True, verbose=0,
    ):  # fmt: skip
        client.run_on_scheduler(noisy)
        client.submit(work, 0.01, pure=False).result()
    text = (tmp_path / "a.json").read_text()
    assert "something to see" in text and "tornado/ioloop.py" not in text
    assert "func_args" in text or '"args"' in text
    assert capsys.readouterr().out == ""
    with viztrace_scheduler(tmp_path / "b.json", log_sparse="distributed.Scheduler.update_graph"):
        client.submit(work, 0.01, pure=False).result()
    calls = [
        e for e in json.loads((tmp_path / "b.json").read_text())["traceEvents"] if e["ph"] == "X"
    ]
    assert calls and all(e["name"].startswith("Scheduler.update_graph ") for e in calls)


def test_names_that_do_not_exist(client, tmp_path):
    from scheduler_profiling import viztrace_scheduler
    from scry import errors

    with pytest.raises(errors.UsageError, match="update_graff"):
        with viztrace_scheduler(
            tmp_path / "a.json", trace_sparse="distributed.Scheduler.update_graff"
        ):
            pass
    with pytest.warns(UserWarning, match="_materialize_graph"):
        with viztrace_scheduler(
            tmp_path / "b.json",
            trace_sparse="dask.highlevelgraph.HighLevelGraph.__dask_distributed_unpack__",
        ):
            client.submit(work, 0.01, pure=False).result()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.json"]


def test_nothing_is_left(client):
    until(lambda: quiet(client))
