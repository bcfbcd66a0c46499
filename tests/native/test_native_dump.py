"""dump --native and record --native: the right functions in the right place, on every interpreter found, and all of
Python's frames whatever happens to the native ones."""

import json
import os
import re
import shutil
import subprocess

import building
import compare
import pytest
import pythons

# Each interpreter meets one of them; ./dev native has them all, and more samples.
PROGRAMS = [
    "compress",
    "sort",
    "callback",
    "recurse",
    "serialise",
    "generators",
    "extension",
    "signals",
]
SAMPLES = 2


def programs_for(python):
    at = [p.id for p in pythons.found()].index(python.id)
    return [PROGRAMS[at % len(PROGRAMS)]]


@pytest.fixture(scope="session")
def gdb(tmp_path_factory):
    if not shutil.which("gdb"):
        pytest.skip("gdb is not installed")
    with compare.Gdb(tmp_path_factory.mktemp("index")) as started:
        yield started


@pytest.fixture
def running():
    started = []

    def start(python, program, *words):
        started.append(compare.start(python, program, *words))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture(scope="session")
def some_python():
    """With headers, and not in a tree of its own."""
    usable = [p for p in pythons.found() if not p.root and not p.free_threaded and not p.debug]
    usable = [p for p in usable if os.path.exists(f"{p.include}/Python.h")]
    assert usable, "no interpreter with headers found"
    return usable[-1]


def names(thread):
    return [frame["name"] for frame in thread["frames"]]


def kept(thread):
    return [frame["name"] for frame in thread["frames"] if not compare.is_native(frame)]


def dump_until(scry, pid, wanted, *options, tries=60):
    """Dumps until the main thread is where it should be looked at; it does many things in turn."""
    for _ in range(tries):
        thread = compare.dump(scry, pid, *options)[pid]
        if wanted(thread):
            return thread
    raise AssertionError(f"never seen; last: {names(thread)} {thread['native']}")


def test_merged_stacks_are_what_gdb_sees(python, scry, gdb, running, tmp_path):
    """For a process that is stopped, the whole chain of return addresses with Python's frames in their place."""
    verdicts = []
    for program in programs_for(python):
        words = []
        if program in ("extension", "signals"):
            words = [building.extension(python, tmp_path)]
        process = running(python, program, *words)
        for i in range(SAMPLES):
            options = ["--blocking", "always"] if i % 2 else []
            verdicts += compare.one_sample(scry, gdb, process, python, program, *options)
    assert all(verdict.keeps_python for verdict in verdicts)
    wrong = [verdict for verdict in verdicts if not verdict.agrees]
    assert len(wrong) <= 1, "\n".join(f"{v.program}\n{v.detail}" for v in wrong)


def test_stacks_side_by_side(python, scry, running):
    """Newer C libraries guard the end of a stack without a mapping of its own: what lies beyond cannot be read."""
    process = running(python, "threads")
    threads = compare.dump(scry, process.pid, "--native")
    assert len(threads) == 10
    assert {thread["native"] for thread in threads.values()} == {"merged"}


def test_a_recording_has_native_frames_in_their_place(python, scry, running, tmp_path):
    process = running(python, "compress")
    stats = tmp_path / "stats.json"
    run = subprocess.run(
        [
            scry,
            "record",
            "--native",
            "-r",
            "100",
            "-d",
            "1",
            "-f",
            "raw",
            "-o",
            "-",
            "--stats",
            str(stats),
        ]
        + ["-p", str(process.pid)],
        capture_output=True,
        text=True,
        timeout=compare.PATIENCE,
    )
    assert run.returncode == 0, run.stderr
    samples = json.loads(stats.read_text())
    assert samples["native_unmatched"] == samples["native_cut"] == 0, samples
    lines = [line.rpartition(" ")[0].split(";") for line in run.stdout.splitlines()]
    deep = [line for line in lines if any(frame.startswith("deflate") for frame in line)]
    assert deep, run.stdout
    for line in deep:
        at = next(i for i, frame in enumerate(line) if frame.startswith("deflate"))
        assert any(frame.startswith("<module>") and "programs.py" in frame for frame in line[:at])
        assert any(frame.startswith(("inner", "compress.<locals>.inner")) for frame in line[:at])


def test_inlined_functions_and_source_lines(scry, some_python, running, tmp_path):
    module = building.extension(some_python, tmp_path, "-g")
    process = running(some_python, "extension", module)
    thread = dump_until(
        scry, process.pid, lambda t: "call_once" in names(t) and "leaf" not in names(t), "--native"
    )
    once, many = (
        next(f for f in thread["frames"] if f["name"] == name)
        for name in ("call_once", "call_many")
    )
    assert once["inlined"] and not many["inlined"]
    assert once["filename"].endswith("/extension.c") and once["short_filename"] == "extension.c"
    assert 4 < once["line"] < 20 and many["line"] > once["line"]
    assert once["module"] == module


