"""The two languages of the documents on serving say the same, and what they point at is there."""

import re

import pytest
from contract import PROJECT

DOCS = PROJECT / "docs"
PAIRS = ["api", "kubernetes", "ray", "serve"]


def examples(path):
    """Without the remarks in them, which are translated."""
    blocks = re.findall(r"^```.*?^```", path.read_text(), re.MULTILINE | re.DOTALL)
    return [re.sub(r"\s*#.*", "", block) for block in blocks]


@pytest.mark.parametrize("name", PAIRS)
def test_examples_are_the_same_in_both_languages(name):
    ours, theirs = examples(DOCS / f"{name}.md"), examples(DOCS / f"{name}.zh.md")
    missing = [block for block in theirs if block not in ours]
    assert theirs and not missing


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("language", ["", ".zh"])
def test_what_they_name_is_there(name, language):
    text = (DOCS / f"{name}{language}.md").read_text()
    links = re.findall(r"\]\(([\w./-]+)\)", text)
    files = re.findall(r"\bdeploy/[\w./-]*\w", text)
    for path in [DOCS / link for link in links] + [PROJECT / name for name in files]:
        assert path.exists(), path
