"""scry.ray: the link, the doctor, stacks and profiles by name, what a stuck job does, a server on each node."""

import json
import re
import subprocess

import cluster as clusters
import pytest
import pythons

pytestmark = [pytest.mark.xdist_group("ray"), pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def results(cluster, tmp_path_factory):
    folder = tmp_path_factory.mktemp("module")
    (port,) = clusters.free_ports(1)
    job = cluster.running["busy_task"]["job_id"]
    script = clusters.HERE / "targets" / "uses_module.py"
    done = cluster.run(cluster.python, script, cluster.address, job, cluster.links, folder, port)
    assert done.returncode == 0, done.stderr[-3000:]
    return {**json.loads(done.stdout.splitlines()[-1]), "folder": folder, "said": done.stderr}


def test_the_doctor_finds_all_well(cluster, results):
    seen = results["doctor"]
    assert seen["ok"] and "FAIL" not in seen["text"], seen["text"]
    assert "profiling is enabled" in seen["text"]
    assert f"Ray finds {cluster.links}/py-spy" in seen["text"]
    assert "it can look into a worker" in seen["text"]


def test_the_doctor_names_what_is_wrong(results):
    seen = results["doctor_without_link"]
    assert not seen["ok"]
    # Ray brought a py-spy of its own: it is found, and is not scry.
    assert re.search(r"FAIL +node \S+ \w+: Ray finds \S+/py-spy, py-spy", seen["text"])
    assert "python -m scry.ray link" in seen["text"]


def test_the_doctor_finds_the_gate_closed(scry):
    """Ray's own default: its dashboard answers 403 to everything, and the doctor says so and what to do."""
    with clusters.started(scry, profiling=False) as gated:
        answer = clusters.get(gated.dashboard, "/worker/traceback", pid=1, node_id=gated.node_id)
        assert answer.status == 403
        done = gated.run(gated.python, "-m", "scry.ray", "doctor")
    assert done.returncode == 1, done
    assert "profiling is disabled: every request is answered with 403" in done.stdout
    assert "set RAY_DASHBOARD_ENABLE_PROFILING=1 for `ray start --head`" in done.stdout
    assert "it can look into a worker" in done.stdout, "the nodes are asked all the same"


def test_dump_of_tasks_by_name(results):
    assert "sleeps_inside" in results["dump"] and "busy_task" not in results["dump"]


def test_one_profile_of_tasks_and_actors(results):
    seen = results["profile"]
    assert seen["workers"] == 3 and seen["failures"] == []
    assert "busy_inside" in seen["text"] and "Waiter.wait_inside" in seen["text"]
    assert "forked_work" not in seen["text"] and "sleeping_task" not in seen["text"]
    assert "shared" in json.loads(seen["json"]), "the name says speedscope"


def test_a_profile_can_be_looked_at(results):
    seen = results["profile"]
    assert seen["shown"].startswith("3 workers\n<Profile of "), seen["shown"]
    assert "busy_inside (" in seen["shown"]
    assert "data:image/svg+xml;base64," in seen["page"]


def test_replicas_by_their_deployment(results):
    seen = results["replicas"]
    assert len(seen["Summarizer"]) == 2 and seen["news:Summ*"] == seen["Summarizer"]
    assert seen["Translator"] == []
    assert seen["shown"].startswith("2 workers\n<Profile of "), seen["shown"]


def test_nothing_of_that_name(results):
    assert results["nothing"] == 1
    assert "no worker runs what was asked for" in results["said"]
    assert not (results["folder"] / "nobody.svg").exists()


def test_what_a_stuck_job_does(cluster, results):
    """Both actors wait at the same place: one group, and the last; who is alone comes before."""
    job = cluster.running["busy_task"]["job_id"]
    groups = results["stuck"].split("\n\n")[1:]
    assert groups[-1].startswith("2 of"), results["stuck"]
    assert "waiter-0" in groups[-1] and "waiter-1" in groups[-1]
    assert "Waiter.wait_inside" in groups[-1]
    assert all(group.startswith("1 of") for group in groups[:-1])
    for name in ("busy_task", "sleeping_task", "forking_task", f"driver of {job}"):
        assert any(name in group.splitlines()[0] for group in groups[:-1]), results["stuck"]


def test_a_server_on_each_node(results):
    seen = results["deployed"]
    assert seen["stranger"] == 401 and seen["friend"] == 200
    assert {"busy_task", "sleeping_task"} <= set(seen["tasks"])
    assert seen["afterwards"] == 0


def test_the_example_runs(cluster, tmp_path):
    job = cluster.running["busy_task"]["job_id"]
    example = pythons.PROJECT / "examples" / "ray_job.py"
    done = cluster.run(cluster.python, example, job, folder=tmp_path)
    assert done.returncode == 0, done
    assert "different stacks, the rarest first" in done.stdout
    assert "busy_inside" in (tmp_path / "ray_job.svg").read_text()


def version_in(folder):
    return subprocess.run([folder / "py-spy", "--version"], capture_output=True, text=True).stdout


def test_link_and_unlink(cluster, tmp_path):
    def module(*words):
        done = cluster.run(cluster.python, "-m", "scry.ray", *words, "--folder", tmp_path)
        assert done.returncode == 0, done

    (tmp_path / "py-spy").write_text("#!/bin/sh\necho py-spy 0.4.0\n")
    (tmp_path / "py-spy").chmod(0o755)
    module("link")
    assert "scry" in version_in(tmp_path)
    module("link")  # once more does no harm
    module("unlink")
    assert version_in(tmp_path) == "py-spy 0.4.0\n"
    assert [path.name for path in tmp_path.iterdir()] == ["py-spy"]
