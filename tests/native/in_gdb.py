"""Runs inside gdb: for each line of JSON on standard input, {pid, tids, files}, attaches, prints the stacks of these threads
as one line of JSON, and detaches."""

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
    "exec-file-mismatch off",
    "libthread-db-search-path /nowhere",
    # Files are added by hand, once: gdb forgets the libraries of a process it lets go, and reads them anew each time.
    "auto-solib-add off",
    "sysroot /nowhere",
):
    try:
        gdb.execute("set " + setting, to_string=True)
    except gdb.error:
        pass  # this gdb has no such setting

LIMIT = 3000


def stack():
    frames, frame = [], gdb.newest_frame()
    while frame is not None and len(frames) < LIMIT:
        if frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):  # those gdb has guessed
            # A caller stands behind its call, which may be the function's last instruction.
            frames.append([frame.pc(), name_at(frame.pc() - bool(frames))])
        try:
            frame = frame.older()
        except gdb.error:
            break
    return frames


def name_at(pc):
    if pc not in names:
        text = gdb.execute(f"info symbol {max(pc, 0):#x}", to_string=True)
        names[pc] = None if text.startswith("No symbol") else text.split()[0]
    return names[pc]


names = {}
known = None


def read_symbols(files):
    global known
    if files == known:
        return
    names.clear()
    gdb.execute("file", to_string=True)  # it would go on with the last program's symbols
    gdb.execute("symbol-file", to_string=True)
    gdb.execute(f"set debug-file-directory {files['debug']}", to_string=True)
    if files["exe"]:
        gdb.execute(f"file {files['exe']}", to_string=True)
    for path, bias in files["libraries"]:
        gdb.execute(f"add-symbol-file {path} -o {bias:#x}", to_string=True)
    known = files


def look(pid, tids, files):
    read_symbols(files)
    gdb.execute(f"attach {pid}", to_string=True)
    try:
        stacks = {}
        for thread in gdb.selected_inferior().threads():
            if thread.ptid[1] in tids:
                thread.switch()
                stacks[thread.ptid[1]] = stack()
        return stacks
    finally:
        gdb.execute("detach", to_string=True)


answers = os.fdopen(int(os.environ["SCRY_TEST_ANSWERS"]), "w")
for line in sys.stdin:
    try:
        answer = {"threads": look(**json.loads(line))}
    except gdb.error as problem:
        answer = {"error": str(problem)}
    answers.write(json.dumps(answer) + "\n")
    answers.flush()
