"""scry merge: several recordings as one."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def recordings(tool, scry):
    maker = Path(scry).parent / "tests" / "golden" / "make_profile"
    for case in ("basic", "web"):
        subprocess.run([maker, case, "scry", tool.folder / f"{case}.scry"], check=True)
    return ["basic.scry", "web.scry"]


def folded(tool, *files):
    result = tool("convert", "-f", "raw", "-o", "-", *files)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_one_file_says_what_the_two_said(tool, recordings):
    result = tool("merge", "-o", "all.scry", *recordings)
    assert result.returncode == 0, result.stderr
    assert "wrote recording to 'all.scry'" in result.stderr
    # The processes are kept apart, as when both are converted together.
    assert folded(tool, "all.scry") == folded(tool, *recordings)
    assert "process " in folded(tool, "all.scry")


def test_merged_twice_is_merged_once(tool, recordings):
    tool("merge", "-o", "all.scry", *recordings)
    assert tool("merge", "-o", "more.scry", "all.scry", "basic.scry").returncode == 0
    assert folded(tool, "more.scry") == folded(tool, *recordings, "basic.scry")


def test_a_name_by_itself(tool, recordings):
    assert tool("merge", *recordings).returncode == 0
    assert "basic-merged.scry" in tool.left()


@pytest.mark.parametrize(
    "args, status, says",
    [
        ([], 2, ["merge needs at least two recordings"]),
        (["basic.scry"], 2, ["merge needs at least two recordings"]),
        (["basic.scry", "none.scry"], 1, ["none.scry"]),
        (["-o", "basic.scry", "basic.scry", "web.scry"], 2, ["basic.scry"]),
        (["-f", "raw", "basic.scry", "web.scry"], 2, ["-f"]),
    ],
)
def test_bad_words(tool, refused, recordings, args, status, says):
    before = tool.left()
    refused(tool("merge", *args), status, *says)
    assert tool.left() == before


def test_rates_that_differ_are_weighed(tool):
    """A second at 50 looks and one at 200 are a second each."""
    code = "import time\nend = time.time() + 1\nwhile time.time() < end: sum(range(100))"
    for rate in ("50", "200"):
        words = ["-r", rate, "-f", "scry", "-o", f"{rate}.scry"]
        assert tool("record", *words, "--", sys.executable, "-c", code).returncode == 0
    assert tool("merge", "-o", "all.scry", "50.scry", "200.scry").returncode == 0
    times = {}
    for line in folded(tool, "all.scry").splitlines():
        stack, count = line.rsplit(" ", 1)
        times[stack.split(":")[0]] = times.get(stack.split(":")[0], 0) + int(count)
    few, many = sorted(times.values())
    assert 400_000 < few <= many < 1_600_000
