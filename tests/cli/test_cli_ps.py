"""ps: which processes are Python's, and whether scry may look into them."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: another user, a chroot")

WAIT = 'import sys; print("ready", flush=True); sys.stdin.read()'
THREADS = """
import sys, threading
done = threading.Event()
for _ in range(3):
    threading.Thread(target=done.wait, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
"""


@contextmanager
def started(command, **options):
    """A program that prints "ready" and then waits for its input to end."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options
    )
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
        assert process.poll() is None, "the process that was looked at must go on"
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait()


def python(code, *args, **options):
    return started([sys.executable, "-c", code, *args], **options)


@contextmanager
def copy_for_all(scry):
    """The binary where another user can reach it."""
    folder = Path(tempfile.mkdtemp())
    try:
        folder.chmod(0o755)
        yield shutil.copy(scry, folder / "scry")
    finally:
        shutil.rmtree(folder)


def listed(tool):
    result = tool("ps", "--json")
    assert result.returncode == 0, result.stderr
    return {row["pid"]: row for row in json.loads(result.stdout)}


def row_of(stdout, pid):
    (line,) = re.findall(rf"^ *{pid}  .*$", stdout, re.M)
    return line


VERSION = ".".join(map(str, sys.version_info[:3]))


def test_table(tool):
    with python(THREADS, "some words") as program:
        result = tool("ps")
        assert result.returncode == 0, result.stderr
        assert result.stderr == ""
        head, *_ = result.stdout.splitlines()
        assert head.split() == ["PID", "VERSION", "THREADS", "CONTAINER", "ATTACH", "COMMAND"]
        row = row_of(result.stdout, program.pid)
        assert row.split()[:3] == [str(program.pid), VERSION, "4"]
        assert row.split()[4] == "yes"
        assert sys.executable in row and row.endswith(" some words")
        assert "\x1b" not in result.stdout


def test_rows_are_in_the_order_of_pids(tool):
    with python(WAIT), python(WAIT):
        result = tool("ps")
    table = result.stdout.split("\n\n")[0].splitlines()[1:]
    pids = [int(line.split()[0]) for line in table]
    assert len(pids) >= 2
    assert pids == sorted(pids)


def test_json(tool):
    with python(WAIT) as program:
        row = listed(tool)[program.pid]
    assert row["parent"] == os.getpid()
    assert row["version"] == VERSION
    assert row["threads"] == 1
    assert row["command"].startswith(sys.executable)
    assert row["executable"] == os.path.realpath(sys.executable)
    assert row["can_attach"] is True
    assert (row["reason"], row["why"], row["remedy"]) == ("ok", None, None)


def test_others_are_not_listed(tool):
    with started(["sh", "-c", "echo ready; read x"]) as program:
        assert program.pid not in listed(tool)


def test_a_command_line_cannot_drive_the_terminal(tool):
    with python(WAIT, "\x1b[31mred\nnext") as program:
        row = row_of(tool("ps").stdout, program.pid)
    assert row.endswith(r" \x1b[31mred\nnext")


def test_colours_on_demand(tool):
    with python(WAIT):
        result = tool("ps", env={"CLICOLOR_FORCE": "1"})
    assert "\x1b[" in result.stdout


def test_one_process(tool):
    with python(WAIT) as program, python(WAIT):
        result = tool("ps", "-p", program.pid)
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) == 2
    assert row_of(result.stdout, program.pid)


def test_one_process_that_is_not_python(tool, refused):
    with started(["sh", "-c", "echo ready; read x"]) as program:
        line = refused(tool("ps", "-p", program.pid), 1)
    assert f"process {program.pid} does not run CPython" in line


def test_one_process_that_is_gone(tool, refused):
    process = subprocess.Popen(["true"])
    process.wait()
    line = refused(tool("ps", "-p", process.pid), 1)
    assert f"there is no process with pid {process.pid}" in line


@contextmanager
def zombie():
    process = subprocess.Popen([sys.executable, "-c", ""])
    try:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        yield process
    finally:
        process.wait()


def test_a_zombie(tool, refused):
    with zombie() as process:
        row = listed(tool)[process.pid]
        line = refused(tool("ps", "-p", process.pid), 1)
    assert row["can_attach"] is False
    assert row["reason"] == "zombie"
    assert "zombie" in line


@needs_root
def test_another_users_process(tool, scry, refused):
    with python(WAIT) as program, copy_for_all(scry) as binary:
        tool.path = binary
        result = tool("ps", user=NOBODY, group=NOBODY, extra_groups=[])
        row = row_of(result.stdout, program.pid)
        line = refused(tool("ps", "-p", program.pid, user=NOBODY, group=NOBODY, extra_groups=[]), 1)
    assert result.returncode == 0, result.stderr
    assert row.split()[4] == "uid"
    notes = result.stdout.split("\n\n", 1)[1]
    assert "uid: no permission to look into process" in notes
    assert "what helps: run it as root (sudo scry ...)" in notes
    assert "permission" in line
    assert "sudo scry" in line


@needs_root
def test_a_chroot(tool, tmp_path):
    """A root folder that shows the whole system, but is not the root of scry."""
    root = tmp_path / "root"
    root.mkdir()
    code = f"import os, sys; os.chroot({str(root)!r}); {WAIT}"
    with python(code) as program:
        assert listed(tool)[program.pid]["container"] == "chroot"
