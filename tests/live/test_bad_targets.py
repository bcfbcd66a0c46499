"""Processes that cannot be looked into: one clear line, a failing status, nothing left behind."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

import harness
import pytest

COMMANDS = ["dump", "record"]


def refuse(command, pid, tmp_path, *words, **options):
    """The command fails with status 1 and one line that has these words; nothing is written."""
    out = tmp_path / "out.svg"
    extra = ["-o", str(out), "-d", "1"] if command == "record" else []
    done = harness.scry(command, "-p", pid, *extra, check=False, **options)
    assert done.returncode == 1, (done.stdout, done.stderr)
    first = done.stderr.splitlines()[0]
    assert str(pid) in first
    for word in words:
        assert word in done.stderr.lower(), done.stderr
    assert [name for name in os.listdir(tmp_path) if name.startswith("out")] == []
    assert done.stdout == ""
    return done


def gone_pid():
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


@pytest.mark.parametrize("command", COMMANDS)
def test_process_that_is_gone(command, tmp_path):
    refuse(command, gone_pid(), tmp_path, "no process")


@pytest.mark.parametrize("command", COMMANDS)
def test_zombie(command, tmp_path):
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    refuse(command, process.pid, tmp_path, "ended")
    process.wait()


@pytest.mark.parametrize("command", COMMANDS)
def test_kernel_thread(command, tmp_path):
    if not os.path.exists("/proc/2/stat") or os.path.exists("/proc/2/root/bin"):
        pytest.skip("pid 2 is no kernel thread here")
    refuse(command, 2, tmp_path, "kernel thread")


@pytest.mark.parametrize("command", COMMANDS)
def test_process_without_python(command, tmp_path):
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        # Popen returns once exec has happened.
        refuse(command, process.pid, tmp_path, "python")
        process.stdin.close()
        assert process.wait() == 0


@pytest.mark.parametrize("command", COMMANDS)
def test_process_of_another_user(command, some_python, as_root):
    nobody = 65534
    with tempfile.TemporaryDirectory() as folder:
        # pytest's folders are closed to others; this one lets them run the binary and write.
        os.chmod(folder, 0o777)
        binary = shutil.copy(harness.scry_binary(), folder)
        place = pathlib.Path(folder, "place")
        place.mkdir(mode=0o777)
        place.chmod(0o777)
        with harness.run_target(some_python, "plain.py") as target:
            refuse(
                command,
                target.pid,
                place,
                "permission",
                binary=binary,
                user=nobody,
                group=nobody,
                extra_groups=[],
            )
            assert target.finish() == 0


def test_a_process_that_ends_meanwhile_is_no_crash(some_python):
    """Whatever moment the target's end falls into, scry either shows it or says that it ended."""
    for _ in range(20):
        with harness.run_target(some_python, "plain.py") as target:
            looker = harness.start_scry("dump", "--json", "-p", target.pid)
            target.process.send_signal(signal.SIGKILL)
            out, err = looker.communicate(timeout=harness.PATIENCE)
        assert looker.returncode in (0, 1), (looker.returncode, out, err)
        if looker.returncode == 0:
            assert isinstance(json.loads(out), list)
        else:
            assert out == ""
            assert str(target.pid) in err
