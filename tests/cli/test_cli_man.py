"""The manual page: complete, and clean to the tools that render it."""

import re
import shutil
import subprocess

import pytest


def rendered(tool):
    if not shutil.which("groff"):
        pytest.skip("groff is not installed")
    source = tool("help", "--man").stdout
    result = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-P-c", "-P-b", "-P-u", "-K", "utf8"],
        input=source,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.stderr == "", "groff has warnings"
    return result.stdout


def test_renders_without_warnings(tool):
    text = rendered(tool)
    for heading in ["NAME", "SYNOPSIS", "COMMANDS", "EXIT STATUS", "ENVIRONMENT"]:
        assert re.search(rf"^{heading}$", text, re.M)


def test_man_itself_shows_it(tool):
    if not shutil.which("man"):
        pytest.skip("man is not installed")
    page = tool.folder / "scry.1"
    page.write_text(tool("help", "--man").stdout)
    result = subprocess.run(
        ["man", "--warnings", "-l", str(page)],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "MANWIDTH": "80", "PAGER": "cat"},
    )
    assert result.returncode == 0
    assert result.stderr == ""
    assert "scry record" in result.stdout


@pytest.mark.parametrize("command", ["record", "dump", "completions", "help"])
def test_has_every_option_of_help(tool, command):
    text = rendered(tool)
    for option in re.findall(r"--[a-z][a-z-]+", tool(command, "--help").stdout):
        assert option in text
