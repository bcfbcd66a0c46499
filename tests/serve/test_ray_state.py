"""Tasks as a Ray dashboard tells of them: what happens to a profile when the task ends, or is not alone. The dashboard is
made up, so that what it says changes at the right moment; tests/ray asks a real one."""

import contextlib
import http.server
import json
import threading
import urllib.parse

import pytest
import serving

NODE = "ab" * 28
TASK, OTHER = "01" * 24, "02" * 24


class Dashboard:
    """Answers as Ray's state API does. `rows` are its tasks; `changed` what they are once a task has been asked for."""

    def __init__(self, rows, changed=None):
        self.rows, self.changed = rows, changed or rows
        self.silent = threading.Event()
        self.over = threading.Event()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.answer(self)

            def log_message(self, *words):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, request):
        if self.silent.is_set():
            self.over.wait(serving.PATIENCE)
            return
        rows = [{"node_id": NODE, "node_ip": "127.0.0.1", "state": "ALIVE"}]
        if "/tasks" in request.path:
            query = urllib.parse.parse_qs(urllib.parse.urlsplit(request.path).query)
            wanted = dict(zip(query.get("filter_keys", []), query.get("filter_values", [])))
            rows = [r for r in self.rows if all(r[k] == v for k, v in wanted.items())]
            if "task_id" in wanted:
                self.rows = self.changed
        body = json.dumps({"result": True, "data": {"result": {"result": rows}}}).encode()
        request.send_response(200)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)


def task(pid, name=TASK, state="RUNNING"):
    return {
        "task_id": name,
        "attempt_number": 0,
        "name": "busy_main",
        "state": state,
        "node_id": NODE,
        "worker_id": "cd" * 28,
        "worker_pid": pid,
    }


@pytest.fixture
def ray(start):
    """ray(ROWS...): a server that asks a dashboard with these tasks, and the dashboard."""
    with contextlib.ExitStack() as stack:

        def begin(*words):
            dashboard = Dashboard(*words)
            stack.callback(dashboard.server.server_close)
            stack.callback(dashboard.server.shutdown)
            stack.callback(dashboard.over.set)
            server = start("--ray", dashboard.url)
            serving.until(
                lambda: server.get(f"/api/v1/nodes/{NODE}").status == 200, "the node is known"
            )
            return server, dashboard

        yield begin


def ask(server, what, **more):
    return server.get(f"/task/{what}", task_id=TASK, attempt_number=0, node_id=NODE, **more)


@pytest.mark.parametrize("form", ["raw", "speedscope", "flamegraph"])
def test_a_task_that_ends_during_its_profile_keeps_it_and_says_so(ray, target, form):
    server, _ = ray([task(target.pid)], [task(target.pid, state="FINISHED")])
    answer = ask(server, "cpu_profile", duration=1, format=form)
    assert answer.status == 200, answer
    assert "busy_main" in answer.text
    assert "the task ended" in answer.headers["X-Ray-Profiling-Warning"]
    if form == "flamegraph":
        assert answer.type.startswith("text/html") and "the task ended" in answer.text
    again = ask(server, "cpu_profile", duration=1)
    assert again.status == 404 and "FINISHED" in again.text


def test_a_task_that_goes_on_gives_no_warning(ray, target):
    server, _ = ray([task(target.pid)])
    answer = ask(server, "cpu_profile", duration=1, format="raw")
    assert "busy_main" in answer.text
    assert "X-Ray-Profiling-Warning" not in answer.headers


def test_tasks_that_share_a_process_are_named(ray, target):
    server, _ = ray([task(target.pid), task(target.pid, OTHER)])
    answer = ask(server, "traceback")
    assert answer.text.startswith("Warning: ") and "busy_main" in answer.text
    for name in (TASK, OTHER):
        assert name in answer.headers["X-Ray-Profiling-Warning"]


def test_a_task_on_another_node_than_said_is_not_looked_for_here(ray, target):
    server, _ = ray([task(target.pid)])
    answer = server.get("/task/traceback", task_id=TASK, attempt_number=0, node_id="ef" * 28)
    assert answer.status == 404 and "leave node_id out" in answer.text, answer


def test_a_dashboard_that_falls_silent_holds_nobody_up(ray, target):
    server, dashboard = ray([task(target.pid)])
    dashboard.silent.set()
    answer = ask(server, "traceback")
    assert answer.status == 504, answer
    assert "busy_main" in server.get("/worker/traceback", pid=target.pid).text
