"""scry's merged stacks beside gdb's, taken from the same process while it is stopped.

A native frame is compared by its return address; the evaluator's frames, where gdb sees them, are what scry shows
Python's frames for. So a stack becomes a list of addresses with "P" wherever Python runs, and two stacks agree if the
lists are equal. That scry's Python frames are those it shows without --native is asked as well.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import select
import signal
import subprocess
import time
from pathlib import Path

import bare

HERE = Path(__file__).resolve().parent
PATIENCE = 120.0

# Also its parts (".cold"), but not the stub that leads to it (gdb's "@plt").
EVALUATOR = re.compile(r"(_PyEval_EvalFrameDefault|_TAIL_CALL_\w+)(?![\w@])")
OLD_EVALUATOR = re.compile(r"PyEval_EvalFrameEx(?![\w@])")


class Gdb:
    """One gdb that attaches to whatever it is asked for, starts only once and reads the symbols of a process only once."""

    def __init__(self, folder):
        self.files = bare.Files(folder)
        answers, to_us = os.pipe()
        self.process = subprocess.Popen(
            ["gdb", "-nx", "-q", "-batch", "-x", str(HERE / "in_gdb.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[to_us],
            env=dict(os.environ, SCRY_TEST_ANSWERS=str(to_us)),
            text=True,
        )
        os.close(to_us)
        self.answers = os.fdopen(answers)

    def stacks(self, pid, tids, root=""):
        """{tid: [[pc, name], ...]}, innermost first."""
        question = {"pid": pid, "tids": list(tids), "files": self.files.of(pid, root)}
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        if not select.select([self.answers], [], [], PATIENCE)[0]:
            raise TimeoutError("gdb does not answer")
        text = self.answers.readline()
        if not text:
            raise RuntimeError(f"gdb has ended: {self.process.wait()}")
        answer = json.loads(text)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return {int(tid): frames for tid, frames in answer["threads"].items()}

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait(timeout=PATIENCE)
        self.answers.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


class Looks:
    """One scry that looks whenever it is asked (look.c), with what it has read kept."""

    def __init__(self, program):
        self.process = subprocess.Popen(
            [str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def stacks(self, pid, how):
        self.process.stdin.write(f"{pid} {how}\n")
        self.process.stdin.flush()
        if not select.select([self.process.stdout], [], [], PATIENCE)[0]:
            raise TimeoutError("scry does not answer")
        answer = json.loads(self.process.stdout.readline())
        assert isinstance(answer, list), answer
        return {thread["os_thread_id"]: thread for thread in answer}

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.process.stdin.close()
        self.process.wait(timeout=PATIENCE)
        self.process.stdout.close()


def states(pid):
    letters = []
    for tid in os.listdir(f"/proc/{pid}/task"):
        text = Path(f"/proc/{pid}/task/{tid}/stat").read_text()
        letters.append(text.rpartition(")")[2].split()[0])
    return letters


def stop(pid):
    """All its threads; returns when they stand still."""
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + PATIENCE
    while any(letter not in "T" for letter in states(pid)):
        assert time.monotonic() < deadline, "it does not stop"
        time.sleep(0.0005)


def dump(scry, pid, *options):
    result = subprocess.run(
        [scry, "dump", "--json", "-p", str(pid), *options],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert result.returncode == 0, result.stderr
    return {thread["os_thread_id"]: thread for thread in json.loads(result.stdout)}


def is_native(frame):
    return frame["module"] is not None


def python_frames(thread):
    return [(f["qualname"], f["filename"], f["line"]) for f in thread["frames"] if not is_native(f)]


def is_evaluator(symbol, python):
    evaluator = OLD_EVALUATOR if python.minor < (3, 0) else EVALUATOR
    return bool(symbol and evaluator.match(symbol))


def squeezed(words):
    """Python after Python is one P: a call of the evaluator runs many frames, or calls another by a tail call."""
    out = []
    for word in words:
        if word != "P" or not out or out[-1] != "P":
            out.append(word)
    return out


def of_scry(thread, python):
    """An evaluator that has not linked its frame in yet, or has no more, is shown by its own name."""
    frames = [f for f in thread["frames"] if not f.get("inlined")]
    return squeezed(
        [
            int(f["address"], 16) if is_native(f) and not is_evaluator(f["symbol"], python) else "P"
            for f in frames
        ]
    )


def of_gdb(frames, python):
    return squeezed(["P" if is_evaluator(name, python) else pc for pc, name in frames])


def same(ours, theirs):
    """A system call that gdb interrupted starts anew: its instruction is two bytes long."""
    if not ours or not theirs or len(ours) != len(theirs) or ours[1:] != theirs[1:]:
        return False
    if "P" in (ours[0], theirs[0]):
        return ours[0] == theirs[0]
    return abs(ours[0] - theirs[0]) <= 2


@dataclasses.dataclass
class Verdict:
    python: str
    program: str
    pid: int
    tid: int
    sound: bool  # gdb's stack can be one
    agrees: bool
    keeps_python: bool
    state: str
    detail: str


def one_sample(scry, gdb, process, python, program, *options):
    """A verdict for each Python thread of the process, which runs again afterwards."""

    def look(pid):
        return dump(scry, pid), dump(scry, pid, "--native-all", *options)

    return sample(look, gdb, process, python, program)


def sample(look, gdb, process, python, program):
    """The same with look(PID) for scry's stacks, without native frames and with them."""
    stop(process.pid)
    try:
        code = executable(process.pid)
        plain, native = look(process.pid)
        theirs = gdb.stacks(process.pid, native, python.root or "")
    finally:
        os.kill(process.pid, signal.SIGCONT)
    return [
        verdict(thread, plain[tid], theirs.get(tid, []), code, python, program)
        for tid, thread in native.items()
    ]


def executable(pid):
    """[(start, end), ...] of what holds code."""
    with open(f"/proc/{pid}/maps") as lines:
        found = [line.split()[:2] for line in lines]
    return [[int(end, 16) for end in place.split("-")] for place, how in found if "x" in how]


def is_sound(frames, code):
    """Has gdb found its way? In functions written by hand, without unwind tables, it takes for return addresses what is none."""
    return all(any(start <= pc < end for start, end in code) for pc, _ in frames)


def verdict(thread, plain, theirs, code, python, program):
    ours, reference = of_scry(thread, python), of_gdb(theirs, python)
    kept = python_frames(thread) == python_frames(plain)
    agrees = same(ours, reference)
    sound = is_sound(theirs, code)
    detail = "" if agrees and kept else f"scry {show(ours)}\ngdb  {show(reference, theirs)}"
    return Verdict(
        python.id,
        program,
        thread["pid"],
        thread["os_thread_id"],
        sound,
        agrees,
        kept,
        thread["native"],
        detail,
    )


def show(words, frames=()):
    names = {pc: name for pc, name in frames or ()}
    return " ".join(
        w if w == "P" else f"{w:x}{'=' + str(names[w]) if w in names else ''}" for w in words
    )


def start(python, program, *words):
    """The program, once it works."""
    process = python.popen(
        str(HERE / "targets" / "programs.py"),
        program,
        *words,
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    )
    line = process.stdout.readline()
    if line.strip() != b"ready":
        process.kill()
        process.wait()
        raise RuntimeError(f"{program} does not start on {python.id}: {line!r}")
    return process
