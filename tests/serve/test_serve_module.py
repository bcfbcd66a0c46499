"""The server is a file of its own, which the program finds wherever both were put and loads for `scry serve` alone."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import serving


def serve(binary):
    """What `scry serve` says when it does not start."""
    return subprocess.run(
        [str(binary), "serve", "--port", "0"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=serving.PATIENCE,
    )


@pytest.fixture
def lone(scry, tmp_path):
    """The program without its server."""
    (tmp_path / "lone").mkdir()
    return Path(shutil.copy(scry, tmp_path / "lone" / "scry"))


def libraries(path):
    return subprocess.run(["ldd", str(path)], capture_output=True, text=True, check=True).stdout


def test_only_the_server_needs_the_libraries_of_a_server(scry):
    heavy = ("libcurl", "libgnutls", "libmicrohttpd", "libsqlite3", "libseccomp", "libjansson")
    assert not [name for name in heavy if name in libraries(scry)]
    assert "libmicrohttpd" in libraries(Path(scry).parent / "scry-serve.so")


def test_a_program_without_it_says_so_in_one_sentence(lone):
    done = serve(lone)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "scry-serve.so" in done.stderr and str(lone.parent) in done.stderr
    assert subprocess.run([lone, "serve", "--help"], capture_output=True).returncode == 0


@pytest.mark.parametrize("link", [False, True])
def test_both_beside_each_other_work_anywhere(scry, lone, tmp_path, link):
    shutil.copy(Path(scry).parent / "scry-serve.so", lone.parent)
    if link:
        os.symlink(lone, tmp_path / "py-spy")
        lone = tmp_path / "py-spy"
    with serving.Server(str(lone), tmp_path / "data") as server:
        assert server.get("/healthz").status == 200


def test_an_installation_works_wherever_it_is_moved(scry, tmp_path):
    build = Path(scry).parent
    if not (build / "build.ninja").exists():
        pytest.skip("the program under test is not in a build folder")
    subprocess.run(
        [
            "meson",
            "install",
            "-C",
            build,
            "--no-rebuild",
            "--quiet",
            "--destdir",
            tmp_path / "root",
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    [installed] = (tmp_path / "root").rglob("bin/scry")
    moved = shutil.move(installed.parent.parent, tmp_path / "moved")
    with serving.Server(f"{moved}/bin/scry", tmp_path / "data") as server:
        assert server.get("/healthz").status == 200


def test_a_file_of_somebody_else_is_not_loaded(scry, lone):
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    module = shutil.copy(Path(scry).parent / "scry-serve.so", lone.parent)
    os.chown(module, 65534, 65534)
    done = serve(lone)
    assert done.returncode == 1
    assert "is not loaded" in done.stderr


@pytest.mark.parametrize("content", [b"", b"not a library", None])
def test_a_broken_file_is_named(lone, content):
    module = lone.parent / "scry-serve.so"
    if content is None:  # a library, and another one
        shutil.copy(next(Path("/lib").rglob("libz.so.1")), module)
    else:
        module.write_bytes(content)
    done = serve(lone)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1 and str(module) in done.stderr, done.stderr
