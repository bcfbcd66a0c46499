"""Names, files and lines of every frame, exactly as the target itself sees them."""

import harness
import pytest


def check(python, script, *args):
    with harness.run_target(python, script, *args) as target:
        harness.assert_same_stacks(target, harness.dump(target.pid))
        assert target.finish() == 0


def test_every_way_to_call(python):
    check(python, "shapes.py")


def test_line_tables_at_their_limits(python):
    check(python, "lines.py")


@pytest.mark.parametrize("depth", [300, 10000])
def test_deep_stack(python, depth):
    check(python, "deep.py", depth)


def test_stacks_are_the_same_without_stopping(python):
    with harness.run_target(python, "shapes.py") as target:
        harness.assert_same_stacks(target, harness.dump(target.pid, "--nonblocking"))
