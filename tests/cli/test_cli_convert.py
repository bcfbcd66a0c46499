"""convert: recordings become other formats, several become one, and bad ones are named."""

import json
import os
import pty
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest

HEADER = 12  # of a recording
BLOCK = struct.Struct("<BBHIII")  # type, coding, zero, stored length, raw length, checksum


@pytest.fixture
def recordings(scry, tool):
    """basic.scry and web.scry in the tool's folder."""
    maker = Path(scry).resolve().parent / "tests" / "golden" / "make_profile"
    for case in ("basic", "web"):
        subprocess.run([maker, case, "scry", tool.folder / f"{case}.scry"], check=True)
    return ["basic.scry", "web.scry"]


def block_ends(data):
    ends = [HEADER]
    while ends[-1] < len(data):
        stored = BLOCK.unpack_from(data, ends[-1])[3]
        ends.append(ends[-1] + BLOCK.size + stored)
    return ends[1:]


def folded(tool, *args):
    """Samples by stack, of what `convert -f raw` makes."""
    result = tool("convert", "-f", "raw", "-o", "-", *args)
    assert result.returncode == 0, result.stderr
    lines = [line.rsplit(" ", 1) for line in result.stdout.splitlines()]
    return {stack: int(count) for stack, count in lines}


def test_the_name_comes_from_the_recording(tool, recordings):
    result = tool("convert", "web.scry")
    assert result.returncode == 0, result.stderr
    assert result.stderr == (
        "scry: wrote flame graph to 'web.svg': 3540 samples of 30.0 s; open it in a browser\n"
    )
    assert (tool.folder / "web.svg").read_text().rstrip().endswith("</svg>")
    assert tool.left() == [*recordings, "web.svg"]


def test_a_name_nobody_gave_replaces_nothing(tool, refused, recordings):
    (tool.folder / "web.svg").write_text("mine")
    refused(tool("convert", "web.scry"), 1, "'web.svg' is there already", "-o")
    assert (tool.folder / "web.svg").read_text() == "mine"
    assert tool("convert", "web.scry", "-o", "web.svg").returncode == 0
    assert (tool.folder / "web.svg").read_text() != "mine"


@pytest.mark.parametrize(
    "form",
    [
        "flamegraph",
        "html",
        "raw",
        "speedscope",
        "chrometrace",
        "gecko",
        "pprof",
        "json",
        "callgrind",
        "scry",
    ],
)
def test_every_format(tool, recordings, form):
    result = tool("convert", "-f", form, "-o", "out", "basic.scry")
    assert result.returncode == 0, result.stderr
    assert (tool.folder / "out").stat().st_size > 100
    assert tool.left() == sorted([*recordings, "out"])
    if form == "scry":
        same = (tool.folder / "out").read_bytes() == (tool.folder / "basic.scry").read_bytes()
        assert same, "a recording written again is the same"


def test_options_of_the_view(tool, recordings):
    text = "\n".join(folded(tool, "basic.scry"))
    assert "load (data.py:7)" in text and "load (data.py:9)" in text
    text = "\n".join(folded(tool, "basic.scry", "-F"))
    assert "load (data.py:5)" in text and "data.py:7" not in text
    text = "\n".join(folded(tool, "basic.scry", "--nolineno"))
    assert "load (data.py)" in text and ":7" not in text
    text = "\n".join(folded(tool, "basic.scry", "--full-filenames"))
    assert "load (/srv/data.py:7)" in text
    assert any("MainThread" in stack for stack in folded(tool, "basic.scry", "-t"))


def test_several_become_one(tool, recordings):
    apart = sum(folded(tool, "basic.scry").values()) + sum(folded(tool, "web.scry").values())
    together = folded(tool, "basic.scry", "web.scry")
    assert sum(together.values()) == apart
    assert all(stack.startswith("process ") for stack in together), "processes are kept apart"
    # through a recording of both
    result = tool("convert", "-f", "scry", *recordings)
    assert result.returncode == 0, result.stderr
    assert "basic-merged.scry" in tool.left()
    stacks = folded(tool, "basic-merged.scry")
    assert sum(stacks.values()) == apart


def test_merged_threads_keep_their_names(tool, recordings):
    result = tool("convert", "-f", "speedscope", "-o", "all.json", *recordings)
    assert result.returncode == 0, result.stderr
    profiles = json.loads((tool.folder / "all.json").read_text())["profiles"]
    names = " ".join(p["name"] for p in profiles)
    assert "mail_0" in names and "100" in names and "4711" in names


