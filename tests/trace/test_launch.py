"""scry trace and python -m scry.trace: programs, their children, and every way a program can end."""

import json
import os
import signal
import subprocess
from pathlib import Path

import perfetto
import pytest
from conftest import PACKAGE, Run, built, few

HERE = Path(__file__).parent

FAMILY = """
import multiprocessing, os, subprocess, sys
def work(n): return sum(i for i in range(n))
def child(n):
    work(n)
    if n == 3: os._exit(0)
if __name__ == "__main__":
    work(5)
    subprocess.run([sys.executable, "-c", "def inner(): return 1\\ninner()"], check=True)
    for method in ("fork", "spawn"):
        process = multiprocessing.get_context(method).Process(target=child, args=(3,))
        process.start(); process.join()
    sys.exit(3)
"""


def names_by_process(path):
    trace = perfetto.load(path)
    found = {}
    for uuid, track in trace.tracks.items():
        if track["kind"] == "thread":
            found.setdefault(track["pid"], []).extend(trace.names(uuid))
    return found


def test_children_are_in_the_same_trace(run_few):
    program = run_few.file("family.py", FAMILY)
    done = run_few.words("-m", "scry.trace", "-o", "out.pftrace", program, check=False)
    assert done.returncode == 3, done.stderr
    found = names_by_process(run_few.folder / "out.pftrace")
    kinds = sorted(
        tuple(n for n in names if n in ("work", "child", "inner")) for names in found.values()
    )
    # multiprocessing's own helper process has none of them, and may outlive the program
    kinds = [kind for kind in kinds if kind]
    assert kinds == [("child", "work"), ("child", "work"), ("inner",), ("work",)]
    assert [name for name in os.listdir(run_few.folder) if "part" in name] == []


def test_parent_and_child_keep_their_names_after_a_fork(run_few):
    """What the child calls before it has a trace of its own must not be written over what its parent calls; and calls
    that began before the fork have names in the child."""
    program = run_few.file(
        "forks.py",
        "import os\n"
        "def at_fork(): return [chr(97), sorted('b'), max(1, 2)]\n"
        "os.register_at_fork(after_in_child=at_fork)\n"
        "def outer():\n"
        "    pid = os.fork()\n"
        "    for i in range(100): exec(f'def after_{i}(): return {i}\\nafter_{i}()')\n"
        "    if pid == 0: os._exit(0)\n"
        "    os.waitpid(pid, 0)\n"
        "outer()\n",
    )
    out = run_few.folder / "out.pftrace"
    run_few.words("-m", "scry.trace", "-o", out, program)
    found = names_by_process(out)
    assert len(found) == 2
    for names in found.values():
        assert "?" not in names and {"outer", "after_0", "after_99"} <= set(names)
        assert [n for n in names if n.startswith("after_")] == [f"after_{i}" for i in range(100)]


def test_times_of_children_are_on_one_clock(run_newest):
    program = run_newest.file(
        "clock.py",
        "import subprocess, sys\n"
        "def before(): pass\n"
        "def after(): pass\n"
        "before()\n"
        "subprocess.run([sys.executable, '-c', 'def between(): pass\\nbetween()'])\n"
        "after()\n",
    )
    run_newest.words("-m", "scry.trace", "-o", "out.pftrace", program)
    trace = perfetto.load(run_newest.folder / "out.pftrace")
    times = {}
    for events in trace.events.values():
        for time, kind, name, _ in events:
            if kind == "B":
                times[name.split(" (")[0]] = time
    assert times["before"] < times["between"] < times["after"]


ENDS = {
    "exception": ("raise ValueError('no')", 1),
    "os._exit": ("import os; os._exit(7)", 7),
    "crash": ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", 128 + signal.SIGSEGV),
    "killed": ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 128 + signal.SIGKILL),
    "SIGTERM": ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", 128 + signal.SIGTERM),
    "SIGINT": ("import os, signal; os.kill(os.getpid(), signal.SIGINT)", 130),
    "exec": ("import os, sys; os.execv(sys.executable, [sys.executable, '-c', 'def inner(): pass\\ninner()'])", 0),
}  # fmt: skip


@pytest.mark.parametrize("stream", [[], ["--stream"]], ids=["ring", "stream"])
@pytest.mark.parametrize("end", ENDS)
def test_there_is_a_trace_however_it_ends(run_newest, end, stream):
    how, status = ENDS[end]
    program = run_newest.file(
        "end.py",
        f"def work(): return 1\nfor i in range(100): work()\ndef last():\n    {how}\nlast()\n",
    )
    done = run_newest.words("-m", "scry.trace", *stream, "-o", "out.pftrace", program, check=False)
    assert done.returncode == status, done.stderr
    found = names_by_process(run_newest.folder / "out.pftrace")
    names = [name for names in found.values() for name in names]
    assert names.count("work") == 100 and "last" in names
    assert ("inner" in names) == (end == "exec")


