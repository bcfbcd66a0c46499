"""Bad input gets one line that names the input and the remedy, and nothing is left behind."""

import os
import subprocess
import sys

import pytest

PROGRAM = ("--", sys.executable, "-c", "input()")


@pytest.mark.parametrize("command", ["dump", "record"])
@pytest.mark.parametrize(
    "pid, says",
    [
        ("0", "no process has the id 0"),
        ("0x0", "no process has the id 0"),
        ("-1", "not negative"),
        ("-0x10", "'-0x10' is not a process id"),
        ("abc", "'abc' is not a process id"),
        ("12abc", "'12abc' is not a process id"),
        ("0xzz", "'0xzz' is not a process id"),
        ("0x", "'0x' is not a process id"),
        ("1.5", "'1.5' is not a process id"),
        ("", "'' is not a process id"),
        (" 1", "' 1' is not a process id"),
        ("4194305", "beyond the range"),
        ("99999999999999999999999", "beyond the range"),
        ("0xffffffffffffffffff", "beyond the range"),
        ("12\n34", "'12\\n34' is not a process id"),
        ("12\x1b[31m", "\\x1b"),
    ],
)
def test_pids(tool, refused, command, pid, says):
    line = refused(tool(command, "-p", pid), 2, says, "scry ps")
    assert "\x1b" not in line
    assert tool.left() == []


@pytest.mark.parametrize(
    "options, says",
    [
        (["-r", "0"], ["-r 0", "0.01 to 1000000"]),
        (["-r", "-5"], ["-5", "not negative"]),
        (["--rate=fast"], ["--rate 'fast'", "0.01 to 1000000"]),
        (["-r", "1e3"], ["'1e3'"]),
        (["-r", "nan"], ["'nan'"]),
        (["-r", "inf"], ["'inf'"]),
        (["-r", "1000001"], ["-r 1000001"]),
        (["-r", "."], ["'.'"]),
        (["-d", "0"], ["-d 0", "unlimited"]),
        (["-d", "0.0"], ["-d 0.0", "unlimited"]),
        (["-d", "-3"], ["-d -3", "not negative"]),
        (["-d", "10s"], ["-d '10s'", "without a unit: -d 10"]),
        (["-d", "5m"], ["-d '5m'", "-d 300"]),
        (["--duration", "ten"], ["--duration 'ten'", "unlimited"]),
        (["-d", "99999999999"], ["-d 99999999999"]),
        (["-f", "png"], ["-f 'png'", "flamegraph", "speedscope", "raw"]),
        (["-f", "flamegrap"], ["did you mean flamegraph?"]),
        (["-o", ""], ["-o", "empty"]),
        (["--blocking", "perhaps"], ["--blocking 'perhaps'", "auto, always, never"]),
        (["--blocking=always", "--nonblocking"], ["--nonblocking", "contradict"]),
        (["-F", "--nolineno"], ["--function", "--nolineno", "contradict"]),
        (["--subproceses"], ["--subproceses", "did you mean --subprocesses?"]),
        (["--sub"], ["did you mean --subprocesses?"]),
        (["--zzz"], ["--zzz", "--help"]),
        (["-Z"], ["'-Z'", "--help"]),
        (["-sZ"], ["'-Z' in '-sZ'"]),
        (["--idle=yes"], ["--idle", "'yes'"]),
        (["-p"], ["-p needs a value", "-p PID"]),
        (["-o", "-s"], ["-o needs a value"]),
        (["-o", "--idle"], ["-o needs a value"]),
        (["--format"], ["--format needs a value"]),
    ],
)
def test_record_options(tool, refused, options, says):
    refused(tool("record", *options, *PROGRAM), 2, *says)
    assert tool.left() == []


@pytest.mark.parametrize("command", ["dump", "record"])
def test_no_target(tool, refused, command):
    refused(tool(command), 2, command, "-p PID")


def test_pid_and_program(tool, refused):
    refused(tool("record", "-p", "1", "--", "python3"), 2, "'python3'", "1")


def test_pid_twice(tool, refused):
    refused(tool("top", "-p", "1", "-p", "2"), 2, "-p is given twice")


def test_a_pid_without_its_option(tool, refused):
    refused(tool("dump", "4242"), 2, "'4242'", "-p 4242")


def test_dump_takes_no_words(tool, refused):
    refused(tool("dump", "-p", "1", "word"), 2, "'word'")


def test_a_core_file_that_is_not_there(tool, refused):
    refused(tool("dump", "--core", "core.1"), 1, "'core.1'", "No such file")


def gone_pid() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


