"""top on a real terminal: tmux holds it, types the keys and reads the screen.

Everything waits for what the screen shows; nothing sleeps for a time that ought to be enough."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import jsonschema
import pytest

BUSY = """
import sys, threading
def leaf(n):
    return sum(range(n))
def deeper(n):
    return deeper(n - 1) if n else leaf(3000)
def busy():
    while True: deeper(3)
def waits():
    threading.Event().wait()
threading.Thread(target=waits, name='waiting-one', daemon=True).start()
threading.Thread(target=busy, name='busy-one', daemon=True).start()
sys.stdout.write('ready\\n'); sys.stdout.flush()
sys.stdin.read()
"""
COMPRESSES = """
import sys, zlib
data = bytes((i * i >> 3) & 255 for i in range(1 << 16)) * 64  # so much that only deflate() matters
def squeeze():
    while True: zlib.compress(data, 6)
sys.stdout.write('ready\\n'); sys.stdout.flush()
squeeze()
"""
PROMPT = r"^READY>$"
LIMIT = 60  # seconds, on a machine that does other things as well


@contextmanager
def target(code=BUSY):
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


class Screen:
    """A terminal with a shell in it."""

    def __init__(self, folder, columns=100, rows=24, **environment):
        self.socket = str(folder / "tmux")
        self.folder = folder
        env = {k: v for k, v in os.environ.items() if k not in ("TMUX", "NO_COLOR")}
        shell = f"env PS1='READY>' {' '.join(f'{k}={v}' for k, v in environment.items())} sh"
        self.tmux(
            *("-f", "/dev/null", "new-session", "-d", "-x", columns, "-y", rows, "-c", folder),
            shell,
            env=env | {"LC_ALL": "C.UTF-8", "TERM": "xterm-256color"},
        )
        self.until(PROMPT)

    def tmux(self, *args, **options):
        done = subprocess.run(
            ["tmux", "-S", self.socket, *map(str, args)],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
            **options,
        )
        return done.stdout

    def text(self):
        return self.tmux("capture-pane", "-p")

    def type(self, *keys):
        self.tmux("send-keys", *keys)

    def line(self, *words):
        self.type(shlex.join(map(str, words)), "Enter")

    def until(self, pattern, gone=False, press=None):
        """Wait until it is on the screen, or gone; a key that may come too early can be pressed again and again."""
        deadline = time.monotonic() + LIMIT
        while bool(re.search(pattern, self.text(), re.M)) == gone:
            if press:
                self.type(press)
            assert time.monotonic() < deadline, (
                f"waited for {pattern!r}{' to go' * gone}:\n{self.text()}"
            )
            time.sleep(0.05)
        return self.text()

    def resize(self, columns, rows):
        self.tmux("resize-window", "-x", columns, "-y", rows)

    def is_sane(self):
        """The shell is back on its own screen, the terminal echoes and breaks lines, the cursor is seen."""
        self.type(
            "clear; stty -a | tr ' ;' '\\n\\n' | grep -xE 'icanon|echo|onlcr'; echo d'on'e", "Enter"
        )
        self.until(r"^done$")
        shown = self.text().split()
        assert {"icanon", "echo", "onlcr"} <= set(shown)
        flags = self.tmux(
            "display-message", "-p", "#{alternate_on} #{cursor_flag} #{keypad_cursor_flag}"
        )
        assert flags.split() == ["0", "1", "0"]
        return True


@pytest.fixture
def screens(tmp_path):
    made = []

    def make(**options):
        folder = tmp_path / f"screen{len(made)}"
        folder.mkdir()
        made.append(Screen(folder, **options))
        return made[-1]

    yield make
    for screen in made:
        subprocess.run(["tmux", "-S", screen.socket, "kill-server"], capture_output=True)


def scry_pid(target_pid):
    """The process of top itself; the guard of its terminal has it as its parent."""
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            name = (entry / "comm").read_text().strip()
        except (OSError, NotADirectoryError):
            continue
        if words[1:2] == [b"top"] and str(target_pid).encode() in words and name != "scry-guard":
            return int(entry.name)
    raise AssertionError("top does not run")


def rows(text):
    """Rows of the table: own percent, and the last columns."""
    return [
        (float(own), rest)
        for own, rest in re.findall(r"^ *(\d+\.\d\d)  (?:.*s  )? *(\S.*)$", text, re.M)
    ]


def names(text):
    return [re.sub(r" \(.*", "", re.split(r"\s{2,}", line)[-1]) for _, line in rows(text)]


# ---- on the screen ----


def test_a_session(screens, tool):
    """The table, sorting, lines, searching, threads, columns, pause, help, resizing, and the end."""
    with target() as process:
        screen = screens()
        screen.line(tool.path, "top", "-p", process.pid, "--delay", "0.3")
        text = screen.until(r"leaf \(<string>:3\)")
        assert f"process {process.pid}: " in text
        assert re.search(r"^GIL \[\|+ *\] +\d+\.\d%  Active \[\|", text, re.M)
        assert "Threads 3 (" in text
        assert re.search(r"^\d+ samples at 100 per second, \d+ torn, \d+ late", text, re.M)
        assert re.search(
            r"^ +%Own  %Total  OwnTime  TotalTime  Function \(filename:def\)", text, re.M
        )
        assert names(text)[0] == "leaf"

        screen.type("5")  # by name
        screen.until(r"TotalTime .*\n.*Thread\._bootstrap \(|TotalTime .*\n.*Thread\._boot")
        assert names(screen.text()) == sorted(names(screen.text()))
        screen.type("!")
        screen.until(r"TotalTime .*\n.*leaf \(")
        screen.type("3")

        screen.type("l")
        text = screen.until(r"Line \(filename:line\)")
        assert re.search(r"deeper \(<string>:6\)", text)

        screen.type("/", "DEEP")
        text = screen.until(r"^/DEEP_")
        screen.until(r"leaf \(", gone=True)
        assert {"deeper"} == set(names(screen.text()))
        screen.type("Enter")
        screen.until(r"rows with: DEEP")
        screen.type("Escape")
        screen.until(r"leaf \(")
        screen.type("l")

        screen.type("t")
        screen.until(r"%Total  OwnTime  TotalTime  Thread +Function")
        screen.until(r"\d+ busy-one +leaf \(")
        screen.type("s")
        screen.until(rf" {process.pid}  \d+ busy-one +leaf \(")
        screen.type("t", "s")

        screen.type("Tab")
        screen.until(r"^ +\d+  active(\+gil)? .* busy-one ")
        screen.until(r"^ +\d+  idle +0\.0 +0\.0  waiting-one .*\(threading\.py:\d+\) \[futex")
        screen.type("Tab")

        screen.type("?")
        text = screen.until(r"^Moving and leaving")
        assert "? x         open and close this help" in text  # all of it fits on 24 rows
        screen.type("x")
        screen.until(r"Function \(filename:def\)")

        screen.resize(50, 12)  # no room for the times
        screen.until(r"^ +%Own  %Total  Function \(filename:def\)$")
        screen.resize(100, 24)
        screen.until(r"Function \(filename:def\)")
        screen.type("q")
        screen.until(PROMPT)
        assert screen.is_sane()
        assert process.poll() is None


def samples(text):
    return int(re.search(r"^(\d+) samples", text, re.M)[1])


def test_pause_and_reset(screens, tool):
    with target() as process:
        screen = screens()
        screen.line(tool.path, "top", "-p", process.pid, "--delay", "0.2", "-r", "200")
        screen.until(r"^\d{3,} samples")
        screen.type("p")
        screen.until(r"^paused")
        screen.until(r"p Go on")
        before = samples(screen.text())
        cpu = os.times().elapsed
        while os.times().elapsed < cpu + 1:  # at 200 Hz that would be 200 samples
            assert samples(screen.text()) == before
        screen.type("Space")
        screen.until(r"^paused", gone=True)
        deadline = time.monotonic() + LIMIT
        while samples(screen.text()) < before + 50:
            assert time.monotonic() < deadline
        screen.type("r")
        while samples(screen.text()) > before:
            assert time.monotonic() < deadline
        screen.type("C-c")
        screen.until(PROMPT)
        assert screen.is_sane()


MANY = """
import sys
{functions}
print('ready', flush=True)
while True: {calls}
""".format(
    functions="".join(f"def f{i:02}(n): sum(range(n))\n" for i in range(40)),
    calls="; ".join(f"f{i:02}(3000)" for i in range(40)),
)


def test_scrolling(screens, tool):
    with target(MANY) as process:
        screen = screens(rows=14)
        screen.line(
            tool.path, "top", "-p", process.pid, "--delay", "0.2", "-r", "1000", "--sort", "name"
        )
        screen.until(r"<module> \(")
        screen.until(r"f39 \(", press="End")
        assert "<module> (" not in screen.text()
        screen.type("PPage")
        screen.until(r"f39 \(", gone=True)
        screen.type("Home")
        screen.until(r"<module> \(")
        screen.type("Down")
        screen.until(r"<module> \(", gone=True)
        screen.type("Up")
        screen.until(r"<module> \(")
        screen.type("Right")  # by eight columns
        screen.until(r"s   \(<string>:1\)$")
        screen.type("q")
        screen.until(PROMPT)


@pytest.mark.parametrize("size", [(20, 5), (10, 2), (1, 1), (200, 60)])
def test_odd_sizes(screens, tool, size):
    with target() as process:
        screen = screens()
        screen.line(tool.path, "top", "-p", process.pid, "--delay", "0.2")
        screen.until(r"leaf \(<string>:3\)")
        screen.resize(*size)
        if size == (20, 5):
            text = screen.until(r"^GIL \d+% Act \d+%")
            assert re.search(r"^ +%Own  Function \(f$", text, re.M)
            assert re.search(r"^ *\d+\.\d\d  leaf ", text, re.M)
        if size[1] > 5:
            screen.until(r"g GIL")
        screen.type("?", "x", "Tab", "Tab", "/", "x", "Escape", "End", "Home", "p")
        screen.resize(100, 24)
        screen.until(r"^paused")
        screen.type("q")
        screen.until(PROMPT)
        assert screen.is_sane()


def test_started_on_a_small_terminal(screens, tool):
    with target() as process:
        screen = screens(columns=20, rows=5)
        screen.type(f"PS1=; clear; {tool.path} top -p {process.pid}; PS1='READY>'", "Enter")
        screen.until(r"^GIL \d+% Act \d+%")
        screen.type("q")
        screen.until(PROMPT)


# ---- the end, however it comes ----


@pytest.mark.parametrize("name", ["TERM", "HUP", "INT", "QUIT", "KILL", "SEGV", "ABRT"])
def test_the_terminal_is_restored_after_a_signal(screens, tool, name):
    with target() as process:
        screen = screens()
        screen.type(f"{tool.path} top -p {process.pid}; echo status $?", "Enter")
        screen.until(r"leaf \(<string>:3\)")
        os.kill(scry_pid(process.pid), signal.Signals["SIG" + name])
        screen.until(r"leaf \(<string>:3\)", gone=True)
        if (
            name != "KILL"
        ):  # then the guard restores the terminal, and the shell may write before it does
            screen.until(r"^status \d+")
        assert screen.is_sane()
        assert process.poll() is None
        state = open(f"/proc/{process.pid}/stat").read().rpartition(")")[2].split()[0]
        assert state in "RS", "the target was left stopped"


def test_the_target_ends(screens, tool):
    with target() as process:
        screen = screens()
        screen.type(f"{tool.path} top -p {process.pid}; echo status $?", "Enter")
        screen.until(r"leaf \(<string>:3\)")
        process.kill()
        process.wait()
        text = screen.until(r"^status \d+")
        assert "status 0" in text
        assert re.search(
            rf"^process {process.pid} ended after \d+\.\d s; most time was spent in:", text, re.M
        )
        assert names(text)[0] == "leaf"
        assert screen.is_sane()


def test_suspended_and_continued(screens, tool):
    with target() as process:
        screen = screens()
        screen.line(tool.path, "top", "-p", process.pid, "--delay", "0.2")
        screen.until(r"leaf \(<string>:3\)")
        screen.type("C-z")
        screen.until(r"[Ss]topped|Suspended")
        assert screen.is_sane()
        for task in os.listdir(f"/proc/{process.pid}/task"):
            assert (
                open(f"/proc/{process.pid}/task/{task}/stat").read().rpartition(")")[2].split()[0]
                != "t"
            )
        screen.type("fg", "Enter")
        screen.until(r"leaf \(<string>:3\)")
        first = samples(screen.text())
        deadline = time.monotonic() + LIMIT
        while samples(screen.text()) <= first:
            assert time.monotonic() < deadline
        screen.type("q")
        screen.until(PROMPT)


# ---- a launched program ----


def test_a_launched_program(screens, tool):
    """Its output is kept from the screen, shown with `o`, and printed at the end; its status is passed on."""
    code = "print('first line'); print('\\x1b[31mred')\ndef spin():\n while not stop: sum(range(1000))\n"
    code = (
        "import os, signal, sys\nstop = []\nsignal.signal(signal.SIGUSR1, lambda *_: stop.append(1))\n"
        + code
    )
    code += "print('pid', os.getpid(), flush=True)\nspin()\nsys.exit(7)\n"
    screen = screens()
    (screen.folder / "program.py").write_text(code)
    screen.type(f"{tool.path} top -- {sys.executable} program.py; echo status $?", "Enter")
    text = screen.until(r"spin \(program\.py:5\)")
    assert "first line" not in text
    screen.type("o")
    text = screen.until(r"^first line")
    assert r"\x1b[31mred" in text
    pid = int(re.search(r"^pid (\d+)", text, re.M)[1])
    screen.type("o")
    screen.until(r"spin \(program\.py:5\)")
    os.kill(pid, signal.SIGUSR1)
    text = screen.until(r"^status \d+")
    assert "status 7" in text
    assert re.search(r"^first line", text, re.M)
    assert re.search(rf"^process {pid} ended after", text, re.M)


def test_quitting_ends_the_launched_program(screens, tool):
    screen = screens()
    code = "import os, time\ndef spin():\n while True: sum(range(1000))\nprint(os.getpid(), flush=True)\nspin()\n"
    (screen.folder / "program.py").write_text(code)
    screen.type(f"{tool.path} top -- {sys.executable} program.py; echo status $?", "Enter")
    screen.until(r"spin \(program\.py:2\)")
    screen.type("o")
    pid = int(re.search(r"^(\d+)$", screen.until(r"^\d+$"), re.M)[1])
    screen.type("q")
    assert "status 0" in screen.until(r"^status \d+")
    assert not os.path.exists(f"/proc/{pid}")
    assert screen.is_sane()


# ---- no terminal to draw on ----


def test_no_terminal(tool, refused):
    with target() as process:
        refused(tool("top", "-p", process.pid), 1, "standard output is none", "--once")


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("nonsense", "nothing is known of the terminal 'nonsense'"),
        ("dumb", "has no cursor"),
        ("", "TERM is not set"),
    ],
)
def test_terminals_that_cannot_be_drawn_on(screens, tool, kind, words):
    with target() as process:
        screen = screens()
        screen.type(f"TERM={kind} {tool.path} top -p {process.pid}; echo status $?", "Enter")
        text = screen.until(r"^status \d+").replace("\n", " ")
        assert words in text and "status 1" in text and "top --once" in text


def test_monochrome(screens, tool):
    with target() as process:
        screen = screens()
        screen.type(f"NO_COLOR=1 TERM=vt100 {tool.path} top -p {process.pid}", "Enter")
        screen.until(r"leaf \(<string>:3\)")
        assert not re.search(r"\x1b\[[0-9;]*[34][0-7]m", screen.tmux("capture-pane", "-p", "-e"))
        screen.type("q")
        screen.until(PROMPT)
        screen.type("clear", "Enter")  # that terminal has no second screen
        screen.until(r"leaf \(<string>:3\)", gone=True)
        screen.line(tool.path, "top", "-p", process.pid)
        screen.until(r"leaf \(<string>:3\)")
        assert re.search(r"\x1b\[[0-9;]*[34][0-7]m", screen.tmux("capture-pane", "-p", "-e"))
        screen.type("q")
        screen.until(PROMPT)


def test_native_on_the_screen(screens, tool):
    with target(COMPRESSES) as process:
        screen = screens()
        screen.line(tool.path, "top", "--native", "-p", process.pid)
        screen.until(r" deflate \(", press="4")  # by total time
        assert "squeeze (<string>:4)" in screen.until(r" squeeze \(")
        screen.type("q")
        screen.until(PROMPT)


# ---- once ----


def test_once(tool):
    with target() as process:
        done = tool("top", "--once", "-d", "1", "-p", process.pid)
        assert done.returncode == 0 and done.stderr == ""
        assert done.stdout.startswith(f"scry top: process {process.pid}: {sys.executable} -c ")
        assert re.search(r"^GIL: \d+\.\d\d%, Active: \d+\.\d\d%, Threads: 3 \(", done.stdout, re.M)
        assert re.search(r" idle .* waiting-one .*\[futex", done.stdout)
        table = done.stdout.rpartition("%Own")[2]
        assert names(table)[0] == "leaf"
        assert rows(table)[0][0] > 30


def top_json(tool, *args):
    done = tool("top", "--json", *args)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_json(tool):
    with target() as process:
        whole = top_json(tool, "-d", 1, "-r", 200, "-p", process.pid)
        by_name = {f["name"]: f for f in whole["functions"]}
        leaf, busy = by_name["leaf"], by_name["busy"]
        # One thread runs all the time, and all of that within `busy`; recursion counts once.
        assert 0.5 < busy["total_seconds"] <= 1.2
        assert busy["own_seconds"] <= busy["total_seconds"]
        assert (
            leaf["own_seconds"]
            <= by_name["deeper"]["total_seconds"]
            <= busy["total_seconds"] + 1e-6
        )
        assert leaf["own_percent"] == pytest.approx(
            100 * leaf["own_seconds"] / whole["seconds"], rel=0.3
        )
        threads = {t["thread_name"]: t for t in whole["threads"]}
        assert set(threads) == {"MainThread", "busy-one", "waiting-one"}
        assert threads["waiting-one"]["wait"].startswith("futex")
        assert not threads["waiting-one"]["active"] and threads["busy-one"]["active_percent"] > 50
        assert whole["samples"] > 50

        lines = top_json(tool, "-d", "0.5", "--by", "line", "-t", "--limit", 3, "-p", process.pid)[
            "lines"
        ]
        assert len(lines) == 3
        assert {line["thread_name"] for line in lines} == {"busy-one"}
        assert all(line["pid"] == process.pid for line in lines)


def test_native(tool):
    """The time of a Python function is that of what it calls in C, where it was the function's own before."""
    with target(COMPRESSES) as process:
        plain, native = (
            {f["name"]: f for f in top_json(tool, "-d", 1, "-p", process.pid, *flags)["functions"]}
            for flags in ([], ["--native"])
        )
        assert "deflate" not in plain
        assert plain["squeeze"]["own_seconds"] == plain["squeeze"]["total_seconds"] > 0.1
        squeeze, deflate = native["squeeze"], native["deflate"]
        assert deflate["total_seconds"] > 0.8 * squeeze["total_seconds"] > 0
        assert squeeze["own_seconds"] < 0.1 * squeeze["total_seconds"]


