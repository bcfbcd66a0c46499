"""The addresses of the Ray dashboard: same parameters, same types; idle, subprocesses and native really take effect."""

import json
import re
import socket

import pytest
import serving


def stack_of(answer):
    assert answer.status == 200, answer
    return answer.text


def test_traceback_is_text_with_every_thread(server, target):
    answer = server.get("/worker/traceback", pid=target.pid)
    assert answer.status == 200
    assert answer.type == "text/plain; charset=utf-8"
    assert answer.text.startswith(f"Process {target.pid}: ")
    assert "busy_main" in answer.text
    assert "blocked_on_lock" in answer.text


def test_traceback_has_children_only_with_subprocesses(server, target):
    alone = stack_of(server.get("/worker/traceback", pid=target.pid, subprocesses=0))
    together = stack_of(server.get("/worker/traceback", pid=target.pid, subprocesses=1))
    assert "child_work" not in alone
    assert "child_work" in together


@pytest.mark.parametrize(
    ("form", "kind"),
    [
        ("flamegraph", "image/svg+xml"),
        ("html", "text/html; charset=utf-8"),
        ("raw", "text/plain"),
        ("speedscope", "text/plain"),
        ("chrometrace", "application/json"),
        ("gecko", "application/json"),
        ("pprof", "application/gzip"),
        ("json", "application/json"),
        ("callgrind", "text/plain; charset=utf-8"),
        ("scry", "application/octet-stream"),
    ],
)
def test_profile_in_every_format(server, target, form, kind):
    answer = server.get("/worker/cpu_profile", pid=target.pid, duration=1, format=form)
    assert answer.status == 200, answer
    assert answer.type == kind
    if form == "flamegraph":
        assert "<!DOCTYPE svg" in answer.text and "busy_main" in answer.text
    elif form == "html":
        assert answer.headers["Content-Security-Policy"].startswith(
            "sandbox allow-scripts; default"
        )
        assert "busy_main" in answer.text
        assert "def busy_main" not in answer.text, "the server reads source files for others"
    elif kind != "application/gzip" and form != "scry":
        assert "busy_main" in answer.text
    if form in ("speedscope", "json", "chrometrace"):
        json.loads(answer.text)


def test_every_format_of_the_tool_is_tested_here(server):
    mark = next(m for m in test_profile_in_every_format.pytestmark if m.name == "parametrize")
    assert {row[0] for row in mark.args[1]} == {
        f["name"] for f in server.get("/api/v1/info").json["formats"]
    }


def test_flamegraph_is_the_default(server, target):
    answer = server.get("/worker/cpu_profile", pid=target.pid, duration=1)
    assert answer.type == "image/svg+xml"


def test_a_blocked_thread_appears_only_with_idle(server, target):
    ask = {"pid": target.pid, "duration": 1, "format": "raw"}
    assert "blocked_on_lock" not in stack_of(server.get("/worker/cpu_profile", **ask, idle=0))
    assert "blocked_on_lock" in stack_of(server.get("/worker/cpu_profile", **ask, idle=1))


def test_a_forked_child_appears_only_with_subprocesses(server, target):
    ask = {"pid": target.pid, "duration": 1, "format": "raw"}
    assert "child_work" not in stack_of(server.get("/worker/cpu_profile", **ask, subprocesses=0))
    assert "child_work" in stack_of(server.get("/worker/cpu_profile", **ask, subprocesses=1))


@pytest.fixture(scope="module")
def in_c():
    with serving.Target(script="in_c.py") as started:
        yield started


def test_a_c_frame_appears_in_a_profile_only_with_native(server, in_c):
    ask = {"pid": in_c.pid, "duration": 2, "format": "raw"}
    alone = stack_of(server.get("/worker/cpu_profile", **ask, native=0))
    assert "sort_in_c" in alone and "qsort" not in alone
    together = stack_of(server.get("/worker/cpu_profile", **ask, native=1))
    sorting = [line for line in together.splitlines() if "qsort" in line]
    assert sorting, together[:2000]
    # In its place: after the Python that called it, and before the Python that it calls.
    for line in sorting:
        before, _, after = line.partition("qsort")
        assert "sort_in_c" in before and "compare (" not in before
        assert "sort_in_c" not in after


def test_a_c_frame_appears_in_a_traceback_only_with_native(server, in_c):
    alone = stack_of(server.get("/worker/traceback", pid=in_c.pid, native=0))
    together = stack_of(server.get("/worker/traceback", pid=in_c.pid, native=1))
    sleeping = re.compile(r"^ +\S*nanosleep\S* \(", re.MULTILINE)  # as a frame, not as the reason
    assert "sort_in_c" in alone and not sleeping.search(alone)
    assert "sort_in_c" in together and sleeping.search(together)


def test_native_idle_and_subprocesses_go_together(server, target):
    ask = {"pid": target.pid, "duration": 1, "format": "raw"}
    all_of_it = stack_of(server.get("/worker/cpu_profile", **ask, native=1, idle=1, subprocesses=1))
    for name in ("busy_main", "child_work"):
        assert name in all_of_it, all_of_it[:2000]
    # Below the Python that waits are the C functions it waits in.
    assert re.search(r"blocked_on_lock \(work.py:\d+\);\w", all_of_it), all_of_it[:2000]


