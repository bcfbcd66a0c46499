"""Runs inside gdb: for each line PID [ROOT] on standard input, attaches, prints the stacks of its threads as one line of JSON,
and detaches."""

import json
import os
import sys

import gdb

for setting in (
    "pagination off",
    "confirm off",
    "backtrace past-main on",
    "backtrace past-entry on",
    "debuginfod enabled off",
    "print thread-events off",
    "width 0",
):
    try:
        gdb.execute("set " + setting, to_string=True)
    except gdb.error:
        pass  # this gdb has no such setting

LIMIT = 3000
KEEP = bool(os.environ["SCRY_TEST_KEEP"])
if KEEP:
    gdb.execute("set auto-solib-add off", to_string=True)


def stack():
    frames, frame = [], gdb.newest_frame()
    while frame is not None and len(frames) < LIMIT:
        if frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):  # those gdb has guessed
            frames.append([frame.pc(), name_of(frame)])
        try:
            frame = frame.older()
        except gdb.error:
            break
    return frames


def name_of(frame):
    """Of the function itself: Frame.name() is that of what is inlined there. A caller stands behind its call, which may
    be the function's last instruction; the innermost frame may stand at its first one."""
    behind = 0 if frame.newer() is None else 1
    text = gdb.execute(f"info symbol {max(frame.pc() - behind, 0):#x}", to_string=True)
    return None if text.startswith("No symbol") else text.split()[0]


def libraries(pid):
    """{(path, inode): what is to be added to the addresses in the file}"""
    found = {}
    with open(f"/proc/{pid}/maps") as lines:
        for line in lines:
            place, _, offset, _, inode, *path = line.split(maxsplit=5)
            name = path[0].strip() if path else ""
            if name.startswith("/") and int(offset, 16) == 0 and ".so" in name:
                found.setdefault((name, int(inode)), int(place.partition("-")[0], 16))
    return found


def is_file(path, inode):
    try:
        return os.stat(path).st_ino == inode
    except OSError:
        return False


def keep_symbols(pid, root):
    """gdb forgets the libraries of a process it lets go, and reads them anew each time: so they are added by hand
    once, as files that stay."""
    folders = ":".join(dict.fromkeys([root + "/usr/lib/debug", "/usr/lib/debug"]))
    gdb.execute(f"set debug-file-directory {folders}", to_string=True)
    for (name, inode), bias in libraries(pid).items():
        for path in (root + name, name):
            if is_file(path, inode):
                gdb.execute(f"add-symbol-file {path} -o {bias:#x}", to_string=True)
                break


def look(pid, root):
    """`root`: the tree the process lives in, "" for ours."""
    if pid != look.last:
        gdb.execute("file", to_string=True)  # it would go on with the last program's symbols
        gdb.execute("symbol-file", to_string=True)
        if KEEP:
            keep_symbols(pid, root)
        look.last = pid
    gdb.execute(f"attach {pid}", to_string=True)
    try:
        stacks = {}
        for thread in gdb.selected_inferior().threads():
            thread.switch()
            stacks[thread.ptid[1]] = stack()
        return stacks
    finally:
        gdb.execute("detach", to_string=True)


look.last = 0
answers = os.fdopen(int(os.environ["SCRY_TEST_ANSWERS"]), "w")
for line in sys.stdin:
    try:
        answer = {"threads": look(int(line.split()[0]), "".join(line.split()[1:]))}
    except gdb.error as problem:
        answer = {"error": str(problem)}
    answers.write(json.dumps(answer) + "\n")
    answers.flush()