def test_native_code_without_lines_is_shown_without(tool):
    with target(COMPRESSES) as process:
        done = tool("top", "--once", "--native", "-d", "1", "-p", process.pid)
        assert re.search(r"deflate \(libz[^:]*\)", done.stdout)
        assert ":0)" not in done.stdout


def test_a_stream_of_lines(scry):
    """One line of JSON per interval, in the form that docs/api.md gives for the event stream, until the process ends."""
    openapi = json.loads((Path(__file__).parents[2] / "src/http/openapi.json").read_text())
    schema = openapi["components"]["schemas"]["Top"]
    with target() as process:
        command = [scry, "top", "--stream", "--delay", "0.3", "--limit", "2", "-p", process.pid]
        with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True) as stream:
            lines = [json.loads(stream.stdout.readline()) for _ in range(3)]
            process.kill()
            rest = stream.stdout.read()
            assert stream.wait(LIMIT) == 0, rest
    for line in lines:
        jsonschema.validate({"node": "n", **line}, schema)
        assert line["pid"] == process.pid and line["processes"] == 1 and line["threads"] == 3
        assert len(line["functions"]) <= 2
    assert lines[0]["elapsed"] < lines[1]["elapsed"] < lines[2]["elapsed"]
    assert any(
        f["name"] == "leaf" and f["own_percent"] > 1 for line in lines for f in line["functions"]
    )
    threads = {thread["name"]: thread for thread in lines[-1]["top_threads"]}
    assert threads["busy-one"]["active_percent"] > 0 and threads["waiting-one"]["wait"]


