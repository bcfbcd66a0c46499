"""record(), trace() and dump() of a running cluster."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys

import pytest
from clusters import distributed, quiet, scry_processes, until, work

pytestmark = [pytest.mark.xdist_group("dask"), pytest.mark.timeout(300)]


def handlers(dask_scheduler):
    """The scheduler's tables, by what is behind each name."""
    tables = (dask_scheduler.handlers, dask_scheduler.stream_handlers)
    return [{n: repr(getattr(f, "__func__", f)) for n, f in table.items()} for table in tables]


def names_of(profile):
    return {function.name for function in profile.functions()}


@pytest.fixture(autouse=True)
def left_as_it_was(client):
    before = client.run_on_scheduler(handlers), client.run_on_scheduler(plugins)
    yield
    assert (client.run_on_scheduler(handlers), client.run_on_scheduler(plugins)) == before
    until(lambda: quiet(client))


def plugins(dask_scheduler):
    return sorted(dask_scheduler.plugins)


def test_all_as_one(client, tmp_path):
    from scry.dask import record

    with record(tmp_path / "all.json", own=True) as block:
        client.gather(client.map(work, [0.5, 0.5, 0.51, 0.51], pure=False))
    assert [part.role for part in block.parts].count("worker") == 2
    assert {part.role for part in block.parts} == {"scheduler", "worker", "client"}
    assert not block.errors
    assert "work" in names_of(block.profile)
    assert "speedscope" in json.loads((tmp_path / "all.json").read_text())["$schema"]
    for part in block.parts:
        assert ("work" in names_of(part.profile)) == (part.role == "worker")
    assert os.listdir(tmp_path) == ["all.json"]


def test_one_each_and_chosen(client, tmp_path):
    from scry.dask import record

    chosen = sorted(client.scheduler_info()["workers"])[:1]
    with record(
        tmp_path / "each", workers=chosen, nannies=True, separate=True, format="raw"
    ) as block:
        client.submit(work, 0.4, workers=chosen, pure=False).result()
    files = sorted(path.name for path in (tmp_path / "each").iterdir())
    assert len(files) == len(block.parts) == 1 + 1 + 2
    assert [name.split("-")[0] for name in files].count("nanny") == 2
    [worker] = [part for part in block.parts if part.role == "worker"]
    assert "work" in worker.path.read_text()


def test_asynchronous_client(cluster, tmp_path):
    from scheduler_profiling import pyspy_on_scheduler, viztrace_scheduler
    from scry import errors
    from scry.dask import dump, record

    async def go():
        async with distributed.Client(cluster.address, asynchronous=True) as client:
            with pytest.raises(errors.UsageError, match="async with"), record(client=client):
                pass
            async with record(tmp_path / "run.svg", client=client) as block:
                await client.gather(client.map(work, [0.4, 0.41], pure=False))
            async with pyspy_on_scheduler(tmp_path / "scheduler.json", client=client):
                await client.submit(work, 0.01, pure=False)
            async with viztrace_scheduler(tmp_path / "calls.json", verbose=0, client=client):
                await client.submit(work, 0.01, pure=False)
            stacks = await dump(client=client)
            return block, stacks

    block, stacks = asyncio.run(go())
    assert "work" in names_of(block.profile) and len(stacks) == 3
    assert sorted(os.listdir(tmp_path)) == ["calls.json", "run.svg", "scheduler.json"]


def test_nested(client):
    from scry.dask import record

    with record() as outer:
        with record(workers=1, scheduler=False, rate=50) as inner:
            client.gather(client.map(work, [0.4, 0.41], pure=False))
        client.gather(client.map(work, [0.4, 0.41], pure=False))
    assert len(outer.parts) == 3 and len(inner.parts) == 1
    assert "work" in names_of(outer.profile) and "work" in names_of(inner.profile)


def test_a_block_that_raises(client, tmp_path):
    from scry.dask import record

    with pytest.raises(KeyError), record(tmp_path / "run.txt") as block:
        client.submit(work, 0.4, pure=False).result()
        raise KeyError
    assert "work" in names_of(block.profile)
    assert "work" in (tmp_path / "run.txt").read_text()


def set_piece(size):
    from scry.dask import agent

    agent.PIECE = size


def test_small_pieces(client, tmp_path):
    """Whatever the size of a recording, no message is larger than a piece."""
    from scry.dask import agent, record

    usual = agent.PIECE
    for run in (client.run, client.run_on_scheduler):
        run(set_piece, 1000)
    client.run(set_piece, 1000, nanny=True)
    try:
        with record(tmp_path / "run.scry", rate=2000) as block:
            client.gather(client.map(work, [0.6, 0.61], pure=False))
    finally:
        for run in (client.run, client.run_on_scheduler):
            run(set_piece, usual)
        client.run(set_piece, usual, nanny=True)
    assert any(part.facts["size"] > 2000 for part in block.parts)
    assert block.profile.samples == sum(part.profile.samples for part in block.parts)


def other_work(seconds):
    return work(seconds)


def test_split_by_task(client, tmp_path):
    from scry.dask import record

    with record(scheduler=False, tasks=True, rate=200) as block:
        client.gather(client.map(work, [0.3, 0.3, 0.31, 0.31], pure=False))
        client.gather(client.map(other_work, [0.2] * 4, pure=False))
    tasks = block.tasks
    assert {"work", "other_work"} <= set(tasks.seconds), tasks
    assert tasks.seconds["work"] == pytest.approx(1.22, rel=0.25), tasks
    assert any("other_work" in name for stack in tasks.stacks["other_work"] for name in stack)
    assert not any("other_work" in name for stack in tasks.stacks["work"] for name in stack)
    assert "other_work;" in tasks.save(tmp_path / "tasks.txt").read_text()


