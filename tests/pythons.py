"""The Python interpreters of this machine, for the tests and for `./dev pythons`.

Looks where interpreters are usually kept (PATH, pyenv, uv, conda, /opt) and in the cache folder that
`./dev pythons` fills with Debian trees and builds. Every candidate is run once and asked what it is.

    for python in pythons.found():
        process = python.popen("target.py", "argument", stdout=subprocess.PIPE)

An interpreter in a Debian tree runs in its own mount namespace, like in a container; there the project's
folder and the temporary folder are seen at the same paths as here, and process.pid is the interpreter's.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import functools
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
ENTER_ROOT = PROJECT / "scripts" / "enter-root"

# What a run must cover; 2.7 and 3.6 are welcome, nobody is told when they are missing.
WANTED = [f"3.{minor}" for minor in range(7, 16)] + ["3.13t", "3.14t", "3.15t"]

# Runs on every Python since 2.7.
PROBE = r"""
import json, sys, sysconfig
get = sysconfig.get_config_var
maps = open("/proc/self/maps").read()
print(json.dumps({
    "implementation": getattr(getattr(sys, "implementation", None), "name", "cpython"),
    "version": list(sys.version_info[:3]),
    "level": sys.version_info[3],
    "executable": sys.executable,
    "prefix": getattr(sys, "base_prefix", sys.prefix),
    "debug": hasattr(sys, "gettotalrefcount"),
    "free_threaded": bool(get("Py_GIL_DISABLED")),
    "shared": "/libpython" in maps,
    "include": sysconfig.get_paths()["include"],
}))
"""


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "scry" / "pythons"


@dataclasses.dataclass(frozen=True)
class Python:
    """One interpreter. `path` is its path inside `root` where there is one, else on this machine."""

    id: str
    path: str
    version: tuple[int, int, int]
    debug: bool
    free_threaded: bool
    shared: bool  # the interpreter is in libpython, not in the program
    source: str  # "system", "pyenv", "uv", "conda", "sid", ...
    include: str  # where Python.h is, if the headers are installed; as this machine sees it
    root: str | None = None  # the Debian tree it lives in

    @property
    def minor(self) -> tuple[int, int]:
        return self.version[:2]

    @property
    def flavour(self) -> str:
        words = ["shared" if self.shared else "static"]
        words += ["debug"] * self.debug + ["free-threaded"] * self.free_threaded
        return ", ".join(words)

    def argv(self, *args: str | os.PathLike[str], chroot: bool = False) -> list[str]:
        """The command that runs this interpreter with these arguments (a script first, usually).

        chroot: for an interpreter in a Debian tree, only change the root instead of pivoting to it.
        """
        words = [self.path, *map(os.fspath, args)]
        if self.root is None:
            return words
        folders = dict.fromkeys([str(PROJECT), os.path.realpath(tempfile.gettempdir())])
        how = ["--chroot"] if chroot else []
        return [str(ENTER_ROOT), *how, self.root, *folders, "--", *words]

    def popen(
        self, *args: str | os.PathLike[str], chroot: bool = False, **options: Any
    ) -> subprocess.Popen[Any]:
        return subprocess.Popen(self.argv(*args, chroot=chroot), **options)


# Candidates that did not run, with the reason: said aloud, as tests are lost with them.
_unusable: list[str] = []


def _candidates() -> Iterator[tuple[str, str, str | None]]:
    """(path, source, root) of everything that may be an interpreter; the first name of a file wins."""
    home = os.path.expanduser("~")
    data = os.environ.get("XDG_DATA_HOME") or f"{home}/.local/share"
    pyenv = os.environ.get("PYENV_ROOT") or f"{home}/.pyenv"
    uv = os.environ.get("UV_PYTHON_INSTALL_DIR") or f"{data}/uv/python"
    condas = [os.environ.get("CONDA_PREFIX"), os.environ.get("MAMBA_ROOT_PREFIX"), "/opt/conda"]
    condas += [f"{home}/{name}" for name in ("miniconda3", "miniforge3", "mambaforge", "anaconda3")]
    condas += [f"{home}/micromamba"]
    if os.environ.get("CONDA_EXE"):
        condas.append(str(Path(os.environ["CONDA_EXE"]).parent.parent))

    folders = [(folder, "pyenv") for folder in glob.glob(f"{pyenv}/versions/*/bin")]
    folders += [(folder, "uv") for folder in glob.glob(f"{uv}/*/bin")]
    for conda in filter(None, condas):
        folders += [(f"{conda}/bin", "conda")]
        folders += [(folder, "conda") for folder in glob.glob(f"{conda}/envs/*/bin")]
    folders += [(folder, "opt") for folder in glob.glob("/opt/python*/bin")]
    folders += [(folder, "opt") for folder in glob.glob("/opt/python/*/bin")]
    folders += [(folder, "built") for folder in glob.glob(f"{cache_folder()}/built-*/bin")]
    path = [*os.environ.get("PATH", "").split(":"), "/usr/local/bin", "/usr/bin"]
    folders += [(folder, "system") for folder in path if not folder.endswith("/shims")]
    for folder, source in sorted(folders, key=lambda entry: entry[1] == "system"):
        for file in _interpreters_in(folder):
            yield file, source, None

    for root in sorted(glob.glob(f"{cache_folder()}/debian-*/")):
        root = root.rstrip("/")
        if root.endswith(".part"):
            continue
        for folder in ("usr/bin", "usr/local/bin"):
            for file in _interpreters_in(f"{root}/{folder}"):
                yield file[len(root) :], root.rsplit("-", 1)[1], root


def _interpreters_in(folder: str) -> list[str]:
    """python3.12, python3.13t, python3.13d, python2.7; a plain python only where nothing says more."""
    try:
        names = sorted(os.listdir(folder or "."))
    except OSError:
        return []
    exact = [
        name for name in names if re.fullmatch(r"python\d\.\d+(t|d|td|dm|-dbg|-shared)?", name)
    ]
    chosen = exact or [name for name in names if name in ("python3", "python")]
    return [os.path.join(folder, name) for name in chosen]


def _probe(candidate: tuple[str, str, str | None]) -> Python | None:
    path, source, root = candidate
    python = Python("", path, (0, 0, 0), False, False, False, source, "", root)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    command = python.argv("-c", PROBE)
    try:
        answer = subprocess.run(
            command, env=environment, capture_output=True, timeout=60, stdin=subprocess.DEVNULL
        )
        facts = json.loads(answer.stdout.decode())
    except (OSError, subprocess.TimeoutExpired) as error:
        _unusable.append(f"{root or ''}{path}: {error}")
        return None
    except ValueError:
        last = answer.stderr.decode(errors="replace").strip().splitlines()[-1:]
        _unusable.append(f"{root or ''}{path}: {''.join(last) or 'no answer'}")
        return None
    if facts["implementation"] != "cpython":
        return None
    header = f"{root or ''}{facts['include']}"
    return dataclasses.replace(
        python,
        version=tuple(facts["version"]),
        debug=facts["debug"],
        free_threaded=facts["free_threaded"],
        shared=facts["shared"],
        include=header if os.path.exists(f"{header}/Python.h") else "",
    )


def _unique(candidates: Iterator[tuple[str, str, str | None]]) -> list[tuple[str, str, str | None]]:
    """Drops further names of the same file, so that links and the folders of PATH count once."""
    seen: dict[tuple[str | None, int, int], tuple[str, str, str | None]] = {}
    for path, source, root in candidates:
        try:
            file = os.stat(os.path.realpath(f"{root or ''}{path}"))
        except OSError:
            continue
        seen.setdefault((root, file.st_dev, file.st_ino), (path, source, root))
    return list(seen.values())


@functools.cache
def found() -> tuple[Python, ...]:
    """Every interpreter that runs, oldest first; ids are unique."""
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        probed = [python for python in pool.map(_probe, _unique(_candidates())) if python]
    probed.sort(key=lambda p: (p.version, p.free_threaded, p.debug, p.source, p.path))
    result: list[Python] = []
    taken: dict[str, int] = {}
    for python in probed:
        letters = "t" * python.free_threaded + "d" * python.debug
        name = f"{python.version[0]}.{python.version[1]}{letters}-{python.source}"
        name += "-shared" if python.root and python.shared else ""
        taken[name] = taken.get(name, 0) + 1
        unique = name if taken[name] == 1 else f"{name}-{taken[name]}"
        result.append(dataclasses.replace(python, id=unique))
    return tuple(result)


def one_of_each(chosen: list[Python]) -> list[Python]:
    """One of each version, with the GIL and without: the plainest build of it."""
    kinds: dict[tuple[tuple[int, int], bool], Python] = {}
    for python in sorted(chosen, key=lambda p: (p.debug, p.shared)):
        kinds.setdefault((python.minor, python.free_threaded), python)
    return [python for python in chosen if python in kinds.values()]


def missing() -> list[str]:
    """The wanted versions this machine has no interpreter for; a t stands for free-threaded."""
    have = {f"{p.version[0]}.{p.version[1]}{'t' * p.free_threaded}" for p in found()}
    return [version for version in WANTED if version not in have]


def unusable() -> list[str]:
    """The interpreters that are there but did not run, each with the reason."""
    found()
    return sorted(_unusable)


def sentence() -> str:
    """A few lines for the head of a test run."""
    lines = ["interpreters: " + " ".join(python.id for python in found())]
    lines += [f"missing interpreters: {' '.join(missing()) or 'none'}"]
    return "\n".join(lines + [f"does not run: {each}" for each in unusable()])


def _table() -> str:
    rows = [("id", "version", "flavour", "from", "path")]
    for p in found():
        where = f"{p.root}{p.path}" if p.root else p.path
        rows.append((p.id, ".".join(map(str, p.version)), p.flavour, p.source, where))
    widths = [max(len(row[column]) for row in rows) for column in range(4)] + [0]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="List the Python interpreters of this machine.")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument(
        "--ends", action="store_true", help="the oldest and the newest, as pytest -k has it"
    )
    options = parser.parse_args()
    if options.ends:
        wanted = [p.id for p in found() if p.minor >= (3, 7) and not p.debug]
        print(" or ".join(wanted[:1] + wanted[-1:]))
    elif options.json:
        entries = [dataclasses.asdict(p) | {"command": p.argv()} for p in found()]
        print(json.dumps(entries, indent=2))
    else:
        print(_table())
        print(f"\nmissing: {' '.join(missing()) or 'none'}")
        for each in unusable():
            print(f"does not run: {each}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