@pytest.mark.parametrize("command", ["dump", "record"])
def test_process_that_is_gone(tool, refused, command):
    pid = gone_pid()
    refused(tool(command, "-p", pid), 1, str(pid))
    assert tool.left() == []


@pytest.mark.parametrize("command", ["dump", "record"])
def test_zombie(tool, command):
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    result = tool(command, "-p", child.pid)
    child.wait()
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
    assert str(child.pid) in result.stderr
    assert tool.left() == []


@pytest.mark.skipif(not os.path.exists("/proc/2/comm"), reason="no kernel threads to be seen here")
@pytest.mark.parametrize("command", ["dump", "record"])
def test_kernel_thread(tool, command):
    with open("/proc/2/status") as status:
        if "VmSize" in status.read():
            pytest.skip("process 2 is no kernel thread here: a container")
    result = tool(command, "-p", 2)
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
    assert "kernel thread" in result.stderr
    assert tool.left() == []


@pytest.mark.parametrize("command", ["dump", "record"])
def test_not_python(tool, refused, command):
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as cat:
        result = tool(command, "-p", cat.pid)
        assert cat.poll() is None, "the process that was looked at must go on"
        cat.stdin.close()
    refused(result, 1, str(cat.pid), "scry ps")
    assert tool.left() == []


@pytest.mark.parametrize(
    "output, says",
    [
        ("missing/profile.svg", "missing/profile.svg"),
        (".", "'.'"),
        ("/proc/nothing.svg", "/proc/nothing.svg"),
        ("a" * 300, "a" * 300),
    ],
)
def test_output_that_cannot_be_written(tool, refused, output, says):
    # The program would tell on us: it must not even be started.
    started = "open('started', 'w')"
    refused(tool("record", "-o", output, "--", sys.executable, "-c", started), 1, says, "-o")
    assert tool.left() == []


def test_binary_output_to_a_terminal(tool):
    main, side = os.openpty()
    result = subprocess.run(
        [tool.path, "record", "-f", "pprof", "-o", "-", *PROGRAM],
        cwd=tool.folder,
        stdin=side,
        stdout=side,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    os.close(side)
    os.close(main)
    assert result.returncode == 2
    assert "terminal" in result.stderr and "-o" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "program, says",
    [
        (["/no/such/program"], "/no/such/program"),
        (["no-such-program-anywhere"], "no-such-program-anywhere"),
        (["."], "."),
    ],
)
def test_program_that_cannot_be_started(tool, program, says):
    result = tool("record", "-o", "profile.svg", "--", *program)
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
    assert says in result.stderr
    assert tool.left() == []


@pytest.mark.parametrize("status", [0, 1, 7])
def test_program_that_dies_before_python_starts(tool, refused, status):
    result = tool("record", "-o", "profile.svg", "--", "sh", "-c", f"exit {status}")
    refused(result, 1, "'sh'", f"exit status {status}")
    assert tool.left() == []


def test_program_that_is_killed_before_python_starts(tool, refused):
    result = tool("record", "-o", "profile.svg", "--", "sh", "-c", "kill -KILL $$")
    refused(result, 1, "'sh'", "signal 9")
    assert tool.left() == []


def test_program_that_is_not_python_is_ended(tool, refused):
    # cat tells its pid by an open pipe: end of file means it is gone.
    readable, writable = os.pipe()
    result = tool(
        "record", "-o", "profile.svg", "--", "sh", "-c", "exec cat", stdin=readable, pass_fds=[]
    )
    os.close(readable)
    os.close(writable)
    refused(result, 1, "'sh'", "--subprocesses")
    assert tool.left() == []


def test_an_existing_file_survives_a_failure(tool):
    old = tool.folder / "profile.svg"
    old.write_text("precious")
    assert tool("record", "-o", "profile.svg", "--", "sh", "-c", "exit 1").returncode == 1
    assert old.read_text() == "precious"
    assert tool.left() == ["profile.svg"]


@pytest.mark.parametrize(
    "words, says",
    [
        (["dumb"], ["'dumb'", "did you mean dump?"]),
        (["recrod"], ["did you mean record?"]),
        (["frobnicate"], ["'frobnicate'", "record", "dump"]),
        (["--frob"], ["--frob"]),
        (["help", "nothing"], ["'nothing'"]),
        (["help", "dump", "record"], ["help"]),
        (["completions"], ["completions bash"]),
        (["completions", "tcsh"], ["'tcsh'", "bash, zsh, fish"]),
        ([""], ["''"]),
    ],
)
def test_commands(tool, refused, words, says):
    refused(tool(*words), 2, *says)


def test_full_output_device(tool):
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [tool.path, "--help"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
    assert "standard output" in result.stderr
