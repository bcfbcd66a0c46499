"""What the live tests share."""

import os

import pytest
import pythons


@pytest.fixture(scope="session")
def some_python():
    """For a test whose idea does not depend on the version: the newest interpreter that is not in a tree."""
    usable = [python for python in pythons.found() if not python.root and not python.free_threaded]
    assert usable, "no interpreter found"
    return usable[-1]


@pytest.fixture(scope="session")
def kernel_python():
    """The same for one whose stacks the kernel can be asked to read."""
    usable = [
        p for p in pythons.found() if p.minor >= (3, 11) and not p.root and not p.free_threaded
    ]
    assert usable, "no Python of 3.11 or later found"
    return usable[-1]


@pytest.fixture
def as_root():
    if os.geteuid() != 0:
        pytest.skip("needs root")


@pytest.fixture(params=[p for p in pythons.found() if not p.root], ids=lambda p: p.id)
def host_python(request):
    """Every interpreter that is not in a tree of its own."""
    return request.param


@pytest.fixture(
    params=[p for p in pythons.found() if p.root] or [None], ids=lambda p: p.id if p else "none"
)
def tree_python(request):
    """Every interpreter in a Debian tree."""
    if request.param is None:
        pytest.skip("no Debian tree of interpreters: ./dev pythons makes one")
    return request.param
