"""What can be had arrives, the error names the rest, nothing is left behind: clusters of their own for each trouble."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings

import clusters
import pytest
from clusters import distributed, quiet, scry_processes, started, until, work

pytestmark = pytest.mark.timeout(300)


def names_of(profile):
    return {function.name for function in profile.functions()}


def test_killed_worker_without_a_nanny(tmp_path):
    """Its recording went with it; the warning says so, and the others are there."""
    from scry.dask import PartialResult, record

    with started(tmp_path, 2, nanny=False) as cluster, cluster.client() as client:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with record(tmp_path / "run.json") as block:
                client.gather(client.map(work, [0.4, 0.41], pure=False))
                cluster.processes[1].kill()
                until(lambda: len(client.scheduler_info()["workers"]) == 1)
        [label] = block.errors
        assert label.startswith("worker tcp://") and "left the cluster" in str(block.errors[label])
        assert [w for w in said if w.category is PartialResult and label in str(w.message)]
        assert len(block.arrived) == 2 and "work" in names_of(block.profile)
        assert (tmp_path / "run.json").exists()
        until(lambda: quiet_without_nannies(client))
        until(lambda: not scry_processes(*(p.pid for p in cluster.processes)))


def quiet_without_nannies(client):
    from scry.dask import agent, session

    states = [client.run_on_scheduler(session.state), *client.run(agent.state).values()]
    return all(not state[key] for state in states for key in state if key != "pid")


def test_killed_scheduler(tmp_path):
    """What the workers' nannies hold is fetched from them directly."""
    from scry.dask import PartialResult, record

    with started(tmp_path, 2) as cluster:
        client = distributed.Client(cluster.address)
        with pytest.warns(PartialResult, match="scheduler is gone"):
            with record(tmp_path / "run.json", own=True) as block:
                client.gather(client.map(work, [0.4, 0.41], pure=False))
                cluster.processes[0].kill()
                cluster.processes[0].wait()
        assert list(block.errors) == ["scheduler"]
        assert [part.role for part in block.arrived] == ["client", "worker", "worker"]
        assert "work" in names_of(block.profile) and (tmp_path / "run.json").exists()
        until(lambda: not scry_processes(os.getpid(), *(p.pid for p in cluster.processes)))
        client.close(timeout=1)


def test_scheduler_that_comes_back(tmp_path):
    """Until then what the workers' nannies hold, from then on what is there anew; only the first scheduler's part is lost."""
    from scry.dask import PartialResult, record

    with started(tmp_path, 2) as cluster, cluster.client() as client:
        with pytest.warns(PartialResult, match="scheduler: the scheduler is gone"):
            with record(tmp_path / "run.json", own=True) as block:
                client.gather(client.map(work, [0.4, 0.41], pure=False))
                first, workers = cluster.processes
                first.kill()
                first.wait()
                workers.wait(clusters.PATIENCE)  # they go with their scheduler
                cluster.start_scheduler(port=cluster.address.rpartition(":")[2])
                cluster.start_workers(2)
                until(lambda: client.status == "running")
                client.wait_for_workers(2, timeout=clusters.PATIENCE)
                until(lambda: client.run_on_scheduler(recorded) == 2)
                client.gather(client.map(work, [0.4, 0.41], pure=False))
        assert list(block.errors) == ["scheduler"]
        roles = [part.role for part in block.arrived]
        assert sorted(roles) == ["client", "scheduler", *["worker"] * 4]
        of_workers = [part for part in block.arrived if part.role == "worker"]
        assert all("work" in names_of(part.profile) for part in of_workers)
        assert (tmp_path / "run.json").exists()
        until(lambda: quiet(client))
        until(lambda: not scry_processes(os.getpid(), *(p.pid for p in cluster.processes)))


def recorded():
    """On the scheduler: so many workers."""
    from scry.dask import session

    places = [place for one in session._sessions.values() for place in one.places]
    return sum(place.begun for place in places if place.role == "worker")


def test_connection_that_breaks(tmp_path):
    """The client is back in a moment; nothing of the recording is lost."""
    from scry.dask import record

    async def cut(client):
        client.scheduler_comm.comm.abort()

    with started(tmp_path, 2) as cluster, cluster.client() as client:
        with record(tmp_path / "run.json") as block:
            client.gather(client.map(work, [0.4, 0.41], pure=False))
            comm = client.scheduler_comm
            client.sync(cut, client)
            until(lambda: client.scheduler_comm not in (comm, None) and client.status == "running")
            client.gather(client.map(work, [0.4, 0.41], pure=False))
        assert not block.errors and len(block.arrived) == 3
        assert "work" in names_of(block.profile)
        until(lambda: quiet(client))