@pytest.mark.parametrize(
    "args, status, says",
    [
        ([], 2, ["needs a recording", "record -f scry"]),
        (["gone.scry"], 1, ["'gone.scry'", "No such file"]),
        (["."], 1, ["'.'", "directory"]),
        (["foreign.json"], 1, ["'foreign.json' is not a scry recording"]),
        (["empty"], 1, ["'empty' is not a scry recording"]),
        (["web.scry", "foreign.json"], 1, ["'foreign.json' is not a scry recording"]),
        (["web.scry", "-f", "png"], 2, ["'png'", "flamegraph"]),
        (["web.scry", "-o", "."], 1, ["'.'", "directory"]),
        (["web.scry", "-o", "no/such/folder"], 1, ["'no/such/folder'", "folder first"]),
        (["web.scry", "-o", "/dev/full"], 1, ["'/dev/full'", "-o"]),
        (["web.scry", "-f", "scry", "-o", "web.scry"], 2, ["'web.scry'", "read", "-o"]),
        (["web.scry", "-F", "--nolineno"], 2, ["--function", "--nolineno"]),
        (["newer.scry"], 1, ["'newer.scry'", "does not know", "newer one"]),
    ],
)
def test_bad_input(tool, refused, recordings, args, status, says):
    (tool.folder / "foreign.json").write_text('{"version": "0.0.1", "profiles": []}')
    (tool.folder / "empty").write_text("")
    newer = bytearray((tool.folder / "web.scry").read_bytes())
    newer[8] = 2
    (tool.folder / "newer.scry").write_bytes(newer)
    before = tool.left()
    refused(tool("convert", *args), status, *says)
    assert tool.left() == before


def test_cut_off_inside_a_block(tool, refused, recordings):
    data = (tool.folder / "web.scry").read_bytes()
    ends = block_ends(data)
    (tool.folder / "cut.scry").write_bytes(data[: ends[5] + 7])
    refused(tool("convert", "cut.scry", "-o", "-"), 1, "'cut.scry' is cut off", "--partial")
    refused(tool("convert", "cut.scry", "-o", "out"), 1, "'cut.scry' is cut off", "--partial")
    assert "out" not in tool.left()

    result = tool("convert", "cut.scry", "--partial", "-f", "raw", "-o", "-")
    assert result.returncode == 0
    assert "'cut.scry' is cut off or damaged: taking the " in result.stderr
    part, whole = folded(tool, "cut.scry", "--partial"), folded(tool, "web.scry")
    assert 0 < sum(part.values()) < sum(whole.values())
    assert part.keys() <= whole.keys()


def test_cut_off_in_the_header(tool, refused, recordings):
    data = (tool.folder / "web.scry").read_bytes()
    for size in (4, HEADER, block_ends(data)[0] - 1):
        (tool.folder / "cut.scry").write_bytes(data[:size])
        refused(tool("convert", "cut.scry", "--partial"), 1, "'cut.scry'")


def test_a_damaged_byte(tool, refused, recordings):
    data = bytearray((tool.folder / "web.scry").read_bytes())
    data[block_ends(data)[5] + BLOCK.size + 3] ^= 0x10
    (tool.folder / "spoilt.scry").write_bytes(data)
    refused(tool("convert", "spoilt.scry"), 1, "'spoilt.scry' is cut off or damaged", "--partial")


def test_binary_is_not_for_a_terminal(tool, recordings):
    master, slave = pty.openpty()
    try:
        process = subprocess.run(
            [tool.path, "convert", "-f", "scry", "-o", "-", "web.scry"],
            cwd=tool.folder,
            stdout=slave,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        os.close(slave)
        os.close(master)
    assert process.returncode == 2
    assert "not for a terminal" in process.stderr


def test_what_a_killed_scry_wrote_can_be_read(tool):
    """The recording goes through a pipe, so that the test knows what has been handed over."""
    busy = (
        "import sys\nsys.stdout.write('ready\\n'); sys.stdout.flush()\nwhile True: sum(range(1000))"
    )
    program = subprocess.Popen(
        [sys.executable, "-c", busy], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    )
    scry = None
    try:
        assert program.stdout.readline() == "ready\n"
        scry = subprocess.Popen(
            [tool.path, "record", "-f", "scry", "-o", "-", "-p", str(program.pid)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        data = scry.stdout.read(HEADER)
        for _ in range(2):  # the info block and one of samples
            header = scry.stdout.read(BLOCK.size)
            data += header + scry.stdout.read(BLOCK.unpack(header)[3])
        scry.send_signal(signal.SIGKILL)
        data += scry.stdout.read()
    finally:
        for process in (scry, program):
            if process:
                process.kill()
                process.wait()
                process.stdout.close()
    (tool.folder / "killed.scry").write_bytes(data)
    result = tool("convert", "killed.scry", "-f", "raw", "-o", "-")
    assert result.returncode == 0, result.stderr
    assert "'killed.scry' has no end, as when scry is killed: taking the " in result.stderr
    assert "<module>" in result.stdout
