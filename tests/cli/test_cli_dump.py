"""dump as a person or a program reads it. That names and lines are true is tested elsewhere, on every version."""

import json
import os
import re
import subprocess
import sys
from contextlib import contextmanager

import pytest
from waiting import until_blocked


@contextmanager
def target(code, *args):
    """A program that prints "ready" and then waits for its input to end."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "ready\n"
        until_blocked(process.pid)
        yield process
        assert process.poll() is None, "the process that was looked at must go on"
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait()


WAIT = """
import sys, threading
def wait():
    print("ready", flush=True)
    sys.stdin.read()
wait()
"""

NAMED = """
import sys, threading
def work():
    done.wait()
done = threading.Event()
threading.Thread(target=work, name=sys.argv[1], daemon=True).start()
while not done._cond._waiters:
    pass
print("ready", flush=True)
sys.stdin.read()
"""


def test_layout(tool):
    with target(WAIT) as program:
        result = tool("dump", "-p", program.pid)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    assert lines[0].startswith(f"Process {program.pid}: {sys.executable} -c ")
    version = ".".join(map(str, sys.version_info[:3]))
    assert re.fullmatch(rf"Python v{re.escape(version)}\S* \(/.*\)", lines[1])
    assert lines[2] == ""
    assert re.fullmatch(rf'Thread {program.pid} \(idle\): "MainThread" \[read pipe.*\]', lines[3])
    assert lines[4:] == ["    wait (<string>:5)", "    <module> (<string>:6)"]


def test_oldest_thread_first(tool):
    with target(NAMED, "worker") as program:
        result = tool("dump", "-p", program.pid)
        threads = re.findall(r'^Thread \d+ \(idle\): "(\w+)"', result.stdout, re.M)
        newest_first = [t["thread_name"] for t in dump_json(tool, program.pid)]
    assert threads == ["MainThread", "worker"]
    assert newest_first == ["worker", "MainThread"]


@pytest.mark.parametrize(
    "name, shown",
    [
        ("\x1b[31mred", "\\x1b[31mred"),
        ('two\nThread 1 (active): "x"', 'two\\nThread 1 (active): "x"'),
        ("back\u202ewards", "back\\u202ewards"),
        ("\x9b5n", "\\x9b5n"),
        ("del\x7f", "del\\x7f"),
        ("日本 😀", "日本 😀"),
    ],
)
def test_hostile_names_cannot_control_the_terminal(tool, name, shown):
    with target(NAMED, name) as program:
        result = tool("dump", "-p", program.pid)
        names = [t["thread_name"] for t in dump_json(tool, program.pid)]
    assert f'(idle): "{shown}"' in result.stdout
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", result.stdout)
    assert name in names, "JSON keeps the name as it is"


def test_command_line_with_newlines_stays_on_its_line(tool):
    with target(WAIT, "a\nProcess 1: fake") as program:
        lines = tool("dump", "-p", program.pid).stdout.splitlines()
    assert sum(line.startswith("Process ") for line in lines) == 1
    assert "a\\nProcess 1: fake" in lines[0]


def test_colours(tool):
    with target(WAIT) as program:
        plain = tool("dump", "-p", program.pid).stdout
        coloured = tool("dump", "-p", program.pid, env={"CLICOLOR_FORCE": "1"}).stdout
    assert "\033" not in plain
    assert f"Process \033[1;33m{program.pid}\033[0m: " in coloured
    assert "\033[32mwait\033[0m (\033[36m<string>\033[0m:\033[2m5\033[0m)" in coloured
    assert re.sub(r"\033\[[\d;]*m", "", coloured) == plain


def dump_json(tool, pid, *options):
    result = tool("dump", "--json", "-p", pid, *options)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_json_schema(tool):
    with target(WAIT) as program:
        (thread,) = dump_json(tool, program.pid)
    assert list(thread)[:8] == [
        "pid", "thread_id", "thread_name", "os_thread_id", "active", "owns_gil", "frames",
        "process_info",
    ]  # fmt: skip
    assert thread["pid"] == thread["os_thread_id"] == thread["native_tid"] == program.pid
    assert thread["thread_name"] == "MainThread"
    assert thread["active"] is False and thread["torn"] is False
    assert thread["process_info"] is None
    assert thread["wait"].startswith("read pipe")
    inner, outer = thread["frames"]
    assert list(inner)[:8] == [
        "name", "filename", "module", "short_filename", "line", "locals", "is_entry",
        "is_shim_entry",
    ]  # fmt: skip
    assert (inner["name"], inner["line"], inner["first_line"]) == ("wait", 5, 3)
    assert (outer["name"], outer["line"]) == ("<module>", 6)
    assert inner["locals"] is None


PARENT = """
import subprocess, sys
wait = "import sys; print('up', flush=True); sys.stdin.read()"
other, python = sys.argv[1].split()
kids = [
    subprocess.Popen([other], stdin=subprocess.PIPE),
    subprocess.Popen(["sh", "-c", python + " -c \\"" + wait + "\\"; true"],
                     stdin=subprocess.PIPE, stdout=subprocess.PIPE),
]
kids[1].stdout.readline()
print("ready", flush=True)
sys.stdin.read()
for kid in kids:
    kid.communicate()
