"""record as a person or a script calls it: how it ends, what it leaves, what it says.

The programs it looks at run on the interpreter of the tests; that every version can be read is tested elsewhere.
Waiting is done on pipes: a target says when it is ready, scry says when it samples."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import stat
import struct
import subprocess
import sys
import termios
import time
from contextlib import contextmanager

import pytest

BUSY = "import sys\nsys.stdout.write('ready\\n'); sys.stdout.flush()\nwhile True: sum(range(1000))"
IDLE = "import sys\nsys.stdout.write('ready\\n'); sys.stdout.flush()\nsys.stdin.read()"
END = "scry: wrote "


@contextmanager
def target(code):
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
        assert process.poll() is None, "the process that was looked at must go on"
    finally:
        process.kill()
        process.communicate()


def start(tool, *args, **options):
    """scry record, running; comes back when it samples."""
    process = subprocess.Popen(
        [tool.path, "record", *map(str, args)],
        cwd=tool.folder,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )
    line = process.stderr.readline()
    assert line.startswith("scry: sampling process "), line + process.stderr.read()
    return process


def finish(process):
    said = process.stderr.read()
    process.stderr.close()
    return process.wait(), said


def is_flame_graph(path):
    text = path.read_text()
    return text.startswith("<?xml") and text.rstrip().endswith("</svg>")


def test_duration(tool):
    with target(BUSY) as program:
        result = tool("record", "-d", "0.5", "-o", "profile.svg", "-p", program.pid)
    assert result.returncode == 0, result.stderr
    assert result.stdout == ""
    assert is_flame_graph(tool.folder / "profile.svg")
    assert tool.left() == ["profile.svg"]
    sampling, wrote = result.stderr.splitlines()
    assert re.fullmatch(
        rf"scry: sampling process {program.pid} 100 times a second for 0.5 s; .*Control-C.*",
        sampling,
    )
    assert re.fullmatch(
        r"scry: wrote flame graph to 'profile.svg': \d+ samples, \d+ torn, \d+ missed, \d+ late, "
        r"\d+\.\d\d s of own CPU time; .*browser.*",
        wrote,
    )


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_signals_finish_the_file(tool, name):
    with target(BUSY) as program:
        process = start(tool, "-o", "profile.svg", "-p", program.pid)
        process.send_signal(signal.Signals[name])
        status, said = finish(process)
    assert status == 0, said
    assert said.startswith(END)
    assert is_flame_graph(tool.folder / "profile.svg")
    assert tool.left() == ["profile.svg"]


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_signals_end_a_launched_program(tool, name):
    readable, writable = os.pipe()
    process = start(
        tool, "-o", "profile.svg", "--", sys.executable, "-c", IDLE,
        stdin=subprocess.PIPE, stdout=writable,
    )  # fmt: skip
    os.close(writable)
    process.send_signal(signal.Signals[name])
    status, said = finish(process)
    process.stdin.close()
    assert status == 0, said
    assert is_flame_graph(tool.folder / "profile.svg")
    # Everything the program wrote, to the end of file: nobody holds the pipe any more.
    with os.fdopen(readable) as rest:
        assert rest.read() in ("", "ready\n")


def test_hang_up_is_ignored_under_nohup(tool):
    with target(BUSY) as program:
        process = start(
            tool, "-o", "profile.svg", "-p", program.pid,
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
        )  # fmt: skip
        process.send_signal(signal.SIGHUP)
        with open(f"/proc/{process.pid}/status") as status_file:
            ignored = re.search(r"SigIgn:\s*(\w+)", status_file.read()).group(1)
        assert int(ignored, 16) & 1 << (signal.SIGHUP - 1)
        process.send_signal(signal.SIGTERM)
        status, _ = finish(process)
    assert status == 0


def test_second_interrupt_gives_up(tool):
    """The first makes scry end the program, which does not want to; the second is final."""
    stubborn = (
        "import signal, sys\n"
        "def say(*_): print('no', flush=True)\n"
        "signal.signal(signal.SIGTERM, say)\n"
        "print('ready', flush=True)\n"
        "while True: sum(range(1000))"
    )
    readable, writable = os.pipe()
    process = start(
        tool, "-o", "profile.svg", "--", sys.executable, "-c", stubborn, stdout=writable
    )
    os.close(writable)
    with os.fdopen(readable) as said_by_program:
        assert said_by_program.readline() == "ready\n"
        assert any(name.endswith(".part") for name in tool.left())
        process.send_signal(signal.SIGINT)
        assert said_by_program.readline() == "no\n"
        process.send_signal(signal.SIGINT)
        status, said = finish(process)
        assert said_by_program.read() == "", "the program lives on"
    assert status == -signal.SIGINT
    assert END not in said
    assert tool.left() == []


def test_target_that_ends(tool):
    program = subprocess.Popen(
        [sys.executable, "-c", IDLE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert program.stdout.readline() == "ready\n"
    process = start(tool, "-i", "-o", "profile.svg", "-p", program.pid)
    program.communicate()
    status, said = finish(process)
    assert status == 0, said
    assert is_flame_graph(tool.folder / "profile.svg")


@pytest.mark.parametrize("status", [0, 1, 7, 255])
def test_exit_status_of_the_program(tool, status):
    code = f"import sys\nsum(range(2000000))\nsys.exit({status})"
    result = tool("record", "-o", "profile.svg", "--", sys.executable, "-c", code)
    assert result.returncode == status, result.stderr
    assert is_flame_graph(tool.folder / "profile.svg")


@pytest.mark.parametrize("name", ["SIGKILL", "SIGABRT"])
def test_signal_that_ended_the_program(tool, name):
    code = f"import os, signal\nsum(range(2000000))\nos.kill(os.getpid(), signal.{name})"
    result = tool(
        "record", "-o", "profile.svg", "--", sys.executable, "-c", code,
        preexec_fn=lambda: __import__("resource").setrlimit(4, (0, 0)),
    )  # fmt: skip
    assert result.returncode == 128 + signal.Signals[name], result.stderr
    assert is_flame_graph(tool.folder / "profile.svg")


def test_duration_ends_the_program(tool):
    result = tool("record", "-d", "0.3", "-o", "profile.svg", "--", sys.executable, "-c", BUSY)
    assert result.returncode == 0, result.stderr
    # The program had our pipe: reading it to its end, as subprocess does, shows that it is gone.
    assert result.stdout in ("", "ready\n")


@pytest.mark.parametrize("options", [["-s", "-d", "0.3"], ["-d", "0.3"]])
def test_ends_the_children_of_the_program_too(tool, options):
    """With -s Python is found in the shell's child; without it, it is an error. In both cases nobody stays."""
    command = f'{sys.executable} -c "while True: sum(range(1000))"; true'
    result = tool("record", *options, "-o", "profile.svg", "--", "sh", "-c", command)
    # Coming here at all means that the pipes were closed by everybody.
    assert result.returncode == (0 if "-s" in options else 1), result.stderr


