"""Fixtures of the tests with Dask: one cluster for each file."""

from __future__ import annotations

import clusters
import pytest


@pytest.fixture(scope="module", autouse=True)
def package(scry):
    """The package from the sources, here and in all processes that are started; the scry under test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(clusters.PACKAGE))
        patch.setenv("PYTHONPATH", clusters.PATH)
        patch.setenv("SCRY", scry)
        yield


@pytest.fixture(scope="module")
def cluster(package, tmp_path_factory):
    with clusters.started(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with cluster.client() as client:
        yield client
