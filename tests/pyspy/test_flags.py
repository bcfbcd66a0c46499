"""Every flag that py-spy documents: taken by scry under that name, and doing what it says.

The table DOCUMENTED is py-spy's command line (0.4.2); a flag without a row that tests it fails the run.
"""

import contextlib
import json
import os
import re
import subprocess
import xml.etree.ElementTree as ET

import pytest
import pythons
from test_pyspy import TARGETS, harness, py_spy  # noqa: F401

DOCUMENTED = {
    "record": {
        *("--pid", "program", "--rate", "--subprocesses", "--full-filenames", "--gil", "--idle"),
        *("--native", "--nonblocking", "--output", "--format", "--duration", "--function"),
        *("--nolineno", "--threads", "--capture", "--hideprogress", "--help"),
    },
    "top": {
        *("--pid", "program", "--rate", "--subprocesses", "--full-filenames", "--gil", "--idle"),
        *("--native", "--nonblocking", "--delay", "--help"),
    },
    "dump": {
        *("--pid", "--subprocesses", "--full-filenames", "--native", "--nonblocking", "--core"),
        *("--locals", "--json", "--help"),
    },
    "completions": {"bash", "elvish", "fish", "powershell", "zsh"},
    "": {"--help", "--version", "help", "prefixes", "nothing"},
}
ROWS = set()


def row(command, *flags):
    """Notes which flags a test is about, once for each of its parameters."""
    ROWS.update((command, flag) for flag in flags)
    return lambda test: test


# ---- a program to point it at ----


def interpreter():
    return [p for p in pythons.found() if not p.root and not p.debug and not p.free_threaded][-1]


@pytest.fixture(scope="module")
def program():
    """Ready, with a thread that waits and a child that computes."""
    argv = interpreter().argv(TARGETS / "flags.py")
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert process.stdout.readline() == b"ready\n"
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.wait()
        process.stdout.close()


