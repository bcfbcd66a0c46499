"""record --rotate, --keep and SIGUSR1: files in a row, and what there is so far."""

import contextlib
import gzip
import json
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

BUSY = "import sys\nsys.stdout.write('ready\\n'); sys.stdout.flush()\nwhile True: sum(range(1000))"


@pytest.fixture
def busy():
    program = subprocess.Popen(
        [sys.executable, "-c", BUSY], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    )
    try:
        assert program.stdout.readline() == "ready\n"
        yield program
    finally:
        program.kill()
        program.wait()
        program.stdout.close()


@contextlib.contextmanager
def recording(tool, *args):
    """scry record in the background, once it has begun."""
    process = subprocess.Popen(
        [tool.path, "record", *map(str, args)],
        cwd=tool.folder,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        line = process.stderr.readline()
        assert "sampling process" in line, line + process.stderr.read()
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stderr.close()


def next_file(process):
    """The file the next line on standard error says was written."""
    line = process.stderr.readline()
    found = re.match(r"scry: wrote .* to '(.*)'", line)
    assert found, line + process.stderr.read()
    return found.group(1)


def stop(process):
    process.send_signal(signal.SIGINT)
    rest = process.stderr.read()
    assert process.wait() == 0, rest
    return rest


def seconds_of(tool, name):
    """How long a recording says it is, and how many samples it has."""
    result = tool("diff", "-f", "json", name, name)
    assert result.returncode == 0, result.stderr
    assert result.stderr == "", "it is complete"
    side = json.loads(result.stdout)["before"]
    return side["seconds"], side["samples"]


def weights_of(tool, name):
    result = tool("convert", "-f", "speedscope", "-o", "-", name)
    assert result.returncode == 0, result.stderr
    return [w for p in json.loads(result.stdout)["profiles"] for w in p["weights"]]


# ---- files in a row ----


def test_files_in_a_row_without_a_gap(tool, busy):
    with recording(
        tool, "-p", busy.pid, "-f", "scry", "-r", 200, "--rotate", 0.3, "-o", "run.scry"
    ) as process:
        names = [next_file(process) for _ in range(4)]
        stop(process)
    assert names == [f"run-000{i}.scry" for i in (1, 2, 3, 4)]
    left = tool.left()
    assert left[:4] == names and left[4:] in (["run-0005.scry"], ["run-0005.scry", "run-0006.scry"])
    for name in names:
        seconds, samples = seconds_of(tool, name)
        assert seconds > 0.05 and samples > 0
        # A thread that runs all the time: its samples stand for all of the time, but for what
        # passed before the first look, or since a timer of the CPU that it has left for another.
        late = 0.2 if name == names[0] else 0.006
        assert sum(weights_of(tool, name)) == pytest.approx(seconds, abs=late)


def test_merged_again_they_are_one_recording(tool, busy):
    with recording(
        tool, "-p", busy.pid, "-f", "scry", "-r", 200, "--rotate", 0.3, "-o", "run.scry"
    ) as process:
        names = [next_file(process) for _ in range(4)]
        stop(process)
    del names[0]  # it begins when scry does, before the first look
    result = tool("convert", "-f", "scry", "-o", "all.scry", *names)
    assert result.returncode == 0, result.stderr
    seconds, samples = seconds_of(tool, "all.scry")
    parts = [seconds_of(tool, name) for name in names]
    assert samples == sum(n for _, n in parts)
    # On the wall clock, each begins where the one before ended.
    assert seconds == pytest.approx(sum(s for s, _ in parts), abs=0.05)


@pytest.mark.parametrize(
    "form", ["flamegraph", "raw", "speedscope", "chrometrace", "gecko", "pprof"]
)
def test_every_format(tool, busy, form):
    with recording(
        tool, "-p", busy.pid, "-f", form, "-r", 200, "--rotate", 0.2, "-o", "out.x"
    ) as process:
        names = [next_file(process) for _ in range(2)]
        for name in names:
            data = (tool.folder / name).read_bytes()
            if form == "flamegraph":
                ET.fromstring(data)
            elif form in ("speedscope", "chrometrace", "gecko"):
                json.loads(data)
            elif form == "pprof":
                data = gzip.decompress(data)
            assert b"<module>" in data or b"&lt;module&gt;" in data
        stop(process)
    assert names == ["out-0001.x", "out-0002.x"]
    assert not [name for name in tool.left() if name.endswith(".part")]


@pytest.mark.parametrize(
    "given, made",
    [
        ("run", "run-0001"),
        (".hidden", ".hidden-0001"),
        ("a.b.scry", "a.b-0001.scry"),
        ("d.d/run", "d.d/run-0001"),
    ],
)
def test_names(tool, busy, given, made):
    (tool.folder / "d.d").mkdir()
    with recording(tool, "-p", busy.pid, "-f", "scry", "--rotate", 0.2, "-o", given) as process:
        assert next_file(process) == made
        stop(process)
    assert (tool.folder / made).is_file()


def test_a_name_by_itself(tool, busy):
    with recording(tool, "-p", busy.pid, "--rotate", 0.2, "-f", "raw") as process:
        name = next_file(process)
        stop(process)
    assert re.fullmatch(rf"{busy.pid}-[\dT-]+-0001\.txt", name)


def test_keep_removes_the_oldest(tool, busy):
    (tool.folder / "run-0000.scry").write_text("not of this recording")
    with recording(
        tool, "-p", busy.pid, "-f", "scry", "--rotate", 0.2, "--keep", 2, "-o", "run.scry"
    ) as process:
        names = [next_file(process) for _ in range(5)]
        present = [n for n in tool.left() if n.startswith("run-") and n.endswith(".scry")]
        # The sixth may have been written and the fourth removed meanwhile.
        assert len(present) <= 4 and names[4] in present and names[1] not in present
        stop(process)
    left = tool.left()
    assert left[0] == "run-0000.scry"
    assert len(left) == 3, left
    for name in left[1:]:
        seconds_of(tool, name)


def test_a_launched_program_passes_its_status_on(tool):
    code = "import time, sys\nend = time.time() + 0.7\nwhile time.time() < end: sum(range(100))\nsys.exit(7)"
    result = tool(
        "record", "-f", "raw", "--rotate", 0.2, "-o", "p.txt", "--", sys.executable, "-c", code
    )
    assert result.returncode == 7, result.stderr
    assert tool.left()[:2] == ["p-0001.txt", "p-0002.txt"]
    assert all(name.endswith(".txt") for name in tool.left())


def test_killed_in_the_middle(tool, busy):
    with recording(
        tool, "-p", busy.pid, "-f", "scry", "-r", 200, "--rotate", 0.4, "-o", "run.scry"
    ) as process:
        names = [next_file(process) for _ in range(2)]
        process.kill()
        process.wait()
    for name in names:
        assert seconds_of(tool, name)[1] > 0
    (part,) = [n for n in tool.left() if n.endswith(".part")]
    assert part.startswith("run-0003.scry.")
    result = tool("convert", "--partial", "-f", "raw", "-o", "-", part)
    assert result.returncode == 0, result.stderr


def test_a_disk_that_is_full(tool, busy):
    (tool.folder / "gone").mkdir()
    with recording(
        tool, "-p", busy.pid, "-f", "raw", "--rotate", 0.3, "-o", "gone/run.txt"
    ) as process:
        assert next_file(process) == "gone/run-0001.txt"
        for file in (tool.folder / "gone").iterdir():
            file.unlink()
        (tool.folder / "gone").rmdir()
        rest = process.stderr.read()
        assert process.wait() == 1
    assert "error: cannot write to 'gone/run-000" in rest


# ---- what there is so far ----


def test_what_there_is_so_far(tool, busy):
    with recording(tool, "-p", busy.pid, "-f", "raw", "-r", 200, "-o", "out.txt") as process:
        counts = []
        for _ in range(3):
            before = counts[-1] if counts else 0
            while not counts or counts[-1] == before:
                process.send_signal(signal.SIGUSR1)
                assert next_file(process) == "out.txt"
                text = (tool.folder / "out.txt").read_text()
                counts.append(sum(int(line.rsplit(" ", 1)[1]) for line in text.splitlines()))
        rest = stop(process)
    assert counts == sorted(counts)
    assert "wrote folded stacks to 'out.txt'" in rest
    text = (tool.folder / "out.txt").read_text()
    assert sum(int(line.rsplit(" ", 1)[1]) for line in text.splitlines()) >= counts[-1]
    assert tool.left() == ["out.txt"]


@pytest.mark.parametrize("form", ["flamegraph", "speedscope", "chrometrace", "gecko", "pprof"])
def test_every_format_so_far(tool, busy, form):
    with recording(tool, "-p", busy.pid, "-f", form, "-r", 200, "-o", "out") as process:
        process.send_signal(signal.SIGUSR1)
        assert next_file(process) == "out"
        data = (tool.folder / "out").read_bytes()
        if form == "flamegraph":
            ET.fromstring(data)
        elif form == "pprof":
            gzip.decompress(data)
        else:
            json.loads(data)
        stop(process)


def test_a_stream_so_far(tool, busy):
    (tool.folder / "run.scry").write_text("of another day")
    with recording(tool, "-p", busy.pid, "-f", "scry", "-r", 200, "-o", "run.scry") as process:
        for _ in range(2):
            process.send_signal(signal.SIGUSR1)
            assert next_file(process) == "run.scry"
            result = tool("convert", "-f", "raw", "-o", "-", "run.scry")
            assert result.returncode == 0, result.stderr
            assert "'run.scry' has no end" in result.stderr
        stop(process)
    assert tool.left() == ["run.scry"]
    assert seconds_of(tool, "run.scry")[1] > 0


def test_so_far_of_a_part(tool, busy):
    with recording(tool, "-p", busy.pid, "-f", "raw", "--rotate", 1000, "-o", "out.txt") as process:
        process.send_signal(signal.SIGUSR1)
        assert next_file(process) == "out-0001.txt"
        stop(process)
    assert tool.left() == ["out-0001.txt"]


def test_so_far_into_a_pipe_is_ignored(tool, busy):
    """It cannot be written twice; the signal must not end the recording."""
    process = subprocess.Popen(
        [tool.path, "record", "-p", str(busy.pid), "-f", "raw", "-o", "-"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert "sampling process" in process.stderr.readline()
        process.send_signal(signal.SIGUSR1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert len(out.splitlines()) <= 2


@pytest.mark.parametrize(
    "args, says",
    [
        (["--keep", 3], ["--keep", "--rotate"]),
        (["--rotate", 1, "-o", "-"], ["--rotate", "standard output", "run-0001"]),
        (["--rotate", 0.001], ["--rotate", "0.1 seconds"]),
        (["--rotate", "often"], ["'often'"]),
        (["--rotate", 1, "--keep", "few"], ["--keep 'few'"]),
    ],
)
def test_bad_options(tool, refused, args, says):
    refused(tool("record", "-p", 1, *args), 2, *says)
    assert tool.left() == []
