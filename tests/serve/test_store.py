"""What is kept: it survives the server's death, stays within its limits, and bears a full disk."""

import contextlib
import os
import signal
import sqlite3
import subprocess

import pytest
import serving


def test_kill_9_during_recordings(start, scry):
    """Targets run on, the store opens, finished recordings are all there, interrupted ones say so."""
    server = start()
    with serving.Target() as one, serving.Target() as two:
        finished = [server.record(targets=[{"pid": one.pid}], duration=0.3)["id"] for _ in range(3)]
        ask = {"targets": [{"pid": one.pid}, {"pid": two.pid}], "duration": 60}
        running = server.ask("POST", "/api/v1/recordings", ask).json["recordings"][0]["id"]
        queued = server.ask("POST", "/api/v1/recordings", ask).json["recordings"][0]["id"]
        path = f"/api/v1/recordings/{running}"
        serving.until(
            lambda: all(t["samples"] > 5 for t in server.get(path).json["targets"]),
            "both are recorded",
        )
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        again = serving.Server(scry, server.folder)
        serving.until(lambda: can_start(again), "the folder is free again")
        try:
            for name in finished:
                answer = again.get(f"/api/v1/recordings/{name}")
                assert answer.json["state"] == "done"
                assert (
                    "busy_main" in again.get(f"/api/v1/recordings/{name}/result", format="raw").text
                )
            for name in (running, queued):
                left = again.get(f"/api/v1/recordings/{name}").json
                assert left["state"] == "failed" and left["error"]["code"] == "interrupted", left
            assert one.process.poll() is None and two.process.poll() is None
            for target in (one, two):
                # Nobody holds them: they can be looked into, and recorded anew.
                assert "busy_main" in again.get("/worker/traceback", pid=target.pid).text
                assert again.record(targets=[{"pid": target.pid}], duration=0.3)["samples"] > 5
        finally:
            again.stop()


def can_start(server):
    try:
        server.start()
    except AssertionError:
        return False
    return True


def test_the_end_of_the_server_keeps_what_recordings_have(start, scry, target):
    server = start()
    ask = {"targets": [{"pid": target.pid}], "duration": 60}
    name = server.ask("POST", "/api/v1/recordings", ask).json["recordings"][0]["id"]
    serving.until(
        lambda: server.get(f"/api/v1/recordings/{name}").json["samples"] > 10, "there are samples"
    )
    server.stop()
    with serving.Server(scry, server.folder) as again:
        kept = again.get(f"/api/v1/recordings/{name}").json
        assert kept["state"] == "cancelled" and kept["size"] > 0
        assert "busy_main" in again.get(f"/api/v1/recordings/{name}/result", format="raw").text


def change(folder, *statements):
    """What time would have done to the store of a server that is not running."""
    [file] = folder.glob("*.db")
    with contextlib.closing(sqlite3.connect(file)) as store, store:
        for statement, values in statements:
            store.execute(statement, values)


def files_of(folder, name):
    return [path.name for path in (folder / "recordings").iterdir() if path.name.startswith(name)]


def left(server):
    return {row["id"] for row in server.get("/api/v1/recordings").json["recordings"]}


def four_recordings(start, target):
    server = start()
    names = [server.record(targets=[{"pid": target.pid}], duration=0.1)["id"] for _ in range(4)]
    kept = server.ask("PATCH", f"/api/v1/recordings/{names[0]}", {"pinned": True})
    assert kept.status == 200, kept
    assert all(files_of(server.folder, name) for name in names)
    server.stop()
    return server.folder, names


def test_what_is_too_old_goes_unless_it_is_kept(start, target, scry):
    folder, names = four_recordings(start, target)
    long_ago = "UPDATE recordings SET created = created - 25 * 3600000 WHERE id IN (?, ?)"
    change(folder, (long_ago, names[:2]))
    with serving.Server(scry, folder, "--store-days", "1") as again:
        serving.until(lambda: left(again) == {names[0], *names[2:]}, "the old one is gone")
        assert files_of(folder, names[0]) and not files_of(folder, names[1])


