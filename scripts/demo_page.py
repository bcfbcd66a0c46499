"""Ask the server as its page does: find the workload, fetch its stack trace and a flame graph.

demo_page.py URL PID PICTURE
"""

import json
import sys
import time
import urllib.request
from pathlib import Path

url, pid, picture = sys.argv[1].rstrip("/"), int(sys.argv[2]), Path(sys.argv[3])


def ask(path: str, body: dict | None = None) -> bytes:
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(url + path, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        return response.read()


def until_listed() -> dict:
    for _ in range(100):
        for row in json.loads(ask("/api/v1/processes"))["processes"]:
            if row["pid"] == pid and row["threads"] >= 3:  # it is where it wants to be
                return row
        time.sleep(0.1)
    raise SystemExit(f"process {pid} is not listed")


def record() -> str:
    request = {"targets": [{"pid": pid}], "duration": 3, "idle": True, "subprocesses": True}
    name = json.loads(ask("/api/v1/recordings", request))["recordings"][0]["id"]
    while json.loads(ask(f"/api/v1/recordings/{name}"))["state"] in ("queued", "recording"):
        time.sleep(0.2)
    return name


def main() -> None:
    row = until_listed()
    print(f"found {row['title']} with {row['threads']} threads, Python {row['python']}")
    stack = ask(f"/api/v1/processes/self/{pid}/traceback").decode()
    print("fetched its stack trace:\n" + "\n".join("    " + line for line in stack.splitlines()))
    name = record()
    picture.write_bytes(ask(f"/api/v1/recordings/{name}/result?format=flamegraph"))
    print(f"recorded it and its children for 3 s, and fetched the flame graph: {picture}")


main()
