"""What of the page needs no browser: its types, and its own tests, which Node runs."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
WEB = PROJECT / "web"
NODE = shutil.which("node", path=str(Path(sys.executable).parent)) or shutil.which("node")


def names() -> list[str]:
    """The names of the tests, read from the files, so that they are known even where Node is missing."""
    texts = (file.read_text() for file in sorted(WEB.glob("test/*.test.ts")))
    return [name for text in texts for name in re.findall(r"^test\('(.*?)', ", text, re.M)]


@pytest.fixture(scope="session")
def results():
    assert NODE, "node is not installed: run ./dev setup"
    command = [
        NODE,
        "--test",
        "--test-reporter=junit",
        *map(str, sorted(WEB.glob("test/*.test.ts"))),
    ]
    run = subprocess.run(command, cwd=WEB, capture_output=True, text=True, timeout=100)
    return run.stdout + run.stderr


@pytest.mark.xdist_group("page-logic")  # one run for all of them
@pytest.mark.parametrize("name", names())
def test_logic(results, name):
    escaped = name.replace("&", "&amp;").replace('"', "&quot;")
    case = re.search(
        rf'<testcase name="{re.escape(escaped)}"[^>]*?(/>|>.*?</testcase>)', results, re.S
    )
    assert case, "it was not run:\n" + results
    assert "<failure" not in case[0], case[0]


def test_types():
    assert (WEB / "node_modules" / "typescript").exists(), "run ./dev setup"
    run = subprocess.run(
        [NODE, WEB / "node_modules/typescript/bin/tsc", "--noEmit", "-p", WEB],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout


def test_the_lock_file_names_no_place():
    lock = json.loads((WEB / "package-lock.json").read_text())
    assert lock["packages"], "it locks nothing"
    assert not [name for name, package in lock["packages"].items() if "resolved" in package]


def test_the_page_is_built_and_asks_nobody_else():
    """No address of another origin in what the browser loads by itself, and no script in the markup."""
    dist = WEB / "dist"
    assert (dist / "index.html").exists(), "the page is not built: run ./dev setup"
    for html in (dist / "index.html", dist / "speedscope" / "index.html"):
        text = html.read_text()
        assert not re.search(r"<script(?![^>]*\bsrc=)", text), f"{html}: inline script"
        assert not re.search(r"""(src|href)=["'](https?:)?//""", text), html
    own = "".join(file.read_text() for file in dist.glob("assets/*.js"))
    assert "http://www.w3.org/" in own  # what SVG elements are called; nobody asks there
    assert not re.findall(r"https?://(?!www\.w3\.org/)[\w.]+", own)
    assert "eval(" not in (next(dist.glob("speedscope/speedscope-*.js"))).read_text()
