"""Completion scripts: accepted by the shells themselves, and offering what there is."""

import shutil
import subprocess

import pytest

SHELLS = ["bash", "zsh", "fish", "elvish", "powershell"]


def script(tool, shell):
    result = tool("completions", shell)
    assert result.returncode == 0
    assert result.stderr == ""
    return result.stdout


def require(program):
    path = shutil.which(program)
    if not path:
        pytest.skip(f"{program} is not installed")
    return path


@pytest.mark.parametrize("shell", SHELLS)
def test_names_every_command_and_option(tool, shell):
    text = script(tool, shell)
    for word in [
        "record",
        "dump",
        "subprocesses",
        "full-filenames",
        "nolineno",
        "locals",
        "native-all",
    ]:
        assert word in text
    assert "capture" not in text, "hidden options stay hidden"


@pytest.mark.parametrize("shell", SHELLS)
def test_completes_the_name_it_was_called_by(py_spy, shell):
    text = script(py_spy, shell)
    assert "py-spy" in text
    assert "compdef scry" not in text and "-c scry" not in text


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_syntax(tool, shell):
    result = subprocess.run(
        [require(shell), "-n"],
        input=script(tool, shell),
        text=True,
        capture_output=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""


def bash_offers(tool, line):
    words = line.split(" ")
    code = (
        script(tool, "bash")
        + f"\nCOMP_WORDS=({' '.join(repr(w) for w in words)}); COMP_CWORD={len(words) - 1}\n"
        + '_scry; printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    result = subprocess.run(
        [require("bash"), "--norc", "-c", code],
        cwd=tool.folder,
        text=True,
        capture_output=True,
        timeout=60,
    )
    assert result.stderr == ""
    return result.stdout.split()


@pytest.mark.parametrize(
    "line, offered",
    [
        ("scry re", ["record"]),
        ("scry record --full", ["--full-filenames"]),
        ("scry r --full", ["--full-filenames"]),
        ("scry record -f spe", ["speedscope"]),
        ("scry record --format fl", ["flamegraph"]),
        ("scry dump --blocking a", ["auto", "always"]),
        ("scry completions z", ["zsh"]),
        ("scry help du", ["dump"]),
        ("scry dump --gi", []),
        ("scry record -o out", ["output.svg"]),
        ("scry dump --pid 1", None),
    ],
)
def test_bash_offers(tool, line, offered):
    (tool.folder / "output.svg").touch()
    words = bash_offers(tool, line)
    if offered is None:
        assert "1" in words
    else:
        assert words == offered


def fish_offers(tool, line):
    code = script(tool, "fish") + f"\ncomplete -C '{line}'\n"
    result = subprocess.run(
        [require("fish"), "--no-config", "-c", code],
        cwd=tool.folder,
        text=True,
        capture_output=True,
        timeout=60,
    )
    assert result.stderr == ""
    return [entry.split("\t")[0] for entry in result.stdout.splitlines()]


@pytest.mark.parametrize(
    "line, offered",
    [
        ("scry rec", ["record"]),
        ("scry record --full", ["--full-filenames"]),
        ("scry record -f spe", ["speedscope"]),
        ("scry dump --gi", []),
        ("scry completions z", ["zsh"]),
    ],
)
def test_fish_offers(tool, line, offered):
    assert fish_offers(tool, line) == offered


def test_zsh_loads_and_defines(tool):
    """Sourced after compinit, the function is registered for the command."""
    path = tool.folder / "_scry"
    path.write_text(script(tool, "zsh"))
    code = f"autoload -Uz compinit && compinit -D -u && source {path} && print -r -- $_comps[scry]"
    result = subprocess.run(
        [require("zsh"), "-f", "-c", code], text=True, capture_output=True, timeout=60
    )
    assert result.stdout.strip() == "_scry", result.stderr
