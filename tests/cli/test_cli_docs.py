"""What the documents say about the command line is true."""

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
DOCUMENTS = ["README.md", "README.zh.md", "docs/usage.md", "docs/usage.zh.md"]
# Of other programs.
FOREIGN = {"--cap-add", "--port", "--py-spy", "--man"}


def commands(tool):
    section = tool("--help").stdout.partition("Commands:\n")[2].partition("\n\n")[0]
    return re.findall(r"^  (\w+) ", section, re.M)


def help_text(tool):
    return "".join(tool(c, "--help").stdout for c in commands(tool))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_option_exists(tool, name):
    known = set(re.findall(r"--[a-z][a-z-]+", help_text(tool))) | FOREIGN
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", (PROJECT / name).read_text()))
    assert named <= known


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_command_exists(tool, name):
    known = set(commands(tool)) | {"rec", "d"}
    quoted = re.findall(r"`scry ([a-z]+)", (PROJECT / name).read_text())
    shown = re.findall(r"^scry ([a-z]+)", "\n".join(examples(name)), re.M)
    assert len(quoted) + len(shown) > 5
    assert set(quoted + shown) <= known


@pytest.mark.parametrize("name", DOCUMENTS[:2])
def test_the_tables_have_every_command_and_format(tool, name):
    text = (PROJECT / name).read_text()
    for command in commands(tool):
        assert f"| `scry {command}` |" in text
    formats = tool("record", "--help").stdout.partition("Formats:\n")[2].partition("\n\n")[0]
    for format in re.findall(r"^  (\w+) ", formats, re.M):
        assert f"| `{format}` |" in text


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_link_leads_somewhere(name):
    folder = (PROJECT / name).parent
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", (PROJECT / name).read_text()):
        assert (folder / link).exists(), link


def examples(name):
    """Command lines in blocks of shell code, without their comments."""
    blocks = re.findall(r"^```sh\n(.*?)^```", (PROJECT / name).read_text(), re.M | re.S)
    return [re.sub(r"\s*#.*", "", line) for line in "".join(blocks).splitlines()]


@pytest.mark.parametrize("english, chinese", [DOCUMENTS[:2], DOCUMENTS[2:]])
def test_both_languages_show_the_same_commands(english, chinese):
    assert examples(english) == examples(chinese)
    assert len(examples(english)) >= 7