"""


@contextmanager
def family():
    """Python with two children: cat, and a shell whose child is Python."""
    with target(PARENT, f"cat {sys.executable}") as program:
        yield program


def test_tree(tool):
    with family() as program:
        result = tool("dump", "-s", "-p", program.pid)
        alone = tool("dump", "-p", program.pid)
    assert result.returncode == 0, result.stderr
    pids = re.findall(r"^Process (\d+):", result.stdout, re.M)
    assert len(pids) == len(set(pids)) == 2
    assert pids[0] == str(program.pid)
    assert re.search(
        rf"\n\n-{{80}}\nProcess {pids[1]}: .*\nPython v.*\nParent Process \d+: sh -c ",
        result.stdout,
    )
    notes = result.stderr.splitlines()
    assert len(notes) == 2
    assert all(
        re.match(r"scry: note: skipped process \d+ \((cat|sh -c .*)\): not Python$", n)
        for n in notes
    )
    assert result.stdout.startswith(alone.stdout)


def test_tree_as_json(tool):
    with family() as program:
        threads = dump_json(tool, program.pid, "-s")
    own, child = threads
    assert own["pid"] == program.pid and own["process_info"] is None
    info = child["process_info"]
    assert info["pid"] == child["pid"] != program.pid
    assert info["parent"]["command_line"].startswith("sh -c")


def test_tree_whose_root_is_not_python(tool):
    code = "import sys; print('ready', flush=True); sys.stdin.read()"
    shell = subprocess.Popen(
        ["sh", "-c", f'{sys.executable} -c "{code}"; true'],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert shell.stdout.readline() == "ready\n"
    result = tool("dump", "-s", "-p", shell.pid)
    alone = tool("dump", "-p", shell.pid)
    shell.communicate()
    assert result.returncode == 0, result.stderr
    assert "    <module> (<string>:1)\n" in result.stdout
    assert f"skipped process {shell.pid}" in result.stderr
    assert alone.returncode == 1


def test_tree_without_any_python(tool):
    shell = subprocess.Popen(
        ["sh", "-c", "echo ready; cat; true"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert shell.stdout.readline() == "ready\n"
    result = tool("dump", "-s", "--json", "-p", shell.pid)
    shell.communicate()
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr.splitlines()[-1].startswith("scry: error: ")


LOCALS = """
import sys
def wait(number, text, *rest, flag=True):
    items = list(range(200))
    print("ready", flush=True)
    sys.stdin.read()
wait(7, "a\\x1b[31m\\nb", 1.5)
"""


def test_variables(tool):
    with target(LOCALS) as program:
        text = tool("dump", "--locals", "-p", program.pid).stdout
        more = tool("dump", "-ll", "-p", program.pid).stdout
    lines = text.splitlines()
    at = lines.index("    wait (<string>:6)")
    assert lines[at + 1] == "        Arguments:"
    assert lines[at + 2] == "            number: 7"
    assert lines[at + 3].startswith("            text: ")
    assert "        Locals:" in lines[at + 4 :]
    items = next(line for line in lines if line.startswith("            items: [0, 1, 2, "))
    assert len(items) < 20 + 140
    longer = next(line for line in more.splitlines() if line.startswith("            items: "))
    assert len(items) < len(longer) < 20 + 270
    assert "\x1b" not in text


def test_variables_as_json(tool):
    with target(LOCALS) as program:
        (thread,) = dump_json(tool, program.pid, "-l")
    found = {v["name"]: v for v in thread["frames"][0]["locals"]}
    assert found["number"]["repr"] == "7"
    assert found["number"]["arg"] is True
    assert found["items"]["arg"] is False
    assert list(found["number"]) == ["name", "addr", "arg", "repr"]


def test_full_filenames(tool):
    script = tool.folder / "script.py"
    script.write_text(WAIT)
    process = subprocess.Popen(
        [sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    until_blocked(process.pid)
    short = tool("dump", "-p", process.pid).stdout
    full = tool("dump", "--full-filenames", "-p", process.pid).stdout
    (thread,) = dump_json(tool, process.pid)
    process.communicate()
    assert "    wait (script.py:5)" in short
    assert f"    wait ({script}:5)" in full
    assert thread["frames"][0]["filename"] == str(script)
    assert thread["frames"][0]["short_filename"] == "script.py"


@pytest.mark.parametrize("option", ["--nonblocking", "--blocking=always", "--blocking=never"])
def test_blocking(tool, option):
    with target(WAIT) as program:
        result = tool("dump", option, "-p", program.pid)
    assert result.returncode == 0
    assert "    wait (<string>:5)" in result.stdout


def test_reader_that_goes_away(tool):
    readable, writable = os.pipe()
    os.close(readable)
    with target(WAIT) as program:
        process = subprocess.run(
            [tool.path, "dump", "-p", str(program.pid)],
            stdout=writable,
            stderr=subprocess.PIPE,
            timeout=60,
        )
    os.close(writable)
    assert process.returncode != 0