def test_trace(client, tmp_path):
    from scry.dask import trace

    with trace(tmp_path / "traces", workers=True) as block:
        client.gather(client.map(work, [0.05, 0.051], pure=False))
    texts = {part.role: part.path.read_text() for part in block.parts}
    assert "Scheduler.update_graph" in texts["scheduler"] and "work" in texts["worker"]
    assert all(part.facts["calls"] for part in block.parts)


def test_trace_sparse_needs_no_patching(client, tmp_path):
    """Functions that the scheduler calls by its tables of handlers, sync and async."""
    from scry.dask import trace

    names = [
        "distributed.Scheduler.handle_task_finished",
        "distributed.scheduler.Scheduler.update_graph",
    ]
    with trace(tmp_path / "sparse.json", trace_sparse=names) as block:
        client.gather(client.map(work, [0.01] * 4, pure=False))
    events = json.loads((tmp_path / "sparse.json").read_text())["traceEvents"]
    outer = [e for e in events if "Scheduler.handle_task_finished" in e["name"]]
    assert len(outer) == 4 and block.parts[0].facts["calls"] > 8
    assert any("Scheduler.update_graph " in e["name"] for e in events)


def test_two_tracers_do_not_mix(client, tmp_path):
    from scry import errors
    from scry.dask import trace

    with trace(tmp_path / "outer.json") as outer:
        with pytest.raises(errors.AlreadyRecording):
            with trace(tmp_path / "inner.json"):
                pass
        client.submit(work, 0.01, pure=False).result()
    assert outer.parts[0].facts["calls"] > 0


def test_unknown_things_are_said_before_anything_happens(client, tmp_path):
    from scry import errors
    from scry.dask import record, trace

    with pytest.raises(errors.UsageError, match="colour"):
        record(colour="red")
    with pytest.raises(errors.UsageError, match="no worker tcp://nowhere"):
        record(workers=["tcp://nowhere:1"]).__enter__()
    with pytest.raises(errors.ScryError, match="no_such_function"):
        trace(
            tmp_path / "x.json", trace_sparse="distributed.Scheduler.no_such_function"
        ).__enter__()
    assert not list(tmp_path.iterdir())


def test_dump(client):
    from scry.dask import dump

    running = client.submit(work, 3, pure=False)
    until(lambda: any(client.processing().values()))
    until(lambda: "work" in repr(dump()), 10)
    stacks = dump(workers=sorted(client.scheduler_info()["workers"])[:1])
    assert len(stacks) == 2 and not stacks.errors and "scheduler" in stacks
    assert stacks._repr_html_() and stacks.grouped()
    running.cancel()


def worker_pids(client):
    return client.run(os.getpid, on_error="ignore")


def test_killed_worker_of_a_nanny(client, tmp_path):
    """What was recorded of it until then is there, and the others, and the one that comes in its place."""
    from scry.dask import record

    victim = sorted(client.scheduler_info()["workers"])[0]
    with record() as block:
        client.gather(client.map(work, [0.4, 0.41], pure=False))
        pid = worker_pids(client)[victim]
        os.kill(pid, 9)
        until(lambda: len(set(worker_pids(client).values()) - {pid}) == 2)
        client.gather(client.map(work, [0.3, 0.31], pure=False))
    [part] = [part for part in block.parts if part.pid == pid]
    assert part.error is None and "work" in names_of(part.profile)
    assert not block.errors and [p.role for p in block.parts].count("worker") == 3


CLIENT = """
import sys, time
import distributed
from scry.dask import record
client = distributed.Client(sys.argv[1])
with record("never.json") as block:
    print("recording", flush=True)
    time.sleep(1000)
"""


def test_killed_client(cluster, client, tmp_path):
    """The scheduler notices, and ends everything."""
    process = subprocess.Popen(
        [sys.executable, "-c", CLIENT, cluster.address], cwd=tmp_path, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout.readline() == b"recording\n"
        assert not quiet(client)
        pids = [p.pid for p in cluster.processes]
        assert len(scry_processes(*pids)) == 3
    finally:
        process.kill()
        process.wait()
    until(lambda: quiet(client))
    until(lambda: not scry_processes(*pids))
    assert not list(tmp_path.iterdir())


def at_least_three(folder):
    """The processes of which there is a third file, or a later one."""
    names = [path.stem.rpartition("-") for path in folder.glob("*.scry")]
    return {name for name, _, number in names if int(number) >= 3}


def worked_in(path):
    """Whether a recording shows work(); it may be taken away, or still be written, while it is looked at."""
    from scry import errors
    from scry.profile import Profile

    try:
        with Profile.open(path) as profile:
            return "work" in names_of(profile)
    except (FileNotFoundError, errors.ScryError):
        return False


def test_always_on(client, tmp_path):
    from scry.dask import always_on

    def seen():
        client.gather(client.map(work, [0.5, 0.51], pure=False))
        return len(at_least_three(tmp_path)) == 3 and any(map(worked_in, tmp_path.glob("worker*")))

    with always_on(tmp_path, client=client, rate=100, rotate=0.3, keep=2):
        until(seen)
    files = sorted(p.name for p in tmp_path.iterdir())
    assert {name.split("-")[0] for name in files} == {"scheduler", "worker"}
    assert len(files) <= 3 * 3
