"""Modules compiled for an interpreter, for programs.py to load."""

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
    if python.minor < (3, 9):
        pytest.skip("Cython makes modules for 3.9 and later")
    if python.free_threaded and python.minor < (3, 14):
        pytest.skip("Cython does not compile for the free-threaded 3.13 of this test")
    command = [sys.executable, "-m", "cython", "-3"]
    shutil.copy(HERE / "scry_cython.pyx", to)
    source = Path(to) / "scry_cython.c"
    subprocess.run(
        [*command, "scry_cython.pyx", "-o", str(source)], check=True, cwd=to, timeout=120
    )
    return compile_module(python, source, to, "-g", name="scry_cython")


def own_version():
    return sys.version_info[:2]


def numpy(python):
    """The folder to import numpy from: that of the tests' own environment, or one made for this version in the cache."""
    if python.debug or python.free_threaded:
        pytest.skip(f"no numpy for {python.flavour} builds")
    if python.minor == own_version():
        import numpy as here

        return str(Path(here.__file__).parent.parent)
    to = pythons.cache_folder().parent / "numpy" / "{}.{}".format(*python.minor)
    if not (to / "numpy").exists():
        words = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "-q",
            "--only-binary=:all:",
            "--target",
            str(to),
        ]
        words += ["--python-version", "{}.{}".format(*python.minor), "numpy"]
        if subprocess.run(words, capture_output=True, timeout=600).returncode != 0:
            pytest.skip(f"pip has no numpy for {python.minor}")
    return str(to)