def test_workers_restarted(tmp_path):
    """By the client, in the block: the ones before and the ones after."""
    from scry.dask import record

    with started(tmp_path, 2) as cluster, cluster.client() as client:
        with record(tmp_path / "run.json") as block:
            client.gather(client.map(work, [0.4, 0.41], pure=False))
            client.restart(timeout=clusters.PATIENCE)
            until(lambda: client.run_on_scheduler(recorded) == 4)
            client.gather(client.map(work, [0.4, 0.41], pure=False))
        assert not block.errors
        pids = {part.pid for part in block.arrived if part.role == "worker"}
        assert len(pids) == 4
        until(lambda: quiet(client))


def certificate(folder):
    files = [str(folder / name) for name in ("cert.pem", "key.pem")]
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-out", files[0], "-keyout", files[1]),
        ],
        check=True,
        stderr=subprocess.DEVNULL,
    )
    return files


def test_tls(tmp_path):
    from scry.dask import dump, record

    cert, key = certificate(tmp_path)
    words = ["--tls-ca-file", cert, "--tls-cert", cert, "--tls-key", key, "--protocol", "tls"]
    security = distributed.Security(
        tls_ca_file=cert, tls_client_cert=cert, tls_client_key=key, require_encryption=True
    )
    options = {"security": security}
    with started(tmp_path, 1, security=words, options=options) as cluster:
        assert cluster.address.startswith("tls://")
        with cluster.client() as client:
            with record(tmp_path / "run.svg") as block:
                client.submit(work, 0.4, pure=False).result()
            assert not block.errors and "work" in names_of(block.profile)
            assert "scheduler" in dump()
            until(lambda: quiet(client))


def full_disk(folder):
    """Runs a program with a temporary folder of 64 kB, in a mount namespace of its own."""
    as_root = [] if os.getuid() == 0 else ["--map-root-user"]
    mounts = 'mount -t tmpfs -o size=64k tmpfs "$0" && exec "$@"'
    return [shutil.which("unshare"), "--mount", *as_root, "sh", "-c", mounts, str(folder)]


def test_full_disk_on_the_scheduler(tmp_path):
    """The scheduler's part is lost, and the error says why; the workers' parts are there."""
    from scry.dask import PartialResult, record, trace
    from scry.errors import OutputFailed, ScryError

    small = tmp_path / "small"
    small.mkdir()
    with started(tmp_path, 1, prefix=full_disk(small)) as cluster, cluster.client() as client:
        client.run_on_scheduler(use_temporary_folder, str(small))
        with pytest.warns(PartialResult, match="scheduler: .*(space|written)"):
            with record(tmp_path / "run.svg", rate=1000, idle=True) as block:
                client.run_on_scheduler(fill, str(small))
                client.gather(client.map(work, [0.001] * 300, pure=False))
        assert isinstance(block.errors["scheduler"], OutputFailed), block.errors
        assert "work" in names_of(block.profile)
        with pytest.raises(ScryError, match="space|written"):
            with trace(tmp_path / "run.json"):
                client.submit(work, 0.01, pure=False).result()
        assert client.run_on_scheduler(os.listdir, str(small)) == ["filling"]
        until(lambda: quiet(client))


def use_temporary_folder(folder):
    import tempfile

    os.environ["TMPDIR"] = folder
    tempfile.tempdir = None


def fill(folder):
    with open(f"{folder}/filling", "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 512)
        except OSError:
            pass


def test_many_workers(tmp_path):
    """`./dev dask` does the same with 64."""
    import many

    said = many.run(4, tmp_path)
    assert said.startswith("4 workers") and said.endswith("nothing left")


def test_a_large_recording(tmp_path):
    """`./dev dask` does the same with 500 MB: neither end holds all of it in memory."""
    import many

    assert many.large(tmp_path, 300_000_000).startswith("300 MB fetched")


@pytest.mark.parametrize(
    "name, files",
    [
        ("profile_this.py", ["profile.svg"]),
        ("dask_cluster.py", ["cluster.json", "update_graph.json"]),
        ("dask_scheduler.py", ["sampled.json", "traced.json"]),
    ],
)
def test_examples_run(tmp_path, name, files):
    example = clusters.HERE.parents[1] / "examples" / name
    subprocess.run([sys.executable, str(example)], cwd=tmp_path, check=True, timeout=120)
    assert sorted(path.name for path in tmp_path.iterdir()) == files