def test_idle_and_gil(tool):
    with target() as process:
        found = top_json(tool, "-d", "0.5", "--search", "waits", "-p", process.pid)["functions"]
        assert found == []
        found = top_json(tool, "-d", "0.5", "--idle", "--search", "waits", "-p", process.pid)[
            "functions"
        ]
        assert [f["name"] for f in found] == ["waits"]
        assert found[0]["total_percent"] == pytest.approx(100, abs=5)
        gil = top_json(tool, "-d", "0.5", "--gil", "-t", "-p", process.pid)
        assert {f["thread_name"] for f in gil["functions"]} == {"busy-one"}


def test_everything_waits(tool):
    code = "import sys\nprint('ready', flush=True)\nsys.stdin.read()"
    with target(code) as process:
        done = tool("top", "--once", "-d", "0.3", "-p", process.pid)
        assert "every thread was idle (--idle counts those that wait too)" in done.stdout


def test_a_tree(tool):
    """Each process of a tree counts; -s finds them, --processes keeps them apart."""
    code = (
        "import subprocess, sys\n"
        "child = 'import sys\\ndef in_child():\\n while True: sum(range(999))\\n'\n"
        "child += 'print(1, flush=True)\\nin_child()'\n"
        "kids = [subprocess.Popen([sys.executable, '-c', child], stdout=subprocess.PIPE) for _ in range(2)]\n"
        "[kid.stdout.readline() for kid in kids]\n"
        "print('ready', flush=True)\n"
        "sys.stdin.read()\n"
        "[kid.kill() for kid in kids]\n"
    )
    with target(code) as process:
        try:
            found = top_json(tool, "-s", "--processes", "-d", 1, "-p", process.pid)
            rows_of = [f for f in found["functions"] if f["name"] == "in_child"]
            assert len(rows_of) == 2
            assert {f["pid"] for f in rows_of} == {
                p["pid"] for p in found["processes"] if p["parent"] == process.pid
            }
            alone = top_json(tool, "-d", "0.3", "-p", process.pid)
            assert not [f for f in alone["functions"] if f["name"] == "in_child"]
        finally:
            process.communicate(timeout=LIMIT)