def test_ends_children_that_do_not_listen(tool):
    deaf = "import signal; signal.signal(15, signal.SIG_IGN)\nwhile True: sum(range(1000))"
    command = f"{sys.executable} -c '{deaf}'; true"
    result = tool("record", "-s", "-d", "0.5", "-o", "profile.svg", "--", "sh", "-c", command)
    assert result.returncode == 0, result.stderr


def test_leaves_alone_what_a_program_left_running(tool):
    code = (
        "import os, sys\n"
        "readable, writable = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    os.setsid(); os.write(writable, b'x'); os.close(1); os.close(2); sys.stdin.read()\n"
        "    open('outlived', 'w').close(); os._exit(0)\n"
        "os.read(readable, 1)\n"
        "sum(range(3000000))\n"
    )
    readable, writable = os.pipe()
    process = start(tool, "-o", "profile.svg", "--", sys.executable, "-c", code, stdin=readable)
    status, said = finish(process)
    assert status == 0, said
    assert not (tool.folder / "outlived").exists()
    os.close(writable)  # only now may the one left running end
    os.close(readable)
    deadline = time.monotonic() + 60
    while not (tool.folder / "outlived").exists():
        assert time.monotonic() < deadline


def test_idle_target(tool):
    with target(IDLE) as program:
        result = tool("record", "-d", "0.2", "-o", "profile.svg", "-p", program.pid)
    assert result.returncode == 0, result.stderr
    assert "the process was idle" in result.stderr
    assert "--idle" in result.stderr
    assert is_flame_graph(tool.folder / "profile.svg")
    assert "--idle" in (tool.folder / "profile.svg").read_text()


def test_standard_output_holds_the_profile_only(tool):
    with target(BUSY) as program:
        result = tool("record", "-d", "0.3", "-f", "raw", "-o", "-", "-p", program.pid)
    assert result.returncode == 0
    assert result.stdout
    for line in result.stdout.splitlines():
        assert re.fullmatch(r"<module> \(<string>:\d\) \d+", line)
    assert END in result.stderr
    assert tool.left() == []


