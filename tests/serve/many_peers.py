"""A thousand nodes in one process: every address of 127.1.0.0/16 on one port answers as a node with its own processes.

many_peers.py PER_NODE     prints its port; serves until its standard input is closed
"""

from __future__ import annotations

import asyncio
import json
import sys


def rows(node: str, name: str, count: int) -> list[dict]:
    return [
        {
            "node": node,
            "node_name": name,
            "pid": 1000 + i,
            "ns_pid": 1000 + i,
            "parent": 1,
            "started": "2026-11-16T02:00:00.000Z",
            "python": "3.11.7",
            "command": f"/usr/bin/python3 /srv/app/worker.py --shard {i} --of {count}",
            "title": "python3 worker.py",
            "group": None,
            "kind": "python",
            "executable": "/usr/bin/python3.11",
            "user": "app",
            "uid": 1000,
            "threads": 9,
            "state": "sleeping",
            "wait": "futex",
            "cpu_percent": float(i),
            "cpu_seconds": 310.2,
            "rss": 104857600 + i,
            "container": None,
            "pod": None,
            "can_attach": True,
            "reason": "ok",
            "why": None,
            "remedy": None,
            "recording": None,
        }
        for i in range(count)
    ]


def answer(address: str, count: int) -> bytes:
    node = "".join(f"{int(part):04x}" for part in address.split("."))
    name = "node-" + address.replace(".", "-")
    facts = {
        "id": node,
        "name": name,
        "address": address,
        "self": True,
        "state": "up",
        "error": None,
        "version": "0.1.0",
        "cpus": 8,
        "load": 1.0,
        "memory_total": 1 << 34,
        "memory_available": 1 << 33,
        "processes": count,
        "last_seen": "2026-11-16T02:00:00.000Z",
        "rtt_ms": 0,
        "sources": ["self"],
        "ray_node_id": None,
        "ips": [address],
    }
    nodes = [{"id": node, "name": name, "state": "up", "error": None}]
    body = json.dumps(
        {"processes": rows(node, name, count), "total": count, "nodes": nodes, "node": facts}
    ).encode()
    head = (
        f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Peer(asyncio.Protocol):
    known: dict[str, bytes] = {}
    count = 50

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.address = transport.get_extra_info("sockname")[0]

    def data_received(self, data: bytes) -> None:
        text = Peer.known.get(self.address)
        if text is None:
            text = Peer.known[self.address] = answer(self.address, Peer.count)
        for _ in range(data.count(b"\r\n\r\n")):
            self.transport.write(text)


async def main() -> None:
    Peer.count = int(sys.argv[1])
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Peer, "0.0.0.0", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    for i in range(int(sys.argv[2])):
        address = f"127.1.{i // 250}.{i % 250 + 1}"
        Peer.known[address] = answer(address, Peer.count)
    print("ready", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


asyncio.run(main())
