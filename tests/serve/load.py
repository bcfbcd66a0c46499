"""Many clients at once on one server: what they ask is mixed, what comes back is counted.

load.py [--clients 200] [--seconds 60] [--recordings 50] [--results FILE]

Each client keeps a connection, asks, waits a moment (0 to 0.5 s, as a page or a script does), and asks again. Sixteen of
the clients record: they ask for a recording, wait for its end and fetch the result. Before that, as many recordings as
--recordings says are asked for in one go.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import concurrent.futures
import contextlib
import dataclasses
import datetime
import json
import multiprocessing
import os
import platform
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import serving

PROJECT = Path(__file__).resolve().parents[2]
TARGETS = 5
PROCESSES = 2  # that send; one alone would be slower than the server
PAUSE = 0.5
PATIENCE = 30.0
LISTING = "list"
GOAL_P99 = 0.100

# weight, name, path, the statuses that are promised
MIX = [
    (50, LISTING, "/api/v1/processes?sort=-cpu&limit=50", {200}),
    (10, "search", "/api/v1/processes?q=work.py", {200}),
    (10, "nodes", "/api/v1/nodes", {200}),
    (6, "history", "/api/v1/recordings?limit=20", {200}),
    (5, "page", "/", {200}),
    (5, "info", "/api/v1/info", {200}),
    (3, "metrics", "/metrics", {200}),
    (3, "health", "/healthz", {200}),
    (3, "stack", "/worker/traceback?pid={pid}", {200, 429}),
    (2, "no such process", "/worker/traceback?pid=4194002", {404}),
    (2, "bad parameter", "/api/v1/processes?limit=-1", {400}),
    (1, "no such address", "/api/v1/nothing", {404}),
]


@dataclasses.dataclass
class Result:
    times: dict[str, list[float]]
    statuses: collections.Counter
    errors: list[str]


class Connection:
    """Kept for many requests; opened again when the server says that it closes it."""

    def __init__(self, at: tuple[str, int]) -> None:
        self.at = at
        self.writer: asyncio.StreamWriter | None = None

    async def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        if not self.writer:
            self.reader, self.writer = await asyncio.open_connection(*self.at)
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n"
        if body:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        self.writer.write(head.encode() + b"\r\n" + body)
        fields = (await self.reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
        size = next((int(f[15:]) for f in fields if f.startswith(b"content-length:")), None)
        if size is None:
            answer = await read_chunks(self.reader)
        else:
            answer = await self.reader.readexactly(size)
        if b"connection: close" in fields:
            self.close()
        return int(fields[0][9:12]), answer

    def close(self) -> None:
        if self.writer:
            self.writer.close()
        self.writer = None


async def read_chunks(reader) -> bytes:
    body = b""
    while size := int(await reader.readline(), 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return body


async def looks(at, pids: list[int], until: float, result: Result, rng: random.Random) -> None:
    """A client of the mixed sort."""
    connection = Connection(at)
    weights = [row[0] for row in MIX]
    await asyncio.sleep(rng.random() * PAUSE)
    while time.monotonic() < until:
        _, name, path, promised = rng.choices(MIX, weights)[0]
        begin = time.monotonic()
        status, body = await asyncio.wait_for(
            connection.ask("GET", path.format(pid=rng.choice(pids))), PATIENCE
        )
        result.times.setdefault(name, []).append(time.monotonic() - begin)
        result.statuses[status] += 1
        if status not in promised:
            result.errors.append(f"{name}: {status} {body[:200]!r}")
        await asyncio.sleep(rng.random() * PAUSE)
    connection.close()


async def records(at, pids: list[int], until: float, result: Result, rng: random.Random) -> None:
    """A client that records and fetches what came out."""
    connection = Connection(at)
    while time.monotonic() < until:
        request = {"targets": [{"pid": rng.choice(pids)}], "duration": 0.5}
        begin = time.monotonic()
        status, body = await connection.ask(
            "POST", "/api/v1/recordings", json.dumps(request).encode()
        )
        result.statuses[status] += 1
        if status == 429:
            await asyncio.sleep(1)
            continue
        if status != 202:
            result.errors.append(f"record: {status} {body[:200]!r}")
            return
        place = f"/api/v1/recordings/{json.loads(body)['recordings'][0]['id']}"
        state = "queued"
        while state in ("queued", "recording"):
            await asyncio.sleep(0.25)
            status, body = await asyncio.wait_for(connection.ask("GET", place), PATIENCE)
            state = json.loads(body)["state"]
        status, body = await asyncio.wait_for(
            connection.ask("GET", place + "/result?format=flamegraph"), PATIENCE
        )
        result.statuses[status] += 1
        result.times.setdefault("recording of 0.5 s, with its wait", []).append(
            time.monotonic() - begin
        )
        if status not in (200, 429) or state != "done":
            result.errors.append(f"result: {state}, {status} {body[:200]!r}")
    connection.close()


async def crowd(at, pids, lookers: int, recorders: int, until: float, seed: int) -> Result:
    result = Result({}, collections.Counter(), [])

    async def one(what, number):
        try:
            await what(at, pids, until, result, random.Random(seed * 1000 + number))
        except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError, ValueError) as error:
            result.errors.append(f"{what.__name__}: {error!r}")

    jobs = [one(looks, i) for i in range(lookers)] + [one(records, -i) for i in range(recorders)]
    await asyncio.gather(*jobs)
    return result


def send(pipe, at, pids, lookers, recorders, seconds, seed) -> None:
    pipe.send(asyncio.run(crowd(at, pids, lookers, recorders, time.monotonic() + seconds, seed)))


def resident(pid: int) -> int:
    """Kilobytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