def test_reader_that_goes_away(tool):
    readable, writable = os.pipe()
    os.close(readable)
    with target(BUSY) as program:
        result = subprocess.run(
            [tool.path, "record", "-d", "0.2", "-f", "raw", "-o", "-", "-p", str(program.pid)],
            stdout=writable,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    os.close(writable)
    assert result.returncode == 1
    assert "scry: error: " in result.stderr


@pytest.mark.parametrize(
    "format", ["flamegraph", "raw", "speedscope", "chrometrace", "gecko", "pprof", "scry"]
)
def test_default_name(tool, format):
    result = tool("record", "-d", "0.2", "-f", format, "--", sys.executable, "-c", BUSY)
    assert result.returncode == 0, result.stderr
    (name,) = tool.left()
    program = re.escape(os.path.basename(sys.executable))
    assert re.fullmatch(program + r"-\d{4}-\d\d-\d\dT\d{6}\.[a-z.]+", name)
    assert f"'{name}'" in result.stderr


def test_default_name_of_a_pid(tool):
    with target(BUSY) as program:
        tool("record", "-d", "0.1", "-p", program.pid)
    (name,) = tool.left()
    assert re.fullmatch(rf"{program.pid}-\d{{4}}-\d\d-\d\dT\d{{6}}\.svg", name)


def test_replaces_a_file_behind_a_link_and_keeps_its_mode(tool):
    real = tool.folder / "real.svg"
    real.write_text("old")
    real.chmod(0o640)
    (tool.folder / "link.svg").symlink_to("real.svg")
    with target(BUSY) as program:
        assert tool("record", "-d", "0.1", "-o", "link.svg", "-p", program.pid).returncode == 0
    assert (tool.folder / "link.svg").is_symlink()
    assert is_flame_graph(real)
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


def test_the_old_file_stays_until_the_new_one_is_whole(tool):
    old = tool.folder / "profile.svg"
    old.write_text("old")
    with target(BUSY) as program:
        process = start(tool, "-o", "profile.svg", "-p", program.pid)
        assert old.read_text() == "old"
        process.send_signal(signal.SIGTERM)
        assert finish(process)[0] == 0
    assert is_flame_graph(old)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_under_sudo_the_file_is_the_callers(tool):
    with target(BUSY) as program:
        result = tool(
            "record", "-d", "0.1", "-o", "profile.svg", "--stats", "s.json", "-p", program.pid,
            env={"SUDO_UID": "12345", "SUDO_GID": "12346"},
        )  # fmt: skip
    assert result.returncode == 0
    for name in ("profile.svg", "s.json"):
        owner = (tool.folder / name).stat()
        assert (owner.st_uid, owner.st_gid) == (12345, 12346)


def test_nothing_stays_in_the_folder_for_temporary_files(tool, tmp_path):
    folder = tmp_path / "temporary"
    folder.mkdir()
    with target(BUSY) as program:
        result = tool(
            "record", "-d", "0.1", "-o", "x.svg", "-p", program.pid, env={"TMPDIR": str(folder)}
        )
    assert result.returncode == 0
    assert list(folder.iterdir()) == []


def test_folder_for_temporary_files_that_is_missing(tool, refused):
    result = tool("record", "-o", "x.svg", "-p", os.getpid(), env={"TMPDIR": "/no/such/folder"})
    refused(result, 1, "/no/such/folder", "TMPDIR")
    assert tool.left() == []


def on_terminal(tool, *args):
    """What appears on the terminal that is scry's standard error."""
    main, side = pty.openpty()
    process = subprocess.Popen(
        [tool.path, "record", *map(str, args)],
        cwd=tool.folder,
        stdout=subprocess.DEVNULL,
        stderr=side,
    )
    os.close(side)
    text = b""
    while select.select([main], [], [], 60)[0]:
        try:
            text += os.read(main, 65536)
        except OSError:
            break
    os.close(main)
    assert process.wait() == 0
    return text.decode()


def test_progress_on_a_terminal(tool):
    with target(BUSY) as program:
        text = on_terminal(tool, "-d", "0.5", "-o", "x.svg", "-p", program.pid)
    assert re.search(r"\r\033\[K\d\.\d of 0\.5 s, \d+ samples, \d+ torn, \d+ late", text)
    # It is taken back before the last line is printed.
    assert re.search(r"late\r\033\[Kscry: wrote ", text)


def test_progress_can_be_hidden(tool):
    with target(BUSY) as program:
        text = on_terminal(tool, "-d", "0.5", "--hideprogress", "-o", "x.svg", "-p", program.pid)
    assert "\r\033" not in text


class Terminal:
    """A terminal of 24 rows that scry and the program it launches run on."""

    def __init__(self, tool, *args, kind="xterm"):
        self.main, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.process = subprocess.Popen(
            [tool.path, "record", *args],
            cwd=tool.folder,
            stdin=side,
            stdout=side,
            stderr=side,
            env=os.environ | {"TERM": kind},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(side)
        self.text = ""

    def until(self, pattern):
        while not re.search(pattern, self.text):
            assert select.select([self.main], [], [], 60)[0], self.text
            self.text += os.read(self.main, 65536).decode()

    def finish(self):
        try:
            while data := os.read(self.main, 65536):
                self.text += data.decode()
        except OSError:
            pass
        os.close(self.main)
        return self.process.wait()


def test_progress_beside_a_program_has_a_row_of_its_own(tool):
    terminal = Terminal(tool, "-d", "0.5", "-o", "x.svg", "--", sys.executable, "-c", BUSY)
    assert terminal.finish() == 0
    # The rows above scroll; the line is written to the last one; at the end all rows scroll again.
    apart, line, back = (
        terminal.text.find("\0337\033[1;23r\0338"),
        re.search(
            r"\0337\033\[24;1H\033\[K\d\.\d of 0\.5 s, \d+ samples, .* late\0338", terminal.text
        ),
        terminal.text.find("\033[24;1H\033[K\033[r\0338"),
    )
    assert 0 <= apart < line.start() < back < terminal.text.find(END)


def test_no_progress_beside_a_program_on_a_plain_terminal(tool):
    command = ["-d", "0.3", "-o", "x.svg", "--", sys.executable, "-c", BUSY]
    terminal = Terminal(tool, *command, kind="dumb")
    assert terminal.finish() == 0
    assert "\033" not in terminal.text


def test_control_c_at_the_terminal(tool):
    """Both scry and the program get the signal; the program's way to end does not matter."""
    code = (
        "import sys\n"
        "try:\n"
        "    print('ready', flush=True)\n"
        "    while True: sum(range(1000))\n"
        "except KeyboardInterrupt:\n"
        "    sys.exit(9)"
    )
    command = ["-o", "x.svg", "--hideprogress", "--", sys.executable, "-c", code]
    terminal = Terminal(tool, *command)
    terminal.until("scry: sampling")
    terminal.until("ready")
    os.write(terminal.main, b"\x03")
    assert terminal.finish() == 0, terminal.text
    assert END in terminal.text
    assert is_flame_graph(tool.folder / "x.svg")


def test_the_recording_itself(tool):
    with target(BUSY) as program:
        result = tool("record", "-d", "0.3", "-f", "scry", "-o", "run.scry", "-p", program.pid)
    assert result.returncode == 0, result.stderr
    assert (tool.folder / "run.scry").stat().st_size > 100
    assert tool.left() == ["run.scry"]


def test_speaks_like_py_spy_under_its_name(py_spy):
    with target(BUSY) as program:
        result = py_spy(
            "record", "-d", "1", "-f", "speedscope", "-o", "out.json", "--pid", hex(program.pid)
        )
    assert result.returncode == 0
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    assert lines[0] == (
        "py-spy> Sampling process 100 times a second for 1 seconds. Press Control-C to exit."
    )
    assert lines[1] == ""
    assert re.fullmatch(
        r"py-spy> Wrote speedscope file to 'out.json'. Samples: \d+ Errors: \d+", lines[2]
    )
    assert json.loads((py_spy.folder / "out.json").read_text())["profiles"]


@pytest.mark.parametrize(
    "args, says",
    [
        (["--overhead", "1", "-r", "100"], ["--rate", "--overhead", "contradict"]),
        (["--overhead", "0"], ["--overhead '0'", "0.01 to 100"]),
        (["--overhead", "101%"], ["--overhead '101%'"]),
        (["--overhead", "little"], ["--overhead 'little'"]),
        (["--overhead", "%"], ["--overhead '%'"]),
        (["--overhead", "-1"], ["--overhead '-1'"]),
    ],
)
def test_bad_overhead(tool, refused, args, says):
    refused(tool("record", "-p", 1, *args), 2, *says)
    assert tool.left() == []
