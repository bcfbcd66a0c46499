"""One server and one busy process for all tests of a file that do not harm them."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import serving


@pytest.fixture(scope="module")
def server(scry, tmp_path_factory):
    with serving.Server(scry, tmp_path_factory.mktemp("data")) as started:
        yield started


@pytest.fixture(scope="module")
def target():
    with serving.Target("--child") as started:
        yield started


@pytest.fixture
def start(scry, tmp_path):
    """start(OPTION...): a server of the test's own."""
    started = []

    def start_one(*options, folder="data", **more):
        one = serving.Server(scry, tmp_path / folder, *options, **more).start()
        started.append(one)
        return one

    yield start_one
    for one in started:
        one.stop()