@pytest.mark.parametrize("pointers", ["-fno-omit-frame-pointer", "-fomit-frame-pointer"])
def test_a_module_without_unwind_tables(scry, some_python, running, tmp_path, pointers):
    """What its functions put onto the stack when they begin leads through it, with frame pointers or without."""
    module = building.extension(some_python, tmp_path, "-fno-asynchronous-unwind-tables", pointers)
    subprocess.run(["objcopy", "--remove-section", ".eh_frame", module], check=True)
    process = running(some_python, "extension", module)
    seen = dump_until(
        scry, process.pid, lambda t: {"leaf", "call_many"} <= set(names(t)), "--native"
    )
    assert seen["native"] == "merged"
    assert names(seen).index("call_many") > names(seen).index("leaf")
    assert kept(seen)[-3:] == ["<lambda>", "main", "<module>"]


@pytest.mark.parametrize("pointers", ["-fno-omit-frame-pointer", "-fomit-frame-pointer"])
def test_a_module_without_unwind_tables_and_symbols(scry, some_python, running, tmp_path, pointers):
    """Frame pointers lead through it; without them the native frames end there, and Python's are all there."""
    module = building.extension(some_python, tmp_path, "-fno-asynchronous-unwind-tables", pointers)
    subprocess.run(["objcopy", "--strip-all", "--remove-section", ".eh_frame", module], check=True)
    process = running(some_python, "extension", module)
    for _ in range(30):
        thread = compare.dump(scry, process.pid, "--native")[process.pid]
        assert kept(thread)[-3:] == ["<lambda>", "main", "<module>"]
        if pointers == "-fno-omit-frame-pointer" and "leaf" in names(thread):
            assert thread["native"] == "merged"
            return
        if pointers == "-fomit-frame-pointer" and thread["native"] == "cut":
            return
    # Without frame pointers it may happen that a register still holds what its caller left there.
    assert pointers == "-fomit-frame-pointer"


def test_names_are_made_readable(scry, some_python, running, tmp_path):
    source = (building.HERE / "extension.c").read_text()
    source = source.replace(
        "static PyObject *call_many(PyObject *self",
        'PyObject *call_many(PyObject *self, PyObject *args) __asm__("_ZN4demo9call_manyEii");\n'
        "PyObject *call_many(PyObject *self",
    )
    path = tmp_path / "mangled.c"
    path.write_text(source)
    module = building.compile_module(some_python, path, tmp_path, name="scry_native")
    process = running(some_python, "extension", module)
    dump_until(scry, process.pid, lambda t: "demo::call_many" in names(t), "--native")


def split_debug(module):
    """Move the debug information into a file of its own beside the module."""
    subprocess.run(["objcopy", "--only-keep-debug", module, f"{module}.debug"], check=True)
    subprocess.run(["strip", "--strip-all", module], check=True)
    folder, name = os.path.split(module)
    subprocess.run(["objcopy", f"--add-gnu-debuglink={name}.debug", name], check=True, cwd=folder)


def test_separate_debug_files_are_found(scry, some_python, running, tmp_path):
    module = building.extension(some_python, tmp_path, "-g", "-Wl,--build-id")
    split_debug(module)
    process = running(some_python, "extension", module)
    thread = dump_until(scry, process.pid, lambda t: "call_once" in names(t), "--native")
    frame = next(f for f in thread["frames"] if f["name"] == "call_many")
    assert frame["short_filename"] == "extension.c" and frame["line"] > 0


