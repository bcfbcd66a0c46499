"""Callgrind profiles, read by a parser that takes nothing but what the format's description allows."""

import collections
import re

import pytest

NAME = re.compile(r"(fl|fn|cfi|cfn)=\((\d+)\)(?: (.+))?")


class Profile:
    def __init__(self, text):
        self.names = {"file": {}, "function": {}}
        self.own = collections.Counter()  # (function, line)
        self.calls = collections.Counter()  # (caller, callee)
        self.head = {}
        lines = iter(text.splitlines())
        assert next(lines) == "# callgrind format"
        for line in lines:
            if not line:
                break
            key, _, value = line.partition(": ")
            assert re.fullmatch(r"version|creator|cmd|positions|event|events|summary", key), line
            self.head[key] = value
        self.function = self.callee = None
        self.calling = False
        for line in lines:
            self.read(line)
        assert not self.calling

    def read(self, line):
        if not line:
            return
        if self.calling:
            cost = re.fullmatch(r"(\d+) (\d+)", line)
            assert cost, f"a cost must follow calls=, not {line!r}"
            self.calls[self.function, self.callee] += int(cost[2])
            self.calling = False
        elif name := NAME.fullmatch(line):
            kind = "file" if name[1] in ("fl", "cfi") else "function"
            known = self.names[kind]
            if name[3] is not None:
                assert name[2] not in known, f"{line!r} is named twice"
                known[name[2]] = name[3]
            assert name[2] in known, f"{line!r} was never named"
            if name[1] == "fn":
                self.function = known[name[2]]
            elif name[1] == "cfn":
                self.callee = known[name[2]]
        elif line.startswith("calls="):
            assert re.fullmatch(r"calls=\d+ \d+", line) and self.function and self.callee
            self.calling = True
        else:
            cost = re.fullmatch(r"(\d+) (\d+)", line)
            assert cost and self.function, f"what is {line!r}?"
            self.own[self.function, int(cost[1])] += int(cost[2])


def read(path):
    return Profile(path.read_text())


def test_costs_are_those_of_the_samples(written, basic):
    own, calls = collections.Counter(), collections.Counter()
    for samples in basic.values():
        for _, frames in samples:
            if frames:
                own[frames[-1]] += 10_000
            for edge in set(zip(frames, frames[1:])):
                calls[edge] += 10_000
    profile = read(written("basic", "callgrind"))
    found = collections.Counter()
    for (function, _), cost in profile.own.items():
        found[function] += cost
    assert found == own
    assert profile.calls == calls
    assert int(profile.head["summary"]) == sum(own.values())


@pytest.mark.parametrize("case", ["basic", "hostile", "empty", "deep", "web", "cpu", "varied"])
@pytest.mark.parametrize("options", [(), ("--function",), ("--nolineno",), ("--full-filenames",)])
def test_every_case_can_be_read(written, case, options):
    profile = read(written(case, "callgrind", *options))
    assert profile.head["events"] == "us" and profile.head["positions"] == "line"
    assert sum(profile.own.values()) == pytest.approx(int(profile.head["summary"]), abs=50)


def test_recursion_is_counted_once(written):
    """Ten thousand times the same function on a stack: calls of itself cost no more than there is time."""
    profile = read(written("deep", "callgrind"))
    assert profile.calls["down", "down"] <= int(profile.head["summary"])
    assert profile.calls["<module>", "down"] == int(profile.head["summary"])
