"""Python in unusual places: namespaces, chroots, deleted and stripped files, venvs, other programs."""

import json
import os
import pathlib
import shutil
import subprocess

import harness
import pytest


def check(target, pid=None):
    harness.assert_same_stacks(target, harness.dump(pid or target.pid))


def ask(python, expression):
    code = f"import sys, sysconfig, json; print(json.dumps({expression}))"
    return json.loads(subprocess.check_output([python.path, "-c", code]))


def copy_binary(python, folder):
    """The interpreter's own program file, copied: (path, environment that lets the copy find its library)."""
    real = os.path.realpath(python.path)
    copy = folder / "python-copy"
    shutil.copy(real, copy)
    library = ask(python, "sysconfig.get_config_var('LIBDIR')")
    env = dict(
        os.environ,
        PYTHONHOME=ask(python, "getattr(sys, 'base_prefix', sys.prefix)"),
        LD_LIBRARY_PATH=library,
    )
    return copy, env


def copy_library(python, folder, env):
    """The same for its libpython; None when it has none or insists on its own path."""
    name = ask(python, "sysconfig.get_config_var('INSTSONAME')")
    library = pathlib.Path(env["LD_LIBRARY_PATH"], name or "")
    if not python.shared or not library.is_file():
        return None
    copy = folder / name
    shutil.copy(library, copy)
    env["LD_LIBRARY_PATH"] = str(folder)
    return copy


def mapped(pid, path):
    return str(path) in pathlib.Path(f"/proc/{pid}/maps").read_text()


def test_in_another_pid_and_mount_namespace(python, as_root):
    argv = python.argv(harness.TARGETS / "plain.py")
    if python.root:
        # The tree has /proc of the outer namespace; plain `unshare -p` still gives the numbers of the inner one.
        argv = ["unshare", "--pid", "--fork", "--kill-child", *argv]
    else:
        argv = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *argv]
    with harness.start(argv) as target:
        assert target.report["pid"] == 1
        (pid,) = harness.children_of(target.process.pid)
        threads = harness.dump(pid)
        harness.assert_same_stacks(target, threads)
        for said in target.report["threads"]:
            seen = harness.dumped_thread(threads, said["ident"])
            status = pathlib.Path(f"/proc/{pid}/task/{seen['os_thread_id']}/status").read_text()
            inner = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[
                -1
            ]
            assert seen["pid"] == pid
            if python.minor >= (3, 8):
                assert int(inner) == said["native_id"], said["label"]
        assert target.finish() == 0


def test_in_a_chroot(tree_python, as_root):
    with harness.run_target(tree_python, "plain.py", chroot=True) as target:
        check(target)
        assert target.finish() == 0


def test_deleted_executable(host_python, tmp_path):
    copy, env = copy_binary(host_python, tmp_path)
    with harness.start([copy, harness.TARGETS / "plain.py"], env=env) as target:
        copy.unlink()
        check(target)
        assert target.finish() == 0


def test_executable_replaced_by_another_file(host_python, tmp_path):
    copy, env = copy_binary(host_python, tmp_path)
    with harness.start([copy, harness.TARGETS / "plain.py"], env=env) as target:
        copy.unlink()
        shutil.copy("/bin/cat", copy)
        check(target)


def test_deleted_libpython(host_python, tmp_path):
    copy, env = copy_binary(host_python, tmp_path)
    library = copy_library(host_python, tmp_path, env)
    if library is None:
        pytest.skip("no libpython of its own")
    with harness.start([copy, harness.TARGETS / "plain.py"], env=env) as target:
        if not mapped(target.pid, library):
            pytest.skip("the program insists on the path of its library")
        library.unlink()
        copy.unlink()
        check(target)


def test_stripped_of_every_symbol_that_can_go(host_python, tmp_path):
    copy, env = copy_binary(host_python, tmp_path)
    library = copy_library(host_python, tmp_path, env)
    for file in filter(None, [copy, library]):
        subprocess.run(["strip", "--strip-all", file], check=True)
    with harness.start([copy, harness.TARGETS / "plain.py"], env=env) as target:
        check(target)


@pytest.mark.parametrize("how", ["--symlinks", "--copies"])
def test_venv(host_python, tmp_path, how):
    if host_python.minor < (3, 3):
        pytest.skip("Python 2 has no venv")
    subprocess.run(
        [host_python.path, "-m", "venv", "--without-pip", how, tmp_path / "venv"], check=True
    )
    with harness.start([tmp_path / "venv/bin/python", harness.TARGETS / "plain.py"]) as target:
        check(target)


def test_program_that_embeds_python(host_python, tmp_path):
    if not host_python.include:
        pytest.skip("no headers for this interpreter")
    libdir, version = ask(
        host_python, "[sysconfig.get_config_var('LIBDIR'), sysconfig.get_config_var('LDVERSION')]"
    )
    version = version or ask(host_python, "sysconfig.get_config_var('VERSION')")
    if not list(pathlib.Path(libdir).glob(f"**/libpython{version}.so")):
        pytest.skip("no libpython to link with")
    program = tmp_path / "embeds-python"
    subprocess.run(
        ["cc", "-o", program, harness.TARGETS / "embed.c", f"-I{host_python.include}", f"-L{libdir}",
         f"-Wl,-rpath,{libdir}", f"-lpython{version}"],
        check=True,
    )  # fmt: skip
    env = dict(os.environ, PYTHONHOME=ask(host_python, "getattr(sys, 'base_prefix', sys.prefix)"))
    env["PYTHONPATH"] = str(harness.TARGETS)
    with harness.start([program, harness.TARGETS / "plain.py"], env=env) as target:
        check(target)


@pytest.mark.pythons(since=(3, 8))
def test_subinterpreter(python):
    with harness.run_target(python, "subinterpreter.py") as target:
        guest = target.report
        target.read_report()
        threads = harness.dump(target.pid)
        host = target.thread("guest")
        assert guest["ident"] == host["ident"], "one thread, a state in each interpreter"
        seen = [
            harness.show(thread["frames"])
            for thread in threads
            if thread["thread_id"] == host["ident"]
        ]
        assert harness.show(guest["sub"]) in seen
        assert harness.show(host["frames"]) in seen
        assert len(seen) == 2
        assert target.finish() == 0
