"""No stack that scry reports is one that its program cannot have. On every interpreter, every program whose legal
stacks are known is sampled as it runs at full speed; each sample is checked."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import grammar
import pythons
import run

SECONDS = 0.5
RATE = 2500
MEMORY = ("--reader", "memory")
AS_FAST_AS_IT_CAN = 1_000_000  # several looks by one system call, from 3.13 on


@pytest.fixture(scope="module")
def totals():
    total = grammar.Verdict()
    yield total
    print(f"\noracle: {total.samples} samples, {total.impossible} impossible, {total.torn} torn")


def is_first_of_its_version(python: pythons.Python) -> bool:
    kind = (python.minor, python.free_threaded)
    return python == next(p for p in pythons.found() if (p.minor, p.free_threaded) == kind)


@pytest.mark.parametrize("program", grammar.programs(), ids=lambda program: program.name)
def test_no_impossible_stack(python: pythons.Python, program, scry, tmp_path, totals) -> None:
    if python.minor < program.since:
        return  # the program needs a newer Python; nothing to sample
    with run.running(python, program) as pid:
        verdict = grammar.judge(program, run.record(scry, pid, SECONDS, RATE, tmp_path, *MEMORY))
    totals.samples += verdict.samples
    totals.impossible += verdict.impossible
    totals.torn += verdict.torn
    assert verdict.samples > 0
    assert not verdict.impossible, "\n".join(verdict.examples[:10])


def test_a_fast_program_that_has_to_wait_is_not_taken_for_a_slow_one(
    python, scry, tmp_path
) -> None:
    """While it waits for a CPU it does not move, and a peek succeeds; when it runs, one may be fooled. So it must not be
    trusted for what it did while it was held up."""
    if python.version < (3, 11) or python.debug:
        return  # trusted hardly ever, or too slow to fool anybody
    if not is_first_of_its_version(python):
        return  # they are read in the same way, and this keeps everybody else waiting
    program = next(p for p in grammar.programs() if p.name == "generators")
    stats = tmp_path / "stats.json"
    with contextlib.ExitStack() as stack:
        for _ in os.sched_getaffinity(0):
            busy = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(busy.kill)
        pid = stack.enter_context(run.running(python, program))
        run.record(scry, pid, 2 * SECONDS, RATE, tmp_path, *MEMORY, "--stats", str(stats))
    counts = json.loads(stats.read_text())
    assert counts["samples"] > 0
    assert counts["stacks_peeked"] <= counts["samples"] / 20, counts


def test_code_that_is_never_known_while_it_runs_is_not_missed_by_peeking(
    python, scry, tmp_path
) -> None:
    """A peek at code made a moment ago fails, and when it is known another function runs: were peeks taken, that code would
    hardly be seen at all."""
    if python.version < (3, 13) or python.debug:
        return  # there its stack is caught moving, which is a reason of its own
    program = next(p for p in grammar.programs() if p.name == "executed")
    stats = tmp_path / "stats.json"
    with run.running(python, program) as pid:
        run.record(scry, pid, 4 * SECONDS, 500, tmp_path, *MEMORY, "--stats", str(stats))
    counts = json.loads(stats.read_text())
    assert counts["samples"] > 0
    assert counts["stacks_peeked"] <= counts["samples"] / 3, counts


@pytest.mark.parametrize("program", grammar.programs(), ids=lambda program: program.name)
def test_none_that_is_read_in_the_kernel(python, program, scry, tmp_path, totals) -> None:
    if python.version < (3, 6) or python.free_threaded or not is_first_of_its_version(python):
        return  # not read there, or in the same way as another
    with run.running(python, program) as pid:
        text = run.record(scry, pid, SECONDS, RATE, tmp_path, "--reader", "kernel")
    verdict = grammar.judge(program, text)
    totals.samples += verdict.samples
    assert verdict.samples > 0
    assert not verdict.impossible, "\n".join(verdict.examples[:10])


@pytest.mark.parametrize("program", grammar.programs(), ids=lambda program: program.name)
def test_none_at_the_highest_rate(python, program, scry, tmp_path, totals) -> None:
    if python.version < (3, 13) or python.debug:
        return  # nothing that is not done at other rates, too
    with run.running(python, program) as pid:
        verdict = grammar.judge(
            program, run.record(scry, pid, SECONDS, AS_FAST_AS_IT_CAN, tmp_path)
        )
    totals.samples += verdict.samples
    assert verdict.samples > 0
    assert not verdict.impossible, "\n".join(verdict.examples[:10])