def test_once_with_a_program(tool):
    """Without a limit it lasts as long as the program: longer than the two seconds that --once takes by itself."""
    code = (
        "import time; print('hel' + 'lo', flush=True); end = time.monotonic() + 3\n"
        "while time.monotonic() < end: sum(range(100000))\n"
        "raise SystemExit(3)"
    )
    done = tool("top", "--once", "-d", "unlimited", "--", sys.executable, "-c", code)
    assert done.returncode == 3
    assert "hello" in done.stderr and "hello" not in done.stdout
    assert "<module> (<string>:1)" in done.stdout


def test_once_ends_at_a_signal(tool):
    with target() as process:
        running = subprocess.Popen(
            [tool.path, "top", "--once", "-d", "unlimited", "-p", str(process.pid)],
            stdout=subprocess.PIPE,
            text=True,
        )
        watched = f"/proc/{running.pid}/task"
        deadline = time.monotonic() + LIMIT
        while len(os.listdir(watched)) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.5)
        running.send_signal(signal.SIGINT)
        out, _ = running.communicate(timeout=LIMIT)
        assert running.returncode == 0
        assert "leaf (<string>:3)" in out


# ---- as py-spy ----


def test_py_spys_flags(py_spy):
    """Every flag of py-spy top is taken; the program after -- as well."""
    flags = [
        "--rate",
        "50",
        "--gil",
        "--idle",
        "--full-filenames",
        "--nonblocking",
        "-s",
        "--delay",
        "2.5",
    ]
    code = "for _ in range(100): sum(range(100000))"
    done = py_spy("top", *flags, "--once", "--", sys.executable, "-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("py-spy top: process ")


def test_py_spys_prefix(py_spy, refused):
    with target() as process:
        assert "leaf" in py_spy("t", "-d", "0.5", "--once", "--pid", hex(process.pid)).stdout
    refused(py_spy("t"), 2, "-p PID")


def test_both_or_nothing(tool, refused):
    refused(tool("top"), 2, "top needs to know what to look at")
    refused(tool("top", "-p", os.getpid(), "--", "true"), 2, "both")
    refused(tool("top", "-p", "4194303", "--once"), 1, "4194303")
    refused(tool("top", "--once", "--", "true"), 1, "'true'")
    refused(tool("top", "--delay", "0", "-p", "1"), 2, "--delay")