def test_what_a_program_that_died_has_streamed_can_be_recovered(scry, run_newest):
    """It traces itself: nobody is left to make the trace."""
    program = run_newest.file(
        "dies.py",
        "import os, signal\n"
        "import scry\n"
        "def work(): return 1\n"
        "with scry.trace('out.pftrace', stream=True):\n"
        "    for i in range(100): work()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n",
    )
    done = run_newest.words(program, check=False)
    (parts,) = run_newest.folder.glob("out.pftrace.parts-*")
    assert done.returncode and not (run_newest.folder / "out.pftrace").exists()
    again = ["-m", "scry.trace", "-o", "out.pftrace", "--recover"]
    done = run_newest.words(*again, parts)
    assert "ended at once (os._exit, a signal or a crash)" in done.stderr
    (names,) = names_by_process(run_newest.folder / "out.pftrace").values()
    assert names.count("work") == 100
    for folder, text in (("nothing", "there is no folder"), (".", "no part of a trace is in")):
        done = run_newest.words(*again, folder, check=False)
        assert done.returncode == 1 and text in done.stderr
    done = subprocess.run(
        [scry, "trace", "--recover", parts, "x.py"], capture_output=True, text=True
    )
    assert done.returncode and "a program that has ended" in done.stderr


def test_options_reach_the_program(run_few):
    program = run_few.file(
        "options.py",
        "import json, time\n"
        "def named(a, b=2): return [a, inside()]\n"
        "def inside(): return json.dumps({'k': 1})\n"
        "def other(): return named(5)\n"
        "other(); inside()\n",
    )
    out = run_few.folder / "out.pftrace"
    words = ["-m", "scry.trace", "-q", "-o", out]
    run_few.words(
        *words,
        "--trace-sparse",
        "__main__.named",
        "--ignore-stdlib",
        "--log-args",
        "--log-returns",
        program,
    )
    events = perfetto.load(out).thread()
    begins = [
        (name.split(" (")[0], notes.get("args")) for _, kind, name, notes in events if kind == "B"
    ]
    assert [name for name, _ in begins if "." not in name] == ["named", "inside"]
    assert json.loads(dict(begins)["named"]) == {"a": "5", "b": "2"}
    results = [
        notes.get("return") for _, kind, _, notes in events if kind == "E" and "return" in notes
    ]
    assert results == ["'{\"k\": 1}'", "[5, '{\"k\": 1}']"]
    run_few.words(
        *words, "--include-files", program, "--ignore-c-function", "--max-stack-depth", "2", program
    )
    assert perfetto.load(out).names() == ["<module>", "other", "inside"]


def test_a_name_that_is_never_met_is_reported(run_newest):
    program = run_newest.file("unmet.py", "def f(): pass\nf()\n")
    done = run_newest.words(
        "-m",
        "scry.trace",
        "-o",
        "out.json",
        "--trace-sparse",
        "__main__.nothing,__main__.f",
        program,
    )
    assert "'__main__.nothing' was never met" in done.stderr and "'__main__.f'" not in done.stderr


def test_named_functions_are_found_where_the_program_has_them(run_few):
    """Under the name that a package gives them, and in the main program, whatever else has a function of that name."""
    run_few.file("pkg/__init__.py", "from .inner import found as given\ndef main(): return 'no'\n")
    run_few.file("pkg/inner.py", "def found(): return 1\n")
    run_few.file(
        "pkg/__main__.py",
        "import sys\n"
        "import pkg\n"
        "def main(): return pkg.given()\n"
        "pkg.main()\n"
        "main()\n"
        "pkg.given()\n"
        "assert type(sys.meta_path[0]).__module__ != 'scry.trace.sparse', sys.meta_path\n"
        "assert 'exec_module' not in vars(pkg.__spec__.loader)\n",
    )
    out = run_few.folder / "out.pftrace"
    for name, names in {
        "pkg.given": ["found", "found"],
        "__main__.main": ["main", "found"],
        "pkg.main": ["main"],
        "pkg.inner.found": ["found", "found"],
    }.items():
        words = ["-m", "scry.trace", "-o", out, "--trace-sparse", name, "-m", "pkg"]
        done = run_few.words(*words)
        assert perfetto.load(out).names() == names, (name, done.stderr)


