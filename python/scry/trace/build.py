"""Builds the tracer's compiled part for one interpreter with nothing but a C compiler and Python's headers.

    python -m scry.trace.build        for the interpreter that runs this

What is built is kept in the user's cache folder, one file for each version of the sources and of Python's ABI.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

# Beside the package, in a checkout and where `./dev install` puts it; a wheel has none.
SOURCES = Path(__file__).resolve().parents[2] / "src" / "tracer"
# Of the program's sources the tracer needs one header, which is installed beside its own.
SHARED = (SOURCES.parent, SOURCES.parents[2] / "src")
HEADERS = ("util/utf8_length.h",)
FLAGS = ["-O2", "-std=gnu11", "-D_GNU_SOURCE", "-fPIC", "-shared", "-fvisibility=hidden"]


class BuildError(Exception):
    """The compiled part could not be made; the text says why and what to do."""


def source_hash() -> str:
    """Changes when the sources do."""
    digest = hashlib.sha256()
    shared = [folder / name for name in HEADERS for folder in SHARED if (folder / name).exists()]
    for file in sorted(SOURCES.glob("*.[ch]")) + shared:
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


def cached() -> Path:
    """Where the build for this interpreter is kept, whether it is there or not."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    suffix = sysconfig.get_config_var("EXT_SUFFIX") or ".so"
    return Path(base) / "scry" / "tracer" / source_hash() / f"_tracer{suffix}"


def compile_to(
    output: Path, include: Sequence[str], *, compiler: str | None = None, flags: Sequence[str] = ()
) -> None:
    """Compiles the sources against the headers in these folders; the file appears whole or not at all."""
    command = shlex.split(compiler or os.environ.get("CC") or "cc")
    if not shutil.which(command[0]):
        raise BuildError(f"there is no C compiler '{command[0]}': install one, for example gcc")
    if not any(Path(folder, "Python.h").exists() for folder in include):
        raise BuildError(
            f"Python.h is not in {include[0]}: install the headers of this Python "
            "(on Debian and Ubuntu python3-dev)"
        )
    output.parent.mkdir(parents=True, exist_ok=True)
    partial = output.with_name(f".{os.getpid()}-{output.name}")
    words = [f"-I{folder}" for folder in SHARED] + [f"-isystem{folder}" for folder in include]
    sources = sorted(map(str, SOURCES.glob("*.c")))
    done = subprocess.run(
        [*command, *FLAGS, *flags, *words, *sources, "-o", str(partial), "-lpthread"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        partial.unlink(missing_ok=True)
        raise BuildError(f"the compiler failed:\n{done.stdout.strip()}")
    os.replace(partial, output)


def build_here() -> Path:
    """The compiled part for the interpreter that runs this, made if it is not there."""
    output = cached()
    if not SOURCES.is_dir():
        raise BuildError("the sources are not here: install the package with pip")
    if not output.exists():
        paths = sysconfig.get_paths()
        compile_to(output, [paths["include"], paths["platinclude"]])
    return output


def main() -> int:
    try:
        print(build_here())
    except BuildError as error:
        print(f"scry: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
