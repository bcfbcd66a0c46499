"""Arguments and variables, as the target itself would print them."""

import harness
import pytest

BUDGET = 20  # times 128 characters: more than any value here needs


def frames_by_name(pid, *flags):
    (thread,) = harness.dump(pid, *flags)
    return {frame["name"]: frame for frame in thread["frames"]}


def assert_same_variables(target, frames):
    wrong = []
    for name, expected in target.report["frames"].items():
        seen = {local["name"]: local["repr"] for local in frames[name]["locals"]}
        arguments = sorted(local["name"] for local in frames[name]["locals"] if local["arg"])
        want = expected["variables"]
        for variable in sorted(want.keys() | seen.keys()):
            if want.get(variable) != seen.get(variable):
                wrong.append(
                    f"{name}: {variable} is {want.get(variable)}, scry says {seen.get(variable)}"
                )
        if arguments != expected["arguments"]:
            wrong.append(f"{name}: arguments are {expected['arguments']}, scry says {arguments}")
    assert not wrong, "\n".join(wrong)


def check(python, script):
    with harness.run_target(python, script) as target:
        assert_same_variables(target, frames_by_name(target.pid, *["-l"] * BUDGET))
        assert target.finish() == 0


def test_values_of_every_kind(python):
    check(python, "values.py")


@pytest.mark.pythons(since=(3, 6))
def test_values_of_python_3(python):
    check(python, "values_py3.py")


@pytest.mark.pythons(since=(3, 7))
def test_dataclasses(python):
    check(python, "values_py37.py")


def test_long_values_are_cut_near_the_budget(python):
    """128 characters for -l, 256 for -ll; closing brackets and the mark of the cut come on top."""
    with harness.run_target(python, "values.py") as target:
        for flags, budget in ((["-l"], 128), (["-ll"], 256)):
            frames = frames_by_name(target.pid, *flags)
            values = {local["name"]: local["repr"] for local in frames["texts"]["locals"]}
            assert values["long_text"] == "'" + ("0123456789" * 40)[: budget - 2] + "'..."
            longest = max(
                len(local["repr"]) for frame in frames.values() for local in frame["locals"]
            )
            assert budget < longest < budget + 40


def test_variables_only_when_asked_for(some_python):
    with harness.run_target(some_python, "values.py") as target:
        assert all(frame["locals"] is None for frame in frames_by_name(target.pid).values())