def test_when_there_is_too_much_the_oldest_go_unless_kept(start, target, scry):
    folder, names = four_recordings(start, target)
    change(folder, ("UPDATE recordings SET size = 400000", ()))
    with serving.Server(scry, folder, "--store-size", "1") as again:
        serving.until(lambda: left(again) == {names[0], names[3]}, "two fit into a megabyte")
        assert [bool(files_of(folder, name)) for name in names] == [True, False, False, True]


def test_a_job_that_crashes_costs_only_its_recording(server, target):
    ask = {"targets": [{"pid": target.pid}], "duration": 60}
    name = server.ask("POST", "/api/v1/recordings", ask).json["recordings"][0]["id"]
    path = f"/api/v1/recordings/{name}"
    serving.until(lambda: server.get(path).json["samples"] > 5, "it records")
    tasks = os.scandir(f"/proc/{server.process.pid}/task")
    children = " ".join(open(f"{task.path}/children").read() for task in tasks).split()
    [job] = [pid for pid in children if b"record" in open(f"/proc/{pid}/cmdline", "rb").read()]
    os.kill(int(job), signal.SIGKILL)  # as the kernel does when memory is short
    ended = server.until_ended(name)
    assert ended["state"] == "failed", ended
    assert "signal 9" in ended["targets"][0]["error"]["message"]
    assert server.record(targets=[{"pid": target.pid}], duration=0.3)["state"] == "done"


def test_the_node_keeps_its_id(start, scry):
    server = start()
    before = server.get("/api/v1/info").json["node"]
    server.stop()
    with serving.Server(scry, server.folder) as again:
        assert again.get("/api/v1/info").json["node"] == before


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True
    )
    if made.returncode != 0:
        pytest.skip(f"no small disk can be made here: {made.stderr.decode()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_is_told_and_survived(start, scry, target, small_disk):
    server = serving.Server(scry, small_disk / "data").start()
    try:
        good = server.record(targets=[{"pid": target.pid}], duration=0.3)
        filler = small_disk / "filler"
        with filler.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 4096)
            except OSError:
                pass
        ask = {"targets": [{"pid": target.pid}], "duration": 0.3}
        answer = server.ask("POST", "/api/v1/recordings", ask)
        assert answer.status in (202, 503), answer
        if answer.status == 503:
            assert (
                answer.json["error"]["code"] == "unavailable"
                and "room" in answer.json["error"]["hint"]
            )
        else:
            serving.until(
                lambda: (
                    server.get(f"/api/v1/recordings/{answer.json['recordings'][0]['id']}").json[
                        "state"
                    ]
                    in ("failed", "done")
                ),
                "it ends",
            )
        assert server.get("/healthz").status == 200
        assert server.get("/api/v1/processes").status == 200
        filler.unlink()
        assert server.record(targets=[{"pid": target.pid}], duration=0.3)["state"] == "done"
        assert server.get(f"/api/v1/recordings/{good['id']}").json["state"] == "done"
    finally:
        server.stop()


def test_children_do_not_outlive_the_server(start):
    server = start()
    with serving.Target() as busy:
        ask = {"targets": [{"pid": busy.pid}], "duration": 60}
        name = server.ask("POST", "/api/v1/recordings", ask).json["recordings"][0]["id"]
        serving.until(
            lambda: server.get(f"/api/v1/recordings/{name}").json["samples"] > 5, "it is recorded"
        )
        tasks = f"/proc/{server.process.pid}/task"
        children = [
            int(pid)
            for task in os.listdir(tasks)
            for pid in open(f"{tasks}/{task}/children").read().split()
        ]
        assert children
        server.process.kill()
        server.process.wait()
        serving.until(
            lambda: not any(os.path.exists(f"/proc/{pid}") for pid in children), "they end"
        )
        assert busy.process.poll() is None
