"""A real Ray cluster for the tests of each file, and a `scry serve --ray` beside it. Not for longer: its tasks keep two
CPUs busy."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "serve"))

import cluster as clusters
import serving


@pytest.fixture(scope="module")
def cluster(scry):
    if not (clusters.venv() / "bin" / "ray").exists():
        pytest.skip(f"there is no Ray in {clusters.venv()}: ./dev test puts one there")
    with clusters.Cluster(scry) as started:
        yield started


@pytest.fixture(scope="module")
def server(scry, cluster, tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    with serving.Server(scry, folder, "--ray", cluster.dashboard) as started:
        yield started
