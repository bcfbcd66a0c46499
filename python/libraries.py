"""Prints the shared libraries that some libraries need, themselves included: a name and a path per line.

    libraries.py COMPILER... -- LIBRARY...

The C library's own are left out: every system has those, and they must not be mixed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

OF_EVERY_SYSTEM = re.compile(
    r"(ld-linux.*|linux-vdso|lib(c|m|dl|rt|pthread|resolv|util|anl|gcc_s|stdc\+\+))\.so.*"
)


def output(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def path_of(compiler: list[str], library: str) -> str:
    path = output(*compiler, f"-print-file-name={library}.so").strip()
    if not os.path.isabs(path):
        sys.exit(f"{library}.so is not there: install its development package")
    return os.path.realpath(path)


def soname(path: str) -> str:
    found = re.search(r"SONAME.*\[(.+)\]", output("readelf", "-d", path))
    return found[1] if found else os.path.basename(path)


def needed(path: str) -> dict[str, str]:
    """All that ldd finds, by the name under which it is looked for."""
    found = {soname(path): path}
    for line in output("ldd", path).splitlines():
        match = re.match(r"\s*(\S+) => (/\S+)", line)
        if match and not OF_EVERY_SYSTEM.fullmatch(match[1]):
            found[match[1]] = os.path.realpath(match[2])
    return found


def main(words: list[str]) -> None:
    cut = words.index("--")
    found: dict[str, str] = {}
    for library in words[cut + 1 :]:
        found.update(needed(path_of(words[:cut], library)))
    for name, path in sorted(found.items()):
        print(name, path)


if __name__ == "__main__":
    main(sys.argv[1:])
