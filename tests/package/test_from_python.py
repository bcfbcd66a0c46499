"""scry.dump(), scry.record(), scry.processes(), on this process and on others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from patience import until

PARTS = """
import json, os, sys, time, threading
import scry

def work(seconds=0.5):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1000))
"""


@pytest.fixture
def sleeper():
    """Another process, where it should be."""
    source = "import sys, time\ndef rest():\n    print(1, flush=True)\n    sys.stdin.read()\nrest()"
    process = subprocess.Popen(
        [sys.executable, "-c", source], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    process.stdout.readline()
    yield process
    process.stdin.close()
    process.wait(30)


def test_dump_of_another_process(run, sleeper):
    said = run(
        PARTS
        + """
stacks = scry.dump(int(sys.argv[1]))
[thread] = stacks
assert [f.name for f in thread.frames] == ["rest", "<module>"], thread.frames
assert thread.state == "idle" and thread.pid == int(sys.argv[1])
assert "rest (<string>:4)" in repr(stacks) and "<details" in stacks._repr_html_()
assert list(stacks.to_pandas()["name"]) == ["rest", "<module>"]
print(json.dumps([p.pid for p in scry.processes() if p.can_attach]))
""",
        str(sleeper.pid),
    )
    assert sleeper.pid in json.loads(said)


def test_dump_of_this_process(run):
    run(
        PARTS
        + """
ready = threading.Event()
rest = threading.Event()
def waiting():
    ready.set()
    rest.wait()
thread = threading.Thread(target=waiting, name="the other")
thread.start()
ready.wait()
stacks = scry.dump()
rest.set()
assert "waiting" in [f.name for f in stacks.thread("the other").frames], stacks
assert "dump" in [f.name for f in stacks.thread("MainThread").frames], stacks
"""
    )


@pytest.mark.parametrize("way", ["block", "decorator", "coroutine", "start and stop"])
def test_record_this_process(run, tmp_path, way):
    use = {
        "block": "with recorder:\n    work()",
        "decorator": "recorder(work)()",
        "coroutine": "import asyncio\nasync def go():\n    work()\nasyncio.run(recorder(go)())",
        "start and stop": "recorder.start()\nassert recorder.active\nwork()\nassert recorder.stop() is recorder.profile",
    }[way]
    run(
        PARTS
        + f"""
recorder = scry.record("run.svg", rate=200)
{use}
assert not recorder.active
profile = recorder.profile
top = profile.functions()[0]
assert top.name == "work" and top.own > 0.5, profile
assert profile.samples > 20 and 0.3 < profile.duration < 30, profile
assert "work" in repr(profile) and "sandbox" in profile._repr_html_()
assert profile.to_pandas().iloc[0]["name"] == "work"
assert any("work" in frame for stack in profile.stacks() for frame in stack)
"""
    )
    assert "<svg" in (tmp_path / "run.svg").read_text()
    assert os.listdir(tmp_path) == sorted(["program.py", "run.svg"]) or set(
        os.listdir(tmp_path)
    ) == {"program.py", "run.svg"}


def test_every_format(run, tmp_path):
    run(
        PARTS
        + """
with scry.record("run.json") as recorder:
    work()
for name in ("a.scry", "a.txt", "a.pprof", "a.callgrind", "a.svg"):
    recorder.profile.save(name)
recorder.profile.save("chrome.json", "chrometrace")
with scry.Profile.open("a.scry") as again:
    assert again.samples == recorder.profile.samples
    both = scry.Profile.merge([again, recorder.profile])
    assert both.samples == 2 * again.samples
"""
    )
    assert json.loads((tmp_path / "run.json").read_text())["$schema"].endswith("schema.json")
    assert json.loads((tmp_path / "chrome.json").read_text())
    assert b"work" in (tmp_path / "a.txt").read_bytes()


def test_nested_and_simultaneous(run):
    run(
        PARTS
        + """
from scry import ptracer
with scry.record() as outer:
    with scry.record(rate=50) as inner:
        assert len(ptracer.active()) == 2
        work()
    assert len(ptracer.active()) == 1
    work()
assert ptracer.active() == []
assert inner.profile.functions()[0].name == outer.profile.functions()[0].name == "work"
assert outer.profile.duration > inner.profile.duration
"""
    )


def test_a_block_that_raises_has_its_profile(run, tmp_path):
    said = run(
        PARTS
        + """
try:
    with scry.record("run.txt"):
        work()
        raise KeyError("mine")
except KeyError:
    print(open("run.txt").read())
"""
    )
    assert "work" in said


def test_recording_survives_its_process(run, tmp_path, scry):
    """A recording that is wanted itself is written by the recorder, also after kill -9 of what it recorded."""
    run(
        PARTS
        + """
import signal
recorder = scry.record("run.scry", rate=200).start()
work(1.5)
os.kill(os.getpid(), signal.SIGKILL)
""",
        check=False,
    )
    until((tmp_path / "run.scry").exists, "it is written")
    assert sorted(os.listdir(tmp_path)) == ["program.py", "run.scry"]
    done = subprocess.run(
        [scry, "convert", "-f", "raw", "-o", "-", "run.scry"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        check=True,
    )
    assert b"work" in done.stdout


def test_recorder_ends_with_who_began_it(run, sleeper, tmp_path):
    """The recorder of another process does not outlive this one, however it dies."""
    said = run(
        PARTS
        + """