def test_threads_get_a_frame_each_only_if_asked(server, target):
    ask = {"pid": target.pid, "duration": 1, "format": "raw", "idle": 1}
    assert "thread (" not in stack_of(server.get("/worker/cpu_profile", **ask))
    assert "thread (" in stack_of(server.get("/worker/cpu_profile", **ask, threads=1))


def test_rate_is_the_number_of_samples(server, target):
    slow = server.get("/worker/cpu_profile", pid=target.pid, duration=1, format="raw", rate=10)
    samples = sum(int(line.rsplit(" ", 1)[1]) for line in slow.text.splitlines())
    assert 1 <= samples <= 15


def test_an_idle_process_gives_a_profile_and_a_warning(server):
    with serving.Target("--idle") as idle:
        answer = server.get("/worker/cpu_profile", pid=idle.pid, duration=1, format="raw")
        assert answer.status == 200
        assert "idle" in answer.headers["X-Ray-Profiling-Warning"]


def test_a_process_that_ends_meanwhile_keeps_its_profile(server):
    with serving.Target() as ending:
        connection = server.connect()
        connection.request("GET", f"/worker/cpu_profile?pid={ending.pid}&duration=30&format=raw")
        serving.until(
            lambda: (
                server.get("/api/v1/recordings", pid=ending.pid, state="recording").json["total"]
                and server.get("/api/v1/recordings", pid=ending.pid).json["recordings"][0][
                    "samples"
                ]
                > 20
            ),
            "the recording has samples",
        )
        ending.process.kill()
        ending.process.wait()
        response = connection.getresponse()
        body = response.read().decode()
        assert response.status == 200, body
        assert "busy_main" in body
        assert "ended after" in response.headers["X-Ray-Profiling-Warning"]
        connection.close()


def test_the_recording_is_in_the_history(server, target):
    answer = server.get("/worker/cpu_profile", pid=target.pid, duration=1)
    recording = server.get(f"/api/v1/recordings/{answer.headers['X-Scry-Recording']}").json
    assert recording["state"] == "done"
    assert recording["origin"] == "ray"
    assert recording["targets"][0]["pid"] == target.pid


def test_profiling_is_enabled(server):
    data = server.get("/api/profiling_enabled").json
    assert data["result"] is True
    assert data["data"]["profilingEnabled"] is True
    assert data["data"]["profilingDefaults"]["maxDuration"] == 60


def test_the_same_profile_asked_for_by_many_is_recorded_twice_at_most(server):
    """The first runs at once; all that come meanwhile share the next."""
    with serving.Target() as busy:
        connections = []
        for _ in range(10):
            one = server.connect()
            one.request("GET", f"/worker/cpu_profile?pid={busy.pid}&duration=1&format=raw")
            connections.append(one)
        names = set()
        for one in connections:
            response = one.getresponse()
            assert response.status == 200
            assert b"busy_main" in response.read()
            names.add(response.headers["X-Scry-Recording"])
            one.close()
        assert 1 <= len(names) <= 3


def test_a_client_that_goes_away_ends_its_recording(server):
    with serving.Target() as busy:
        one = socket.create_connection((server.host, server.port))
        one.sendall(
            f"GET /worker/cpu_profile?pid={busy.pid}&duration=60 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        )
        recording = serving.until(
            lambda: server.get("/api/v1/recordings", pid=busy.pid, state="recording").json[
                "recordings"
            ],
            "the recording begins",
        )[0]
        one.close()
        ended = serving.until(
            lambda: (
                (r := server.get(f"/api/v1/recordings/{recording['id']}").json)["state"]
                != "recording"
                and r
            ),
            "the recording ends",
        )
        assert ended["state"] == "cancelled"
        assert ended["elapsed"] < 50


@pytest.mark.parametrize("path", ["/worker/traceback", "/worker/cpu_profile"])
def test_an_unknown_process_is_404_and_says_failed_to_execute(server, path):
    answer = server.get(path, pid=4194000)
    assert answer.status == 404
    assert answer.type.startswith("text/plain")
    assert "Failed to execute" in answer.text and "4194000" in answer.text


@pytest.mark.parametrize("path", ["/worker/traceback", "/worker/cpu_profile"])
def test_a_process_that_is_no_python_is_404(server, path):
    answer = server.get(path, pid=server.process.pid)
    assert answer.status == 404
    assert "does not run CPython" in answer.text


@pytest.mark.parametrize("where", [{"node_id": "nowhere"}, {"ip": "203.0.113.7"}])
def test_an_unknown_node_is_404(server, target, where):
    answer = server.get("/worker/traceback", pid=target.pid, **where)
    assert answer.status == 404
    assert next(iter(where.values())) in answer.text


@pytest.mark.parametrize("where", ["self", "127.0.0.1", "id", "name"])
def test_this_node_has_many_names(server, target, where):
    node = server.get("/api/v1/nodes/self").json
    name = node[where] if where in ("id", "name") else where
    assert server.get("/worker/traceback", pid=target.pid, node_id=name).status == 200


def test_a_task_without_a_ray_cluster_is_404_with_the_remedy(server):
    answer = server.get("/task/traceback", task_id="ab" * 24, attempt_number=0, node_id="cd" * 28)
    assert answer.status == 404
    assert "--ray" in answer.text
