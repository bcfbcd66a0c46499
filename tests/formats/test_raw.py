"""Folded stacks, read the way flame graph tools read them."""

import re

import pytest

LINE = re.compile(rb"(.+) (\d+)\n")


def folded(path):
    """[(frames, count)]; every line must be whole."""
    lines = path.read_bytes().splitlines(keepends=True)
    stacks = []
    for line in lines:
        match = LINE.fullmatch(line)
        assert match, line
        stacks.append((match[1].split(b";"), int(match[2])))
    return stacks


def test_counts_are_those_of_the_samples(written, basic):
    counts = {}
    for samples in basic.values():
        for _, frames in samples:
            if frames:
                key = tuple(frames)
                counts[key] = counts.get(key, 0) + 1
    found = {}
    for frames, count in folded(written("basic", "raw", "--nolineno")):
        key = tuple(frame.decode().split(" (")[0] for frame in frames)
        found[key] = found.get(key, 0) + count
    assert found == counts


@pytest.mark.parametrize(
    "options", [(), ("--threads",), ("--processes",), ("--threads", "--processes")]
)
@pytest.mark.parametrize("case", ["basic", "hostile", "web"])
def test_lines_are_distinct_and_sorted_by_bytes(written, case, options):
    lines = written(case, "raw", *options).read_bytes().splitlines()
    assert lines == sorted(set(lines))


def test_no_frame_is_lost_or_made_by_its_own_text(written):
    """The stack of hostile names has as many frames in the file as were called."""
    depths = [len(frames) for frames, _ in folded(written("hostile", "raw"))]
    assert sorted(depths) == [2] * 12 + [13]
    assert all(all(frames) for frames, _ in folded(written("hostile", "raw")))


def test_nothing_is_written_for_nothing(written):
    assert written("empty", "raw").read_bytes() == b""


def test_ten_thousand_frames(written):
    stacks = folded(written("deep", "raw"))
    assert sorted(len(frames) for frames, _ in stacks) == sorted(
        10002 - 7 * i for i in range(1, 51)
    )