@pytest.mark.parametrize("damage", ["gone", "empty", "cut", "rubbish", "another"])
def test_damaged_debug_files_cost_names_only(scry, some_python, running, tmp_path, damage):
    module = building.extension(some_python, tmp_path, "-g", "-Wl,--build-id")
    split_debug(module)
    debug = tmp_path / (os.path.basename(module) + ".debug")
    whole = debug.read_bytes()
    if damage == "gone":
        debug.unlink()
    elif damage == "another":
        shutil.copy("/bin/true", debug)
    else:
        middle = bytes(range(256)) * (len(whole) // 256)
        debug.write_bytes(
            {"empty": b"", "cut": whole[: len(whole) // 2], "rubbish": whole[:64] + middle}[damage]
        )
    process = running(some_python, "extension", module)
    thread = dump_until(
        scry,
        process.pid,
        lambda t: any(f["module"] == module for f in t["frames"] if compare.is_native(f)),
        "--native",
    )
    assert thread["native"] == "merged" and kept(thread)[-2:] == ["main", "<module>"]
    if damage in ("gone", "empty", "another"):
        inside = [f["name"] for f in thread["frames"] if f["module"] == module]
        assert all(name.startswith("scry_native.so+0x") for name in inside), inside


def function_starts(module):
    """{start: end} of its functions, as the file has it before it is stripped."""
    printed = subprocess.run(["nm", "-S", module], capture_output=True, text=True, check=True)
    found = re.findall(r"^(\w+) (\w+) [tT] ", printed.stdout, re.MULTILINE)
    return {int(start, 16): int(start, 16) + int(size, 16) for start, size in found}


def offsets(thread, module):
    """What stands behind the + in the names of the frames in this module."""
    inside = [f["name"] for f in thread["frames"] if f["module"] == module]
    assert all(name.startswith("scry_native.so+0x") for name in inside), inside
    return [int(name.partition("+")[2], 16) for name in inside]


def test_a_stripped_function_has_one_name(scry, some_python, running, tmp_path):
    module = building.extension(some_python, tmp_path, "-fno-inline")
    starts = function_starts(module)
    subprocess.run(["strip", module], check=True)
    process = running(some_python, "extension", module)
    places, seen = set(), set()
    for _ in range(60):
        thread = compare.dump(scry, process.pid, "--native")[process.pid]
        places |= {f["address"] for f in thread["frames"] if f["module"] == module}
        seen |= set(offsets(thread, module))
    assert len(places) > len(seen) == 2 and seen <= starts.keys(), (places, seen, starts)


def test_code_without_symbols_and_tables_is_named_by_its_address(
    scry, some_python, running, tmp_path
):
    options = ("-fno-asynchronous-unwind-tables", "-fno-omit-frame-pointer", "-fno-inline")
    module = building.extension(some_python, tmp_path, *options)
    starts = function_starts(module)
    subprocess.run(["strip", module], check=True)
    process = running(some_python, "extension", module)
    seen = set()
    for _ in range(60):
        seen |= set(offsets(compare.dump(scry, process.pid, "--native")[process.pid], module))
    assert len(seen) > 2, seen
    for offset in seen:
        assert any(start <= offset < end for start, end in starts.items()), (offset, starts)


def test_a_library_that_was_deleted(scry, some_python, running, tmp_path):
    module = building.extension(some_python, tmp_path)
    process = running(some_python, "extension", module)
    os.unlink(module)
    thread = dump_until(
        scry, process.pid, lambda t: any(f["module"] == module for f in t["frames"]), "--native"
    )
    assert thread["native"] == "merged" and kept(thread)[-2:] == ["main", "<module>"]


def test_cython_functions_have_their_own_names_and_lines(scry, some_python, running, tmp_path):
    module = building.cython(some_python, tmp_path)
    process = running(some_python, "cython", module)
    thread = dump_until(scry, process.pid, lambda t: "inner" in names(t), "--native")
    inner = next(f for f in thread["frames"] if f["name"] == "inner")
    assert inner["short_filename"] == "scry_cython.pyx" and 3 <= inner["line"] <= 8
    assert "work" in names(thread)[names(thread).index("inner") :]


def test_numpy(scry, running):
    """The tests' own interpreter has it."""
    own = [
        p
        for p in pythons.found()
        if p.minor == building.own_version() and not p.root and not p.debug
    ]
    if not own:
        pytest.skip("the interpreter of the tests is not among those found")
    process = running(own[0], "numpy", building.numpy(own[0]))
    thread = dump_until(
        scry,
        process.pid,
        lambda t: (
            t["native"] == "merged" and any("numpy" in (f["module"] or "") for f in t["frames"])
        ),
        "--native",
    )
    assert kept(thread)[-2:] == ["main", "<module>"]


def test_nonblocking_shows_waiting_threads_only_and_says_so(scry, some_python, running):
    process = running(some_python, "compress")
    run = subprocess.run(
        [scry, "dump", "--native", "--nonblocking", "--json", "-p", str(process.pid)],
        capture_output=True,
        text=True,
        timeout=compare.PATIENCE,
    )
    assert run.returncode == 0
    assert "only waiting threads" in run.stderr
    threads = {thread["os_thread_id"]: thread for thread in json.loads(run.stdout)}
    waiting = next(t for tid, t in threads.items() if tid != process.pid)
    assert waiting["native"] in ("merged", "cut") and any(map(compare.is_native, waiting["frames"]))
    assert kept(threads[process.pid])[-2:] == ["main", "<module>"]


def test_the_target_is_left_as_it_was(scry, some_python, running):
    process = running(some_python, "sort")
    for _ in range(5):
        compare.dump(scry, process.pid, "--native")
    with open(f"/proc/{process.pid}/status") as status:
        fields = dict(line.split(":", 1) for line in status)
    assert fields["TracerPid"].strip() == "0"
    assert process.poll() is None
