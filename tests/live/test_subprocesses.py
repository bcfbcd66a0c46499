"""`dump --subprocesses`: the whole family, each member once."""

import re

import harness
import pytest

PYTHON_ROLES = {"parent", "forked", "grandchild", "spawned", "multiprocessing"}


@pytest.fixture
def family(python):
    with harness.run_target(python, "tree.py") as target:
        reports = {}
        while True:
            report = target.report
            reports[report["role"]] = report
            if report["role"] == "parent":
                break
            target.read_report()
        assert set(reports) == PYTHON_ROLES
        yield target, reports
        assert target.finish() == 0


def test_json_has_every_member_with_its_stack(family):
    target, reports = family
    threads = harness.dump(target.pid, "--subprocesses")
    for role, report in reports.items():
        mine = [thread for thread in threads if thread["pid"] == report["pid"]]
        assert len(mine) == 1, role
        assert harness.show(mine[0]["frames"]) == harness.show(report["threads"][0]["frames"]), role
    assert {thread["pid"] for thread in threads} == {report["pid"] for report in reports.values()}


def test_text_has_each_header_once_and_notes_who_was_skipped(family):
    target, reports = family
    done = harness.scry("dump", "-s", "-p", target.pid)
    headers = re.findall(r"^Process (\d+): ", done.stdout, re.MULTILINE)
    assert sorted(map(int, headers)) == sorted(report["pid"] for report in reports.values())
    parents = re.findall(r"^Parent Process (\d+): ", done.stdout, re.MULTILINE)
    expected = [target.pid] * 3 + [reports["forked"]["pid"]]
    assert sorted(map(int, parents)) == sorted(expected)
    assert str(target.report["children"]["cat"]) in done.stdout + done.stderr


def test_without_the_flag_only_the_process_asked_for(family):
    target, _ = family
    assert {thread["pid"] for thread in harness.dump(target.pid)} == {target.pid}


def test_a_process_forked_from_a_thread_has_that_thread_alone(python):
    with harness.run_target(python, "after_fork.py") as target:
        child = target.report
        threads = harness.dump(child["pid"])
        # Python 2 keeps the states of the threads that the child does not have; they have no kernel thread.
        alive = [thread for thread in threads if thread["os_thread_id"]]
        assert [thread["os_thread_id"] for thread in alive] == [child["pid"]]
        said = target.thread("forked")
        assert harness.show(alive[0]["frames"]) == harness.show(said["frames"])
        if python.minor >= (3, 0):
            assert len(threads) == 1
