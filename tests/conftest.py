"""What every Python test shares: the interpreters found, and the scry to test."""

import os
import re
import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import pythons


def pytest_configure(config: pytest.Config) -> None:
    # Under nohup, or in the background of a script, these are ignored, and every program started here would
    # inherit that: tests that send them would wait for ever.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) == signal.SIG_IGN:
            default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, default)
    config.addinivalue_line(
        "markers",
        "pythons(since=(3, 7), until=(3, 99)): the versions a test that takes `python` runs on",
    )
    config.addinivalue_line(
        "markers",
        "one_of_each: on one interpreter of each version, for what hardly depends on how it was built",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """`--dist loadgroup` puts the group behind a test's name; who runs again what failed looks for the name alone. (A
    worker must keep the long name: xdist compares it.)"""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        report.nodeid = re.sub(r"@[\w-]+$", "", report.nodeid)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Figures that tests noted for the reader: record_property("figure", ...)."""
    for report in terminalreporter.stats.get("passed", ()):
        for name, text in report.user_properties if report.when == "call" else ():
            if name == "figure":
                terminalreporter.write_line(text)


def pytest_report_header() -> list[str]:
    return pythons.sentence().splitlines()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes `python` runs once on every interpreter found, oldest first."""
    if "python" not in metafunc.fixturenames:
        return
    limits = metafunc.definition.get_closest_marker("pythons")
    since = limits.kwargs.get("since", (2, 7)) if limits else (2, 7)
    until = limits.kwargs.get("until", (3, 99)) if limits else (3, 99)
    chosen = [p for p in pythons.found() if since <= p.minor <= until]
    if metafunc.definition.get_closest_marker("one_of_each"):
        chosen = pythons.one_of_each(chosen)
    metafunc.parametrize("python", chosen, ids=[p.id for p in chosen])


@pytest.fixture(scope="session")
def scry() -> str:
    """The binary under test: build/scry, or what the environment's SCRY names."""
    path = os.environ.get("SCRY") or str(pythons.PROJECT / "build" / "scry")
    assert os.access(path, os.X_OK), f"{path} is not there: run ./dev build"
    return path
