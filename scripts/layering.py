#!/usr/bin/env python3
"""Keeps the folders of src/ in the order a sample travels.

A folder includes only itself, folders before it in the alphabet, and util; util includes only util. Headers have no
cycle, and each one compiles when it is included alone. The public header includes nothing of src/.

    layering.py            checks everything, prints one line per finding
    layering.py --quick    leaves out compiling each header
"""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.MULTILINE)


def own_includes(file: Path, root: Path) -> list[Path]:
    """The files of src/ or include/ that this file includes, whichever quotes it uses."""
    found = []
    for quote, name in INCLUDE.findall(file.read_text(encoding="utf-8")):
        folders = [root / "src", root / "include"] + [file.parent] * (quote == '"')
        found += [folder / name for folder in folders if (folder / name).is_file()][:1]
    return [path.resolve() for path in found]


def folder_of(file: Path, root: Path) -> str | None:
    """The folder of src/ a file belongs to; None for files directly in src/ and outside of it."""
    try:
        parts = file.relative_to(root / "src").parts
    except ValueError:
        return None
    return parts[0] if len(parts) > 1 else None


def sources(root: Path) -> list[Path]:
    return sorted(p for p in (root / "src").rglob("*") if p.suffix in (".c", ".h", ".def", ".inc"))


def may_include(folder: str, other: str) -> bool:
    return other in (folder, "util") or (folder != "util" and other < folder)


def check_order(root: Path) -> list[str]:
    findings = []
    for file in sources(root):
        folder = folder_of(file, root)
        for included in own_includes(file, root):
            other = folder_of(included, root)
            if folder and other and not may_include(folder, other):
                findings.append(
                    f"{file.relative_to(root)} includes {other}/{included.name}: "
                    f"{folder} comes before {other}"
                )
    return findings


def check_public(root: Path) -> list[str]:
    return [
        f"{header.relative_to(root)} includes {included.relative_to(root)}: the public header stands alone"
        for header in sorted((root / "include").rglob("*.h"))
        for included in own_includes(header, root)
        if root / "src" in included.parents
    ]


def check_cycles(root: Path) -> list[str]:
    graph = {file: own_includes(file, root) for file in sources(root) if file.suffix != ".c"}
    findings, done = [], set()

    def visit(file: Path, road: list[Path]) -> None:
        if file in road:
            names = [str(p.relative_to(root)) for p in [*road[road.index(file) :], file]]
            findings.append(f"headers include each other: {' -> '.join(names)}")
        elif file not in done:
            for included in graph.get(file, []):
                visit(included, [*road, file])
            done.add(file)

    for file in graph:
        visit(file, [])
    return findings


def compile_alone(header: Path, root: Path) -> list[str]:
    # Twice, so that a missing include guard shows too.
    text = f'#include "{header}"\n' * 2
    command = [
        os.environ.get("CC", "cc"),
        "-std=gnu11",
        "-D_GNU_SOURCE",
        "-fsyntax-only",
        "-x",
        "c",
    ]
    command += [f"-I{root}/src", f"-I{root}/include", "-"]
    result = subprocess.run(command, input=text, capture_output=True, text=True)
    first = next((line for line in result.stderr.splitlines() if "error:" in line), "")
    return (
        [f"{header.relative_to(root)} does not compile alone: {first}"] if result.returncode else []
    )


def check_headers(root: Path) -> list[str]:
    headers = [p for folder in ("src", "include") for p in sorted((root / folder).rglob("*.h"))]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return [f for found in pool.map(lambda h: compile_alone(h, root), headers) for f in found]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="do not compile each header")
    parser.add_argument("--root", type=Path, default=PROJECT, help="the tree to check")
    options = parser.parse_args()
    root = options.root.resolve()
    findings = check_order(root) + check_public(root) + check_cycles(root)
    if not options.quick:
        findings += check_headers(root)
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
