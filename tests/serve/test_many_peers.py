"""A thousand nodes and fifty thousand processes."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
import serving

NODES, EACH = 1000, 50
LIMIT = 2.0


@pytest.fixture(scope="module")
def crowd(scry, tmp_path_factory):
    peers = subprocess.Popen(
        [sys.executable, str(Path(__file__).parent / "many_peers.py"), str(EACH), str(NODES)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    port = serving.read_line(peers, "the peers").strip()
    serving.read_line(peers, "the peers")
    options = [
        word for i in range(NODES) for word in ("--peer", f"127.1.{i // 250}.{i % 250 + 1}:{port}")
    ]
    with serving.Server(scry, tmp_path_factory.mktemp("crowd"), *options) as server:
        yield server
    peers.stdin.close()
    peers.wait()
    peers.stdout.close()


def listing(server, path):
    """The best of a few: other tests share this machine."""
    best = None
    for _ in range(5):
        begin = time.monotonic()
        answer = server.get(path, timeout=5)
        took = time.monotonic() - begin
        best = min(best or took, took)
        if best < LIMIT:
            break
        time.sleep(1.1)
    return answer.json, best


def test_fifty_thousand_processes_are_listed_within_two_seconds(crowd):
    serving.until(
        lambda: (
            sum(n["state"] == "up" for n in crowd.get("/api/v1/nodes").json["nodes"]) == NODES + 1
        ),
        "all nodes are up",
    )
    time.sleep(1.1)  # what was fetched is older than a second: all nodes are asked again
    rows, took = listing(crowd, "/api/v1/processes")
    assert len(rows["processes"]) >= NODES * EACH and len(rows["nodes"]) == NODES + 1
    assert len({(r["node"], r["pid"]) for r in rows["processes"]}) == len(rows["processes"])
    assert took < LIMIT, f"{took:.2f} s"
    print(f"{len(rows['processes'])} processes of {len(rows['nodes'])} nodes in {took:.2f} s")


def test_a_page_of_them_is_found_and_sorted(crowd):
    answer = crowd.get("/api/v1/processes", q="--shard 49", sort="-rss", limit=10)
    rows = answer.json
    assert rows["total"] >= NODES and len(rows["processes"]) == 10
    assert all("--shard 49" in r["command"] for r in rows["processes"])
