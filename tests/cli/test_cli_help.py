"""Help, version, and the ways to name a command."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios

import pytest

COMMANDS = ["record", "dump", "completions", "help"]

# py-spy 0.4.2's command line, less what scry cannot do yet.
PY_SPY = {
    "record": "pid rate subprocesses full-filenames gil idle nonblocking output format duration "
    "function nolineno threads hideprogress help",
    "dump": "pid subprocesses full-filenames nonblocking locals json help",
}
LETTERS = {"record": "prsgiofdFth", "dump": "psljh"}


def help_of(tool, *words, **options):
    result = tool(*words, "--help", **options)
    assert result.returncode == 0
    assert result.stderr == ""
    return result.stdout


def test_no_arguments(tool):
    result = tool()
    assert result.returncode == 2
    assert result.stdout == ""
    assert "Usage: scry COMMAND" in result.stderr


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_version(tool, flag):
    result = tool(flag)
    assert result.returncode == 0
    assert re.fullmatch(r"scry \d+\.\d+\.\d+\n", result.stdout)


def test_version_under_the_name_of_py_spy(py_spy):
    line = py_spy("--version").stdout
    assert re.match(r"py-spy \d+\.\d+\.\d+ ", line)
    assert "scry" in line


def test_tool_help_names_every_command(tool):
    text = help_of(tool)
    for command in COMMANDS:
        assert re.search(rf"^  {command} ", text, re.M)


@pytest.mark.parametrize("command", COMMANDS)
def test_three_ways_to_ask_for_help(tool, command):
    asked = help_of(tool, command)
    assert asked == tool(command, "-h").stdout == tool("help", command).stdout
    assert f"Usage: scry {command}" in asked
    assert len(asked.splitlines()[0]) > 10


@pytest.mark.parametrize("command", PY_SPY)
def test_every_option_of_py_spy_is_there(tool, command):
    text = help_of(tool, command)
    for name in PY_SPY[command].split():
        assert re.search(rf"--{name}( [A-Z]+)?(\s{{2,}}|\n)", text), name
    for letter in LETTERS[command]:
        assert re.search(rf"^  -{letter}, --", text, re.M), letter


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_has_a_sentence(tool, command):
    lines = help_of(tool, command).splitlines()
    found = 0
    for i, line in enumerate(lines):
        if match := re.match(r"  (?:-\w,|   ) --[\w-]+(?: [A-Z]+)?", line):
            found += 1
            sentence = line[match.end() :].strip() or lines[i + 1].strip()
            assert re.match(r"[A-Z]\w+ ", sentence), line
    assert found > 0


@pytest.mark.parametrize("command", ["record", "dump"])
def test_examples_parse(tool, command):
    """Each example in the help is a command line that scry understands: it fails at the target, not before."""
    examples = re.findall(rf"^    scry ({command} .*)$", help_of(tool, command), re.M)
    assert len(examples) >= 3
    for example in examples:
        words = example.replace("4242", "0").replace("-- python", "-- no-such-program").split()
        said = tool(*words).stderr
        assert re.search("no process has the id 0|no-such-program|'core.0' cannot be read", said), (
            example
        )


@pytest.mark.parametrize("command", [[], *[[c] for c in COMMANDS]])
def test_lines_fit(tool, command):
    for line in help_of(tool, *command).splitlines():
        assert len(line) <= 80, line


def on_terminal(tool, *args, columns=60, env=None):
    """What is printed when standard output is a terminal of this width."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "CLICOLOR_FORCE")}
    process = subprocess.Popen(
        [tool.path, *args], stdout=side, env=environment | {"TERM": "xterm"} | (env or {})
    )
    os.close(side)
    text = b""
    while True:
        try:
            part = os.read(main, 65536)
        except OSError:
            break
        if not part:
            break
        text += part
    os.close(main)
    assert process.wait() == 0
    return text.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("columns", [45, 60, 100])
def test_help_is_as_wide_as_the_terminal(tool, columns):
    text = on_terminal(tool, "dump", "--help", columns=columns, env={"NO_COLOR": "1"})
    body = [line for line in text.splitlines() if line.startswith(" " * 20)]
    assert body
    assert max(map(len, body)) <= columns
    assert max(map(len, body)) > columns - 25


def test_colours_only_where_wanted(tool):
    assert "\033[" in on_terminal(tool, "dump", "--help")
    assert "\033" not in on_terminal(tool, "dump", "--help", env={"NO_COLOR": "1"})
    assert "\033" not in on_terminal(tool, "dump", "--help", env={"TERM": "dumb"})
    assert "\033" not in on_terminal(tool, "dump", "--help", env={"CLICOLOR": "0"})
    assert "\033" not in help_of(tool, "dump")
    assert "\033[" in help_of(tool, "dump", env={"CLICOLOR_FORCE": "1"})
    assert "\033" not in help_of(tool, "dump", env={"CLICOLOR_FORCE": "1", "NO_COLOR": "1"})


@pytest.mark.parametrize(
    "short, command",
    [("r", "record"), ("rec", "record"), ("d", "dump"), ("du", "dump"), ("comp", "completions")],
)
def test_beginnings_of_commands(tool, short, command):
    assert help_of(tool, short) == help_of(tool, command)


def test_called_as_py_spy(py_spy):
    text = help_of(py_spy, "record")
    assert "Usage: py-spy record" in text
    assert "Usage: scry" not in text
    result = py_spy("dump", "-p", "0")
    assert result.returncode == 2
    assert result.stderr.startswith("py-spy: error: ")
