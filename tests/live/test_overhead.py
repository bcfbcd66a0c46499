"""`record --overhead`: a rate that is found, and samples that weigh the time they stand for."""

import json
import signal

import harness
import pytest
from test_record import raw_stacks, recording

pytestmark = pytest.mark.one_of_each

PYTHONS = pytest.mark.pythons(since=(3, 13), until=(3, 13))


def record(python, folder, percent, seconds, *flags):
    """Returns folded stacks, the statistics, what scry said, and the target's own account."""
    out, stats = folder / "out.txt", folder / "stats.json"
    with harness.run_target(python, "phases.py") as target:
        done = harness.scry(
            *["record", "-p", target.pid, "--overhead", percent, "-d", seconds, "-f", "raw"],
            *["-o", out, "--stats", stats, *flags],
        )
        target.release()
        spent = json.loads(target.read_line())
    return raw_stacks(out), json.loads(stats.read_text()), done.stderr, spent


@PYTHONS
def test_what_it_costs_stays_within_the_budget(python, tmp_path):
    stacks, stats, said, _ = record(python, tmp_path, 2, 8)
    # What the first look met for the first time is part of it, and a busy machine makes all dearer.
    assert stats["own_cpu_ns"] / stats["elapsed_ns"] < 0.025
    assert stats["held_ns"] / stats["elapsed_ns"] < 0.05
    assert stats["ticks"] > 8, "and yet there is something to be seen"
    assert "as often as an overhead of 2 % allows" in said
    assert "looks a second on average" in said and "of 2 % allowed" in said


@PYTHONS
def test_samples_weigh_the_time_they_stand_for(python, tmp_path):
    stacks, stats, _, spent = record(python, tmp_path, 5, 8)
    weights = {
        name: sum(n for stack, n in stacks.items() if any(f.startswith(name) for f in stack))
        for name in ("shallow (", "deep (")
    }
    # It runs all the time: in microseconds, all of the time is there, but for what went before the first look.
    assert sum(stacks.values()) / 1e6 == pytest.approx(stats["elapsed_ns"] / 1e9, rel=0.1)
    share = weights["deep ("] / sum(weights.values())
    assert share == pytest.approx(spent["deep"] / sum(spent.values()), abs=0.12)


@PYTHONS
def test_a_flame_graph_shows_time(python, tmp_path):
    out = tmp_path / "out.svg"
    with harness.run_target(python, "phases.py") as target:
        with recording("-p", target.pid, "--overhead", "5%", "-o", out) as process:
            harness.until_it_computes(target.pid, target.pid, 300_000_000)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=harness.PATIENCE)
            assert process.returncode == 0, said
    text = out.read_text()
    assert 'unit="wall"' in text and "s of running time over" in text
    assert " Hz" not in text