def run(py_spy, *args, status=0, **options):  # noqa: F811
    done = subprocess.run(
        [py_spy, *map(str, args)],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=harness.PATIENCE,
        **options,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def record(py_spy, program, tmp_path):  # noqa: F811
    """Folded stacks, with their counts, of a short recording."""

    def take(*flags, pid=program.pid, file=tmp_path / "out.txt"):
        words = ["--format", "raw", "--output", file, "--duration", "1", *flags]
        run(py_spy, "record", "--pid", pid, *words)
        lines = file.read_text().splitlines()
        return {line.rsplit(" ", 1)[0]: int(line.rsplit(" ", 1)[1]) for line in lines}

    return take


@pytest.fixture
def top(py_spy, program):  # noqa: F811
    """What `top` would show after half a second."""

    def take(*flags):
        text = run(
            py_spy, "top", "--pid", program.pid, *flags, "--once", "--json", "--duration", "0.6"
        )
        return json.loads(text)

    return take


@pytest.fixture
def dump(py_spy, program):  # noqa: F811
    def take(*flags):
        return run(py_spy, "dump", "--pid", program.pid, *flags)

    return take


def own_paths(text):
    return str(TARGETS / "flags.py") in text


# ---- record ----


@row("record", "--pid", "--output", "--duration")
@pytest.mark.parametrize("flag", ["-p", "--pid"])
@pytest.mark.parametrize("form", ["{}", "{:#x}", "0X{:X}"])
def test_record_pid(py_spy, program, tmp_path, flag, form):  # noqa: F811
    out = tmp_path / "out.svg"
    run(py_spy, "record", flag, form.format(program.pid), "-d", "1", "-o", out)
    ET.parse(out)


@row("record", "program", "--capture", "--hideprogress")
@pytest.mark.parametrize("flags", [[], ["--capture"], ["--hideprogress"]])
@pytest.mark.parametrize("dashes", [["--"], []])
def test_record_a_program(py_spy, tmp_path, flags, dashes):  # noqa: F811
    out = tmp_path / "out.txt"
    code = "import time\nend = time.time() + 0.5\nwhile time.time() < end: sum(range(100))"
    script = tmp_path / "script.py"
    script.write_text(code)
    words = ["-f", "raw", "-o", out, *flags, *dashes, interpreter().path, script]
    said = run(py_spy, "record", *words)
    assert "Stopped sampling because process exited" in said
    assert "<module> (script.py" in out.read_text()


@row("record", "--rate")
@pytest.mark.parametrize("flag", ["-r", "--rate"])
def test_record_rate(record, flag):
    many, few = sum(record(flag, "400").values()), sum(record(flag, "40").values())
    assert many > 2.5 * few > 0


@row("record", "--subprocesses")
@pytest.mark.parametrize("flag", ["-s", "--subprocesses"])
def test_record_subprocesses(record, program, flag):
    pids = {int(pid) for stack in record(flag) for pid in re.findall(r"process (\d+):", stack)}
    assert len(pids) == 2 and program.pid in pids


@row("record", "--full-filenames")
def test_record_full_filenames(record):
    assert all(own_paths(stack) for stack in record("--full-filenames"))
    assert not any(own_paths(stack) for stack in record())


@row("record", "--gil")
@pytest.mark.parametrize("flag", ["-g", "--gil"])
def test_record_gil(record, flag):
    stacks = record(flag)
    assert stacks and all("burns (" in stack for stack in stacks)


@row("record", "--idle")
@pytest.mark.parametrize("flag", ["-i", "--idle"])
def test_record_idle(record, flag):
    assert any("sleeps (flags.py" in stack for stack in record(flag))
    assert not any("sleeps (flags.py" in stack for stack in record())


@row("record", "--nonblocking")
def test_record_nonblocking(record):
    assert any("burns (flags.py" in stack for stack in record("--nonblocking"))


@row("record", "--native")
@pytest.mark.parametrize("flag", ["-n", "--native"])
def test_record_native(record, flag):
    stacks = record(flag)
    # Python's frames, and what computes the sum below them.
    assert any(re.search(r"burns \(flags.py:\d+\);.+\(", stack) for stack in stacks)


FORMATS = {
    "flamegraph": lambda text: ET.fromstring(text).tag.endswith("svg"),
    "raw": lambda text: re.fullmatch(r"(.+ \d+\n)+", text),
    "speedscope": lambda text: "speedscope" in json.loads(text)["$schema"],
    "chrometrace": lambda text: {"B", "E"} <= {event["ph"] for event in json.loads(text)},
}


@row("record", "--format")
@pytest.mark.parametrize("flag", ["-f", "--format"])
@pytest.mark.parametrize("name", [*FORMATS, "SpeedScope"])
def test_record_format(py_spy, program, tmp_path, flag, name):  # noqa: F811
    out = tmp_path / "out"
    run(py_spy, "record", "-p", program.pid, "-d", "1", flag, name, "-o", out)
    assert FORMATS[name.lower()](out.read_text())


@row("record", "--output", "--duration")
def test_record_output_has_a_name_by_itself(py_spy, program, tmp_path):  # noqa: F811
    said = run(py_spy, "record", "-p", program.pid, "--duration", "1", cwd=tmp_path)
    (out,) = tmp_path.iterdir()
    assert out.suffix == ".svg" and out.name.startswith(f"{program.pid}-")
    assert f"'{out.name}'" in said


@row("record", "--duration")
@pytest.mark.parametrize("flag", ["-d", "--duration"])
def test_record_duration(py_spy, tmp_path, flag):  # noqa: F811
    """A word for ever, or seconds of the clock."""
    out, script = tmp_path / "out.txt", tmp_path / "script.py"
    script.write_text("import time\nend = time.time() + 0.5\nwhile time.time() < end: pass\n")
    words = ["-f", "raw", "-o", out, "--", interpreter().path, script]
    said = run(py_spy, "record", flag, "unlimited", *words)
    assert "process exited" in said and "for " not in said.splitlines()[0]
    script.write_text("while True: pass\n")
    assert "for 1 seconds" in run(py_spy, "record", flag, "1", *words)


@row("record", "--function")
@pytest.mark.parametrize("flag", ["-F", "--function"])
def test_record_function(record, flag):
    ours = [stack.split(";")[-1] for stack in record(flag) if "burns (" in stack]
    assert set(ours) == {"burns (flags.py:8)"}


@row("record", "--nolineno")
def test_record_nolineno(record):
    assert all("burns (flags.py)" in stack for stack in record("--nolineno"))


@row("record", "--threads")
@pytest.mark.parametrize("flag", ["-t", "--threads"])
def test_record_threads(record, program, flag):
    assert all(stack.startswith(f"thread ({program.pid})") for stack in record(flag))


# ---- top ----


@row("top", "--pid", "--rate", "--delay", "--nonblocking", "--native")
@pytest.mark.parametrize(
    "flags",
    [
        *([], ["-r", "300"], ["--rate", "300"], ["--delay", "0.2"], ["--nonblocking"]),
        *(["-n"], ["--native"]),
    ],
    ids=" ".join,
)
def test_top_shows_what_runs(top, flags):
    assert "burns" in json.dumps(top(*flags))


@row("top", "program")
def test_top_of_a_program(py_spy):  # noqa: F811
    words = ["--once", "--json", "--duration", "1", "--", interpreter().path, TARGETS / "flags.py"]
    assert "burns" in run(py_spy, "top", *words)


@row("top", "--subprocesses")
@pytest.mark.parametrize("flag", ["-s", "--subprocesses"])
def test_top_subprocesses(top, program, flag):
    (child,) = harness.children_of(program.pid)
    assert str(child) in json.dumps(top(flag, "--processes"))
    assert str(child) not in json.dumps(top("--processes"))


@row("top", "--full-filenames")
def test_top_full_filenames(top):
    assert own_paths(json.dumps(top("--full-filenames")))


@row("top", "--gil", "--idle")
@pytest.mark.parametrize("gil", ["-g", "--gil"])
@pytest.mark.parametrize("idle", ["-i", "--idle"])
def test_top_gil_and_idle(top, gil, idle):
    assert "sleeps" in json.dumps(top(idle))
    assert "sleeps" not in json.dumps(top(gil))


# ---- dump ----


@row("dump", "--pid", "--nonblocking")
@pytest.mark.parametrize("flags", [[], ["--nonblocking"]], ids=["", "nonblocking"])
def test_dump(dump, program, flags):
    text = dump(*flags)
    assert text.startswith(f"Process {program.pid}: ")
    assert re.search(r"^Thread \d+ \(active(\+gil)?\).*\n    burns \(flags.py:\d+\)$", text, re.M)
    assert re.search(r'^Thread \d+ \(idle\): "sleeper"', text, re.M)


@row("dump", "--subprocesses")
@pytest.mark.parametrize("flag", ["-s", "--subprocesses"])
def test_dump_subprocesses(dump, program, flag):
    (child,) = harness.children_of(program.pid)
    assert re.search(rf"^Process {child}: ", dump(flag), re.M)


@row("dump", "--full-filenames")
def test_dump_full_filenames(dump):
    assert own_paths(dump("--full-filenames")) and "burns (flags.py" in dump()


@row("dump", "--native")
@pytest.mark.parametrize("flag", ["-n", "--native"])
def test_dump_native(dump, flag):
    assert "burns (flags.py" in dump(flag)


@row("dump", "--locals")
@pytest.mark.parametrize("flag", ["-l", "--locals"])
def test_dump_locals(dump, flag):
    text = dump(flag)
    assert "Arguments:" in text and re.search(r"what: ['\"]a long text", text)
    assert len(dump("-ll")) > len(text) > len(dump())


@row("dump", "--json")
@pytest.mark.parametrize("flag", ["-j", "--json"])
def test_dump_json(dump, flag):
    threads = json.loads(dump(flag))
    assert {"pid", "thread_id", "thread_name", "os_thread_id", "active", "owns_gil", "frames"} <= (
        threads[0].keys()
    )


@row("dump", "--core")
@pytest.mark.parametrize("flag", ["-c", "--core"])
def test_dump_core(py_spy, program, tmp_path, flag):  # noqa: F811
    """Made here by hand where gdb is there; what a core holds is tested elsewhere."""
    core = tmp_path / "core"
    try:
        done = subprocess.run(
            ["gcore", "-o", core, str(program.pid)], capture_output=True, timeout=harness.PATIENCE
        )
    except FileNotFoundError:
        core.write_bytes(b"")
        run(py_spy, "dump", flag, core, status=1)  # refused as a file, not as a flag
        return
    assert done.returncode == 0, done.stderr
    assert "burns (flags.py" in run(py_spy, "dump", flag, f"{core}.{program.pid}")


# ---- the rest ----


@row("completions", "bash", "elvish", "fish", "powershell", "zsh")
@pytest.mark.parametrize("shell", ["bash", "elvish", "fish", "powershell", "zsh"])
def test_completions(py_spy, shell):  # noqa: F811
    text = run(py_spy, "completions", shell)
    for words in ("record", "nonblocking", "full-filenames"):
        assert words in text


@row("", "--help", "help")
@row("record", "--help")
@row("top", "--help")
@row("dump", "--help")
@pytest.mark.parametrize("command", ["record", "top", "dump"])
def test_help(py_spy, command):  # noqa: F811
    """All ways to ask, and every flag in it but those that py-spy hides as well."""
    text = run(py_spy, command, "--help")
    assert run(py_spy, command, "-h") == text == run(py_spy, "help", command)
    for flag in DOCUMENTED[command] - {"program", "--capture", "--native", "--core"}:
        assert flag in text
    for ask in ("--help", "-h", "help"):
        assert command in run(py_spy, ask)


@row("", "--version")
@pytest.mark.parametrize("flag", ["-V", "--version"])
def test_version(py_spy, flag):  # noqa: F811
    assert re.match(r"py-spy \d+\.\d+\.\d+", run(py_spy, flag))


@row("", "prefixes")
@pytest.mark.parametrize("short, command", [("r", "record"), ("d", "dump"), ("t", "top")])
def test_prefixes(py_spy, short, command):  # noqa: F811
    wanted = run(py_spy, command, "--help")
    for end in range(1, len(command)):
        assert run(py_spy, command[:end], "--help") == wanted
    assert short == command[0]


@row("", "nothing")
def test_nothing_at_all(py_spy):  # noqa: F811
    done = subprocess.run([py_spy], capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout == "" and "record" in done.stderr


def test_every_documented_flag_has_a_row():
    documented = {(command, flag) for command, flags in DOCUMENTED.items() for flag in flags}
    assert ROWS == documented
