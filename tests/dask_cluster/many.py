#!/usr/bin/env python3
"""Many workers at once, one of them killed on the way: what arrives, how long it takes, and what is left.

./dev dask                 64 workers
./dev dask --workers 8     fewer
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(PROJECT / "python"), str(PROJECT / "tests")]

import clusters  # noqa: E402
from scry.dask import dump, record  # noqa: E402


def run(workers: int, folder: Path) -> str:
    clusters.PATIENCE = 60 + 10 * workers
    with clusters.started(folder, workers) as cluster, cluster.client() as client:
        before = time.monotonic()
        with record(folder / "all.json") as block:
            begun = time.monotonic() - before
            client.gather(client.map(clusters.work, [0.05] * 4 * workers, pure=False))
            victim, pid = sorted(client.run(os.getpid).items())[0]
            os.kill(pid, 9)
            client.gather(client.map(clusters.work, [0.05] * workers, pure=False))
            ended = time.monotonic()
        ended = time.monotonic() - ended
        roles = [part.role for part in block.arrived]
        assert roles.count("worker") >= workers and roles.count("scheduler") == 1, block.errors
        assert not block.errors, block.errors
        [part] = [part for part in block.parts if part.pid == pid]
        assert part.profile is not None and part.profile.samples > 0, f"nothing of {victim}"
        assert len(dump(client=client)) >= workers
        clusters.until(lambda: clusters.quiet(client))
        left = clusters.scry_processes(*(process.pid for process in cluster.processes))
        assert not left, left
        size = sum(part.facts["size"] for part in block.arrived)
        return (
            f"{workers} workers: begun in {begun:.1f} s, {len(block.arrived)} recordings of {size / 1e3:.0f} kB "
            f"fetched and merged in {ended:.1f} s, that of the killed worker too; nothing left"
        )


def hold(name: str, size: int) -> None:
    """On a worker: a recording of that size, as if it had been made."""
    from scry.dask import agent

    part = agent.Part()
    part.file = tempfile.TemporaryFile()
    part.file.truncate(size)
    agent._parts[name, "worker-0"] = part


def peak(pid: int) -> int:
    """The most memory the process ever had, in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) // 1024


def large(folder: Path, size: int) -> str:
    """A recording that is larger than any process may become for it."""
    import asyncio

    from scry.dask.block import Part

    with clusters.started(folder, 1) as cluster, cluster.client() as client:
        block = record(client=client)
        [(worker, pid)] = client.run(os.getpid).items()
        client.run(hold, block._name, size)
        pids = {"client": os.getpid(), "scheduler": cluster.processes[0].pid, "worker": pid}
        before = {name: peak(pid) for name, pid in pids.items()}
        place = {"address": worker, "slot": "worker-0"}
        part = Part(
            "worker", "worker", pid, facts={"size": size}, _place=place, _session=block._name
        )
        begun = time.monotonic()
        client.sync(block._fetch, part, asyncio.Semaphore(4))
        took = time.monotonic() - begun
        assert part.error is None and part._file is not None, part.error
        assert os.fstat(part._file.fileno()).st_size == size
        more = {name: peak(pid) - before[name] for name, pid in pids.items()}
        assert max(more.values()) < 200, more
        grown = ", ".join(f"{name} {mb} MB" for name, mb in more.items())
        return f"{size / 1e6:.0f} MB fetched in {took:.1f} s; memory grew by: {grown}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="./dev dask", description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--megabytes", type=int, default=500, help="of one large recording")
    warnings.simplefilter("ignore", ResourceWarning)
    os.environ["PYTHONPATH"] = clusters.PATH
    os.environ.setdefault("SCRY", str(PROJECT / "build" / "scry"))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(large(Path(folder), args.megabytes * 1_000_000), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        print(run(args.workers, Path(folder)))


if __name__ == "__main__":
    main()
