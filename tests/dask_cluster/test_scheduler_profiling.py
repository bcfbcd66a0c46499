"""The module scheduler_profiling: each parameter, and names of the past. test_example.py has a program as its users have it."""

from __future__ import annotations

import inspect
import json

import pytest
from clusters import quiet, until, work

pytestmark = [pytest.mark.xdist_group("dask"), pytest.mark.timeout(300)]


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