def test_a_main_program_that_another_one_runs_is_found(run_newest):
    program = run_newest.file("shown.py", "def inner(): return 1\ninner()\n")
    out = run_newest.folder / "out.pftrace"
    words = ["-m", "scry.trace", "-o", out, "--trace-sparse", "__main__.inner", "-m"]
    for runner in (["cProfile", program], ["trace", "--count", "-C", "counts", program]):
        run_newest.words(*words, *runner)
        assert perfetto.load(out).names() == ["inner"], runner


def test_the_one_of_several_definitions_that_holds_is_traced(run_few):
    program = run_few.file(
        "several.py",
        "import typing\n"
        "@typing.overload\n"
        "def f(n: int) -> int: ...\n"
        "@typing.overload\n"
        "def f(n: str) -> str: ...\n"
        "def f(n): return n\n"
        "f(1)\n",
    )
    out = run_few.folder / "out.pftrace"
    run_few.words("-m", "scry.trace", "-o", out, "--trace-sparse", "__main__.f", program)
    assert perfetto.load(out).names() == ["f"]


@pytest.mark.parametrize(
    ("name", "reason"),
    {
        "math.sin": "it is written in C",
        "json.nothing": "module 'json' has no 'nothing'",
        "json.JSONDecodeError": "it is a class; name a method",
        "json.__doc__": "which is not callable",
        "no_such_module.f": "was never met",
    }.items(),
)
def test_why_a_name_leads_nowhere_is_said(run_newest, name, reason):
    program = run_newest.file("why.py", "import json, math\n")
    words = ["-m", "scry.trace", "-o", "out.json", "--trace-sparse", name, program]
    done = run_newest.words(*words)
    assert reason in done.stderr and name in done.stderr


def test_a_site_customisation_of_the_program_still_runs(run_newest):
    run_newest.file("site/sitecustomize.py", "import builtins\nbuiltins.customised = True\n")
    program = run_newest.file(
        "custom.py", "print(customised, __import__('sitecustomize').__file__)\n"
    )
    run_newest.environment["PYTHONPATH"] += f":{run_newest.folder}/site"
    done = run_newest.words("-m", "scry.trace", "-o", "out.json", program)
    assert done.stdout.split() == ["True", f"{run_newest.folder}/site/sitecustomize.py"]


