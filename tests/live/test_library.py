"""libscry through its example program, which knows nothing but the public header."""

import os
import re
import subprocess

import harness

BUILD = os.path.dirname(harness.scry_binary())


def stacks(pid):
    """What examples/stacks.c prints: {thread id: [(function, file, line)]}, innermost frame first."""
    answer = subprocess.run(
        [f"{BUILD}/stacks", str(pid)], capture_output=True, text=True, check=True
    )
    threads, frames = {}, None
    for line in answer.stdout.splitlines():
        if match := re.match(r"thread (\d+) ", line):
            frames = threads.setdefault(int(match[1]), [])
        elif match := re.match(r"    (.*) \((.*):(\d+)\)$", line):
            frames.append((match[1], match[2], int(match[3])))
    return threads


def test_the_example_sees_what_dump_sees(python):
    with harness.run_target(python, "shapes.py") as target:
        seen = stacks(target.pid)
        dumped = harness.dump(target.pid)
        assert target.finish() == 0
    expected = {
        thread["os_thread_id"]: [
            (f["qualname"], f["filename"], f["line"]) for f in thread["frames"]
        ]
        for thread in dumped
    }
    assert seen == expected


def test_an_error_comes_with_a_sentence_and_a_remedy():
    answer = subprocess.run([f"{BUILD}/stacks", "999999999"], capture_output=True, text=True)
    assert answer.returncode == 1
    assert answer.stdout == ""
    assert "999999999" in answer.stderr
    assert "scry ps" in answer.stderr


def test_only_the_public_names_are_exported():
    answer = subprocess.run(
        ["nm", "-D", "--defined-only", f"{BUILD}/src/libscry.so"],
        capture_output=True,
        text=True,
        check=True,
    )
    names = {line.split()[-1] for line in answer.stdout.splitlines()}
    header = (harness.ROOT / "include" / "scry" / "scry.h").read_text()
    assert names == set(re.findall(r"\b(scry_\w+)\(", header))
