"""Runs inside gdb: for each line PID on standard input, attaches, prints the stacks of its threads as one line of JSON,
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
    """Of the function itself: Frame.name() is that of what is inlined there."""
    text = gdb.execute(f"info symbol {max(frame.pc() - 1, 0):#x}", to_string=True)
    return None if text.startswith("No symbol") else text.split()[0]


def look(pid):
    if pid != look.last:
        gdb.execute("file", to_string=True)  # it would go on with the last program's symbols
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
        answer = {"threads": look(int(line))}
    except gdb.error as problem:
        answer = {"error": str(problem)}
    answers.write(json.dumps(answer) + "\n")
    answers.flush()