BAD = {
    "no program": ([], "there is nothing to run"),
    "no such file": (["nothing.py"], "there is no file 'nothing.py'"),
    "no such program": (["no-such-program"], "there is no program 'no-such-program'"),
    "format": (["-o", "out.txt", "x.py"], "the end of the name says the format"),
    "folder": (["-o", "none/out.json", "x.py"], "there is no folder 'none'"),
    "memory": (["--memory", "lots", "x.py"], "'lots' is not an amount of memory"),
    "duration": (["--min-duration", "5", "x.py"], "'5' is not a duration"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_work_is_said_before_anything_runs(run_newest, case):
    words, text = BAD[case]
    run_newest.file("x.py", "open('ran', 'w')")
    done = run_newest.words("-m", "scry.trace", *words, check=False)
    assert done.returncode == 1 and text in done.stderr and "Traceback" not in done.stderr
    assert not (run_newest.folder / "ran").exists()


# ---- through the binary ----


def host():
    """Interpreters that the binary can run: not those of a Debian tree."""
    return [p for p in few() if p.root is None]


@pytest.mark.parametrize("here", host(), ids=lambda p: p.id)
def test_scry_trace(scry, here, tmp_path):
    run = Run(here, tmp_path, built(here))
    del run.environment["PYTHONPATH"]
    program = run.file("app.py", "import sys\ndef work(): return len(sys.argv)\nsys.exit(work())\n")
    words = [
        scry,
        "trace",
        "-o",
        "out.pftrace",
        "--ignore-stdlib",
        "--",
        here.path,
        program,
        "-o",
        "x",
        "--entries",
    ]
    done = subprocess.run(words, cwd=tmp_path, env=run.environment, capture_output=True, text=True)
    assert done.returncode == 4, done.stderr
    assert "work" in [
        n for names in names_by_process(tmp_path / "out.pftrace").values() for n in names
    ]


def test_scry_trace_runs_a_module_and_a_script_with_its_own_python(scry, tmp_path):
    here = host()[-1]
    run = Run(here, tmp_path, built(here))
    del run.environment["PYTHONPATH"]
    script = run.file("script", f"#!{here.path}\ndef work(): print('ran')\nwork()\n")
    script.chmod(0o755)
    done = subprocess.run(
        [scry, "trace", "-o", "s.json", "./script"],
        cwd=tmp_path,
        env=run.environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and done.stdout == "ran\n", done.stderr
    assert '"work (' in (tmp_path / "s.json").read_text()
    python3 = run.folder / "bin" / "python3"
    python3.parent.mkdir()
    python3.symlink_to(here.path)
    environment = {**run.environment, "PATH": f"{python3.parent}:{os.environ['PATH']}"}
    run.file("mod.py", "import sys\ndef work(): print(sys.argv[1:])\nwork()\n")
    done = subprocess.run(
        [scry, "trace", "-o", "m.json", "-m", "mod", "--", "-q", "x"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and done.stdout == "['-q', 'x']\n", done.stderr
    assert '"work (' in (tmp_path / "m.json").read_text()


def test_a_trace_as_a_recording_has_the_exact_times(scry, run_newest):
    run_newest.code(
        """
import scry, time
def short(): time.sleep(0.02)
def long(): time.sleep(0.08)
def top(): short(); long(); short()
with scry.trace("out.scry"):
    top()
"""
    )
    out = run_newest.folder / "out.scry"
    raw = subprocess.run(
        [scry, "convert", "-f", "raw", "--nolineno", "-o", "-", out],
        capture_output=True,
        text=True,
        check=True,
    )
    times = {}
    for line in raw.stdout.splitlines():
        stack, _, count = line.rpartition(" ")
        frames = [frame.split(" (")[0] for frame in stack.split(";")]
        if frames[-1] == "time.sleep":
            times[frames[-2]] = int(count)
    assert 40_000 <= times["short"] < times["long"] and times["long"] >= 80_000
    for other in ("flamegraph", "speedscope", "chrometrace", "pprof"):
        subprocess.run(
            [scry, "convert", "-f", other, "-o", run_newest.folder / other, out],
            check=True,
            capture_output=True,
        )
    done = subprocess.run([scry, "diff", out, out], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# ---- attaching ----

SERVER = """
import sys, time
def serve(): return sum(range(50))
def main():
    print("ready", flush=True)
    while True:
        serve()
        time.sleep(0.001)
main()
"""


def attachable():
    return [p for p in few() if p.minor >= (3, 14) and not p.debug]


@pytest.mark.parametrize("there", attachable(), ids=lambda p: p.id)
def test_attach(there, tmp_path):
    run = Run(there, tmp_path, built(there))
    server = run.file("server.py", SERVER)
    environment = {
        k: v for k, v in run.environment.items() if k not in ("PYTHONPATH", "SCRY_TRACER")
    }
    with run.popen(server, stdout=subprocess.PIPE, env=environment) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            for _ in range(2):
                done = run.words(
                    "-m", "scry.trace", "-p", str(process.pid), "-d", "0.5", "-o", "out.pftrace"
                )
                names = [
                    n
                    for names in names_by_process(tmp_path / "out.pftrace").values()
                    for n in names
                ]
                assert names.count("serve") > 3, done.stderr
            words = ["-m", "scry.trace", "-p", str(process.pid), "-d", "0.5", "-o", "out.pftrace"]
            done = run.words(*words, "--trace-sparse", "__main__.serve")
            (names,) = names_by_process(tmp_path / "out.pftrace").values()
            assert set(names) == {"serve", "builtins.sum"}, done.stderr
            assert process.poll() is None
        finally:
            process.kill()


@pytest.mark.pythons(until=(3, 13))
def test_attaching_to_an_older_python_says_what_to_do_instead(run):
    done = run.words("-m", "scry.trace", "-p", "1", check=False)
    assert done.returncode == 1 and "3.14" in done.stderr and "scry record -p" in done.stderr


def test_scry_trace_attaches(scry, tmp_path):
    here = [p for p in attachable() if p.root is None]
    if not here:
        pytest.skip("no Python 3.14 or later outside of a Debian tree")
    run = Run(here[-1], tmp_path, built(here[-1]))
    server = run.file("server.py", SERVER)
    with run.popen(server, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            words = [scry, "trace", "-p", str(process.pid), "-d", "0.5", "-o", "out.pftrace"]
            environment = {k: v for k, v in run.environment.items() if k != "PYTHONPATH"}
            done = subprocess.run(
                words, cwd=tmp_path, env=environment, capture_output=True, text=True
            )
            assert done.returncode == 0, done.stderr
        finally:
            process.kill()
    assert "serve" in [
        n for names in names_by_process(tmp_path / "out.pftrace").values() for n in names
    ]


def test_the_package_is_where_the_binary_looks(scry):
    assert (PACKAGE / "scry" / "trace" / "__main__.py").exists()
