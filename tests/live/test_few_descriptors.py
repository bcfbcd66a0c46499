"""Watching a thread takes descriptors; where there are too few, every thread is still seen as it is."""

import json
import resource
import subprocess
import sys

import harness

PROGRAM = """
import sys, threading
wait = threading.Event().wait
for _ in range(150):
    threading.Thread(target=wait, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
"""


def test_more_threads_than_descriptors():
    target = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert target.stdout.readline() == b"ready\n"
        answer = subprocess.run(
            [harness.scry_binary(), "dump", "--json", "-p", str(target.pid)],
            capture_output=True,
            check=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100)),
        )
    finally:
        target.kill()
        target.wait()
        target.stdin.close()
        target.stdout.close()
    threads = json.loads(answer.stdout)
    assert len(threads) == 151
    assert [t for t in threads if t["active"] or t["torn"]] == []
