"""The interpreters the other tests rely on."""

import os
import subprocess

import pytest
import pythons

SCRIPT = """\
import os, sys
sys.stdout.write("%d %d.%d %s" % (os.getpid(), sys.version_info[0], sys.version_info[1], sys.argv[1]))
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def test_a_script_runs_under_the_pid_of_the_process_started(python, script):
    process = python.popen(script, "word", stdout=subprocess.PIPE)
    out, _ = process.communicate()
    major, minor = python.minor
    assert out.decode() == f"{process.pid} {major}.{minor} word"


def test_ids_are_unique():
    ids = [python.id for python in pythons.found()]
    assert len(ids) == len(set(ids))


def in_a_tree():
    return [python for python in pythons.found() if python.root]


@pytest.mark.parametrize("chroot", [False, True], ids=["pivot", "chroot"])
def test_an_interpreter_in_a_tree_has_a_root_of_its_own(chroot, tmp_path):
    if not in_a_tree():
        pytest.skip("no Debian tree of interpreters: ./dev pythons makes one")
    python = in_a_tree()[-1]
    script = tmp_path / "root.py"
    script.write_text("import os; print(os.getcwd()); print(sorted(os.listdir('/')))")
    command = python.argv(script, chroot=chroot)
    out = subprocess.check_output(command, text=True, cwd=pythons.PROJECT).splitlines()
    assert out[0] == str(pythons.PROJECT)
    assert out[1] != str(sorted(os.listdir("/")))