def share(total: int, parts: int, index: int) -> int:
    return total // parts + (index < total % parts)


def run_clients(server: serving.Server, pids: list[int], clients: int, seconds: float):
    """Result of all clients, and the server's memory as time went on."""
    recorders = min(16, clients // 4)
    at, pipes, processes, memory = (server.host, server.port), [], [], []
    for i in range(PROCESSES):
        ours, theirs = multiprocessing.Pipe(duplex=False)
        lookers = share(clients - recorders, PROCESSES, i)
        words = (theirs, at, pids, lookers, share(recorders, PROCESSES, i), seconds, i + 1)
        processes.append(multiprocessing.Process(target=send, args=words, daemon=True))
        processes[-1].start()
        pipes.append(ours)
    begin = time.monotonic()
    while time.monotonic() - begin < seconds:
        memory.append(resident(server.process.pid))
        time.sleep(min(1.0, seconds / 20))
    total = Result({}, collections.Counter(), [])
    for pipe, process in zip(pipes, processes):
        part = pipe.recv()
        process.join()
        for name, times in part.times.items():
            total.times.setdefault(name, []).extend(times)
        total.statuses.update(part.statuses)
        total.errors += part.errors
    return total, memory


def ask_for_one(server: serving.Server, pid: int) -> str:
    request = {"targets": [{"pid": pid}], "duration": 0.5, "idle": True}
    answer = server.ask("POST", "/api/v1/recordings", request)
    assert answer.status == 202, answer
    return answer.json["recordings"][0]["id"]


def in_turn(rows: list[dict]) -> bool:
    """Of each process, the one that was asked for first was begun first, and one at a time."""
    by_pid = collections.defaultdict(list)
    for row in rows:
        by_pid[row["targets"][0]["pid"]].append(row)
    for mine in by_pid.values():
        mine.sort(key=lambda row: row["started"])
        for a, b in zip(mine, mine[1:]):
            if a["created"] > b["created"] or a["ended"] > b["started"]:
                return False
    return True


def at_the_same_time(moment: str, rows: list[dict]) -> int:
    return sum(row["started"] <= moment < row["ended"] for row in rows)


def record_at_once(server: serving.Server, pids: list[int], count: int) -> dict:
    """Many clients ask for a recording each, all at once; how they were served."""
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        wanted = [pids[i % len(pids)] for i in range(count)]
        names = list(pool.map(lambda pid: ask_for_one(server, pid), wanted))
    rows = [server.until_ended(name) for name in names]
    return {
        "asked": count,
        "done": sum(row["state"] == "done" and row["samples"] > 0 for row in rows),
        "at_once": max(at_the_same_time(row["started"], rows) for row in rows),
        "limit": server.get("/api/v1/info").json["limits"]["running"],
        "in_turn": in_turn(rows),
        "seconds": time.monotonic() - begin,
    }


def run(scry: str, folder: Path, clients: int, seconds: float, recordings: int) -> dict:
    with contextlib.ExitStack() as stack:
        # Targets that wait leave the processors to the server and its clients.
        targets = [stack.enter_context(serving.Target("--idle")) for _ in range(TARGETS)]
        pids = [target.pid for target in targets]
        server = stack.enter_context(serving.Server(scry, folder, "--jobs", "4"))
        at_once = record_at_once(server, pids, recordings)
        result, memory = run_clients(server, pids, clients, seconds)
        # It is still there, and well.
        assert server.get("/healthz").status == 200
        processes = server.get("/api/v1/processes?limit=1").json["total"]
    return {
        "clients": clients,
        "seconds": seconds,
        "recordings": at_once,
        "result": result,
        "memory": memory,
        "processes": processes,
    }


def percentile(times: list[float], share_: float) -> float:
    return sorted(times)[min(len(times) - 1, int(len(times) * share_))]


def growth(memory: list[int]) -> tuple[float, float]:
    """Megabytes in the second fifth of the time, when all are connected, and in the last."""
    fifth = max(1, len(memory) // 5)
    early, late = memory[fifth : 2 * fifth] or memory, memory[-fifth:]
    return statistics.median(early) / 1024, statistics.median(late) / 1024


# ---- as a program ----


def rows_of(result: Result) -> list[str]:
    lines = ["| request | asked | median | p99 | longest |", "|---|---|---|---|---|"]
    for name, times in sorted(result.times.items(), key=lambda item: -len(item[1])):
        figures = (statistics.median(times), percentile(times, 0.99), max(times))
        lines.append(
            f"| {name} | {len(times)} | " + " | ".join(f"{t * 1000:.1f} ms" for t in figures) + " |"
        )
    return lines


def verdict(met: bool) -> str:
    return "met" if met else "**not met**"


def report(outcome: dict) -> tuple[str, bool]:
    result, recordings = outcome["result"], outcome["recordings"]
    early, late = growth(outcome["memory"])
    p99 = percentile(result.times[LISTING], 0.99)
    flat = late <= early * 1.1 + 2
    served = recordings["done"] == recordings["asked"] and recordings["in_turn"]
    total = sum(result.statuses.values())
    lines = [
        "# `scry serve` under load",
        "",
        f"{outcome['clients']} clients for {outcome['seconds']:.0f} s on the loopback of a machine with {os.cpu_count()} "
        f"processors (Linux {platform.release()}), clients included; {outcome['processes']} Python processes listed. "
        f"{datetime.date.today()}. Made by `./dev load`.",
        "",
        "| goal | figure | |",
        "|---|---|---|",
        f"| no error but the promised ones | {len(result.errors)} of {total} answers | {verdict(not result.errors)} |",
        f"| p99 of the list of processes under {GOAL_P99 * 1000:.0f} ms | {p99 * 1000:.1f} ms | {verdict(p99 < GOAL_P99)} |",
        f"| memory flat | {early:.1f} MB early, {late:.1f} MB at the end | {verdict(flat)} |",
        f"| {recordings['asked']} recordings asked for at once are served in turn | {recordings['done']} done in "
        f"{recordings['seconds']:.1f} s, {recordings['at_once']} at a time (limit {recordings['limit']}) | {verdict(served)} |",
        "",
        *rows_of(result),
        "",
        "The server's memory in megabytes, as time goes on: "
        + ", ".join(
            f"{kb / 1024:.0f}" for kb in outcome["memory"][:: max(1, len(outcome["memory"]) // 12)]
        )
        + ".",
        "",
        "Statuses: " + ", ".join(f"{s} × {n}" for s, n in sorted(result.statuses.items())) + ".",
        "",
    ]
    lines += [f"- {error}" for error in sorted(set(result.errors))[:20]]
    return "\n".join(lines), not result.errors and p99 < GOAL_P99 and flat and served


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev load", description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--recordings", type=int, default=50)
    parser.add_argument("--scry", default=str(PROJECT / "build-release" / "scry"))
    parser.add_argument("--results", type=Path, help="keep what is printed in this file")
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcome = run(words.scry, Path(folder), words.clients, words.seconds, words.recordings)
    text, met = report(outcome)
    print(text)
    if words.results:
        words.results.write_text(text)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
