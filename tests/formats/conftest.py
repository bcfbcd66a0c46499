"""Fixed recordings in any format, for tests that read the files as their readers do."""

import subprocess
from pathlib import Path

import pytest


@pytest.fixture
def written(scry, tmp_path):
    """written("basic", "raw", "--threads") -> the file, as tests/golden/make_profile.c makes it."""

    def write(case: str, format_name: str, *options: str) -> Path:
        maker = Path(scry).parent / "tests" / "golden" / "make_profile"
        assert maker.exists(), f"{maker} is not there: run ./dev build"
        output = tmp_path / f"{case}.{format_name}"
        subprocess.run([maker, case, format_name, output, *options], check=True)
        return output

    return write


# What tests/golden/make_profile.c puts into "basic", by thread: (end in ms, frames from the root), each standing
# for the 10 ms before its end.
BASIC = {
    (100, 100): [
        (10, ["<module>", "App.run", "load"]),
        (20, ["<module>", "App.run", "load"]),
        (30, ["<module>", "App.run", "load", "decode"]),
        (40, ["<module>", "App.run"]),
        (110, ["<module>", "App.run"]),
        (120, ["<module>", "App.run", "load"]),
        (130, ["<module>", "App.run", "load"]),
    ],
    (100, 101): [
        (20, ["Thread._bootstrap", "post"]),
        (30, ["Thread._bootstrap", "post", "SSL_write"]),
        (120, ["Thread._bootstrap", "post"]),
    ],
    (120, 120): [(30, ["<module>"]), (40, [])],
}


@pytest.fixture
def basic():
    return BASIC
