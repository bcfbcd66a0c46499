"""No stack that scry reports is one that its program cannot have. On every interpreter, every program whose legal
stacks are known is sampled as it runs at full speed; each sample is checked."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import grammar
import pythons
import run

SECONDS = 0.5
RATE = 2500


@pytest.fixture(scope="module")
def totals():
    total = grammar.Verdict()
    yield total
    print(f"\noracle: {total.samples} samples, {total.impossible} impossible, {total.torn} torn")


@pytest.mark.parametrize("program", grammar.programs(), ids=lambda program: program.name)
def test_no_impossible_stack(python: pythons.Python, program, scry, tmp_path, totals) -> None:
    if python.minor < program.since:
        return  # the program needs a newer Python; nothing to sample
    with run.running(python, program) as pid:
        verdict = grammar.judge(program, run.record(scry, pid, SECONDS, RATE, tmp_path))
    totals.samples += verdict.samples
    totals.impossible += verdict.impossible
    totals.torn += verdict.torn
    assert verdict.samples > 0
    assert not verdict.impossible, "\n".join(verdict.examples[:10])
