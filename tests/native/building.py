"""Modules compiled for an interpreter, for programs.py to load."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import pythons

HERE = Path(__file__).resolve().parent


def compile_module(python, source, to, *options, name=None):
    """The shared object; skips the test if the interpreter's headers are not there."""
    if not (Path(python.include) / "Python.h").exists():
        pytest.skip(f"the headers of {python.id} are not installed")
    out = Path(to) / f"{name or Path(source).stem}.so"
    command = ["gcc", "-shared", "-fPIC", "-O2", *options, "-o", str(out), str(source)]
    folder = Path(python.include)
    # Debian's pyconfig.h includes another one by a path that begins above; all else there is not for this compiler.
    command += [f"-I{folder}", f"-idirafter{folder.parent}", "-w"]
    subprocess.run(command, check=True, timeout=120)
    return str(out)


def extension(python, to, *options):
    return compile_module(python, HERE / "extension.c", to, *options, name="scry_native")


def cython(python, to):
    """Compiled with debug information, the generated C file beside it."""
    if python.free_threaded and python.minor < (3, 14):
        pytest.skip("Cython does not compile for the free-threaded 3.13 of this test")
    environment = dict(os.environ)
    if python.minor < (3, 9):  # for which newer ones make no modules
        folder = installed("cython-3.0", "cython==3.0.*")
        environment["PYTHONPATH"] = str(folder)
    shutil.copy(HERE / "scry_cython.pyx", to)
    source = Path(to) / "scry_cython.c"
    subprocess.run(
        [sys.executable, "-m", "cython", "-3", "scry_cython.pyx", "-o", str(source)],
        check=True,
        cwd=to,
        env=environment,
        timeout=120,
    )
    return compile_module(python, source, to, "-g", name="scry_cython")


def installed(name, package, *options):
    """A folder with the package in it, seen by all interpreters at the same place: those in trees of their own see the project."""
    to = pythons.PROJECT / "out" / "native" / name
    if not to.exists():
        part = to.with_name(f"{name}.part")
        shutil.rmtree(part, ignore_errors=True)
        words = [sys.executable, "-m", "pip", "install", "-q", "--target", str(part), *options]
        run = subprocess.run([*words, package], capture_output=True, text=True, timeout=600)
        if run.returncode != 0:
            pytest.skip(f"pip has no {package} for {name}: {run.stderr.strip()[-200:]}")
        part.rename(to)
    return to


def own_version():
    return sys.version_info[:2]


def numpy(python):
    """The folder to import numpy from: that of the tests' own environment, or one made for this version."""
    if python.free_threaded:
        pytest.skip(f"no numpy for {python.flavour} builds")
    if python.minor == own_version() and not python.root:
        import numpy as here

        return str(Path(here.__file__).parent.parent)
    version = "{}.{}".format(*python.minor)
    options = ["--no-deps", "--only-binary=:all:", "--ignore-requires-python"]
    options += ["--python-version", version]
    return str(installed(f"numpy-{version}", "numpy", *options))
