"""The files of a process as gdb needs them here: symbols and unwind tables, without debug information.

With debug information gdb reads a compilation unit whole before it names the first address in it, a second or more where
the interpreter was linked as one unit; all it would tell us is what is inlined, which nobody asks it for.
"""

from __future__ import annotations

import functools
import mmap
import os
import re
import subprocess
from pathlib import Path


class Files:
    """Copies without debug information, made once, in a folder of their own."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.without = functools.cache(self.without)
        self.build_id = functools.cache(self.build_id)
        self.last = self.answer = None

    def of(self, pid, root=""):
        """What in_gdb.py asks for: the program, its libraries with what is to be added to their addresses, and the folder
        of separate debug files."""
        now = pid, mapped(pid)
        if now != self.last:
            self.last, self.answer = now, self.find(*now, root)
        return self.answer

    def find(self, pid, files, root):
        inode = os.stat(f"/proc/{pid}/exe").st_ino
        exe = self.seen_from_here(os.readlink(f"/proc/{pid}/exe"), inode, root)
        places = {}
        for name, inode, start in files:
            path = self.seen_from_here(name, inode, root)
            if path and path != exe:
                places.setdefault(self.without(path), start)
        return {
            "exe": exe and self.without(exe),
            "libraries": [[path, start] for path, start in places.items()],
            "debug": str(self.folder / "debug"),
        }

    def seen_from_here(self, name, inode, root):
        for path in (root + name, name):
            try:
                if os.stat(path).st_ino == inode:
                    self.add_debug_file(path, root)
                    return path
            except OSError:
                continue
        return None

    def without(self, path):
        if not has_debug_information(path):
            return path
        file = os.stat(path)
        copy = (
            self.folder / f"{file.st_dev}-{file.st_ino}-{file.st_mtime_ns}-{os.path.basename(path)}"
        )
        return str(copy) if copy.exists() or strip(path, copy) else path

    def build_id(self, path):
        text = subprocess.run(["readelf", "-n", path], capture_output=True, text=True).stdout
        found = re.search(r"Build ID: ([0-9a-f]{6,})", text)
        return found[1] if found else None

    def add_debug_file(self, path, root):
        """gdb finds it by the build id, in our folder instead of /usr/lib/debug."""
        name = self.build_id(path)
        if not name:
            return
        name = f".build-id/{name[:2]}/{name[2:]}.debug"
        to = self.folder / "debug" / name
        for folder in dict.fromkeys([f"{root}/usr/lib/debug", "/usr/lib/debug"]):
            if not to.exists() and os.path.exists(f"{folder}/{name}"):
                to.parent.mkdir(parents=True, exist_ok=True)
                strip(f"{folder}/{name}", to)


def mapped(pid):
    """(path, inode, start) of each file with code in it."""
    starts, with_code = {}, set()
    with open(f"/proc/{pid}/maps") as lines:
        for line in lines:
            place, how, offset, _, inode, *path = line.split(maxsplit=5)
            name = path[0].strip() if path else ""
            if not name.startswith("/"):
                continue
            if int(offset, 16) == 0:
                starts.setdefault((name, int(inode)), int(place.partition("-")[0], 16))
            if "x" in how:
                with_code.add((name, int(inode)))
    return [(*file, start) for file, start in starts.items() if file in with_code]


def has_debug_information(path):
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return data.find(b".debug_info\0") >= 0


def strip(path, to):
    return (
        subprocess.run(["objcopy", "--strip-debug", path, to], capture_output=True).returncode == 0
    )
