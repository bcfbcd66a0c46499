"""`pip install .`: what is in the wheel, and that it works where nothing else is."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
import zipfile

import pytest
import pythons

pytestmark = [pytest.mark.xdist_group("wheel"), pytest.mark.timeout(600)]

LARGEST = 15 << 20

USES_ALL = """
import json, sys, time
import scry

def work():
    end = time.monotonic() + 0.6
    while time.monotonic() < end:
        sum(range(1000))

with scry.record(sys.argv[1] + "/own.svg") as recorder:
    work()
with scry.trace(sys.argv[1] + "/calls.json") if "trace" in sys.argv else scry.record() as tracer:
    work()
print(json.dumps({
    "file": scry.__file__,
    "names": [f.name for f in recorder.profile.functions()],
    "stack": [f.name for f in scry.dump().thread("MainThread").frames],
    "pids": [p.pid for p in scry.processes()],
}))
"""


def install(wheel, *words):
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", *words[:-1], "install", "-q", "--no-index"),
            *("--disable-pip-version-check", *([words[-1]] if words[-1] else []), str(wheel)),
        ],
        check=True,
    )


@pytest.fixture(scope="module")
def clean(wheel, tmp_path_factory):
    """A venv with nothing but the wheel, not even pip."""
    folder = tmp_path_factory.mktemp("clean") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    install(wheel, "--python", str(folder / "bin" / "python"), "")
    return folder


def bare():
    return {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LANG": "C.UTF-8"}


def test_what_is_in_it(wheel, record_property):
    names = zipfile.ZipFile(wheel).namelist()
    assert any(re.search(r"data/scripts/scry$", name) for name in names)
    assert any(re.search(r"^scry/_tracer\..*\.so$", name) for name in names)
    assert {"scry/py.typed", "scry/dask/__init__.py", "scheduler_profiling/py.typed"} <= set(names)
    assert not [name for name in names if "__pycache__" in name or name.endswith("meson.build")]
    size = wheel.stat().st_size
    record_property("figure", f"{wheel.name}: {size / 1e6:.1f} MB")
    assert size < LARGEST


def test_libraries_come_along(clean):
    """Beside the C library's own nothing is taken from the system."""
    [server] = clean.rglob("scry-serve.so")
    shown = subprocess.run(
        ["ldd", str(clean / "bin" / "scry"), str(server)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    outside = [path for path in re.findall(r"=> (\S+)", shown) if not path.startswith(str(clean))]
    known = r".*/lib(c|m|dl|rt|pthread|resolv)\.so\.\d+"
    assert [path for path in outside if not re.fullmatch(known, path)] == []
    assert "not found" not in shown


def test_in_a_clean_venv(clean, tmp_path):
    done = subprocess.run(
        [str(clean / "bin" / "python"), "-c", USES_ALL, str(tmp_path), "trace"],
        env=bare(),
        stdout=subprocess.PIPE,
        check=True,
        timeout=100,
    )
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["file"].startswith(str(clean))
    assert said["names"][0] == "work"
    assert "dump" in said["stack"]
    assert b"work" in (tmp_path / "own.svg").read_bytes()
    assert "work" in (tmp_path / "calls.json").read_text()


def test_the_command(clean, tmp_path):
    """The program itself is on the venv's PATH, and works under the name py-spy, too."""
    os.symlink(clean / "bin" / "scry", tmp_path / "py-spy")
    for program in (clean / "bin" / "scry", tmp_path / "py-spy"):
        output = tmp_path / f"{program.name}.svg"
        subprocess.run(
            [
                *(str(program), "record", "-o", str(output), "--", str(clean / "bin" / "python")),
                *("-c", "import time\nend = time.time() + 1\nwhile time.time() < end: pass"),
            ],
            env=bare(),
            check=True,
            timeout=100,
        )
        assert b"&lt;module&gt;" in output.read_bytes()


def healthy(command, folder):
    """Whether a server that is started so answers."""
    with subprocess.Popen(
        [*command, "serve", "--port", "0", "--data-dir", str(folder)],
        env=bare(),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            url = process.stdout.readline().split()[-1]
            return urllib.request.urlopen(f"{url}healthz", timeout=60).status == 200
        finally:
            process.terminate()


def test_the_server(clean, tmp_path):
    assert healthy([str(clean / "bin" / "scry")], tmp_path)


def trees():
    """Interpreters that live in a Debian tree of their own, as in a slim image; one is enough."""
    found = [p for p in pythons.found() if p.root and not p.debug and not p.free_threaded]
    return found[:1]


def test_in_a_slim_root(wheel, tmp_path):
    """Another root with Python in it, and without the libraries that scry is built with."""
    if not trees():
        pytest.skip("no interpreter in a Debian tree here: ./dev pythons fetches one")
    [python] = trees()
    lib = f"{python.root}/usr/lib/x86_64-linux-gnu"
    missing = [
        n
        for n in ("libcurl-gnutls.so.4", "libmicrohttpd.so.12", "libdw.so.1")
        if not os.path.exists(f"{lib}/{n}")
    ]
    assert missing, "this tree has all libraries: it proves nothing"
    target = tmp_path / "installed"
    install(wheel, f"--target={target}")
    environment = [*("env", "-i", "PATH=/usr/bin:/bin", f"PYTHONPATH={target}")]
    command = python.argv("-c", USES_ALL, str(tmp_path))
    cut = command.index(python.path)
    command[cut:cut] = environment
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=100)
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["names"][0] == "work"
    assert b"work" in (tmp_path / "own.svg").read_bytes()
    command[cut + len(environment) :] = [str(target / "bin" / "scry")]
    assert healthy(command, tmp_path / "data")
