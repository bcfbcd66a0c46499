"""The profiling addresses of a real Ray, answered by scry twice: behind Ray's own dashboard, where it is the py-spy, and by
`scry serve --ray` itself. What is asked and what must come back is the same."""

import concurrent.futures
import json
import subprocess

import cluster as clusters
import pytest

# One cluster, so one worker of pytest; starting it takes a while.
pytestmark = [pytest.mark.xdist_group("ray"), pytest.mark.timeout(300)]

BUSY, SLEEPING, FORKING = "busy_task", "sleeping_task", "forking_task"
# Of Ray's own C++ core: every worker has it near the root of its main thread.
NATIVE = "ray::core::CoreWorker"

TRACEBACKS = [{}, {"native": 1}, {"subprocesses": 1}]
PROFILES = [{}, {"native": 1}, {"idle": 1}, {"subprocesses": 1}]
MORE = {
    BUSY: [{"format": "flamegraph"}, {"format": "speedscope"}],
    SLEEPING: [],
    FORKING: [{"native": 1, "idle": 1, "subprocesses": 1}],
}
# What each task does, and its child: Ray's event loop and other threads of a worker may do something, too.
DOES = {BUSY: "busy_inside", SLEEPING: "sleeps_inside", FORKING: "awaits_child"}
CHILD = "forked_work"
ACTIVE = {BUSY}  # the others wait, for an hour or for their child


def key(what, kind, flags):
    return (what, kind, *sorted(flags.items()))


def ask_all(base, cluster, name):
    """One task's answers, one after the other: Ray's files of one process and format have one name."""
    row = cluster.running[name]
    where = {
        "worker": {"pid": row["worker_pid"], "node_id": cluster.node_id},
        "task": {"task_id": row["task_id"], "attempt_number": 0, "node_id": cluster.node_id},
    }
    answers = {}
    for kind, params in where.items():
        for flags in TRACEBACKS:
            answers[key("traceback", kind, flags)] = clusters.get(
                base, f"/{kind}/traceback", **params, **flags
            )
        for flags in PROFILES + MORE[name]:
            ask = {"duration": 1, "format": "raw", **flags}
            answers[key("cpu_profile", kind, flags)] = clusters.get(
                base, f"/{kind}/cpu_profile", **params, **ask
            )
    return answers


@pytest.fixture(scope="module", params=["dashboard", "serve"])
def answers(request, cluster, server):
    """(task, what, worker or task, flags...) -> answer, of one of the two."""
    base = cluster.dashboard if request.param == "dashboard" else server.url
    names = (BUSY, SLEEPING, FORKING)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        found = pool.map(lambda name: ask_all(base, cluster, name), names)

    table = dict(zip(names, found))

    def look_up(name, what, kind, **flags):
        answer = table[name][key(what, kind, flags)]
        assert answer.status == 200, answer
        return answer

    return look_up


kinds = pytest.mark.parametrize("kind", ["worker", "task"])


def test_ray_finds_scry_as_its_py_spy(cluster):
    words = cluster.run("py-spy", "--version").stdout
    assert "scry" in words, words


tasks = pytest.mark.parametrize("name", [BUSY, SLEEPING, FORKING])


def flagged(which):
    return pytest.mark.parametrize("flags", which, ids=lambda flags: "+".join(flags) or "plain")


@kinds
@tasks
@flagged(TRACEBACKS)
def test_traceback(answers, kind, name, flags):
    answer = answers(name, "traceback", kind, **flags)
    assert answer.type == "text/plain; charset=utf-8"
    assert answer.text.startswith("Process ")
    assert DOES[name] in answer.text, answer.text
    assert (NATIVE in answer.text) == ("native" in flags)
    assert (CHILD in answer.text) == (name == FORKING and "subprocesses" in flags)


