"""./dev demo without a terminal: the dashboard is asked as its page asks, and the demo says so and ends."""

import subprocess

import contract


def test_the_demo_asks_the_dashboard_and_ends():
    line = ". scripts/say.sh; . scripts/setup.sh; . scripts/demo.sh; mkdir -p out; demo_page"
    result = subprocess.run(
        ["bash", "-c", line],
        cwd=contract.PROJECT,
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "the dashboard: http://127.0.0.1:" in result.stdout
    for name in ("busy", "blocked_on_a_lock", "blocked_on_io"):
        assert name in result.stdout
    picture = (contract.PROJECT / "out" / "serve-flamegraph.svg").read_text()
    assert "<!DOCTYPE svg" in picture and "is_prime" in picture
