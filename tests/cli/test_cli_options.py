"""The ways to write options. What was understood shows in what is complained about next."""

import pytest

UNDERSTOOD = "no process has the id 0"


@pytest.mark.parametrize(
    "words",
    [
        ["-p", "0"],
        ["-p0"],
        ["-p=0"],
        ["--pid", "0"],
        ["--pid=0"],
        ["--pid=0x0"],
        ["-s", "-l", "-p", "0"],
        ["-slp0"],
        ["-sllj", "-p", "0"],
        ["-ll", "--locals", "-p", "0"],
        ["--full-filenames", "--nonblocking", "--json", "--pid", "0"],
        ["--blocking", "AUTO", "-p", "0"],
    ],
)
def test_dump(tool, refused, words):
    refused(tool("dump", *words), 2, UNDERSTOOD)


@pytest.mark.parametrize(
    "words",
    [
        ["-d", "1.5", "-p0"],
        ["-d", ".5", "-p0"],
        ["-d", "unlimited", "-p0"],
        ["-r", "0.5", "-p0"],
        ["-r", "1000000", "-p0"],
        ["-f", "RAW", "-p0"],
        ["-o", "-", "-p0"],
        ["-sgitF", "-p0"],
        ["--hideprogress", "--capture", "--nolineno", "-p0"],
        # As in py-spy: without "--", options after the program's name are still scry's.
        ["python3", "script.py", "-p0"],
    ],
)
def test_record(tool, refused, words):
    refused(tool("record", *words), 2, UNDERSTOOD)


def test_after_two_dashes_nothing_is_an_option(tool):
    result = tool("record", "-o", "x", "--", "no-such-program", "-p", "0")
    assert result.returncode == 1
    assert "no-such-program" in result.stderr
