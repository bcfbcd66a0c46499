"""Core files: what a dump of one says is what a dump of the process said before.

By gcore, which copies a living process, and by a crash, which makes the kernel write one."""

import gzip
import json
import os
import resource
import shutil
import signal
import struct
import subprocess
from pathlib import Path

import harness
import pytest

PATTERN = Path("/proc/sys/kernel/core_pattern").read_text().strip()


def gcore(pid, folder):
    """The file, and whether gdb could read all of the memory. Some versions give up on a thread's stack where newer C
    libraries keep its guard pages in the same mapping, and leave zeroes in its place."""
    done = subprocess.run(
        ["gcore", "-o", str(folder / "gcore"), str(pid)],
        capture_output=True,
        text=True,
        timeout=harness.PATIENCE * 2,
    )
    core = folder / f"gcore.{pid}"
    assert core.exists(), done.stdout + done.stderr
    return core, "Memory read failed for corefile section" not in done.stdout + done.stderr


def allow_cores():
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def until_blocked(pid):
    for task in Path(f"/proc/{pid}/task").iterdir():
        harness.until(
            lambda task=task: harness.state_letter(pid, task.name) == "S", f"{task} sleeps"
        )


def crash(target, folder):
    """Let it crash and return the core file: the kernel's where that writes one, else one made by gdb at the signal."""
    if PATTERN.startswith("|") or "/" in PATTERN:
        core = folder / "core"
        gdb = subprocess.Popen(
            [
                "gdb",
                "-q",
                "-batch",
                "-p",
                str(target.pid),
                "-ex",
                "continue",
                "-ex",
                f"gcore {core}",
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        harness.until(lambda: b"ontinuing" in gdb.stdout.readline(), "gdb is attached")
        target.release()
        gdb.communicate(timeout=harness.PATIENCE)
    else:
        target.release()
        assert target.process.wait(timeout=harness.PATIENCE) == -signal.SIGSEGV
        (core,) = folder.glob("core*")
    return core


def dump_core(core, python=None, *flags):
    if python is not None and python.root:
        flags = ("--sysroot", python.root, *flags)
    return json.loads(harness.scry("dump", "--json", "--core", core, *flags).stdout)


def essence(threads):
    """What must be the same: which threads, their names, their stacks and variables, and who holds the GIL."""
    return {
        thread["thread_id"]: {
            key: thread[key] for key in ("pid", "thread_name", "os_thread_id", "owns_gil", "frames")
        }
        for thread in threads
    }


def assert_same(before, after):
    before, after = essence(before), essence(after)
    assert sorted(before) == sorted(after)
    for ident, thread in before.items():
        assert after[ident] == thread


def innermost(frames, count):
    """Where the stack was cut, it cannot be seen that it goes on from C."""
    return [{**f, "is_entry": None, "is_shim_entry": None} for f in frames[:count]]


def assert_same_as_far_as_it_goes(before, after):
    """A stack whose memory is not there ends early, says so, and is the beginning of what it was."""
    cut = {thread["thread_id"]: thread for thread in after if thread["incomplete"]}
    assert cut
    assert_same(
        [thread for thread in before if thread["thread_id"] not in cut],
        [thread for thread in after if thread["thread_id"] not in cut],
    )
    for thread in before:
        if thread["thread_id"] in cut:
            frames = cut[thread["thread_id"]]["frames"]
            assert 0 < len(frames) <= len(thread["frames"])
            assert innermost(frames, len(frames)) == innermost(thread["frames"], len(frames))


def with_native_frames(threads):
    return {
        thread["thread_id"]: (thread["native"], [frame["name"] for frame in thread["frames"]])
        for thread in threads
    }


@pytest.mark.pythons(since=(3, 8))
def test_a_copy_says_what_the_process_said(python, tmp_path):
    with harness.run_target(python, "crash.py", cwd=tmp_path) as target:
        until_blocked(target.pid)
        before = harness.dump(target.pid, "-ll")
        native = with_native_frames(harness.dump(target.pid, "--native"))
        core, whole = gcore(target.pid, tmp_path)
        after = dump_core(core, python, "-ll")
        if whole or not any(thread["incomplete"] for thread in after):
            assert_same(before, after)
            assert with_native_frames(dump_core(core, python, "--native")) == native
        else:
            assert_same_as_far_as_it_goes(before, after)
        assert {t["thread_name"] for t in before} == {"MainThread", "dies", "waits-αβ"}
        core.unlink()


@pytest.mark.pythons(since=(3, 8))
def test_a_crash_says_what_the_process_said(python, tmp_path):
    """The thread that died comes first, with its signal."""
    with harness.run_target(python, "crash.py", cwd=tmp_path, preexec_fn=allow_cores) as target:
        until_blocked(target.pid)
        before = harness.dump(target.pid, "-l")
        core = crash(target, tmp_path)
        after = dump_core(core, python, "-l")
        for threads in (before, after):
            for thread in threads:  # to crash it has to take the GIL, and others give it up
                del thread["owns_gil"]
                thread["owns_gil"] = None
        assert_same(before, after)
        assert [thread["signal"] for thread in after] == [signal.SIGSEGV, None, None]
        assert after[0]["thread_name"] == "dies"
        assert after[0]["active"] and not after[1]["active"]
        sysroot = ["--sysroot", python.root] if python.root else []
        text = harness.scry("dump", "--core", core, *sysroot).stdout
        first, process, version, empty, thread, *rest = text.splitlines()
        assert first == f"Signal 11: {core} (SIGSEGV at address 0x8)"
        assert process.startswith(f"Process {target.pid}: ") and process.endswith("crash.py")
        assert version.startswith("Python v3.") and empty == ""
        assert thread.startswith("Thread ") and thread.endswith('"dies" [died here]')
        assert rest[0].startswith("    dies (crash.py:17)")
        died = dump_core(core, python, "--native")[0]
        names = [frame["name"] for frame in died["frames"]]
        assert died["native"] == "merged" and names.index("dies") > 0, died
        core.unlink()


# ---- files that are packed, damaged, or not here ----


@pytest.fixture(scope="module")
def core_of(some_python, tmp_path_factory):
    """One core file for all, and what the process said before."""
    folder = tmp_path_factory.mktemp("core")
    with harness.run_target(some_python, "crash.py", cwd=folder, preexec_fn=allow_cores) as target:
        until_blocked(target.pid)
        before = harness.dump(target.pid, "-l")
        core = crash(target, folder)
        return core, before


def names_of(threads):
    return sorted((t["thread_name"], tuple(f["name"] for f in t["frames"])) for t in threads)


def test_packed_cores(core_of, tmp_path):
    core, before = core_of
    packed = tmp_path / "core.gz"
    packed.write_bytes(gzip.compress(core.read_bytes(), 1))
    assert names_of(dump_core(packed)) == names_of(before)
    packed = tmp_path / "core.zst"
    subprocess.run(["zstd", "-q", "-1", str(core), "-o", str(packed)], check=True)
    assert names_of(dump_core(packed, None)) == names_of(before)
    whole = packed.read_bytes()
    (tmp_path / "short.zst").write_bytes(whole[: len(whole) // 2])
    refused("cut off", "--core", tmp_path / "short.zst", may_work=True)


def refused(words, *args, may_work=False, **options):
    done = harness.scry("dump", *args, check=False, **options)
    if may_work and done.returncode == 0:
        assert words in done.stderr
        return
    assert done.returncode in (1, 2), done.stderr
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("scry: error: ") and words in line and line.endswith(")"), line


def test_bad_cores(core_of, tmp_path):
    """One clear sentence each."""
    core, _ = core_of
    data = core.read_bytes()

    def damaged(name, content):
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    def patched(offset, value):
        return data[:offset] + value + data[offset + len(value) :]

    refused("cannot be read: No such file", "--core", tmp_path / "nothing")
    refused("it is no ordinary file", "--core", tmp_path)
    refused("is empty", "--core", damaged("empty", b""))
    refused("is no core file", "--core", damaged("text", b"once upon a time"))
    refused("is a program or library, no core file", "--core", "/bin/sh")
    refused("is of a 32-bit process", "--core", damaged("32", patched(4, b"\1")))
    refused("is of a process on aarch64", "--core", damaged("arm", patched(18, b"\xb7\0")))
    refused("is cut off in its very first bytes", "--core", damaged("head", data[:20]))
    refused("its headers are not all there", "--core", damaged("headers", data[:100]))
    refused("is compressed with xz", "--core", damaged("xz", b"\xfd7zXZ\0" + data[:100]))
    refused("--sysroot", "--core", core, "--sysroot", tmp_path / "nowhere")
    refused("--exe", "--core", core, "--exe", tmp_path / "nowhere")
    refused("--subprocesses", "--core", core, "-s")
    refused("--exe is for a core file", "-p", os.getpid(), "--exe", "/bin/sh")
    os.mkfifo(tmp_path / "fifo")
    refused("it is no ordinary file", "--core", tmp_path / "fifo")


def test_a_core_that_is_cut_off_anywhere(core_of, tmp_path):
    """What is there is shown, with a note; what is not is no crash."""
    core, before = core_of
    data = core.read_bytes()
    cut = tmp_path / "cut"
    outcomes = set()
    for tenth in range(1, 10):
        cut.write_bytes(data[: len(data) * tenth // 10])
        done = harness.scry("dump", "--json", "--core", cut, check=False)
        assert done.returncode in (0, 1), done
        assert "cut off" in done.stderr
        if done.returncode == 0:
            assert len(json.loads(done.stdout)) <= len(before)
        outcomes.add(done.returncode)
    assert 1 in outcomes


def test_garbage_in_the_notes(core_of, tmp_path):
    core, _ = core_of
    data = bytearray(core.read_bytes())
    (offset,) = struct.unpack_from("<Q", data, 32)
    (count,) = struct.unpack_from("<H", data, 56)
    broken = tmp_path / "broken"
    for i in range(count):
        kind, _, at, _, _, size, _, _ = struct.unpack_from("<IIQQQQQQ", data, offset + 56 * i)
        if kind == 4:
            for k in range(at, at + min(size, 4096), 7):
                data[k] ^= 0xFF
    broken.write_bytes(data)
    done = harness.scry("dump", "--core", broken, check=False)
    assert done.returncode in (0, 1)


def test_a_core_without_the_memory(some_python, tmp_path):
    """/proc/PID/coredump_filter can leave everything out."""
    with harness.run_target(
        some_python, "crash.py", cwd=tmp_path, preexec_fn=allow_cores
    ) as target:
        until_blocked(target.pid)
        Path(f"/proc/{target.pid}/coredump_filter").write_text("0")
        core = crash(target, tmp_path)
        refused("does not hold the memory of a Python", "--core", core)


def test_the_program_is_elsewhere(tmp_path):
    """A program that was moved is found with --exe; one of another build is refused."""
    import pythons

    static = [p for p in pythons.found() if not p.root and not p.shared and p.minor >= (3, 8)]
    if not static:
        pytest.skip("no interpreter without libpython on this machine")
    python = static[0]
    program = tmp_path / "python-here"
    shutil.copy(python.path, program)
    script = harness.TARGETS / "crash.py"
    home = {**os.environ, "PYTHONHOME": str(Path(python.path).parent.parent)}
    with harness.start([program, script], cwd=tmp_path, env=home) as target:
        until_blocked(target.pid)
        before = harness.dump(target.pid)
        core, _ = gcore(target.pid, tmp_path)
    moved = tmp_path / "moved"
    program.rename(moved)
    for there, words in (([], "is not here"), (["--exe", "/bin/sh"], "another build id")):
        done = harness.scry("dump", "--core", core, *there, check=False)
        (line,) = (
            done.stderr.splitlines()
        )  # a refusal, or a note beside what can be read all the same
        assert words in line and "--exe" in line
        assert done.returncode == 1 or "incomplete" in done.stdout
    assert names_of(dump_core(core, None, "--exe", moved)) == names_of(before)