@kinds
@tasks
@flagged(PROFILES)
def test_profile(answers, kind, name, flags):
    """One who waits is there only with idle; what is native only with native; the child only with subprocesses."""
    text = answers(name, "cpu_profile", kind, **flags).text
    shown = name in ACTIVE or "idle" in flags
    assert (DOES[name] in text) == shown, text
    assert (CHILD in text) == (name == FORKING and "subprocesses" in flags), text
    if shown or "native" not in flags:
        assert (NATIVE in text) == ("native" in flags), text


@kinds
def test_profile_with_all_flags_at_once(answers, kind):
    text = answers(FORKING, "cpu_profile", kind, native=1, idle=1, subprocesses=1).text
    assert CHILD in text and DOES[FORKING] in text and NATIVE in text


def test_speedscope_of_a_busy_task(answers):
    shown = json.loads(answers(BUSY, "cpu_profile", "worker", format="speedscope").text)
    assert any("busy_inside" in frame["name"] for frame in shown["shared"]["frames"])


def test_flame_graph_of_a_worker_is_a_picture(answers):
    answer = answers(BUSY, "cpu_profile", "worker", format="flamegraph")
    assert answer.type == "image/svg+xml"
    assert "<!DOCTYPE svg" in answer.text and "busy_inside" in answer.text


def test_flame_graph_of_a_task_is_a_page(answers):
    answer = answers(BUSY, "cpu_profile", "task", format="flamegraph")
    assert answer.type.startswith("text/html")
    assert "<!DOCTYPE svg" in answer.text and "busy_inside" in answer.text


def test_an_unknown_process_fails_with_a_sentence(cluster, server):
    for base in (cluster.dashboard, server.url):
        answer = clusters.get(base, "/worker/traceback", pid=4194001, node_id=cluster.node_id)
        assert answer.status >= 400 and "Failed to execute" in answer.text
        assert "4194001" in answer.text


def test_ray_stack_prints_the_stacks_of_all_workers(cluster):
    sudo = cluster.links / "sudo"  # `ray stack` wants one; root needs none
    sudo.write_text('#!/bin/sh\n[ "$1" != -n ] || shift\nexec "$@"\n')
    sudo.chmod(0o755)
    try:
        result = cluster.run(clusters.venv() / "bin" / "ray", "stack")
    finally:
        sudo.unlink()
    assert result.returncode == 0, result
    for name in ("busy_task", "sleeps_inside", "wait_inside"):
        assert name in result.stdout, result.stdout[-3000:]


def test_serve_lists_the_tasks_of_the_cluster(cluster, server):
    rows = server.get("/api/v1/tasks", state="RUNNING").json["tasks"]
    names = {row["name"]: row for row in rows}
    assert {BUSY, SLEEPING, FORKING} <= set(names)
    own = server.get("/api/v1/nodes/self").json["id"]
    assert names[BUSY]["node"] == own
    assert names[BUSY]["pid"] == cluster.running[BUSY]["worker_pid"]


def test_workers_are_listed_by_what_they_run(cluster, server):
    rows = server.get("/api/v1/processes", q="ray::").json["processes"]
    mine = {row["group"] for row in rows if row["pid"] in cluster.members()}
    assert {BUSY, SLEEPING, FORKING} <= mine


def test_a_task_that_ended_is_no_longer_there(cluster, server):
    done = subprocess.run(
        [cluster.python, "-c", SHORT, cluster.address],
        env=cluster.environment,
        capture_output=True,
        text=True,
        timeout=clusters.PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    task = done.stdout.strip().splitlines()[-1]
    ask = {"task_id": task, "attempt_number": 0, "node_id": cluster.node_id}

    def is_over():
        answer = clusters.get(server.url, "/task/traceback", **ask)
        return answer if "does not run" in answer.text else None

    answer = clusters.until(is_over, "Ray says that the task is over")
    assert answer.status == 404 and "FINISHED" in answer.text


SHORT = """
import sys, ray
ray.init(address=sys.argv[1], log_to_driver=False)
@ray.remote(num_cpus=0.01)
def short_task():
    return ray.get_runtime_context().get_task_id()
print(ray.get(short_task.remote()))
"""