import signal
recorder = scry.record(pid=int(sys.argv[1]), idle=True).start()
print(recorder._process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
""",
        str(sleeper.pid),
        check=False,
    )
    pid = int(said.split()[0])
    for _ in range(200):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            break
        if state == "Z":
            break
        subprocess.run(["sleep", "0.1"])
    else:
        pytest.fail("the recorder still runs")


@pytest.mark.parametrize(
    "use, error",
    [
        ("scry.dump(4194304 - 1)", "NoProcess"),
        ("scry.record(pid=4194304 - 1).start()", "NoProcess"),
        ("scry.dump(int(os.popen('sleep 5 >/dev/null 2>&1 & echo $!').read()))", "NotPython"),
        ("scry.dump(2)", "KernelThread|NotPython|PermissionDenied|NoProcess"),
        ("scry.record(colour='red')", "UsageError"),
        ("scry.record('run.doc')", "UsageError"),
        ("scry.record(rate=-1).start()", "UsageError"),
        ("scry.record('no/such/folder.svg').start()", "OutputFailed"),
        ("scry.record('/dev/full', format='scry').start().stop()", "OutputFailed|BadRecording"),
        ("scry.record().stop()", "NotRecording"),
        ("r = scry.record().start(); r.start()", "AlreadyRecording"),
        ("scry.Profile.open('program.py').tree()", "BadRecording"),
        ("os.environ['SCRY'] = '/nowhere'; scry.dump()", "NoProgram"),
    ],
)
def test_one_exception_per_cause(run, use, error):
    said = run(
        PARTS
        + f"""
try:
    {use}
except scry.ScryError as error:
    assert str(error) and "Traceback" not in str(error)
    print("raised", type(error).__name__)
"""
    )
    assert said.split()[-2] == "raised" and said.split()[-1] in error.split("|"), said


PRELOAD = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
int prctl(int option, ...)
{
    va_list more;
    va_start(more, option);
    unsigned long a = va_arg(more, unsigned long), b = va_arg(more, unsigned long);
    unsigned long c = va_arg(more, unsigned long), d = va_arg(more, unsigned long);
    va_end(more);
    if (option == 0x59616d61) {
        FILE *log = fopen(getenv("PRCTL_LOG"), "ae");
        fprintf(log, "%lu\n", a);
        fclose(log);
    }
    int (*real)(int, ...) = (int (*)(int, ...))dlsym(RTLD_NEXT, "prctl");
    return real(option, a, b, c, d);
}
"""


def test_permission_is_given_to_the_child_and_taken_back(run, tmp_path):
    """What the kernel is told, seen by a library in between: this process, then the child alone, then nobody."""
    source, library, log = (tmp_path / name for name in ("p.c", "p.so", "log"))
    source.write_text(PRELOAD)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    said = run(
        PARTS
        + """
with scry.record() as recorder:
    print(os.getpid(), recorder._process.pid)
    work(0.1)
""",
        env={"LD_PRELOAD": str(library), "PRCTL_LOG": str(log)},
    )
    own, child = said.split()
    told = log.read_text().split()
    assert told[0] == own and told[-1] == "0", told
    assert child in told and set(told) == {own, child, "0"}, told


def test_magics_of_ipython(run, tmp_path):
    said = run(
        """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "scry")
stacks = shell.run_line_magic("scry_dump", "")
assert "MainThread" in repr(stacks)
cell = '''
import time
def work():
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        sum(range(1000))
work()
'''
profile = shell.run_cell_magic("scry", "cell.svg --rate 200", cell)
assert profile.functions()[0].name == "work", profile
assert "<iframe" in profile._repr_html_()
shell.run_cell_magic("scry_trace", "cell.json", "sum([1, 2])")
"""
    )
    assert "cell.svg" in said
    assert (tmp_path / "cell.svg").exists() and (tmp_path / "cell.json").exists()


TESTS = """
import time
def test_slow():
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        sum(range(1000))
def test_quick():
    pass
def test_slow_and_wrong():
    test_slow()
    assert False
"""


def test_pytest_plugin(environment, tmp_path):
    (tmp_path / "test_some.py").write_text(TESTS)
    done = subprocess.run(
        [
            *(
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-p",
                "scry.pytest_plugin",
                "-p",
                "no:cacheprovider",
            ),
            *(
                "--scry",
                "--scry-slow=0.3",
                "--scry-dir=profiles",
                "--scry-format=raw",
                "test_some.py",
            ),
        ],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert "1 failed, 2 passed" in done.stdout, done.stdout
    files = sorted(path.name for path in (tmp_path / "profiles").iterdir())
    assert [name.rpartition("-")[0] for name in files] == [
        "test_some.py_test_slow",
        "test_some.py_test_slow_and_wrong",
    ], done.stdout
    assert all("test_slow" in path.read_text() for path in (tmp_path / "profiles").iterdir())
    assert f"profiles/{files[0]}" in done.stdout
